"""Memory of a layer: the sensitivity of its last state to earlier ones, and the time constants implied by its gates."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gatelab.analysis.gates import Traces
from gatelab.analysis.steps import FixedStep
from gatelab.analysis.subject import Subject
from gatelab.engine.eager import States
from gatelab.engine.parameters import CellParameters
from gatelab.errors import GatelabError
from gatelab.lang import Cell
from gatelab.tasks import Batch

PROBES = 8


@dataclass(frozen=True)
class Memory:
    """State sensitivity ‖∂s_T/∂s_{T−k}‖ / √n for each example and lag k: 1 at k = 0, and if states are only copied."""

    norms: np.ndarray  # (B, K + 1), lags that at least half of the examples have; NaN before the start of an example
    probes: int
    exact: bool  # there are as many probes as dimensions

    @property
    def lags(self) -> np.ndarray:
        """The lags k, from 0."""
        return np.arange(self.norms.shape[1])

    def quantile(self, share: float) -> np.ndarray:
        """The quantile over the examples, at every lag."""
        values: np.ndarray = np.nanquantile(self.norms, share, axis=0)
        return values

    def horizon(self, level: float) -> int | None:
        """The first lag at which the median is at most this level; None if there is none."""
        fallen = np.flatnonzero(self.quantile(0.5) <= level)
        return int(fallen[0]) if len(fallen) else None


def memory(subject: Subject, batch: Batch, probes: int = PROBES) -> Memory:
    """The state sensitivity of the layer on these examples."""
    if probes < 1:
        raise GatelabError(f"probes is {probes}: expected at least one direction")
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
    """State sensitivity from vector-Jacobian products of random orthonormal directions v of the last state. The
    root of the mean of ‖vᵀJ‖² estimates ‖J‖ / √n (Frobenius norm), and is exact with n directions.

    Only the graph of one step exists at a time, so that memory does not grow with the length, and no (n, n) product is
    computed.
    """
    T, B = x.shape[:2]
    step, n = FixedStep(parameters), sum(state.shape[1] for state in states[0])
    probes = min(probes, n)
    rows = _directions(n, probes, x.dtype).repeat(B, 1, 1)  # (B, P, n)
    ends = torch.full((B,), T) if lengths is None else lengths
    norms = torch.full((B, T + 1), torch.nan, dtype=x.dtype)
    norms[:, 0] = 1.0
    for t in range(T, 0, -1):
        active = t <= ends  # the backward pass of an example starts at its own end
        inputs, before = (
            x[t - 1][active].repeat_interleave(probes, 0),
            tuple(state[active].repeat_interleave(probes, 0) for state in states[t - 1]),
        )
        pulled = step.pull_back(inputs, before, rows[active].flatten(0, 1)).view(-1, probes, n)
        rows[active] = pulled
        norms[active, ends[active] - t + 1] = pulled.square().sum(2).mean(1).sqrt()
    reached = norms.isfinite().sum(0) >= B / 2  # the median at larger lags would be that of a few long examples
    return Memory(norms[:, reached].numpy(), probes, probes == n)


def _directions(n: int, count: int, dtype: torch.dtype) -> Tensor:
    """`count` orthonormal rows from a fixed seed."""
    drawn = torch.randn(n, count, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    orthonormal: Tensor = torch.linalg.qr(drawn).Q
    return orthonormal.T.to(dtype)


def time_constants(
    cell: Cell, traces: Traces, hyperparameters: Mapping[str, float] | None = None
) -> dict[str, np.ndarray]:
    """For each gate that alone determines the share of a state that is kept: −1 / ln of the mean share, by unit.

    `hyperparameters` of the cell are needed where they differ from its defaults.
    """
    constants = {}
    for name in cell.roles:
        if (ends := cell.kept(name, hyperparameters)) is not None:
            mean = traces.gates[name][traces.inside].astype(np.float64).mean(0)  # (H,)
            constants[name] = np.array([time_constant(share) for share in ends[0] + (ends[1] - ends[0]) * mean])
    return constants


def time_constant(kept: float) -> float:
    """The number of steps after which a state falls to 1/e if this share is kept at each step."""
    if kept <= 0:
        return 0.0
    return math.inf if kept >= 1 else -1 / math.log(kept)
