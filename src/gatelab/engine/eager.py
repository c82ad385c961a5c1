"""The eager engine: the cell's Python function, step by step. Slow, simple, on any device: the reference."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from gatelab.engine.masks import draw
from gatelab.engine.parameters import CellParameters
from gatelab.engine.scan import Scan

States = tuple[Tensor, ...]
After = Callable[[int, States], States]  # (step, states after it) → the states to continue with


def scan(
    parameters: CellParameters,
    x: Tensor,  # (T, B, D)
    states: States,  # (B, H) each; then those after resets, if they are not the initial ones
    lengths: Tensor | None = None,  # (B,)
    watch: bool = False,
    resets: Tensor | None = None,  # (T, B) bool: before these steps sequences begin anew
    after: After | None = None,
) -> Scan:
    """Run the cell over a sequence; `after` may replace the states after each step."""
    initial = states[-len(parameters.cell.states) :]
    states = states[: len(initial)]
    cell, spaces, options = parameters.cell, parameters.spaces(), parameters.scalars()
    masks = draw(parameters, x, states[0].shape[1])
    outputs: list[Tensor] = []
    watched: dict[str, list[Tensor]] = {name: [] for name in cell.gates} if watch else {}
    for t, x_t in enumerate(x):
        spaces["U"].begin_step()
        gates: dict[str, Tensor] = {}
        if resets is not None:
            begins = resets[t].unsqueeze(1)  # (B, 1)
            states = tuple(torch.where(begins, first, old) for first, old in zip(initial, states, strict=True))
        leaves = {**options, **{name: mask[t] for name, mask in masks.items()}}
        if watch:
            new, gates = cell.watched_step(x_t, states, spaces, leaves)
        else:
            new = cell.step(x_t, states, spaces, leaves)
        # A state or gate that depends on parameters only has no batch dimension.
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
