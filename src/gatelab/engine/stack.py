"""Stacked and bidirectional layers, independent of the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

from gatelab.engine.choose import scan
from gatelab.engine.parameters import CellParameters
from gatelab.engine.scan import Scan

Scanner = Callable[[CellParameters, Tensor, tuple[Tensor, ...], Tensor | None, bool], Scan]


def scan_layers(
    engine: str | Scanner,  # by name, or a function with the signature of an engine's scan
    layers: Iterable[dict[str, CellParameters]],  # direction → parameters
    x: Tensor,  # (T, B, D)
    states: Iterator[tuple[Tensor, ...]],  # (B, H) each, for each layer and direction in order
    lengths: Tensor | None,
    *,
    residual: bool,
    dropout: float,
    watch: bool,
) -> tuple[Tensor, list[Scan]]:
    """The last layer's output (T, B, H × directions), and the scans of all layers and directions."""
    scans: list[Scan] = []
    scanner = partial(scan, engine) if isinstance(engine, str) else engine
    if lengths is not None:
        x = _repeat_last(x, lengths)
    for number, layer in enumerate(layers):
        if number > 0:
            x = functional.dropout(x, dropout, training=dropout > 0)
        current = [
            _scan_direction(scanner, direction, parameters, x, next(states), lengths, watch)
            for direction, parameters in layer.items()
        ]
        scans += current
        output = torch.cat([each.output for each in current], dim=2) if len(current) > 1 else current[0].output
        x = output + x if residual and number > 0 else output
    return x, scans


def _scan_direction(
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
    """Reverse (T, B, …) in time, each sequence from its own end; the padding stays in place."""
    if lengths is None:
        return values.flip(0)
    steps = torch.arange(values.shape[0], device=values.device).unsqueeze(1)  # (T, 1)
    source = torch.where(steps < lengths, lengths - 1 - steps, steps)  # (T, B)
    return values.gather(0, source.unsqueeze(2).expand_as(values))


def _repeat_last(x: Tensor, lengths: Tensor) -> Tensor:
    """Replace the padding by each sequence's last step. Padding may contain NaN, or lead to infinities whose gradients
    are NaN even if the step is masked.
    """
    steps = torch.arange(x.shape[0], device=x.device).unsqueeze(1)  # (T, 1)
    return x.gather(0, steps.minimum(lengths - 1).unsqueeze(2).expand_as(x))
