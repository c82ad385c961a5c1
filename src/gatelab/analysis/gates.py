"""Gates and states step by step: openness, saturation and variation of gates, and dead units."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gatelab.analysis.subject import Subject
from gatelab.engine.unroll import Trajectory
from gatelab.lang import Cell
from gatelab.tasks import Batch
from gatelab.tasks.examples import inside

NEAR = 0.05  # a gate within this distance of 0 or 1 is saturated
DEAD = 0.01  # a unit is dead if its standard deviation is below this share of the largest


@dataclass(frozen=True)
class Traces:
    """Gates and states of one layer on some examples."""

    gates: dict[str, np.ndarray]  # (B, T, H) each, NaN after the end of an example
    states: dict[str, np.ndarray]  # (B, T, H) each, after each step
    inside: np.ndarray  # (B, T), whether the example has this step

    @property
    def all(self) -> dict[str, np.ndarray]:
        """Gates, then states, by name."""
        return {**self.gates, **self.states}


@dataclass(frozen=True)
class GateSummary:
    """Statistics of a gate over all steps of all examples."""

    name: str
    role: str | None
    mean: float
    closed: float | None  # share of values within 0.05 of 0, for gates between 0 and 1
    open: float | None  # share of values within 0.05 of 1
    over_time: float  # standard deviation over the steps of an example, mean over units and examples
    over_samples: float  # standard deviation over examples at a step, mean over units and steps

    @property
    def saturated(self) -> float | None:
        """Share of values within 0.05 of 0 or 1, for gates between 0 and 1."""
        return None if self.closed is None or self.open is None else self.closed + self.open


def traces(subject: Subject, batch: Batch) -> Traces:
    """Record gates and states of the layer on a batch."""
    history, _ = subject.history(batch.x, batch.lengths, watch=True)
    return traces_of(subject.cell, history, inside(batch.x, batch.lengths))


def traces_of(cell: Cell, history: Trajectory, exists: Tensor) -> Traces:
    """The same from the history of a layer; `exists` is (B, T)."""
    names = cell.states
    states = {name: torch.stack([after[i] for after in history.states[1:]]) for i, name in enumerate(names)}
    return Traces(
        {name: _array(values, exists) for name, values in history.gates.items()},
        {name: _array(values, exists) for name, values in states.items()},
        exists.numpy(),
    )


def _array(values: Tensor, exists: Tensor) -> np.ndarray:
    """(T, B, H) → (B, T, H) in float32, which is enough for plots and statistics."""
    rows = torch.where(exists[..., None], values.transpose(0, 1), torch.nan)
    return rows.to(torch.float32).numpy()


def summaries(cell: Cell, recorded: Traces) -> list[GateSummary]:
    """One summary per gate, in the order of the equations."""
    return [_summary(cell, name, values, recorded.inside) for name, values in recorded.gates.items()]


def _summary(cell: Cell, name: str, values: np.ndarray, exists: np.ndarray) -> GateSummary:
    present = values[exists]  # (M, H)
    between = name in cell.neutral  # a sigmoid, or one minus it
    common = exists.sum(0) > 1  # steps that at least two examples have
    return GateSummary(
        name,
        cell.roles.get(name),
        float(present.mean()),
        float((present <= NEAR).mean()) if between else None,
        float((present >= 1 - NEAR).mean()) if between else None,
        float(np.nanmean(np.nanstd(values, axis=1))),
        float(np.nanmean(np.nanstd(values[:, common], axis=0))) if common.any() else 0.0,
    )


def dead_units(recorded: Traces) -> np.ndarray:
    """The units whose states hardly vary over all steps of all examples, relative to the most variable unit."""
    spread = np.max([values[recorded.inside].std(0) for values in recorded.states.values()], axis=0)  # (H,)
    return np.flatnonzero(spread <= max(DEAD * spread.max(), 1e-6))


def most_variable(recorded: Traces, sample: int, count: int) -> np.ndarray:
    """The `count` units whose output varies most along one example, in descending order."""
    first = next(iter(recorded.states.values()))
    order: np.ndarray = np.argsort(-np.nanstd(first[sample], axis=0), kind="stable")[:count]
    return order
