"""The sampling error of a measured coverage: how far it may be from the true one because the test part is short.

Intervals of overlapping windows hit and miss together: those from one origin share what comes, and so do those from
neighbouring origins. So the number of intervals says little; the number of independent ones that would have the same
standard error says more.
"""

from __future__ import annotations

from functools import cache
from typing import Literal, NamedTuple

import numpy as np
from scipy.stats import norm

Errors = Literal["noise", "walk"]


class Exact(NamedTuple):
    """What is measured of intervals whose coverage is exactly the wanted one, if the test part is so long."""

    error: float  # standard deviation of the measured coverage
    within: float  # how often it is within the range that is asked for
    estimated: float  # what Newey and West's estimate of its standard error is, root mean square


@cache
def exact(
    origins: int, horizon: int, errors: Errors, coverage: float, within: tuple[float, float], draws: int = 2000
) -> Exact:
    """Simulate test parts with intervals of the true quantiles; nothing is fitted.

    Forecast errors of white noise are the same for all steps ahead; those of a random walk add up.
    """
    random, limit = np.random.default_rng(0), norm.ppf((1 + coverage) / 2)
    measured, variances = np.empty(draws), np.empty(draws)
    hits = np.full((origins, horizon), np.nan)
    for draw in range(draws):
        noise = random.normal(size=origins)
        walk = np.concatenate([[0], np.cumsum(noise)])
        for h in range(1, min(horizon, origins) + 1):
            found = noise[h - 1 :] if errors == "noise" else (walk[h:] - walk[:-h]) / np.sqrt(h)
            hits[: len(found), h - 1] = np.abs(found) <= limit
        measured[draw], variances[draw] = np.nanmean(hits), _variance(hits)
    inside = (measured >= within[0]) & (measured <= within[1])
    return Exact(float(measured.std()), float(inside.mean()), float(np.sqrt(variances.mean())))


class Sampled(NamedTuple):
    """A coverage and its sampling error."""

    coverage: float
    error: float  # standard error
    at_1: float  # autocorrelation of the share of hits of an origin, at the next origin
    at_horizon: float  # at the first origin whose intervals have no step in common
    independent: float  # hits that would have the same standard error if they were independent


def sampled(hits: np.ndarray, too_small: float) -> Sampled:
    """Estimate the sampling error from hits (N, H) by origin and step ahead: 1, 0, NaN if not known; or means of seeds.

    The standard error is Newey and West's, divided by how much too small that is for exact intervals of a random walk
    (`Exact.estimated / Exact.error`): with few origins it misses what they do not show.
    """
    coverage, error = float(np.nanmean(hits)), float(np.sqrt(_variance(hits))) / too_small
    independent = coverage * (1 - coverage) / error**2 if error else np.inf
    shares = np.nanmean(hits, 1)
    return Sampled(coverage, error, _correlation(shares, 1), _correlation(shares, hits.shape[1]), independent)


def _variance(hits: np.ndarray) -> float:
    """The variance of the mean by Newey and West (1987), with weights that fall to 0 within two horizons."""
    known = ~np.isnan(hits)
    coverage = hits[known].mean()
    excess = np.where(known, hits - coverage, 0).sum(1) / known.sum()  # of the origins; adds up to 0
    lags = min(2 * hits.shape[1], len(excess) - 1)
    at = [float(excess[lag:] @ excess[: len(excess) - lag]) for lag in range(lags + 1)]
    weights = 1 - np.arange(1, lags + 1) / (lags + 1)
    return max(at[0] + 2 * float(weights @ at[1:]), 0.0)


def _correlation(shares: np.ndarray, lag: int) -> float:
    centred = shares - shares.mean()
    squares = float(centred @ centred)
    return float(centred[lag:] @ centred[:-lag]) / squares if squares else 0.0
