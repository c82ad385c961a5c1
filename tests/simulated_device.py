"""A device that is not the CPU, simulated on it: tensors that say they are elsewhere, and behave so.

Operations on tensors of different devices fail, and so do `.numpy()` and, as on mps, float64. Values are computed by
the CPU, so that results are those of a run there, bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

# What the C++ of torch takes the device for: it knows this one without having its library.
STAND_IN = torch.device("meta")
COPIES = (torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default)
place = torch.device("mps")  # the device that is simulated


class Elsewhere(torch.Tensor):
    """A tensor on the device; `inner` has its values."""

    inner: torch.Tensor

    @staticmethod
    def __new__(cls, inner):
        layout = {"strides": inner.stride(), "storage_offset": inner.storage_offset(), "dtype": inner.dtype}
        tensor = torch.Tensor._make_wrapper_subclass(cls, inner.shape, device=STAND_IN, **layout)
        tensor.inner = inner
        return tensor

    @property
    def device(self):
        return place

    @property
    def is_meta(self):
        return False

    def numpy(self):
        raise TypeError(f"can't convert {place} device type tensor to numpy")

    def __repr__(self):
        return f"Elsewhere({self.inner!r})"

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        return _computed(function, args, kwargs or {})


def _inner(value):
    return value.inner if isinstance(value, Elsewhere) else value


def _computed(function, args, kwargs):
    """Run an operation on the inner tensors, if all tensors are on the same device; numbers may be on any."""
    tensors = [value for value in tree_flatten((args, kwargs))[0] if isinstance(value, torch.Tensor)]
    there = [tensor for tensor in tensors if isinstance(tensor, Elsewhere)]
    device = kwargs.get("device")
    if there and function not in COPIES and any(t.dim() > 0 for t in tensors if not isinstance(t, Elsewhere)):
        raise RuntimeError(f"{function}: expected all tensors to be on the same device, found cpu and {place}")
    if place.type == "mps" and (there or device == STAND_IN) and kwargs.get("dtype") is torch.float64:
        raise TypeError("Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64")
    if function is torch.ops.aten._local_scalar_dense.default:
        return _inner(tensors[0]).item()
    own = dict(kwargs) if device is None else {**kwargs, "device": torch.device("cpu")}
    result = function(*tree_map(_inner, args), **tree_map(_inner, own))
    if changed := [tensor for tensor in tensors if _inner(tensor) is result]:  # in place
        return changed[0]
    is_there = device == STAND_IN if device is not None else bool(there)
    return tree_map(lambda v: Elsewhere(v) if is_there and isinstance(v, torch.Tensor) else v, result)


class _Operations(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return _computed(function, args, kwargs or {})


class _Devices(TorchFunctionMode):
    """Replaces the device in calls by its stand-in: a torch without its library would refuse it."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function is torch.device:
            return function(*args, **(kwargs or {}))

        def stand_in(value):
            is_word = value in ("mps", "cuda") if isinstance(value, str) else False
            return STAND_IN if is_word or (isinstance(value, torch.device) and value == place) else value

        args, options = list(map(stand_in, args)), {key: stand_in(value) for key, value in (kwargs or {}).items()}
        if function in (torch.tensor, torch.as_tensor) and options.get("device") == STAND_IN:
            return function(*args, **{**options, "device": None}).to(STAND_IN)  # they bypass the other mode
        return function(*args, **options)


@contextmanager
def simulated(device: str = "mps") -> Iterator[None]:
    global place
    place = torch.device(device)
    with _Operations(), _Devices():
        yield
