"""The eager engine: the cell's own Python on tensors, step by step. Slow, obvious, any device: it defines what is
right.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from gatelab.engine.parameters import CellParameters
from gatelab.engine.scan import Scan

States = tuple[Tensor, ...]
After = Callable[[int, States], States]  # is given a step's number and the states after it; what it returns goes on


def scan(
    parameters: CellParameters,
    x: Tensor,  # (T, B, D)
    states: States,  # (B, H) each
    lengths: Tensor | None = None,  # (B,)
    watch: bool = False,
    after: After | None = None,
) -> Scan:
    """Run the cell over a sequence."""
    cell, spaces, options = parameters.cell, parameters.spaces(), parameters.scalars()
    outputs: list[Tensor] = []
    watched: dict[str, list[Tensor]] = {name: [] for name in cell.gates} if watch else {}
    for t, x_t in enumerate(x):
        spaces["U"].begin_step()
        gates: dict[str, Tensor] = {}
        if watch:
            new, gates = cell.watched_step(x_t, states, spaces, options)
        else:
            new = cell.step(x_t, states, spaces, options)
        # A new state or gate made of parameters alone has no batch dimension yet.
        new = tuple(value.expand_as(old) for value, old in zip(new, states, strict=True))
        if lengths is not None:
            inside = (t < lengths).unsqueeze(1)  # (B, 1)
            new = tuple(torch.where(inside, value, old) for value, old in zip(new, states, strict=True))
        states = new if after is None else after(t, new)
        output = states[0] if lengths is None else torch.where(inside, states[0], 0.0)
        outputs.append(output)
        for name, gate in gates.items():
            gate = gate.expand_as(output)
            watched[name].append(gate if lengths is None else torch.where(inside, gate, 0.0))
    return Scan(torch.stack(outputs), states, {name: torch.stack(values) for name, values in watched.items()})
