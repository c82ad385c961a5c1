"""Conversion between torch.nn and gatelab, in both directions, weight for weight."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from gatelab.engine.layout import LAYOUTS, pack, unpack
from gatelab.engine.recurrent import Recurrent
from gatelab.errors import GatelabError


@torch.no_grad()
def from_torch(module: nn.RNNBase) -> Recurrent:
    """Convert an `nn.GRU`, `nn.LSTM` or `nn.RNN` to a `Recurrent` with the same weights.

    Frozen weights stay frozen. A module without biases becomes a layer whose biases are zero and frozen.
    """
    cell = next((cell for cell, layout in LAYOUTS.items() if type(module) is layout.module), None)
    if cell is None:
        raise GatelabError(f"from_torch was given a {type(module).__name__}: expected nn.GRU, nn.LSTM or nn.RNN")
    if getattr(module, "nonlinearity", "tanh") != "tanh":
        raise GatelabError(
            "from_torch was given an nn.RNN with nonlinearity='relu': expected 'tanh'; define a cell with relu instead"
        )
    if module.proj_size:
        raise GatelabError(
            f"from_torch was given proj_size={module.proj_size}: expected 0, since projections are not supported"
        )
    like = next(module.parameters())
    layer = Recurrent(
        cell,
        module.input_size,
        module.hidden_size,
        module.num_layers,
        bidirectional=module.bidirectional,
        dropout=module.dropout if module.num_layers > 1 else 0.0,
        batch_first=module.batch_first,
        device=like.device,
        dtype=like.dtype,
    )
    for parameters, weights in zip(layer.cell_parameters(), module.all_weights, strict=True):
        own = dict(parameters.named_parameters())
        for name, value in unpack(cell, weights).items():
            own[name].copy_(value)
        for family, torch_weights in (("W", weights[:1]), ("U", weights[1:2]), ("b", weights[2:])):
            for name, parameter in own.items():
                if name.startswith(family):
                    parameter.requires_grad_(any(weight.requires_grad for weight in torch_weights))
    if not module.bias:
        layer.freeze(*(f"b.{name}" for name in cell.graph.b), at=0.0)
    return layer.train(module.training)


@torch.no_grad()
def to_torch(layer: Recurrent) -> nn.RNNBase:
    """Convert a `Recurrent` to the module of torch.nn with the same weights.

    torch's second bias is zero where it is redundant. torch stacks all gates in one matrix, which is frozen if all of
    them are.
    """
    if layer.cell not in LAYOUTS:
        listed = ", ".join(cell.name for cell in LAYOUTS)
        raise GatelabError(f"to_torch: torch.nn has no cell {layer.cell.name!r} (it has: {listed})")
    if layer.residual and layer.num_layers > 1:
        raise GatelabError("to_torch: torch.nn has no residual layers; use residual=False")
    module_class: Any = LAYOUTS[layer.cell].module
    like = next(layer.parameters())
    biases = [bias for parameters in layer.cell_parameters() for bias in parameters.b.values()]
    module: nn.RNNBase = module_class(
        layer.input_size,
        layer.hidden_size,
        layer.num_layers,
        bias=any(bias.requires_grad or bool(bias.any()) for bias in biases),
        batch_first=layer.batch_first,
        dropout=layer.dropout if layer.num_layers > 1 else 0.0,
        bidirectional=layer.bidirectional,
        device=like.device,
        dtype=like.dtype,
    )
    for parameters, weights in zip(layer.cell_parameters(), module.all_weights, strict=True):
        families = (parameters.W, parameters.U, parameters.b, parameters.b)
        for weight, value, family in zip(weights, pack(parameters), families, strict=False):
            weight.copy_(value)
            weight.requires_grad_(any(parameter.requires_grad for parameter in family.values()))
    return module.train(layer.training)
