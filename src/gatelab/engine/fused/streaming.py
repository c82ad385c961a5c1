"""One step of a stack of layers, in microseconds: everything but the step itself is done once.

The result is the only memory that a step takes. The parameters are looked at in every step, since something was
prepared from them: streaming.cpp compares what torch knows about changes, and a sample of the values.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from ctypes import POINTER, Structure, c_int64, c_void_p, py_object
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gatelab.engine.fused import passes
from gatelab.engine.fused.kernel import Kernel, kernel, padded
from gatelab.engine.fused.weights import Prepared, weights_of
from gatelab.engine.masks import draw
from gatelab.engine.parameters import CellParameters

MOST_STATES = 16  # as in streaming.cpp

# Functions of libtorch_cpu and libtorch_python. All but two are of the stable C interface; these have had their names
# in C++ for years: THPVariable_Wrap(at::TensorBase const&) and at::TensorBase::_version() const.
FUNCTIONS = {
    "is_grad_enabled": "aoti_torch_grad_mode_is_enabled",
    "data_ptr": "aoti_torch_get_data_ptr",
    "dim": "aoti_torch_get_dim",
    "sizes": "aoti_torch_get_sizes",
    "is_contiguous": "aoti_torch_is_contiguous",
    "dtype": "aoti_torch_get_dtype",
    "device": "aoti_torch_get_device_type",
    "layout": "aoti_torch_get_layout",
    "empty": "aoti_torch_empty_strided",
    "free": "aoti_torch_delete_tensor_object",
    "wrap": "_Z16THPVariable_WrapRKN2at10TensorBaseE",
    "version": "_ZNK2at10TensorBase8_versionEv",
}
CODES = {
    "float32": "aoti_torch_dtype_float32",
    "cpu": "aoti_torch_device_type_cpu",
    "strided": "aoti_torch_layout_strided",
}


class _Torch(Structure):
    """Torch's functions."""

    _fields_ = (*((name, c_void_p) for name in FUNCTIONS), *((name, c_int64) for name in CODES), ("offset", c_int64))


class _Shape(Structure):
    """The shape of a contiguous tensor."""

    _fields_ = (("dim", c_int64), ("sizes", c_int64 * 3), ("strides", c_int64 * 3))

    @classmethod
    def of(cls, *sizes: int) -> _Shape:
        return cls(len(sizes), sizes, torch.empty(sizes, device="meta").stride())


class _Parameter(Structure):
    """A parameter, where its module keeps it, and how it was when something was prepared from it."""

    _fields_ = (
        *((name, py_object) for name in ("owner", "name", "object")),
        *((name, c_void_p) for name in ("implementation", "place")),
        ("version", c_int64),
    )


class _Layer(Structure):
    """A kernel's function `step`, and the arguments that are the same in every step."""

    _fields_ = (("module", py_object), *((name, c_void_p) for name in ("step", "fixed", "sizes", "sampled")))


class _Stream(Structure):
    """Everything that streaming.cpp needs."""

    _fields_ = (
        ("torch", POINTER(_Torch)),
        *((name, py_object) for name in ("tensor_type", "is_neg", "modes", "zero", "none", "false")),
        *((name, py_object) for name in ("requires_grad", "training", "training_name")),
        *((name, _Shape) for name in ("x", "output", "state")),
        *((name, c_int64) for name in ("layers", "states", "parameters", "residual", "floats")),
        ("layer", POINTER(_Layer)),
        ("parameter", POINTER(_Parameter)),
    )


@functools.cache
def _torch() -> _Torch | None:
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
    return _Torch(**found, offset=offsets[0]) if len(offsets) == 1 else None


class Stepper:
    """A stack of layers, prepared for batches of one size.

    `step(training, x, state)` returns the output and the new state, or None if anything differs from what was
    prepared; what is wrong then is said elsewhere.
    """

    @staticmethod
    def is_possible(parameters: Sequence[CellParameters]) -> bool:
        """Whether steps can be quick: no gradients, no masks that are drawn anew, parameters that are stored as they
        are, changes that torch counts.
        """
        if _torch() is None or len(parameters[0].cell.lowered.states) > MOST_STATES:
            return False
        if torch.is_grad_enabled() and any(source.requires_grad for each in parameters for source in each.sources()):
            return False
        if any(each.owner(source) is None for each in parameters for source in each.sources()):
            return False
        draws = any(each.training and each.cell.lowered.randoms for each in parameters)
        return not draws and all(weights_of(each, kernel(each.cell)).are_tracked for each in parameters)

    def __init__(self, parameters: Sequence[CellParameters], batch: tuple[int, ...], residual: bool) -> None:
        first, compiled, functions = parameters[0], kernel(parameters[0].cell), _torch()
        assert functions is not None
        H = first.hidden_size
        made = [_prepared(compiled, each, batch[0] if batch else 1) for each in parameters]
        held = [parameter for _, several, _ in made for parameter in several]
        stream = _Stream(
            torch=ctypes.pointer(functions),
            tensor_type=Tensor,
            is_neg=torch.is_neg,
            modes=torch._C._len_torch_dispatch_stack,
            zero=0,
            none=None,
            false=False,
            requires_grad="requires_grad",
            training=first.training,
            training_name="training",
            x=_Shape.of(*batch, first.input_size),
            output=_Shape.of(*batch, H),
            state=_Shape.of(len(parameters), *batch, H),
            layers=len(parameters),
            states=len(compiled.source.states),
            parameters=len(held),
            residual=residual,
            floats=H * (batch[0] if batch else 1),
            layer=(_Layer * len(made))(*(layer for layer, *_ in made)),
            parameter=(_Parameter * len(held))(*held),
        )
        self._kept = stream, made
        self.step: Any = compiled.stepping(ctypes.addressof(stream))


def _prepared(compiled: Kernel, parameters: CellParameters, B: int) -> tuple[_Layer, list[_Parameter], Any]:
    """A layer's step, its parameters, and what must be kept for them."""
    D, H, source = parameters.input_size, parameters.hidden_size, compiled.source
    weights = weights_of(parameters, compiled)
    prepared = weights.prepared()
    assert prepared.sampled is not None, "changes of these parameters are not counted"
    masks = draw(parameters, torch.empty(1, B, D), H).values() if source.masks else ()
    memory = [prepared.memory, *(passes.whole_rows(mask, padded(H)) for mask in masks)]
    threads, team = passes.threads_for(source, B, 1, weights.count, is_forward=True)
    fixed = (c_void_p * len(memory))(*(each.data_ptr() for each in memory))
    sizes = (1, B, D, H, padded(H), B * D, D, False, team, threads, 0)  # as in `passes.forward`
    numbers = (ctypes.c_long * len(sizes))(*sizes)
    places = ctypes.addressof(fixed), ctypes.addressof(numbers), ctypes.addressof(prepared.sampled)
    layer = _Layer(parameters.__dict__, compiled.step, *places)
    return layer, _held(parameters, prepared), (prepared, memory, fixed, numbers)


def _held(parameters: CellParameters, prepared: Prepared) -> list[_Parameter]:
    rows = zip(prepared.sources, prepared.places, prepared.versions, strict=True)
    owned = [(parameters.owner(source), source, *rest) for source, *rest in rows]
    return [_Parameter(*owner, source, source._cdata, *rest) for owner, source, *rest in owned if owner is not None]
