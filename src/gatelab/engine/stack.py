"""Stacked and bidirectional layers, independent of the engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import functional

from gatelab.engine.choose import scan
from gatelab.engine.parameters import CellParameters
from gatelab.engine.scan import Scan

States = tuple[Tensor | None, ...]  # None for zeros


class Scanner(Protocol):
    """The signature of an engine's scan."""

    def __call__(
        self,
        parameters: CellParameters,
        x: Tensor,  # (T, B, D)
        states: Any,  # (B, H) each
        lengths: Tensor | None,
        watch: bool,
        resets: Tensor | None,
    ) -> Scan:
        """Run one layer in one direction."""
        ...


def scan_layers(
    engine: str | Scanner,  # by name, or a function with the signature of an engine's scan
    layers: Sequence[Mapping[str, CellParameters]],  # direction → parameters
    x: Tensor,  # (T, B, D)
    states: Iterator[States],  # (B, H) each, for each layer and direction in order
    lengths: Tensor | None,
    resets: Tensor | None = None,  # (T, B) bool
    *,
    residual: bool,
    dropout: float,
    watch: bool,
    with_output: bool = True,
) -> tuple[Tensor | None, list[Scan]]:
    """The last layer's output (T, B, H × directions) if asked for, and the scans of all layers and directions."""
    scans: list[Scan] = []
    scanner: Scanner = partial(scan, engine) if isinstance(engine, str) else engine
    if lengths is not None:
        x = _repeat_last(x, lengths)
        if resets is not None:  # nothing happens after the end of a row
            resets = resets & (torch.arange(x.shape[0], device=x.device).unsqueeze(1) < lengths)
    for number, layer in enumerate(layers):
        if number > 0 and dropout:
            x = functional.dropout(x, dropout, training=True)
        is_last = number == len(layers) - 1
        if is_last and not with_output and isinstance(engine, str):
            scanner = partial(scan, engine, with_output=False)
        current = [
            _scan_direction(scanner, direction, parameters, x, next(states), lengths, watch, resets)
            for direction, parameters in layer.items()
        ]
        scans += current
        if is_last and not with_output:
            return None, scans
        outputs = [each.output for each in current]
        output = torch.cat(outputs, dim=2) if len(outputs) > 1 else outputs[0]
        x = output + x if residual and number > 0 else output
    return x, scans


def _scan_direction(
    scanner: Scanner,
    direction: str,
    parameters: CellParameters,
    x: Tensor,
    states: States,
    lengths: Tensor | None,
    watch: bool,
    resets: Tensor | None,
) -> Scan:
    if direction == "fwd":
        return scanner(parameters, x, states, lengths, watch, resets)
    begins = None if resets is None else _reversed(_ends(resets), lengths)
    output, final, gates = scanner(parameters, _reversed(x, lengths), states, lengths, watch, begins)
    if output.dim() == 3:
        output = _reversed(output, lengths)
    return Scan(output, final, {name: _reversed(gate, lengths) for name, gate in gates.items()})


def _ends(resets: Tensor) -> Tensor:
    """Where the backward direction begins anew: at the last step before each reset."""
    T = resets.shape[0]
    return resets.roll(-1, 0) & (torch.arange(T, device=resets.device) < T - 1).unsqueeze(1)


def _reversed(values: Tensor, lengths: Tensor | None) -> Tensor:
    """Reverse (T, B) or (T, B, features) in time, each sequence from its own end; the padding stays in place."""
    if lengths is None:
        return values.flip(0)
    steps = torch.arange(values.shape[0], device=values.device).unsqueeze(1)  # (T, 1)
    source = torch.where(steps < lengths, lengths - 1 - steps, steps)  # (T, B)
    return values.gather(0, source if values.dim() == 2 else source.unsqueeze(2).expand_as(values))


def _repeat_last(x: Tensor, lengths: Tensor) -> Tensor:
    """Replace the padding by each sequence's last step, or by zeros if it has none. Padding may contain NaN, or lead to
    infinities whose gradients are NaN even if the step is masked.
    """
    steps = torch.arange(x.shape[0], device=x.device).unsqueeze(1)  # (T, 1)
    repeated = x.gather(0, steps.minimum(lengths - 1).clamp(min=0).unsqueeze(2).expand_as(x))
    if torch.compiler.is_compiling() or (lengths == 0).any():  # values are unknown to a tracer
        repeated = torch.where((lengths > 0).unsqueeze(1), repeated, 0.0)
    return repeated
