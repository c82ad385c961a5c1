"""A layer unrolled in time: the state after every step is a separate node of the autograd graph.

This uses the slow eager engine: for analysing a few sequences, not for training.
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

# (index of the scan, step, states after it) → the states to continue with
Change = Callable[[int, int, States], States]


class Trajectory(NamedTuple):
    """The trajectory of one layer in one direction, in the order of processing."""

    x: Tensor  # (T, B, D), the input of this layer
    states: list[States]  # T + 1 times (B, H) each; the first is the initial state
    gates: dict[str, Tensor]  # (T, B, H) each; empty unless requested


class Unrolled(NamedTuple):
    """The result of `Recurrent`, and the trajectories behind it."""

    output: Tensor  # (B, T, H × directions)
    state: tuple[Tensor, ...]  # (L × directions, B, H) each
    histories: list[Trajectory]  # one per layer and direction, in the order of the states


def unroll(
    layer: Recurrent,
    x: Tensor,  # (B, T, D)
    lengths: Tensor | None = None,
    *,
    watch: bool = False,
    change: Change | None = None,
) -> Unrolled:
    """Run step by step, without dropout, from zeros; `change` may replace the states after any step."""
    histories: list[Trajectory] = []

    def scanner(
        parameters: CellParameters,
        x: Tensor,
        states: States,
        lengths: Tensor | None,
        watch: bool,
        resets: Tensor | None,
    ) -> Scan:
        index, trajectory = len(histories), [_separate_nodes(states)]

        def after(step: int, states: States) -> States:
            trajectory.append(_separate_nodes(states if change is None else change(index, step, states)))
            return trajectory[-1]

        result = eager.scan(parameters, x, trajectory[0], lengths, watch, after=after)
        histories.append(Trajectory(x, trajectory, result.gates))
        return result

    states = tuple(x.new_zeros(len(x), layer.hidden_size).requires_grad_() for _ in layer.cell.states)
    output, scans = stack.scan_layers(
        scanner,
        layer.stacked(),
        x.transpose(0, 1),
        iter([states] * (layer.num_layers * len(layer.directions))),
        lengths,
        residual=layer.residual,
        dropout=0.0,
        watch=watch,
    )
    final = tuple(torch.stack(values) for values in zip(*(scan.states for scan in scans), strict=True))
    assert output is not None
    return Unrolled(output.transpose(0, 1), final, histories)


def _separate_nodes(states: States) -> States:
    """Copies that are separate autograd nodes: the h of an LSTM is computed from its c, but each gets its own gradient.
    Also makes states differentiable that depend on no parameter.
    """
    copies = tuple(state.clone() for state in states)
    return tuple(copy.requires_grad_() if torch.is_grad_enabled() else copy for copy in copies)
