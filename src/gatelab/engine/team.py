"""How many threads OpenMP really grants: torch only says how many it was told to ask for.

The same sums by another number of threads differ in the last bit, so a run that is resumed has to know. OpenMP is asked
through the library that torch has loaded, which the compiled kernels share.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def _openmp() -> Any | None:
    """The loaded OpenMP library; None where it is another one than GNU's or LLVM's, or hidden."""
    import torch  # noqa: F401 (loads it)

    library = ctypes.CDLL(None)
    names = ("GOMP_parallel", "omp_get_num_threads", "omp_get_dynamic", "omp_set_dynamic")
    return library if all(hasattr(library, name) for name in names) else None


def granted(wanted: int) -> int:
    """The size of a real team of threads, of which `wanted` were asked for."""
    library = _openmp()
    if library is None:
        return wanted
    sizes: list[int] = []

    def member(_: Any) -> None:
        sizes.append(library.omp_get_num_threads())

    library.GOMP_parallel(ctypes.CFUNCTYPE(None, ctypes.c_void_p)(member), None, wanted, 0)
    return sizes[0]


@contextmanager
def of_fixed_size() -> Iterator[None]:
    """Teams are not made smaller when the machine is busy, as OMP_DYNAMIC=true would have it."""
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
