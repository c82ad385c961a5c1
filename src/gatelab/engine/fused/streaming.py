"""One step of a stack of layers, in microseconds: everything but the step itself is done once.

The result is the only memory that a step takes. The parameters are looked at in every step, since something was
prepared from them: streaming.cpp compares what torch knows about changes, and a sample of the values.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from ctypes import POINTER, Structure, c_long, c_void_p, py_object
from typing import Any

import torch
from torch import Tensor

from gatelab.engine.fused import passes
from gatelab.engine.fused.kernel import Kernel, kernel, padded
from gatelab.engine.fused.weights import Prepared, weights_of
from gatelab.engine.masks import draw
from gatelab.engine.parameters import CellParameters

MOST_STATES = 16  # as in streaming.cpp


@functools.cache
def _exchange() -> int | None:
    """Where DLPack's functions for reading torch's tensors in C are; None if torch is too old to have them."""
    capsule = getattr(Tensor, "__dlpack_c_exchange_api__", None)
    if capsule is None:
        return None
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.argtypes, get_pointer.restype = [py_object, ctypes.c_char_p], c_void_p
    place: int = get_pointer(capsule, b"dlpack_exchange_api")
    major = ctypes.c_uint32.from_address(place).value
    return place if major == 1 else None


class _Parameter(Structure):
    """A parameter, where its module keeps it, and how it was when something was prepared from it."""

    _fields_ = (
        ("owner", py_object),
        ("name", py_object),
        ("tensor", py_object),
        ("place", c_void_p),
        ("version", c_long),
    )


class _Layer(Structure):
    """A kernel's function `step`, and the arguments that are the same in every step."""

    _fields_ = (("step", c_void_p), ("fixed", c_void_p), ("sizes", c_void_p), ("sampled", c_void_p))


class _Stream(Structure):
    """Everything that streaming.cpp needs."""

    _fields_ = (
        ("exchange", c_void_p),
        *((name, py_object) for name in ("tensor_type", "is_grad_enabled", "empty_like", "false", "none")),
        *((name, py_object) for name in ("version", "requires_grad", "training", "training_name", "output", "state")),
        ("ndim", c_long),
        ("shape", c_long * 2),
        *((name, c_long) for name in ("hidden_size", "states", "layers", "parameters", "residual")),
        ("layer", POINTER(_Layer)),
        ("module", POINTER(py_object)),
        ("parameter", POINTER(_Parameter)),
    )


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
        if _exchange() is None or len(parameters[0].cell.lowered.states) > MOST_STATES:
            return False
        if torch.is_grad_enabled() and any(source.requires_grad for each in parameters for source in each.sources()):
            return False
        if any(each.owner(source) is None for each in parameters for source in each.sources()):
            return False
        draws = any(each.training and each.cell.lowered.randoms for each in parameters)
        return not draws and all(weights_of(each, kernel(each.cell)).are_tracked for each in parameters)

    def __init__(self, parameters: Sequence[CellParameters], batch: tuple[int, ...], residual: bool) -> None:
        first, compiled = parameters[0], kernel(parameters[0].cell)
        prepared = [weights_of(each, compiled).prepared() for each in parameters]
        held = [_held(*pair) for pair in zip(parameters, prepared, strict=True)]
        tensors = [parameter for each in held for parameter in each]
        layers = [_prepared(compiled, *pair, batch) for pair in zip(parameters, prepared, strict=True)]
        output = torch.empty((*batch, first.hidden_size), dtype=torch.float32, device="cpu")
        stream = _Stream(
            exchange=_exchange(),
            tensor_type=Tensor,
            is_grad_enabled=torch.is_grad_enabled,
            empty_like=torch.empty_like,  # takes half of the time of `empty`
            false=False,
            none=None,
            version="_version",
            requires_grad="requires_grad",
            training=first.training,
            training_name="training",
            output=output,
            state=torch.empty((len(parameters), *output.shape), dtype=torch.float32, device="cpu"),
            ndim=len(batch) + 1,
            shape=(*batch, first.input_size),
            hidden_size=first.hidden_size,
            states=len(compiled.source.states),
            layers=len(parameters),
            parameters=len(tensors),
            residual=residual,
            layer=(_Layer * len(layers))(*(layer for layer, _ in layers)),
            module=(py_object * len(parameters))(*(each.__dict__ for each in parameters)),
            parameter=(_Parameter * len(tensors))(*tensors),
        )
        self._kept = stream, layers
        self.step: Any = compiled.stepping(ctypes.addressof(stream))


def _held(parameters: CellParameters, prepared: Prepared) -> list[_Parameter]:
    found = zip(map(parameters.owner, prepared.sources), prepared.sources, prepared.places, prepared.versions, strict=True)
    return [_Parameter(*owner, *rest) for owner, *rest in found if owner is not None]


def _prepared(
    compiled: Kernel, parameters: CellParameters, prepared: Prepared, batch: tuple[int, ...]
) -> tuple[_Layer, Any]:
    """The arguments of a layer's step, and what must be kept for them."""
    B, D, H, source = batch[0] if batch else 1, parameters.input_size, parameters.hidden_size, compiled.source
    assert prepared.sampled is not None, "changes of these parameters are not counted"
    masks = draw(parameters, torch.empty(1, B, D), H).values() if source.masks else ()
    memory = [prepared.memory, *(passes.whole_rows(mask, padded(H)) for mask in masks)]
    threads, team = passes.threads_for(source, B, 1, weights_of(parameters, compiled).count, is_forward=True)
    fixed = (c_void_p * len(memory))(*(each.data_ptr() for each in memory))
    sizes = (1, B, D, H, padded(H), B * D, D, False, team, threads, 0)  # as in `passes.forward`
    numbers = (c_long * len(sizes))(*sizes)
    layer = _Layer(compiled.step, *map(ctypes.addressof, (fixed, numbers, prepared.sampled)))
    return layer, (prepared, memory, fixed, numbers)
