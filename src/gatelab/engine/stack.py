"""Layers upon layers, in both directions: the same for every engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import dropout

from gatelab.engine.choose import scan
from gatelab.engine.parameters import CellParameters
from gatelab.engine.scan import Scan

Scanner = Callable[[CellParameters, Tensor, tuple[Tensor, ...], Tensor | None, bool], Scan]


def run(
    engine: str | Scanner,  # by name, or a function that does what an engine does
    layers: Iterable[dict[str, CellParameters]],  # direction → parameters
    x: Tensor,  # (T, B, D)
    states: Iterator[tuple[Tensor, ...]],  # (B, H) each, for every layer and direction in turn
    lengths: Tensor | None,
    *,
    residual: bool,
    dropped: float,
    watch: bool,
) -> tuple[Tensor, list[Scan]]:
    """The last layer's output (T, B, H × directions), and every single run."""
    runs: list[Scan] = []
    scanner = partial(scan, engine) if isinstance(engine, str) else engine
    if lengths is not None:
        x = _extended(x, lengths)
    for number, layer in enumerate(layers):
        if number > 0:
            x = dropout(x, dropped, training=dropped > 0)
        mine = [
            _one_way(scanner, direction, parameters, x, next(states), lengths, watch)
            for direction, parameters in layer.items()
        ]
        runs += mine
        output = torch.cat([run.output for run in mine], dim=2) if len(mine) > 1 else mine[0].output
        x = output + x if residual and number > 0 else output
    return x, runs


def _one_way(
    scanner: Scanner,
    direction: str,
    parameters: CellParameters,
    x: Tensor,
    states: tuple[Tensor, ...],
    lengths: Tensor | None,
    watch: bool,
) -> Scan:
    if direction == "fwd":
        return scanner(parameters, x, states, lengths, watch)
    output, final, gates = scanner(parameters, _reversed(x, lengths), states, lengths, watch)
    return Scan(_reversed(output, lengths), final, {name: _reversed(gate, lengths) for name, gate in gates.items()})


def _reversed(values: Tensor, lengths: Tensor | None) -> Tensor:
    """(T, B, …) read backwards, each row from its own end; what lies after the end stays where it is."""
    if lengths is None:
        return values.flip(0)
    steps = torch.arange(values.shape[0], device=values.device).unsqueeze(1)  # (T, 1)
    source = torch.where(steps < lengths, lengths - 1 - steps, steps)  # (T, B)
    return values.gather(0, source.unsqueeze(2).expand_as(values))


def _extended(x: Tensor, lengths: Tensor) -> Tensor:
    """x with each row's last step repeated after its end. Padding may hold anything, even NaN, and a step from it might
    give infinity, whose gradient spreads even where the step is not used.
    """
    steps = torch.arange(x.shape[0], device=x.device).unsqueeze(1)  # (T, 1)
    return x.gather(0, steps.minimum(lengths - 1).unsqueeze(2).expand_as(x))
