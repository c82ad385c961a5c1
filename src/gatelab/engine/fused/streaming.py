"""One step of a stack of layers, in microseconds: everything but the step itself is done once.

The result is the only memory that a step takes. The parameters are looked at in every step, since something was
prepared from them: streaming.cpp compares what torch knows about changes, and a sample of the values.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from ctypes import POINTER, Structure, c_int64, c_void_p, py_object
from typing import Any

import torch
from torch.autograd import forward_ad

from gatelab.engine import team
from gatelab.engine.fused import passes
from gatelab.engine.fused.expected import Expected, ExpectedStructure
from gatelab.engine.fused.interface import Torch, torch_functions
from gatelab.engine.fused.kernel import Kernel, kernel, padded
from gatelab.engine.fused.weights import Parameter, entries_of, weights_of
from gatelab.engine.masks import draw
from gatelab.engine.parameters import CellParameters

MOST_STATES = 16  # as in streaming.cpp


class _Condition(Structure):
    """A function without arguments, and what it returns as long as torch does nothing but compute."""

    _fields_ = (("function", py_object), ("usual", py_object))


class _Counted(Structure):
    """A dictionary, and the number of its entries."""

    _fields_ = (("entries", py_object), ("count", c_int64))


class _Layer(Structure):
    """A kernel's function `step`, and the arguments that are the same in every step."""

    _fields_ = tuple((name, c_void_p) for name in ("step", "fixed", "sizes", "sampled"))


class _Stream(Structure):
    """Everything that streaming.cpp needs."""

    _fields_ = (
        ("torch", POINTER(Torch)),
        *((name, py_object) for name in ("is_neg", "none", "false", "tuple_type", "list_type", "requires_grad")),
        ("conditions", c_int64),
        ("dictionaries", c_int64),
        ("condition", POINTER(_Condition)),
        ("dictionary", POINTER(_Counted)),
        *((name, ExpectedStructure) for name in ("x", "output", "state")),
        *((name, c_int64) for name in ("layers", "states", "parameters", "residual", "floats")),
        ("layer", POINTER(_Layer)),
        ("parameter", POINTER(Parameter)),
    )


class Stepper:
    """A stack of layers, prepared for batches of one size.

    `step(x, state)` returns the output and the new state, or None if anything differs from what was
    prepared; what is wrong then is said elsewhere.
    """

    @staticmethod
    def is_possible(parameters: Sequence[CellParameters], hooks: Sequence[Mapping[Any, Any]]) -> bool:
        """Whether steps can be quick: nothing but a computation, no gradients, no masks that are drawn anew, parameters
        that are stored as they are, changes that torch counts.
        """
        if torch.is_grad_enabled() and any(source.requires_grad for each in parameters for source in each.sources()):
            return False  # first: so it is in every step of a training
        if torch_functions() is None or len(parameters[0].cell.lowered.states) > MOST_STATES:
            return False
        if forward_ad._current_level >= 0 or any(function() != usual for function, usual in _usual()) or any(hooks):
            return False
        draws = any(each.training and each.cell.lowered.randoms for each in parameters)
        return not draws and all(weights_of(each, kernel(each.cell))[0].watch is not None for each in parameters)

    def __init__(
        self,
        layer: Any,
        parameters: Sequence[CellParameters],
        batch: tuple[int, ...],
        holders: Sequence[dict[str, Any]],
        hooks: Sequence[Mapping[Any, Any]],
    ) -> None:
        """`holders`: the dictionaries in which a layer's modules have their modules, down to these parameters."""
        first, compiled, functions = parameters[0], kernel(parameters[0].cell), torch_functions()
        assert functions is not None
        H = first.hidden_size
        made = [_prepared(compiled, each, batch[0] if batch else 1) for each in parameters]
        held = [*entries_of(forward_ad.__dict__, "_current_level"), *entries_of(layer.__dict__, "training")]
        held += [entry for holder in holders for entry in entries_of(holder)]
        for each in parameters:
            held += [*entries_of(each.__dict__, "training", "options"), *entries_of(each.options)]
        held += [parameter for _, several, _ in made for parameter in several]
        conditions = [_Condition(*condition) for condition in _usual()]
        dictionaries = [_Counted(entries, len(entries)) for entries in (*holders, *hooks)]

        def expected(*shape: int) -> ExpectedStructure:
            return Expected("", shape).structure(functions)

        stream = _Stream(
            torch=ctypes.pointer(functions),
            is_neg=torch.is_neg,
            none=None,
            false=False,
            tuple_type=tuple,
            list_type=list,
            requires_grad="requires_grad",
            conditions=len(conditions),
            dictionaries=len(dictionaries),
            condition=(_Condition * len(conditions))(*conditions),
            dictionary=(_Counted * len(dictionaries))(*dictionaries),
            x=expected(*batch, first.input_size),
            output=expected(*batch, H),
            state=expected(len(parameters), *batch, H),
            layers=len(parameters),
            states=len(compiled.source.states),
            parameters=len(held),
            residual=layer.residual,
            floats=H * (batch[0] if batch else 1),
            layer=(_Layer * len(made))(*(layer for layer, *_ in made)),
            parameter=(Parameter * len(held))(*held),
        )
        self.step: Any = compiled.stepping(ctypes.addressof(stream), (functions, stream, made))


def _usual() -> list[tuple[Callable[[], Any], Any]]:
    """Functions that say what torch is doing, and what they return while it computes: no modes, no traces. (Tensors
    that torch.func transforms have no memory, and are not read.)
    """
    return [(torch._C._len_torch_dispatch_stack, 0), (torch._C._is_tracing, False)]


def _prepared(compiled: Kernel, parameters: CellParameters, B: int) -> tuple[_Layer, list[Parameter], Any]:
    """A layer's step, its parameters, and what must be kept for them."""
    D, H, source = parameters.input_size, parameters.hidden_size, compiled.source
    weights, _ = weights_of(parameters, compiled)
    prepared, held, sampled = weights.snapshot()
    masks = draw(parameters, torch.empty(1, B, D), H).values() if source.masks else ()
    memory = [prepared, *(passes.whole_rows(mask, padded(H)) for mask in masks)]
    threads, as_team = passes.threads_for(source, 1, B, D, H, team.of_kernels(), is_forward=True)
    fixed = (c_void_p * len(memory))(*(each.data_ptr() for each in memory))
    sizes = (1, B, D, H, padded(H), B * D, D, False, as_team, threads, 0)  # as in `passes`
    numbers = (ctypes.c_long * len(sizes))(*sizes)
    places = ctypes.addressof(fixed), ctypes.addressof(numbers), ctypes.addressof(sampled)
    layer = _Layer(compiled.step, *places)
    return layer, held, (weights.watch, sampled, memory, fixed, numbers)
