"""A kernel's functions called with tensors: everything that follows from shapes is settled once (calls.cpp)."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from ctypes import POINTER, Structure, c_int64, c_long, c_void_p, py_object
from math import prod
from typing import Any, NamedTuple

from torch import Tensor

from gatelab.engine.fused import buffers
from gatelab.engine.fused.buffers import SMALL
from gatelab.engine.fused.expected import MOST_DIMENSIONS, Expected, ExpectedStructure
from gatelab.engine.fused.interface import Torch, strides_of, torch_functions
from gatelab.engine.fused.kernel import Kernel, is_checked
from gatelab.errors import GatelabError

MOST_ARRAYS = 8  # as in calls.cpp
MOST_FLOATS = 1 << 46  # of a new array: no machine has more, and sizes in C++ are 64 bits


class InputAddress(NamedTuple):
    """The address of an input; null for None."""

    number: int


class New(NamedTuple):
    """An address inside a new array."""

    number: int
    offset: int = 0  # in floats


Pointer = InputAddress | New | int | None  # or a fixed address, or null


class Result(NamedTuple):
    """A contiguous part of a new array."""

    array: int
    shape: tuple[int, ...]
    offset: int = 0  # in floats


class Stage(NamedTuple):
    """One function of the kernel."""

    name: str
    pointers: Sequence[Pointer]
    sizes: Sequence[int]


class _Pointer(Structure):
    _fields_ = (("source", c_int64), ("offset", c_int64))


class _Stage(Structure):
    _fields_ = (
        ("function", c_void_p),
        ("is_checked", c_int64),
        ("pointers", c_int64),
        ("pointer", POINTER(_Pointer)),
        ("sizes", POINTER(c_long)),
    )


class _Array(Structure):
    _fields_ = (("floats", c_int64), ("is_large", c_int64))


class _Result(Structure):
    _fields_ = (
        ("array", c_int64),
        ("dim", c_int64),
        ("sizes", c_int64 * MOST_DIMENSIONS),
        ("strides", c_int64 * MOST_DIMENSIONS),
        ("offset", c_int64),
    )


class _Call(Structure):
    _fields_ = (
        ("torch", POINTER(Torch)),
        *((name, py_object) for name in ("none", "allocate")),
        *((name, c_int64) for name in ("inputs", "arrays", "stages", "results")),
        ("input", POINTER(ExpectedStructure)),
        ("array", POINTER(_Array)),
        ("stage", POINTER(_Stage)),
        ("result", POINTER(_Result)),
    )


class Call:
    """Functions of a kernel, one after the other, on tensors that are looked at first: a kernel believes their sizes.

    Args:
        inputs: what the inputs are.
        arrays: the number of floats of each new array.
        results: what a call returns: parts of the new arrays, or None.
        kept: whatever owns the memory at fixed addresses.
    """

    def __init__(
        self,
        kernel: Kernel,
        inputs: Sequence[Expected],
        arrays: Sequence[int],
        stages: Sequence[Stage],
        results: Sequence[Result | None],
        kept: Any = None,
    ) -> None:
        assert len(arrays) <= MOST_ARRAYS
        self.kernel, self.inputs, self.arrays, self.stages, self.results = kernel, inputs, arrays, stages, results
        self.is_too_large = max(arrays) > MOST_FLOATS
        functions = torch_functions()
        self._run: Callable[..., tuple[Any, ...] | int | None] = self._in_python
        if functions is not None:
            call, *parts = self._structure(functions)
            kept = functions, kept, call, parts
            self._run = kernel.calling(ctypes.addressof(call), kept)
        self._kept = kept

    def __call__(self, *inputs: Tensor | None) -> tuple[Any, ...]:
        """Make the new arrays, call the functions, and return the results."""
        results = None if self.is_too_large else self._run(*inputs)
        if isinstance(results, int):  # an input that is not as expected: copied, or refused in words
            results = self._run(*self._checked(inputs))
            if isinstance(results, int):
                raise GatelabError(f"{self.inputs[results].name} cannot be read by a kernel")
        return self.kernel.refuse(self.stages[-1].name, self.stages[-1].sizes) if results is None else results

    def _checked(self, inputs: Sequence[Tensor | None]) -> list[Tensor | None]:
        return [expected.check(tensor) for expected, tensor in zip(self.inputs, inputs, strict=True)]

    def _in_python(self, *inputs: Tensor | None) -> tuple[Any, ...] | None:
        """The same where this version of torch lacks a function that C++ calls."""
        inputs = tuple(self._checked(inputs))
        arrays = [_new(floats) for floats in self.arrays]

        def address(pointer: Pointer) -> int | None:
            if isinstance(pointer, New):
                return arrays[pointer.number].data_ptr() + 4 * pointer.offset
            if isinstance(pointer, InputAddress):
                tensor = inputs[pointer.number]
                return None if tensor is None else tensor.data_ptr()
            return pointer

        for name, pointers, sizes in self.stages:
            if self.kernel.call(name, [address(pointer) for pointer in pointers], sizes) and is_checked(name):
                return None
        return tuple(None if result is None else _part(arrays[result.array], result) for result in self.results)

    def _structure(self, functions: Torch) -> tuple[Any, ...]:
        stages = [
            _Stage(
                self.kernel.address(stage.name),
                is_checked(stage.name),
                len(stage.pointers),
                (_Pointer * len(stage.pointers))(*map(self._pointer, stage.pointers)),
                (c_long * len(stage.sizes))(*stage.sizes),
            )
            for stage in self.stages
        ]
        results = [
            _Result(-1) if r is None else _Result(r.array, len(r.shape), r.shape, strides_of(r.shape), r.offset)
            for r in self.results
        ]
        call = _Call(
            torch=ctypes.pointer(functions),
            none=None,
            allocate=_new,
            inputs=len(self.inputs),
            arrays=len(self.arrays),
            stages=len(stages),
            results=len(results),
            input=(ExpectedStructure * len(self.inputs))(*(each.structure(functions) for each in self.inputs)),
            array=(_Array * len(self.arrays))(*(_Array(floats, 4 * floats >= SMALL) for floats in self.arrays)),
            stage=(_Stage * len(stages))(*stages),
            result=(_Result * len(results))(*results),
        )
        return call, functions, stages, results

    def _pointer(self, pointer: Pointer) -> _Pointer:
        if isinstance(pointer, InputAddress):
            return _Pointer(pointer.number, 0)
        if isinstance(pointer, New):
            return _Pointer(len(self.inputs) + pointer.number, 4 * pointer.offset)
        return _Pointer(-1, pointer or 0)


def _part(array: Tensor, result: Result) -> Tensor:
    return array[result.offset : result.offset + prod(result.shape)].view(result.shape)


def _new(floats: int) -> Tensor:
    """From the pool of buffers, whichever that is at the time of a call."""
    return buffers.empty(floats)
