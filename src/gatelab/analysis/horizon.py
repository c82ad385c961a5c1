"""How far a layer remembers: the derivative of its last state by an earlier one, and what its gates promise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gatelab.analysis.gates import Traces
from gatelab.analysis.steps import Step
from gatelab.analysis.subject import Subject
from gatelab.engine.eager import States
from gatelab.engine.parameters import CellParameters
from gatelab.lang import Cell
from gatelab.tasks import Batch

PROBES = 8


@dataclass(frozen=True)
class Memory:
    """‖∂s_T/∂s_{T−k}‖ / √n for each example and lag k: 1 at k = 0, and 1 for a state that is only ever kept."""

    norms: np.ndarray  # (B, K + 1), lags that half of the examples have at least; NaN beyond an example's begin
    probes: int
    exact: bool  # as many probes as there are directions

    @property
    def lags(self) -> np.ndarray:
        return np.arange(self.norms.shape[1])

    def quantile(self, share: float) -> np.ndarray:
        """Over the examples, at every lag."""
        values: np.ndarray = np.nanquantile(self.norms, share, axis=0)
        return values

    def horizon(self, level: float) -> int | None:
        """The first lag at which the median has fallen to this level; None if it does not."""
        fallen = np.flatnonzero(self.quantile(0.5) <= level)
        return int(fallen[0]) if len(fallen) else None


def memory(subject: Subject, batch: Batch, probes: int = PROBES) -> Memory:
    """The memory of the layer on these examples."""
    if probes < 1:
        raise ValueError(f"probes is {probes}: expected one direction at least")
    history, _ = subject.history(batch.x, batch.lengths)
    return decay(subject.parameters, history.x, history.states, batch.lengths, probes)


@torch.no_grad()
def decay(
    parameters: CellParameters,
    x: Tensor,  # (T, B, D)
    states: list[States],  # T + 1 times (B, H) each
    lengths: Tensor | None,
    probes: int,
) -> Memory:
    """Random directions v of the last state, orthonormal, are pulled back step by step: the root of the mean of ‖vᵀJ‖²
    over them estimates ‖J‖ / √n (Frobenius), and is that exactly if there are n of them.

    Only one step's graph exists at a time, so that long sequences cost no memory, and no (n, n) product is made.
    """
    T, B = x.shape[:2]
    step, n = Step(parameters), sum(state.shape[1] for state in states[0])
    probes = min(probes, n)
    rows = _directions(n, probes, x.dtype).repeat(B, 1, 1)  # (B, P, n)
    ends = torch.full((B,), T) if lengths is None else lengths
    norms = torch.full((B, T + 1), torch.nan, dtype=x.dtype)
    norms[:, 0] = 1.0
    for t in range(T, 0, -1):
        here = t <= ends  # an example's way back begins at its own end
        given, before = (
            x[t - 1][here].repeat_interleave(probes, 0),
            tuple(state[here].repeat_interleave(probes, 0) for state in states[t - 1]),
        )
        pulled = step.pull_back(given, before, rows[here].flatten(0, 1)).view(-1, probes, n)
        rows[here] = pulled
        norms[here, ends[here] - t + 1] = pulled.square().sum(2).mean(1).sqrt()
    reached = norms.isfinite().sum(0) >= B / 2  # beyond that a median would be one of the few long ones
    return Memory(norms[:, reached].numpy(), probes, probes == n)


def _directions(n: int, count: int, dtype: torch.dtype) -> Tensor:
    """So many orthonormal rows, always the same."""
    drawn = torch.randn(n, count, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    orthonormal: Tensor = torch.linalg.qr(drawn).Q
    return orthonormal.T.to(dtype)


def time_constants(cell: Cell, seen: Traces, numbers: Mapping[str, float] | None = None) -> dict[str, np.ndarray]:
    """For each gate that alone decides how much of a state stays: −1 / ln of that share, by the mean of every unit.

    `numbers` are the cell's own where they are not its defaults.
    """
    found = {}
    for name in cell.roles:
        if (ends := cell.kept(name, numbers)) is not None:
            mean = seen.gates[name][seen.inside].astype(np.float64).mean(0)  # (H,)
            found[name] = np.array([time_constant(share) for share in ends[0] + (ends[1] - ends[0]) * mean])
    return found


def time_constant(kept: float) -> float:
    """In how many steps what is kept at this share falls to 1/e."""
    if kept <= 0:
        return 0.0
    return math.inf if kept >= 1 else -1 / math.log(kept)
