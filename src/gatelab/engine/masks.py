"""Masks that a cell draws at random: for a whole sequence at once, the same for every engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from gatelab.engine.parameters import CellParameters
from gatelab.errors import GatelabError
from gatelab.lang.graph import Node, evaluate, walk


def draw(parameters: CellParameters, x: Tensor, hidden_size: int) -> dict[str, Tensor]:
    """For each mask (T, B, H): 0 or 1 from torch's generator while training, otherwise the probability of 1."""
    masks = {}
    for name, node in parameters.masks.items():
        size, probability = (*x.shape[:2], hidden_size), _probability(parameters, node)
        if parameters.training:
            mask = (torch.rand(size, device=x.device, dtype=torch.float32) < probability).to(x.dtype)
        else:
            mask = torch.full(size, probability, device=x.device, dtype=x.dtype)
        masks[name] = mask
    return masks


def _probability(parameters: CellParameters, node: Node) -> float:
    argument = node.args[0]
    options = parameters.scalars()
    # The usual cases need no tensors, which a graph that torch is tracing could not turn into a number.
    if argument.op == "constant":
        probability = argument.value
    elif argument.op == "scalar" and not isinstance(options[argument.name], Tensor):
        probability = options[argument.name]
    else:
        probability = _evaluated(argument, options)
    if not 0 <= probability <= 1:
        raise GatelabError(
            f"cell {parameters.cell.name!r} draws a mask with probability {probability:g}: expected 0 to 1"
        )
    return probability


def _evaluated(argument: Node, options: Mapping[str, Any]) -> float:
    leaves = (node for node in walk([argument]) if node.op == "scalar")
    return float(evaluate(argument, {n: torch.tensor(float(options[n.name]), dtype=torch.float64) for n in leaves}))
