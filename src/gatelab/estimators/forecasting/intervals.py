"""Prediction intervals from forecast errors on held-out windows: conformal prediction, fixed or adaptive.

Adaptive intervals are the conformal quantile of recent errors, times a factor that rises after a miss and falls after a
hit: quantile tracking (Angelopoulos, Candès and Tibshirani, 2023), on the logarithm of the width. So intervals can
become wider than the largest error so far. Its steps become smaller as more errors are known (Angelopoulos, Barber and
Bates, 2024). Usual coverages have factors of their own; narrower intervals are always inside of wider ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

RECENT, HORIZONS = 60, 20  # the last errors, which adaptive intervals are made of, and at least so many horizons
TRACKED = (0.5, 0.8, 0.9, 0.95)  # the coverages that have a factor; any other one has that of the next below
FREE = 2  # the one of them that no other limits
# The step of a factor's logarithm: at 90 % a miss multiplies it by exp(0.36) at first, a hit by exp(−0.04). From FAST
# errors on it is in inverse proportion to their number: misses of far steps are known late, and large steps would
# overshoot.
RATE, FAST, SLOWEST = 0.4, 60, 0.1
SHARED = 0.5  # how much of a step is the mean over all steps ahead: what is near is known early
LOWEST, HIGHEST = 0.5, 2.5  # of the factor: misses of far steps become known long after it rose, and it would rise on


def conformal_rank(errors: int, level: float) -> int | None:
    """Which of the sorted held-out errors bounds the next one with probability `level`, 1 for the smallest.

    If all are exchangeable, the coverage is at least `level`. That takes at least level / (1 − level) errors; None if
    there are fewer.
    """
    rank = math.ceil((errors + 1) * level - 1e-9)  # + 1 for the one to be predicted
    return rank if rank <= errors else None


@dataclass(frozen=True)
class Scores:
    """Forecasts from origins in the order of time, and how far off they were, in units of their window's scale."""

    forecasts: np.ndarray  # (N, H, K), after `Transform.forwards`
    scales: np.ndarray  # (N, 1, K)
    errors: np.ndarray  # (N, H, K), absolute, in scales; NaN for steps that are not known yet

    @classmethod
    def none(cls, horizon: int, columns: int) -> Scores:
        """No scores."""
        empty = np.empty((0, horizon, columns))
        return cls(empty, empty[:, :1], empty)

    def __len__(self) -> int:
        return len(self.errors)

    def extended(self, forecasts: np.ndarray, scales: np.ndarray, known: np.ndarray, behind: int = 0) -> Scores:
        """The scores with the forecasts of later origins, one per step, and all errors that are known by now.

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
        """The scores of the last origins."""
        return Scores(self.forecasts[-origins:], self.scales[-origins:], self.errors[-origins:])

    def counts(self) -> np.ndarray:
        """How many errors are known at each step ahead, (H,)."""
        counts: np.ndarray = (~np.isnan(self.errors)).sum(0).min(1)
        return counts

    def widths(self, coverage: float, adaptive: bool, behind: int = 0, times: int = 1) -> np.ndarray:
        """Half the width of intervals in scales, (times, H, K): those of now, and of so many `times` up to now.

        Those of a time are made of the errors that were known then. An error is known when its step is, or `behind`
        steps after its origin. A width is infinite where there are fewer than coverage / (1 − coverage) errors: none
        could be justified.
        """
        coverage = next((each for each in TRACKED if math.isclose(each, coverage)), coverage)  # as 0.95 − 0.05
        N, H, K = self.errors.shape
        delays = np.maximum(np.arange(1, H + 1), behind)
        length = max(N + behind, times)  # of time; the last origin is `behind` steps before now
        news = np.full((length, H, K), np.nan)  # the errors that become known at a time
        for step, delay in enumerate(delays):
            count = max(N + behind - delay, 0)
            news[length - count :, step] = self.errors[:count, step]
        window = max(_recent(H), math.ceil(2 * coverage / (1 - coverage))) if adaptive else length
        found = np.stack([quantiles(_last(news, now, window), [coverage])[0] for now in range(length - times, length)])
        return _scaled(found, coverage, *tracked(news, delays, times)) if adaptive else found


def quantiles(errors: np.ndarray, coverages: Sequence[float]) -> np.ndarray:
    """The conformal quantiles of errors (N, …) along the first axis, (C, …): the next error stays below them
    with these coverages.

    NaN are no errors; too few errors give infinity.
    """
    ordered = np.sort(errors, 0)  # NaN last
    counts = (~np.isnan(errors)).sum(0)
    found = np.full((len(coverages), *counts.shape), np.inf)
    for count in np.unique(counts):
        for place, coverage in enumerate(coverages):
            rank = conformal_rank(int(count), coverage)
            if rank is not None:
                found[place] = np.where(counts == count, ordered[rank - 1], found[place])
    return found


def tracked(news: np.ndarray, delays: np.ndarray, times: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The widths of the coverages in TRACKED at the last so many times, the quantiles that they are made of, and
    the factors, (C, times, H, K) each, from the errors that became known at each time.

    news: (length, H, K), NaN for none. delays: (H,), how long after its origin an error is known. Every interval is
    judged as it was at its origin. Within the bounds, the logarithms of the factors of all steps ahead add up to the
    excess of misses times the rate, of each time: it stays limited whatever the errors are. Beyond them, the quantile
    has to follow.
    """
    length, H, K = news.shape
    counts = np.cumsum((~np.isnan(news)).any((1, 2)))
    rates = np.maximum(RATE * FAST / np.maximum(counts, FAST), SLOWEST)
    allowed = 1 - np.array(TRACKED)[:, None, None]  # misses
    widths, ordinary, factors = np.empty((3, len(TRACKED), length, H, K))
    log_factor = np.zeros((len(TRACKED), H, K))
    for now in range(length):
        origins = now - delays
        then = np.where((origins >= 0)[:, None], widths[:, np.maximum(origins, 0), np.arange(H)], np.inf)
        judged = ~np.isnan(news[now]) & np.isfinite(then)
        excess = np.where(judged, (news[now] > then) - allowed, 0)  # of misses
        mean = excess.sum(1, keepdims=True) / np.maximum(judged.sum(1, keepdims=True), 1)
        log_factor += rates[now] * np.where(judged, (1 - SHARED) * excess + SHARED * mean, 0)
        log_factor = np.clip(log_factor, math.log(LOWEST), math.log(HIGHEST))
        ordinary[:, now], factors[:, now] = quantiles(_last(news, now, _recent(H)), TRACKED), np.exp(log_factor)
        widths[:, now] = _nested(factors[:, now] * ordinary[:, now])
    return widths[:, length - times :], ordinary[:, length - times :], factors[:, length - times :]


def _nested(widths: np.ndarray) -> np.ndarray:
    """Widths by increasing coverage, (C, …), of which none is below the one before; that of FREE stays."""
    below = np.minimum.accumulate(widths[FREE::-1])[::-1]
    return np.concatenate([below[:-1], np.maximum.accumulate(widths[FREE:])])


def _scaled(
    found: np.ndarray, coverage: float, widths: np.ndarray, ordinary: np.ndarray, factors: np.ndarray
) -> np.ndarray:
    """The quantiles of any coverage, (times, H, K), scaled as those of the tracked one at or below it are, and
    at most as wide as the tracked one above. So they increase with the coverage.
    """
    if coverage in TRACKED:
        own: np.ndarray = widths[TRACKED.index(coverage)]
        return own
    above = int(np.searchsorted(TRACKED, coverage))
    at = max(above - 1, 0)
    scalable = (ordinary[at] > 0) & np.isfinite(ordinary[at])
    scale = np.divide(widths[at], ordinary[at], out=factors[at].copy(), where=scalable)
    least = widths[at] if above else 0.0
    most = widths[above] if above < len(TRACKED) else np.inf
    scaled: np.ndarray = np.clip(scale * found, least, most)
    return scaled


def _recent(horizon: int) -> int:
    """How many of the last errors adaptive intervals are made of: neighbouring ones are much the same."""
    return max(RECENT, HORIZONS * horizon)


def _last(news: np.ndarray, now: int, window: int) -> np.ndarray:
    return news[max(now + 1 - window, 0) : now + 1]
