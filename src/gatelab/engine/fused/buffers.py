"""A buffer pool for large tensors.

Fresh memory costs page faults, which at hundreds of megabytes per training step outweigh what the kernel saves. A
buffer returns to the pool when the last tensor that views it is garbage-collected.
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

SMALL = 1 << 16  # bytes; below this torch's allocator is as fast
SLACK = 1 << 26  # idle bytes beyond peak usage, so that one more buffer size does not evict another


class _Pool:
    def __init__(self) -> None:
        self._idle: list[mmap.mmap] = []  # least recently used first
        self._lock = threading.RLock()  # a finalizer may run inside `lease`, in the same thread
        self._leased = self._peak = 0

    def lease(self, size: int) -> ctypes.Array[ctypes.c_char]:
        with self._lock:
            # The smallest that fits, at most twice as large (batches differ in size); the most recently used of these.
            fitting = [block for block in reversed(self._idle) if size <= len(block) <= 2 * size]
            block = min(fitting, key=len) if fitting else _allocate(size)
            self._idle = [other for other in self._idle if other is not block]
            self._leased += len(block)
            self._peak = max(self._peak, self._leased)
        array: ctypes.Array[ctypes.c_char] = _weakly_referable(size).from_buffer(block)
        weakref.finalize(array, self._release, block).atexit = False
        return array

    def _release(self, block: mmap.mmap) -> None:
        with self._lock:
            self._leased -= len(block)
            self._idle.append(block)
            while sum(map(len, self._idle)) > self._peak + SLACK:
                self._idle.pop(0)


@functools.cache
def _weakly_referable(size: int) -> Any:
    """An array type that supports weak references; plain ctypes arrays do not."""
    return type("Lease", (ctypes.c_char * size,), {})


def _allocate(size: int) -> mmap.mmap:
    # Private, so that a forked process does not write into its parent's memory. Huge pages were no faster, and their
    # first touch took four times as long.
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


_pool = _Pool()


def empty(*shape: int) -> Tensor:
    """An uninitialized float32 tensor; a large one comes from the pool."""
    size = 4 * prod(shape)
    if size < SMALL:
        return torch.empty(shape, dtype=torch.float32, device="cpu")
    size = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
    return torch.frombuffer(_pool.lease(size), dtype=torch.float32, count=prod(shape)).view(shape)
