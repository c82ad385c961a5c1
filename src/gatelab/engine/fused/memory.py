"""Large arrays that are used again.

Fresh memory is page faults, and at hundreds of megabytes a step these cost more than the arithmetic that the kernel
saves. An array from here goes back to the pool when the last tensor that shows it is gone, whoever holds that.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import threading
import weakref
from math import prod
from typing import Any

import torch
from torch import Tensor

SMALL = 1 << 16  # below this the ordinary allocator is as good
SLACK = 1 << 26  # at rest beyond the most that was in use at once, so that one size more does not drive out another


class _Pool:
    def __init__(self) -> None:
        self._idle: list[mmap.mmap] = []  # longest unused first
        self._lock = threading.RLock()  # a finaliser may run in the middle of `lease`, in the same thread
        self._leased = self._most = 0

    def lease(self, size: int) -> ctypes.Array[ctypes.c_char]:
        with self._lock:
            # The smallest that is large enough, but not far too large: batches differ in size. The last used of these.
            fitting = [block for block in reversed(self._idle) if size <= len(block) <= 2 * size]
            block = min(fitting, key=len) if fitting else _fresh(size)
            self._idle = [other for other in self._idle if other is not block]
            self._leased += len(block)
            self._most = max(self._most, self._leased)
        array: ctypes.Array[ctypes.c_char] = _watchable(size).from_buffer(block)
        weakref.finalize(array, self._give_back, block).atexit = False
        return array

    def _give_back(self, block: mmap.mmap) -> None:
        with self._lock:
            self._leased -= len(block)
            self._idle.append(block)
            while sum(map(len, self._idle)) > self._most + SLACK:  # hardly more at rest than was once in use
                self._idle.pop(0)


@functools.cache
def _watchable(size: int) -> Any:
    """An array type that a weak reference can watch, which plain ctypes arrays do not allow."""
    return type("Lease", (ctypes.c_char * size,), {})


def _fresh(size: int) -> mmap.mmap:
    # Private, so that a forked process does not write into its parent's. Large pages were tried: no faster after the
    # first touch, and that took four times as long.
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


_pool = _Pool()


def empty(*shape: int) -> Tensor:
    """An uninitialised float32 tensor."""
    size = 4 * prod(shape)
    if size < SMALL:
        return torch.empty(shape, dtype=torch.float32, device="cpu")
    size = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
    return torch.frombuffer(_pool.lease(size), dtype=torch.float32, count=prod(shape)).view(shape)
