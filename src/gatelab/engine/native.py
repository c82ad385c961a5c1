"""The native engine: torch.nn's implementation of a cell, if it has one (cuDNN on a GPU)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from gatelab.engine.layout import LAYOUTS, pack
from gatelab.engine.parameters import CellParameters
from gatelab.engine.scan import Scan
from gatelab.lang import Cell


def supports(cell: Cell) -> bool:
    """Whether torch.nn implements this cell."""
    return cell in LAYOUTS


def scan(
    parameters: CellParameters,
    x: Tensor,  # (T, B, D)
    states: tuple[Tensor, ...],  # (B, H) each
    lengths: Tensor | None = None,  # (B,)
) -> Scan:
    """Run the cell over a sequence. torch.nn does not expose its gates, so they are empty."""
    function, weights = LAYOUTS[parameters.cell].function, pack(parameters)
    # has_biases, num_layers, dropout, train, bidirectional
    settings = (True, 1, 0.0, parameters.training, False)
    if lengths is None:
        output, *final = function(x, _stacked(states), weights, *settings, False)
        return Scan(output, tuple(state[0] for state in final), {})
    if x.shape[1] == 0:  # which torch does not pack
        return scan(parameters, x, states)
    packed = pack_padded_sequence(x, lengths.clamp(min=1).cpu(), enforce_sorted=False)
    order, original_order = packed.sorted_indices, packed.unsorted_indices
    sorted_states = _stacked(tuple(state[order] for state in states))
    data, *final = function(packed.data, packed.batch_sizes, sorted_states, weights, *settings)
    sequence = PackedSequence(data, packed.batch_sizes, order, original_order)
    output, _ = pad_packed_sequence(sequence, total_length=x.shape[0])
    has_steps = (lengths > 0).unsqueeze(1)  # torch does not pack the other ones either
    new = tuple(
        torch.where(has_steps, state[0][original_order], first) for state, first in zip(final, states, strict=True)
    )
    return Scan(torch.where(has_steps, output, 0.0), new, {})


def _stacked(states: tuple[Tensor, ...]) -> Any:
    """States as torch's functions expect them: (1, B, H), for the LSTM a list of two."""
    stacked = [state.unsqueeze(0).contiguous() for state in states]
    return stacked[0] if len(stacked) == 1 else stacked
