"""A layer taken apart in time: the states after every step, each a node of its own that gradients can be asked for.

This is the eager engine, so it is right and slow: for looking at a few sequences, not for training.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from gatelab.engine import eager, stack
from gatelab.engine.eager import States
from gatelab.engine.parameters import CellParameters
from gatelab.engine.recurrent import Recurrent
from gatelab.engine.scan import Scan

Change = Callable[[int, int, States], States]  # run (of layer and direction), step, states after it → what goes on


class History(NamedTuple):
    """What one layer in one direction went through, in the order in which it read."""

    x: Tensor  # (T, B, D), what it was given
    states: list[States]  # T + 1 times (B, H) each; the first are those it began with
    gates: dict[str, Tensor]  # (T, B, H) each; empty unless watched


class Unrolled(NamedTuple):
    """A layer's answer, as `Recurrent` gives it, and how it came about."""

    output: Tensor  # (B, T, H × directions)
    state: tuple[Tensor, ...]  # (L × directions, B, H) each
    histories: list[History]  # of each layer and direction, in the order of torch's states


def unroll(
    layer: Recurrent,
    x: Tensor,  # (B, T, D)
    lengths: Tensor | None = None,
    *,
    watch: bool = False,
    change: Change | None = None,
) -> Unrolled:
    """Run step by step without dropout, from zeros; `change` may replace the states after any step."""
    histories: list[History] = []

    def scanner(parameters: CellParameters, x: Tensor, states: States, lengths: Tensor | None, watch: bool) -> Scan:
        number, kept = len(histories), [_apart(states)]

        def after(step: int, states: States) -> States:
            kept.append(_apart(states if change is None else change(number, step, states)))
            return kept[-1]

        run = eager.scan(parameters, x, kept[0], lengths, watch, after)
        histories.append(History(x, kept, run.gates))
        return run

    states = tuple(x.new_zeros(len(x), layer.hidden_size).requires_grad_() for _ in layer.cell.states)
    output, runs = stack.run(
        scanner,
        (dict(each.items()) for each in layer.layers),  # type: ignore[operator]
        x.transpose(0, 1),
        iter([states] * (layer.num_layers * len(layer.directions))),
        lengths,
        residual=layer.residual,
        dropped=0.0,
        watch=watch,
    )
    final = tuple(torch.stack(values) for values in zip(*(run.states for run in runs), strict=True))
    return Unrolled(output.transpose(0, 1), final, histories)


def _apart(states: States) -> States:
    """The same values as nodes of their own: h of an LSTM is made of its c, and beside it each counts for itself. What
    comes of nothing that is learned or remembered can be asked for as well.
    """
    copies = tuple(state.clone() for state in states)
    return tuple(copy.requires_grad_() if torch.is_grad_enabled() else copy for copy in copies)
