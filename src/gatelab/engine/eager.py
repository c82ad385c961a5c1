"""The eager engine: the cell's own Python on tensors, step by step. Slow, obvious, any device: it defines what is
right.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from gatelab.engine.parameters import CellParameters


class Scan(NamedTuple):
    """What every engine returns for one layer in one direction."""

    output: Tensor  # (T, B, H), zero after a row's end
    states: tuple[Tensor, ...]  # (B, H) each, as they were at each row's end
    gates: dict[str, Tensor]  # (T, B, H) each, zero after a row's end; empty unless watched


def scan(
    parameters: CellParameters,
    x: Tensor,  # (T, B, D)
    states: tuple[Tensor, ...],  # (B, H) each
    lengths: Tensor | None = None,  # (B,)
    watch: bool = False,
) -> Scan:
    """Run the cell over a sequence."""
    cell, spaces, options = parameters.cell, parameters.spaces(), parameters.scalars()
    outputs: list[Tensor] = []
    watched: dict[str, list[Tensor]] = {name: [] for name in cell.gates} if watch else {}
    for t, x_t in enumerate(x):
        gates: dict[str, Tensor] = {}
        if watch:
            new, gates = cell.watched_step(x_t, states, spaces, options)
        else:
            new = cell.step(x_t, states, spaces, options)
        # A new state or gate made of parameters alone has no batch dimension yet.
        new = tuple(value.expand_as(old) for value, old in zip(new, states, strict=True))
        output = new[0]
        if lengths is not None:
            inside = (t < lengths).unsqueeze(1)  # (B, 1)
            new = tuple(torch.where(inside, value, old) for value, old in zip(new, states, strict=True))
            output = output * inside
        states = new
        outputs.append(output)
        for name, gate in gates.items():
            gate = gate.expand_as(output)
            watched[name].append(gate if lengths is None else gate * inside)
    return Scan(torch.stack(outputs), states, {name: torch.stack(values) for name, values in watched.items()})
