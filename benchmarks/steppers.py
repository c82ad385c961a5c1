"""Implementations of one streaming step to compare: each takes the same inputs in turn and carries its state along."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import leaky_gru
import onnx_steppers
import torch
from torch import Tensor, nn

from gatelab import Recurrent

Stream = Callable[[], Any]  # takes all inputs in turn and returns the last output; the next call continues
MODULES = {"gru": nn.GRUCell, "lstm": nn.LSTMCell}


def gatelab_step(layer: Recurrent, xs: Tensor) -> Stream:
    return _carry(layer.step, xs.unsqueeze(1))  # (1, D) each


def eager_engine(layer: Recurrent, xs: Tensor) -> Stream:
    eager = Recurrent(layer.cell, layer.input_size, layer.hidden_size, engine="eager")
    eager.load_state_dict(layer.state_dict())
    return _carry(eager, xs[:, None, None])  # (1, 1, D) each


def torch_layer(layer: Recurrent, xs: Tensor) -> Stream:
    return _carry(layer.to_torch(), xs[:, None, None])


def torch_cell(layer: Recurrent, xs: Tensor) -> Stream:
    cell = MODULES[layer.cell.name](layer.input_size, layer.hidden_size)
    for own, weight in zip(cell.parameters(), layer.to_torch().parameters(), strict=True):
        own.copy_(weight)
    return _carry_state(cell, xs.unsqueeze(1), None)


def torch_by_hand(layer: Recurrent, xs: Tensor) -> Stream:
    return _carry_state(leaky_gru.in_torch(layer), xs.unsqueeze(1), torch.zeros(1, layer.hidden_size))


def torch_traced(layer: Recurrent, xs: Tensor) -> Stream:
    state = torch.zeros(1, layer.hidden_size)
    return _carry_state(torch.jit.trace(leaky_gru.in_torch(layer), (xs[:1], state)), xs.unsqueeze(1), state)


def torch_compiled(layer: Recurrent, xs: Tensor) -> Stream:
    step = torch.compile(leaky_gru.in_torch(layer), fullgraph=True, dynamic=False)
    return _carry_state(step, xs.unsqueeze(1), torch.zeros(1, layer.hidden_size))


_OF_TORCH = {"nn layer": torch_layer, "nn cell": torch_cell}
_OF_ONES_OWN = {
    "eager engine": eager_engine,
    "torch by hand": torch_by_hand,
    "traced": torch_traced,
    "torch.compile": torch_compiled,
}
_OF_ONNX = {"ONNX Runtime": onnx_steppers.run, "ONNX Runtime, bound": onnx_steppers.run_bound}


def others(layer: Recurrent) -> dict[str, Callable[[Recurrent, Tensor], Stream]]:
    """What else can take a step of this layer's cell."""
    return (_OF_TORCH if layer.cell.name in MODULES else _OF_ONES_OWN) | _OF_ONNX


def _carry(step: Callable[..., Any], inputs: Tensor) -> Stream:
    """Of a step that returns its output and its state."""
    each, state = list(inputs), None

    def stream() -> Tensor:
        nonlocal state
        for x in each:
            output, state = step(x, state)
        return output

    return stream


def _carry_state(step: Callable[..., Any], inputs: Tensor, state: Any) -> Stream:
    """Of a step that returns its state alone, of which the first is the output."""
    each = list(inputs)

    def stream() -> Tensor:
        nonlocal state
        for x in each:
            state = step(x, state)
        return state[0] if isinstance(state, tuple) else state

    return stream
