"""How many threads there are: for fused kernels, which have a pool of their own, and for torch's operations.

Torch only knows how many it requests of OpenMP. Sums over a different number of threads differ in the last bits, so a
resumed run has to know how many are granted.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from gatelab.engine.fused import kernel

STAT = "/proc/stat"  # how long each core was idle


def _openmp() -> Any | None:
    """The loaded OpenMP library; None if it is neither GNU's nor LLVM's, or not visible."""
    library = ctypes.CDLL(None)
    names = ("GOMP_parallel", "omp_get_num_threads", "omp_get_dynamic", "omp_set_dynamic")
    return library if all(hasattr(library, name) for name in names) else None


def granted(requested: int) -> int:
    """The size of an actual OpenMP team when `requested` threads are requested."""
    library = _openmp()
    if library is None:
        return requested
    sizes: list[int] = []

    def member(_: Any) -> None:
        sizes.append(library.omp_get_num_threads())

    library.GOMP_parallel(ctypes.CFUNCTYPE(None, ctypes.c_void_p)(member), None, requested, 0)
    return sizes[0]


_of_kernels: int | None = None


def of_kernels() -> int:
    """The number of threads of fused kernels: as many as torch has, or had before `for_kernels`."""
    return _of_kernels or torch.get_num_threads()


@contextmanager
def for_kernels() -> Iterator[None]:
    """Inside this context all threads are for fused kernels, and torch has one. It starts threads for the smallest
    matrix products, and waiting for them takes longer than the products do, much longer on a busy machine.
    """
    global _of_kernels
    before, patience = _of_kernels, kernel.patience.value
    _of_kernels, kernel.patience.value = of_kernels(), kernel.LONG_PATIENCE
    try:
        with alone():
            yield
    finally:
        _of_kernels, kernel.patience.value = before, patience


@contextmanager
def alone() -> Iterator[None]:
    """Inside this context torch uses one thread: for small work, threads cost more than they save."""
    threads = torch.get_num_threads()
    if threads > 1:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        if threads > 1:
            torch.set_num_threads(threads)


def idle_cores(seconds: float = 0.2) -> float:
    """How many of the cores that this process may use have nothing to do at the moment; all, if that is unknown."""
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
    before = _times(cores)
    time.sleep(seconds)
    spent = [(after[0] - first[0], after[1] - first[1]) for first, after in zip(before, _times(cores), strict=False)]
    total = sum(all_ for _, all_ in spent)
    return len(cores) * sum(idle for idle, _ in spent) / total if total else float(len(cores))


def _times(cores: set[int]) -> list[tuple[int, int]]:
    """For each core, the ticks that it was idle, and all ticks. Empty where the system does not tell."""
    try:
        with open(STAT) as file:
            lines = [line.split() for line in file if line.startswith("cpu")]
    except OSError:
        return []
    fields = {line[0]: [int(field) for field in line[1:9]] for line in lines}
    known = (fields.get(f"cpu{core}") for core in sorted(cores))
    return [(times[3] + times[4], sum(times)) for times in known if times is not None]


@contextmanager
def of_fixed_size() -> Iterator[None]:
    """Inside this context, ignore OMP_DYNAMIC, which would shrink teams on a busy machine."""
    library = _openmp()
    before = library.omp_get_dynamic() if library is not None else 0
    if library is None or not before:
        yield
        return
    library.omp_set_dynamic(0)
    try:
        yield
    finally:
        library.omp_set_dynamic(before)
