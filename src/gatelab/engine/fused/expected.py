"""What a kernel reads: the one gate for every tensor that is about to reach one (interface.cpp compares)."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import Structure, c_int64
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import Parameter

from gatelab.engine.fused.interface import Torch, strides_of
from gatelab.errors import GatelabError

MOST_DIMENSIONS = 4  # as in interface.cpp
PLAIN = (Tensor, Parameter)  # subclasses may compute their values (`__torch_dispatch__`), or have none
_TRANSFORMED = (torch._C._functorch.is_functorch_wrapped_tensor, torch._C._functorch.is_legacy_batchedtensor)
_CODES = {torch.float32: "float32", torch.int64: "int64", torch.bool: "boolean"}


class OtherTensorError(GatelabError):
    """Something else than an ordinary tensor, which torch may still know what to do with."""


class Expected(NamedTuple):
    """A tensor in the CPU's memory, as a kernel reads it."""

    name: str  # in messages
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None = None  # None: contiguous
    dtype: torch.dtype = torch.float32
    is_optional: bool = False
    most: int = -1  # of integers: they are 0 to this

    def structure(self, functions: Torch) -> ExpectedStructure:
        """The same for C++."""
        strides = self._strides()
        numbers = extent(self.shape, strides), self.dtype.itemsize, self.is_optional, self.most
        dtype = getattr(functions, _CODES[self.dtype])
        return ExpectedStructure(dtype, len(self.shape), self.shape, strides, *numbers)

    def check(self, tensor: Tensor | None) -> Tensor | None:
        """The tensor, copied if it only lies differently in memory; anything else is refused."""
        if tensor is None and self.is_optional:
            return None
        if tensor is None or type(tensor) not in PLAIN:
            if not isinstance(tensor, Tensor) or type(tensor).__torch_dispatch__ is not Tensor.__torch_dispatch__:
                raise OtherTensorError(f"{self.name} is of type {type(tensor).__name__}: expected an ordinary tensor")
            with torch._C.DisableTorchFunctionSubclass():
                tensor = tensor.as_subclass(Tensor)
        if any(is_transformed(tensor) for is_transformed in _TRANSFORMED):
            raise GatelabError(
                f"{self.name} is in the hands of torch.func, or one of a batch of gradients, and a kernel reads "
                "ordinary tensors: create the layer with engine='eager'"
            )
        if tensor.device.type != "cpu" or tensor.layout != torch.strided:
            raise self._refused(f"is on {tensor.device} ({tensor.layout})", "a dense tensor on the CPU")
        if tensor.dtype != self.dtype:
            raise self._refused(f"is of {tensor.dtype}", str(self.dtype))
        if tuple(tensor.shape) != self.shape:
            raise self._refused(f"has shape {tuple(tensor.shape)}", str(self.shape))
        if tensor._is_zerotensor():
            tensor = torch.zeros(self.shape, dtype=self.dtype)
        if not has_memory(tensor):
            raise self._refused("has no memory", "a tensor with values (was its storage freed?)")
        if self.most >= 0 and tensor.numel() and not 0 <= int(tensor.min()) <= int(tensor.max()) <= self.most:
            raise self._refused(f"has values from {int(tensor.min())} to {int(tensor.max())}", f"0 to {self.most}")
        strides = zip(self.shape, tensor.stride(), self._strides(), strict=True)
        if tensor.numel() == 0 or all(size <= 1 or given == wanted for size, given, wanted in strides):
            return tensor
        return torch.empty_strided(self.shape, self._strides(), dtype=self.dtype).copy_(tensor.detach())

    def _strides(self) -> tuple[int, ...]:
        return strides_of(self.shape) if self.strides is None else self.strides

    def _refused(self, given: str, wanted: str) -> GatelabError:
        return GatelabError(f"{self.name} {given}: expected {wanted}, since a kernel is about to read it")


class ExpectedStructure(Structure):
    """What C++ compares a tensor with (interface.cpp)."""

    _fields_ = (
        ("dtype", c_int64),
        ("dim", c_int64),
        ("sizes", c_int64 * MOST_DIMENSIONS),
        ("strides", c_int64 * MOST_DIMENSIONS),
        *((name, c_int64) for name in ("extent", "itemsize", "is_optional", "most")),
    )


def laid_out(tensor: Tensor) -> Tensor:
    """Contiguous, and with the same sign in memory (`z.conj().imag` has the other one); copied only if necessary."""
    if tensor.is_neg():
        tensor = to_copy(tensor).resolve_neg()
    return tensor if tensor.is_contiguous() else to_copy(tensor).contiguous()


def to_copy(tensor: Tensor) -> Tensor:
    """A tensor that torch is about to read, which would crash if its storage was freed."""
    is_ordinary = type(tensor) in PLAIN and not any(is_transformed(tensor) for is_transformed in _TRANSFORMED)
    if is_ordinary and tensor.is_cpu and not tensor._is_zerotensor() and not has_memory(tensor):
        raise GatelabError(
            f"a tensor of shape {tuple(tensor.shape)} has no memory: expected values (was its storage freed?), since a "
            "kernel is about to read it"
        )
    return tensor


def has_memory(tensor: Tensor) -> bool:
    """Whether its storage holds its values: it may have been freed, or made smaller, or stand for another one."""
    values, storage = extent(tensor.shape, tensor.stride()), tensor.untyped_storage()
    reach = (tensor.storage_offset() + values) * tensor.dtype.itemsize
    try:
        return values == 0 or (storage.data_ptr() != 0 and storage.nbytes() >= reach)
    except RuntimeError:  # torch's, for storages that are none
        return False


def extent(shape: Sequence[int], strides: Sequence[int]) -> int:
    """The number of values in memory from the first to the last of a tensor."""
    if 0 in shape:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
