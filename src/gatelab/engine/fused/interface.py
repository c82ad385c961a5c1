"""Functions of torch that C++ calls (interface.cpp), and where an object of Python has its tensor."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from ctypes import Structure, c_int64, c_void_p, py_object
from itertools import accumulate
from operator import mul
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import Parameter

# Functions of libtorch_cpu and libtorch_python. All but two are of the stable C interface; these have had their names
# in C++ for years: THPVariable_Wrap(at::TensorBase const&) and at::TensorBase::_version() const.
FUNCTIONS = {
    "is_grad_enabled": "aoti_torch_grad_mode_is_enabled",
    "data_ptr": "aoti_torch_get_data_ptr",
    "dim": "aoti_torch_get_dim",
    "sizes": "aoti_torch_get_sizes",
    "strides": "aoti_torch_get_strides",
    "numel": "aoti_torch_get_numel",
    "is_contiguous": "aoti_torch_is_contiguous",
    "storage_size": "aoti_torch_get_storage_size",
    "storage_offset": "aoti_torch_get_storage_offset",
    "dtype": "aoti_torch_get_dtype",
    "device": "aoti_torch_get_device_type",
    "layout": "aoti_torch_get_layout",
    "empty": "aoti_torch_empty_strided",
    "view": "aoti_torch__reinterpret_tensor",
    "free": "aoti_torch_delete_tensor_object",
    "wrap": "_Z16THPVariable_WrapRKN2at10TensorBaseE",
    "version": "_ZNK2at10TensorBase8_versionEv",
}
CODES = {
    "float32": "aoti_torch_dtype_float32",
    "int64": "aoti_torch_dtype_int64",
    "boolean": "aoti_torch_dtype_bool",
    "cpu": "aoti_torch_device_type_cpu",
    "strided": "aoti_torch_layout_strided",
}


class Torch(Structure):
    """Torch's functions (interface.cpp)."""

    _fields_ = (
        *((name, c_void_p) for name in FUNCTIONS),
        *((name, c_int64) for name in CODES),
        ("offset", c_int64),
        *((name, py_object) for name in ("tensor_type", "parameter_type")),
    )


@functools.cache
def torch_functions() -> Torch | None:
    """Torch's functions; None if this version lacks one of them."""
    folder, found = Path(torch.__file__).parent / "lib", {}
    ending = ".so" if (folder / "libtorch_cpu.so").exists() else ".dylib"
    try:
        libraries = [ctypes.CDLL(str(folder / f"libtorch_{part}{ending}")) for part in ("cpu", "python")]
        for field, name in {**FUNCTIONS, **CODES}.items():
            function = next(library[name] for library in libraries if hasattr(library, name))
            found[field] = ctypes.cast(function, c_void_p).value if field in FUNCTIONS else function()
    except (OSError, StopIteration):
        return None
    # Where an object of Python has its at::Tensor, which is a pointer to what `_cdata` says.
    tensor = torch.empty(0)
    words = range(object.__basicsize__, Tensor.__basicsize__ - 7, 8)
    offsets = [word for word in words if c_void_p.from_address(id(tensor) + word).value == tensor._cdata]
    return (
        Torch(**found, offset=offsets[0], tensor_type=Tensor, parameter_type=Parameter) if len(offsets) == 1 else None
    )


def strides_of(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of a contiguous tensor."""
    return tuple(accumulate(shape[:0:-1], mul, initial=1))[::-1] if shape else ()
