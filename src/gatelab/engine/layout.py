"""The parameter layout of torch.nn: gates stacked in one matrix, and two bias vectors.

Where the two biases are only used as a sum, gatelab has one; the GRU's candidate needs both (n and hn).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from gatelab import cells
from gatelab.engine.parameters import CellParameters
from gatelab.lang import Cell


class TorchCounterpart(NamedTuple):
    """The counterpart of a cell in torch.nn."""

    module: type[nn.RNNBase]
    function: Any  # the function the module calls
    order: tuple[str, ...]  # order of the gates in torch's matrices


LAYOUTS: Mapping[Cell, TorchCounterpart] = {
    cells.rnn: TorchCounterpart(nn.RNN, torch.rnn_tanh, ("h",)),
    cells.gru: TorchCounterpart(nn.GRU, torch.gru, ("r", "z", "n")),
    cells.lstm: TorchCounterpart(nn.LSTM, torch.lstm, ("i", "f", "g", "o")),
}


def pack(parameters: CellParameters) -> list[Tensor]:
    """torch's weight_ih, weight_hh, bias_ih, bias_hh, differentiable with respect to the named parameters."""
    order = LAYOUTS[parameters.cell].order
    W, U, b = parameters.W, parameters.U, parameters.b
    zeros = torch.zeros_like(next(iter(b.values())))
    inner = [b.get(f"h{gate}", zeros) for gate in order]
    families: list[list[Tensor]] = [[W[g] for g in order], [U[g] for g in order], [b[g] for g in order], inner]
    return [torch.cat(family) for family in families]


def unpack(cell: Cell, weights: Sequence[Tensor]) -> dict[str, Tensor]:
    """The named parameters from torch's weights: two, or four with biases."""
    order = LAYOUTS[cell].order
    rows = [dict(zip(order, weight.chunk(len(order)), strict=True)) for weight in weights]
    named = {f"W.{gate}": rows[0][gate] for gate in order} | {f"U.{gate}": rows[1][gate] for gate in order}
    for gate in order if len(rows) == 4 else ():
        if f"h{gate}" in cell.graph.b:
            named |= {f"b.{gate}": rows[2][gate], f"b.h{gate}": rows[3][gate]}
        else:
            named[f"b.{gate}"] = rows[2][gate] + rows[3][gate]
    return named
