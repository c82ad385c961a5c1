"""What every gate and every state did, step by step: how open, how saturated, how variable; which units are dead."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gatelab.analysis.subject import Subject
from gatelab.lang import Cell
from gatelab.tasks import Batch
from gatelab.tasks.examples import inside

NEAR = 0.05  # a gate so near to 0 or 1 is saturated
DEAD = 0.01  # a unit that varies so much less than the liveliest is dead


@dataclass(frozen=True)
class Traces:
    """Gates and states of one layer on some examples."""

    gates: dict[str, np.ndarray]  # (B, T, H) each, NaN after an example's end
    states: dict[str, np.ndarray]  # (B, T, H) each, after each step
    inside: np.ndarray  # (B, T), whether there is such a step

    @property
    def all(self) -> dict[str, np.ndarray]:
        """Gates and then states, by name."""
        return {**self.gates, **self.states}


@dataclass(frozen=True)
class GateSummary:
    """What a gate is like over all steps of all examples."""

    name: str
    role: str | None
    mean: float
    shut: float | None  # the share of values within 0.05 of 0, for gates between 0 and 1
    open: float | None  # the same of 1
    over_time: float  # the deviation over an example's steps, mean over units and examples
    over_samples: float  # the deviation over examples at a step, mean over units and steps

    @property
    def saturated(self) -> float | None:
        return None if self.shut is None or self.open is None else self.shut + self.open


def traces(subject: Subject, batch: Batch) -> Traces:
    """Step the layer through a batch and watch."""
    history, _ = subject.history(batch.x, batch.lengths, watch=True)
    exists = inside(batch.x, batch.lengths)
    names = subject.cell.states
    states = {name: torch.stack([after[i] for after in history.states[1:]]) for i, name in enumerate(names)}
    return Traces(
        {name: _array(values, exists) for name, values in history.gates.items()},
        {name: _array(values, exists) for name, values in states.items()},
        exists.numpy(),
    )


def _array(values: Tensor, exists: Tensor) -> np.ndarray:
    """(T, B, H) → (B, T, H) in single precision: these are to be looked at."""
    rows = torch.where(exists[..., None], values.transpose(0, 1), torch.nan)
    return rows.to(torch.float32).numpy()


def summaries(cell: Cell, seen: Traces) -> list[GateSummary]:
    """One for each gate, in the order of the equations."""
    return [_summary(cell, name, values, seen.inside) for name, values in seen.gates.items()]


def _summary(cell: Cell, name: str, values: np.ndarray, exists: np.ndarray) -> GateSummary:
    present = values[exists]  # (M, H)
    between = name in cell.neutral  # a sigmoid, or one minus it
    common = exists.sum(0) > 1  # steps that several examples have
    return GateSummary(
        name,
        cell.roles.get(name),
        float(present.mean()),
        float((present <= NEAR).mean()) if between else None,
        float((present >= 1 - NEAR).mean()) if between else None,
        float(np.nanmean(np.nanstd(values, axis=1))),
        float(np.nanmean(np.nanstd(values[:, common], axis=0))) if common.any() else 0.0,
    )


def dead_units(seen: Traces) -> np.ndarray:
    """The units whose states hardly vary over all steps of all examples, next to the liveliest unit."""
    spread = np.max([values[seen.inside].std(0) for values in seen.states.values()], axis=0)  # (H,)
    return np.flatnonzero(spread <= max(DEAD * spread.max(), 1e-6))


def liveliest(seen: Traces, sample: int, count: int) -> np.ndarray:
    """The units whose output varies most along one example, the first of them the most."""
    first = next(iter(seen.states.values()))
    order: np.ndarray = np.argsort(-np.nanstd(first[sample], axis=0), kind="stable")[:count]
    return order
