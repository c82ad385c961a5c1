"""How often a model fails: runs that diverged, or ended far from the majority of its runs.

The majority are the n // 2 + 1 runs that lie closest together. Others are far from them if their distance is a multiple
of the majority's width that normal noise exceeds in one model of a hundred. Nearly half of the runs may be far without
hiding each other. Of three runs, two are the majority and may be close by chance: most failures go unnoticed there.

`python benchmarks/calibration.py` simulates how often runs are far; the table is in docs/bench.md.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gatelab.experiments.stats import FEWEST, LEVEL, BySeed

CHANCE = 0.01  # that normal noise puts a run of a model far from the majority
DRAWS = 100_000  # simulated models from which the limit is taken


@dataclass(frozen=True)
class Failures:
    """The runs of one model that diverged, or ended far from the majority."""

    runs: int  # with a metric, or diverged
    failed: tuple[int, ...]  # seeds of those that diverged or are far worse
    better: tuple[int, ...]  # seeds of those that are far better
    majority: int  # its number of runs
    smallest: float  # their metric
    largest: float
    low: float  # the 95 % confidence interval of the share that fails (Clopper and Pearson)
    high: float


def failures(
    values: BySeed, diverged: Sequence[int] = (), larger_is_better: bool = True, finest: float = 0.0
) -> Failures | None:
    """How often a model fails; None with fewer than three metrics. A majority narrower than `finest` counts as
    that wide.
    """
    if len(values) < FEWEST:
        return None
    smallest, largest = majority(np.array([list(values.values())], np.float64))[0].tolist()
    far = limit(len(values)) * max(largest - smallest, finest)
    below = tuple(seed for seed, value in values.items() if smallest - value > far)
    above = tuple(seed for seed, value in values.items() if value - largest > far)
    worse, better = (below, above) if larger_is_better else (above, below)
    failed, runs = tuple(sorted({*worse, *diverged})), len(values) + len(diverged)
    return Failures(runs, failed, better, len(values) // 2 + 1, smallest, largest, *share(len(failed), runs))


def share(count: int, of: int) -> tuple[float, float]:
    """The 95 % confidence interval of a probability (Clopper and Pearson): it never covers less."""
    from scipy.stats import beta

    low = float(beta.ppf(LEVEL / 2, count, of - count + 1)) if count else 0.0
    return low, float(beta.ppf(1 - LEVEL / 2, count + 1, of - count)) if count < of else 1.0


def majority(values: np.ndarray) -> np.ndarray:
    """For each row of (draws, n), the smallest and the largest of the n // 2 + 1 values that lie closest together."""
    values, count = np.sort(values, 1), values.shape[1] // 2 + 1
    first, last = values[:, : values.shape[1] - count + 1], values[:, count - 1 :]
    closest = np.arange(len(values)), (last - first).argmin(1)
    return np.stack([first[closest], last[closest]], 1)


@functools.cache
def limit(n: int) -> float:
    """How many times the majority's width the distance of the farthest run is with normal noise, in all but one of a
    hundred models.
    """
    draws = np.random.default_rng(n).normal(size=(DRAWS, n))
    smallest, largest = majority(draws).T
    distances = np.maximum(smallest - draws.min(1), draws.max(1) - largest)
    return float(np.quantile(distances / (largest - smallest), 1 - CHANCE))
