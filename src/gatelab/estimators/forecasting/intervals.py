"""Prediction intervals from forecast errors on held-out windows: conformal prediction, fixed or adaptive.

Adaptive intervals are the conformal quantile of recent errors, times a factor that rises after a miss and falls after a
hit: quantile tracking (Angelopoulos, Candès and Tibshirani, 2023), on the logarithm of the width. So intervals can
become wider than the largest error so far. Its steps become smaller as more errors are known (Angelopoulos, Barber and
Bates, 2024).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gatelab.models.forecaster import conformal_rank

RECENT, HORIZONS = 60, 20  # the last errors, which adaptive intervals are made of, and at least so many horizons
TRACKED = 0.9  # the coverage that the factor follows; it is the same for all, so that narrow intervals are in wide ones
# The step of the factor's logarithm: at first a miss multiplies it by exp(0.36), a hit by exp(−0.04). From FAST errors
# on it is in inverse proportion to their number: misses of far steps are known late, and large steps would overshoot.
RATE, FAST, SLOWEST = 0.4, 60, 0.1
SHARED = 0.5  # how much of a step is the mean over all steps ahead: what is near is known early
LOWEST, HIGHEST = 0.5, 2.5  # of the factor: misses of far steps become known long after it rose, and it would rise on


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
        return Scores(forecasts, scales, errors)

    def last(self, origins: int) -> Scores:
        """Return the scores of the last origins."""
        return Scores(self.forecasts[-origins:], self.scales[-origins:], self.errors[-origins:])

    def counts(self) -> np.ndarray:
        """Return how many errors are known at each step ahead, (H,)."""
        counts: np.ndarray = (~np.isnan(self.errors)).sum(0).min(1)
        return counts

    def widths(self, coverage: float, adaptive: bool, behind: int = 0, times: int = 1) -> np.ndarray:
        """Return half the width of intervals in scales, (times, H, K): those of now, and of so many `times` up to now.

        Those of a time are made of the errors that were known then. An error is known when its step is, or `behind`
        steps after its origin. A width is infinite where there are fewer than coverage / (1 − coverage) errors: none
        could be justified.
        """
        N, H, K = self.errors.shape
        delays = np.maximum(np.arange(1, H + 1), behind)
        length = max(N + behind, times)  # of time; the last origin is `behind` steps before now
        news = np.full((length, H, K), np.nan)  # the errors that become known at a time
        for step, delay in enumerate(delays):
            count = max(N + behind - delay, 0)
            news[length - count :, step] = self.errors[:count, step]
        window = max(_recent(H), math.ceil(2 * coverage / (1 - coverage))) if adaptive else length
        found = np.stack([quantiles(_last(news, now, window), coverage) for now in range(length - times, length)])
        return found * tracked_factors(news, delays)[length - times :] if adaptive else found


def quantiles(errors: np.ndarray, coverage: float) -> np.ndarray:
    """Return the conformal quantile of errors (N, …) along the first axis: the next stays below it with `coverage`.

    NaN are no errors; too few errors give infinity.
    """
    ordered = np.sort(errors, 0)  # NaN last
    counts = (~np.isnan(errors)).sum(0)
    found = np.full(counts.shape, np.inf)
    for count in np.unique(counts):
        rank = conformal_rank(int(count), coverage)
        if rank is not None:
            found = np.where(counts == count, ordered[rank - 1], found)
    return found


def tracked_factors(news: np.ndarray, delays: np.ndarray) -> np.ndarray:
    """Return the factors of all times, (length, H, K), from the errors that became known at each.

    news: (length, H, K), NaN for none. delays: (H,), how long after its origin an error is known. Every interval is
    judged as it was at its origin. Within the bounds, the logarithms of the factors of all steps ahead add up to the
    excess of misses times the rate, of each time: it stays limited whatever the errors are. Beyond them, the quantile
    has to follow.
    """
    length, H, K = news.shape
    counts = np.cumsum((~np.isnan(news)).any((1, 2)))
    rates = np.maximum(RATE * FAST / np.maximum(counts, FAST), SLOWEST)
    widths, factors, log_factor = np.empty((length, H, K)), np.empty((length, H, K)), np.zeros((H, K))
    for now in range(length):
        origins = now - delays
        then = np.where((origins >= 0)[:, None], widths[np.maximum(origins, 0), np.arange(H)], np.inf)
        judged = ~np.isnan(news[now]) & np.isfinite(then)
        excess = np.where(judged, (news[now] > then) - (1 - TRACKED), 0)  # of misses
        mean = excess.sum(0) / np.maximum(judged.sum(0), 1)
        log_factor += rates[now] * np.where(judged, (1 - SHARED) * excess + SHARED * mean, 0)
        log_factor = np.clip(log_factor, math.log(LOWEST), math.log(HIGHEST))
        factors[now] = np.exp(log_factor)
        widths[now] = factors[now] * quantiles(_last(news, now, _recent(H)), TRACKED)
    return factors


def _recent(horizon: int) -> int:
    """Return how many of the last errors adaptive intervals are made of: neighbouring ones are much the same."""
    return max(RECENT, HORIZONS * horizon)


def _last(news: np.ndarray, now: int, window: int) -> np.ndarray:
    return news[max(now + 1 - window, 0) : now + 1]
