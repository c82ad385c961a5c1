"""Series to be forecast: cut by time, scaled by what is known in training, and looked at through windows."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import torch

from gatelab.tasks.examples import Encoding, Examples, Floats, Parts

RULE = "by time: the first 70 % of the steps train, the next 15 % validate, the last 15 % test; no window crosses"


@dataclass(frozen=True)
class Scaling:
    """What was subtracted from each column, and what it was divided by then."""

    mean: np.ndarray  # (D,)
    deviation: np.ndarray  # (D,)

    @classmethod
    def of(cls, values: np.ndarray) -> Scaling:
        """Mean 0 and deviation 1 for these (N, D) in float64; a column that never changes is left at deviation 1."""
        values = np.asarray(values, np.float64)
        middle = values.min(0) / 2 + values.max(0) / 2  # the sums of what is far from 0, or huge, stay small
        size = np.maximum(np.abs(values - middle).max(0), np.finfo(np.float64).tiny)
        relative = (values - middle) / size
        deviation = relative.std(0) * size
        return cls(relative.mean(0) * size + middle, np.where(deviation > 0, deviation, 1.0))

    def apply(self, values: np.ndarray) -> np.ndarray:
        """In float32; what is too far off for that becomes infinite."""
        with np.errstate(over="ignore"):
            scaled: np.ndarray = ((values - self.mean) / self.deviation).astype(np.float32)
        return scaled

    def undo(self, scaled: np.ndarray) -> np.ndarray:
        """Back to the units of the series."""
        values: np.ndarray = scaled * self.deviation + self.mean
        return values


@dataclass(frozen=True)
class Ending:
    """The last steps of a series, with their times where they are known."""

    values: np.ndarray  # (S, D), in the units of the series
    stamps: np.ndarray | None = None  # (S,) or fewer, datetime64[s]


def cuts(steps: int) -> tuple[int, int, int, int]:
    """Where the parts of a series begin and end."""
    return 0, round(0.7 * steps), round(0.85 * steps), steps


def window_counts(steps: int, length: int) -> tuple[int, int, int]:
    """How many windows each part has: a window is `length` steps, and the one after it is known as well."""
    train, validation, test = (b - a - length for a, b in zip(cuts(steps), cuts(steps)[1:], strict=False))
    return train, validation, test


def least_steps(length: int) -> int:
    """The shortest series that has a window of this length in each part."""
    steps = 3 * (length + 1)
    while min(window_counts(steps, length)) < 1:
        steps += 1
    return steps


def windows(scaled: np.ndarray, length: int, targets: int, encoding: Encoding | None = None) -> Parts:
    """Every window of the (S, D) series; the answer at each step is what the first `targets` columns are at the next.

    Windows overlap, and all are views of the one series.
    """
    encoding = encoding or Floats()
    edges = cuts(len(scaled))
    parts = []
    for a, b in itertools.pairwise(edges):
        part = torch.from_numpy(np.ascontiguousarray(scaled[a:b]))
        seen = part[:-1].unfold(0, length, 1).transpose(1, 2)  # (N, T, D)
        next_ = part[1:, :targets].unfold(0, length, 1).transpose(1, 2)  # (N, T, K)
        parts.append(Examples(seen, next_, encoding, per_step=True))
    return Parts(*parts)


def differenced(values: np.ndarray, targets: int) -> np.ndarray:
    """The series with the first `targets` columns as changes from the step before; the first change is taken as 0."""
    changes = values.copy()
    changes[..., 1:, :targets] = np.diff(values[..., :targets], axis=-2)
    changes[..., 0, :targets] = 0
    return changes


def outside_training_range(values: np.ndarray, targets: int) -> float:
    """The share of validation values that lie outside the range of the training values, in the worst target column.

    A network has not seen such values: where they are many, the level of the series drifts.
    """
    _, train_end, validation_end, _ = cuts(len(values))
    train, validation = values[:train_end, :targets], values[train_end:validation_end, :targets]
    outside = (validation < train.min(0)) | (validation > train.max(0))
    return float(outside.mean(0).max())
