"""Prediction intervals from forecast errors on held-out windows: conformal prediction, fixed or adaptive."""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gatelab.models.forecaster import conformal_rank

RATE = 0.1  # the step of adaptive conformal inference, gamma in the paper (Gibbs and Candès, 2021)
RECENT = 60  # the last errors, which adaptive intervals are made of; more for a high coverage
MOST = 2_000  # origins that are kept
LEAST = 10  # known errors before the level adapts


@dataclass(frozen=True)
class Scores:
    """Forecasts from origins in the order of time, and how far off they were, in units of their window's scale."""

    forecasts: np.ndarray  # (N, H, K), after `Transform.forwards`
    scales: np.ndarray  # (N, 1, K)
    errors: np.ndarray  # (N, H, K), absolute, in scales; NaN for steps that are not known yet

    @classmethod
    def none(cls, horizon: int, columns: int) -> Scores:
        """Return no scores."""
        empty = np.empty((0, horizon, columns))
        return cls(empty, empty[:, :1], empty)

    def __len__(self) -> int:
        return len(self.errors)

    def extended(self, forecasts: np.ndarray, scales: np.ndarray, known: np.ndarray, behind: int = 0) -> Scores:
        """Return the scores with the forecasts of later origins, one per step, and all errors that are known by now.

        `known` are the last values after `Transform.forwards`, (S, K). The last forecast is made from the last of them,
        or from the one so many steps `behind`.
        """
        forecasts, scales = np.concatenate([self.forecasts, forecasts]), np.concatenate([self.scales, scales])
        N, H, _ = forecasts.shape
        # The step that each forecast is of; what is before the known values has its error already.
        steps = len(known) - behind - N + np.arange(N)[:, None] + np.arange(1, H + 1)
        is_known = (steps >= 0) & (steps < len(known))
        observed = np.where(is_known[..., None], known[np.clip(steps, 0, len(known) - 1)], np.nan)
        errors = np.abs(observed - forecasts) / scales
        errors[: len(self)] = np.where(np.isnan(self.errors), errors[: len(self)], self.errors)
        return Scores(forecasts[-MOST:], scales[-MOST:], errors[-MOST:])

    def counts(self) -> np.ndarray:
        """Return how many errors are known at each step ahead, (H,)."""
        counts: np.ndarray = (~np.isnan(self.errors)).sum(0).min(1)
        return counts

    def widths(self, coverage: float, adaptive: bool) -> np.ndarray:
        """Return half the width of an interval in scales, per step ahead and column, (H, K).

        Infinite where there are fewer than coverage / (1 − coverage) errors: no width could be justified. Adaptive ones
        are made of recent errors.
        """
        _, H, K = self.errors.shape
        recent = max(RECENT, math.ceil(2 * coverage / (1 - coverage)))
        widths = np.empty((H, K))
        for step in range(H):
            for column in range(K):
                errors = self.errors[-(recent + step + 1) if adaptive else 0 :, step, column]
                level = adapted_level(errors, step + 1, coverage) if adaptive else coverage
                widths[step, column] = width(np.sort(errors[~np.isnan(errors)]), coverage, level)
        return widths


def width(errors: Sequence[float] | np.ndarray, coverage: float, level: float | None = None) -> float:
    """Return the conformal quantile of sorted errors: the next one stays below it with probability `coverage`.

    An adapted `level` beyond the errors that there are gives the largest one.
    """
    if conformal_rank(len(errors), coverage) is None:
        return np.inf
    level = coverage if level is None else level
    if level <= 0:
        return 0.0
    rank = conformal_rank(len(errors), min(level, 1.0)) or len(errors)
    return float(errors[rank - 1])


def adapted_level(errors: np.ndarray, delay: int, coverage: float, rate: float = RATE) -> float:
    """Return the level for the next origin by adaptive conformal inference.

    The errors (N,) of all origins are gone through in the order of time, as if intervals had been made all along: where
    one missed, the level rises by rate × coverage, where it covered, it falls by rate × (1 − coverage). An error is
    known `delay` steps after its origin.
    """
    level, known, misses = coverage, list[float](), dict[int, bool]()
    for origin in range(len(errors) + 1):  # the last is the one to come
        past = origin - delay
        if past >= 0 and not np.isnan(errors[past]):
            if past in misses:
                level += rate * (coverage if misses[past] else coverage - 1)
            insort(known, float(errors[past]))
        if origin < len(errors) and len(known) >= LEAST:
            misses[origin] = bool(errors[origin] > width(known, coverage, level))
    return level
