"""A cell's compiled kernel, and its functions."""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Sequence
from typing import Any, NoReturn

from gatelab.engine.fused import compiler
from gatelab.engine.fused.kernel_source import KernelSource
from gatelab.errors import GatelabError
from gatelab.lang import Cell

LANES = 16  # of the widest vectors; rows are padded to this on every machine, so that memory layouts agree


def padded(size: Any) -> Any:
    """The size rounded up to whole vectors. (Any: also a symbolic size, while torch traces a model.)"""
    return (size + LANES - 1) // LANES * LANES


def is_checked(name: str) -> bool:
    """Whether a function returns 0 unless there is no memory; the others return the number of floats they compute."""
    return not name.startswith("prepare")


class Kernel:
    """The compiled functions of a cell. `watch`: its gates are outputs too."""

    def __init__(self, cell: Cell, watch: bool) -> None:
        try:
            self.source = KernelSource(cell, watch)
        except RecursionError as error:
            raise compiler.KernelError(f"cell {cell.name!r} is nested too deeply") from error
        self.library = compiler.load(cell.name + ("_gates" if watch else ""), self.source.text)
        _share_pool(self.library)
        self._functions = {}
        for name, arguments in self.source.arguments.items():
            function = getattr(self.library, name)
            function.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
            function.restype = ctypes.c_int if is_checked(name) else ctypes.c_long
            arrays = ctypes.c_void_p * len(arguments.pointers), ctypes.c_long * len(arguments.sizes)
            self._functions[name] = (function, *arrays)
        self.step = self.address("step")
        # With Python's interpreter locked: these use its objects.
        made = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object)
        self.stepping, self.calling = made(("stepping", self.library)), made(("calling", self.library))
        self.look = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(("look", self.library))
        self.remember = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(("remember", self.library))

    def address(self, name: str) -> int | None:
        """Where a function is."""
        return ctypes.cast(getattr(self.library, name), ctypes.c_void_p).value

    def call(self, name: str, pointers: Sequence[int | None], sizes: Sequence[int]) -> int:
        """Call a function with addresses and sizes in the order of its arguments (`source.arguments`)."""
        function, addresses, numbers = self._functions[name]
        return function(addresses(*pointers), numbers(*sizes))  # type: ignore[no-any-return]

    def refuse(self, name: str, sizes: Sequence[int]) -> NoReturn:
        """There was no memory for a pass; its first sizes are T, B, D and H."""
        T, B, D, H = sizes[:4]
        shape = f"B={B}, T={T}, D={D}, H={H}"
        raise GatelabError(
            f"there is not enough memory for the {name} pass of cell {self.source.cell.name!r} with {shape}: "
            "make the batch or the hidden size smaller, or use fewer threads (torch.set_num_threads)"
        )


# Microseconds for which an idle thread of ours spins. Torch's threads want the same cores.
PATIENCE, LONG_PATIENCE = 200, 5000  # the latter is more than what a training loop does between two calls
patience = ctypes.c_long(PATIENCE)


class PoolInputs(ctypes.Structure):
    """What a pool of threads is given (threads.cpp)."""

    _fields_ = tuple((name, ctypes.c_void_p) for name in ("patience", "parallel", "most_threads", "cores"))

    @classmethod
    def here(cls) -> PoolInputs:
        """With functions of the OpenMP runtime that torch has loaded, unless the user lets its idle threads sleep."""
        library = ctypes.CDLL(None)
        names = ["GOMP_parallel", "omp_get_max_threads"]
        chosen = settings_of_waiting()
        sleeps = chosen and os.environ.get("OMP_WAIT_POLICY", "").lower() != "active"
        if sleeps or not all(hasattr(library, name) for name in names):
            return cls(ctypes.addressof(patience))
        is_gnu = not hasattr(library, "__kmpc_fork_call")  # LLVM's runtime has GNU's functions too
        names += ["omp_get_num_procs"] if is_gnu and not chosen else []
        return cls(ctypes.addressof(patience), *(ctypes.cast(library[name], ctypes.c_void_p) for name in names))


def settings_of_waiting() -> str:
    """What the user has decided about idle threads of OpenMP."""
    names = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
    return ", ".join(f"{name}={os.environ[name]}" for name in names if name in os.environ)


_pool: int | None = None  # the threads of all kernels (threads.cpp)


def _share_pool(library: ctypes.CDLL) -> None:
    """Let a kernel use the threads that all others use."""
    global _pool
    library.new_pool.restype, library.use_pool.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    if _pool is None:
        _pool = library.new_pool(ctypes.byref(PoolInputs.here()))
        if _pool is None:
            raise MemoryError("there is no memory for a pool of threads")
    library.use_pool(_pool)


def kernel(cell: Cell, watch: bool = False) -> Kernel:
    """The kernel of a cell, compiled on first use; raises `CompilerError` where that is impossible."""
    return _kernel(cell, watch)


@functools.cache
def _kernel(cell: Cell, watch: bool) -> Kernel:
    return Kernel(cell, watch)
