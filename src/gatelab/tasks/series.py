"""Time series to forecast: chronological split, scaling by the training part, windows."""

from __future__ import annotations

import itertools

import numpy as np
import torch

from gatelab.tasks.examples import Encoding, Examples, Floats, Parts

SPLIT_RULE = "chronological: first 70 % training, next 15 % validation, last 15 % test; no window crosses a boundary"


def cuts(steps: int) -> tuple[int, int, int, int]:
    """The boundaries of training, validation and test part."""
    return 0, round(0.7 * steps), round(0.85 * steps), steps


def window_counts(steps: int, length: int) -> tuple[int, int, int]:
    """The number of windows per part; a window has `length` steps and one more for the last target."""
    train, validation, test = (b - a - length for a, b in zip(cuts(steps), cuts(steps)[1:], strict=False))
    return train, validation, test


def least_steps(length: int) -> int:
    """The length of the shortest series with a window of this length in each part."""
    steps = max(3 * (length + 1), int(length / 0.15))  # rounding may give validation or test one step more
    while min(window_counts(steps, length)) < 1:
        steps += 1
    return steps


def windows(
    scaled: np.ndarray,
    length: int,
    targets: int,
    encoding: Encoding | None = None,
    edges: tuple[int, int, int, int] | None = None,
) -> Parts:
    """All windows of a series (S, D); targets are the first `targets` columns at the next step.

    Windows overlap; all are views of the series. `edges` are the boundaries of the parts, by default `cuts`.
    """
    encoding = encoding or Floats()
    edges = edges or cuts(len(scaled))
    parts = []
    for a, b in itertools.pairwise(edges):
        part = torch.from_numpy(np.ascontiguousarray(scaled[a:b]))
        inputs = part[:-1].unfold(0, length, 1).transpose(1, 2)  # (N, T, D)
        next_ = part[1:, :targets].unfold(0, length, 1).transpose(1, 2)  # (N, T, K)
        parts.append(Examples(inputs, next_, encoding=encoding, per_step=True))
    return Parts(*parts)


def streams(scaled: np.ndarray, targets: int, edges: tuple[int, int, int, int] | None = None) -> Parts:
    """Each part of a series (S, D) as one sequence (1, S, D), a view of it; targets as for `windows`."""
    parts = []
    for a, b in itertools.pairwise(edges or cuts(len(scaled))):
        part = torch.from_numpy(np.ascontiguousarray(scaled[a:b]))
        parts.append(Examples(part[None, :-1], part[None, 1:, :targets], per_step=True))
    return Parts(*parts)


def differenced(values: np.ndarray, targets: int) -> np.ndarray:
    """Replace the first `targets` columns by changes from the previous step; the first change is 0."""
    changes = values.copy()
    changes[..., 1:, :targets] = np.diff(values[..., :targets], axis=-2)
    changes[..., 0, :targets] = 0
    return changes


def outside_training_range(values: np.ndarray, targets: int, edges: tuple[int, int, int, int] | None = None) -> float:
    """The fraction of validation values outside the range of the training values, in the worst target column.

    A network has not seen such values. If there are many, the level of the series drifts.
    """
    _, train_end, validation_end, _ = edges or cuts(len(values))
    train, validation = values[:train_end, :targets], values[train_end:validation_end, :targets]
    outside = (validation < train.min(0)) | (validation > train.max(0))
    return float(outside.mean(0).max())
