"""Statistics over seeds: what was measured, how sure one can be of it, and what cannot be said. No plotting here.

A seed is the unit: every run of a model is one number, and all chance in a comparison comes from the seeds. Intervals
are bootstrapped (BCa), tests permute, and several comparisons in one experiment are corrected by Holm's method.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

CONFIDENCE = 0.95
RESAMPLES = 9_999
EXACT = 20_000  # ways to deal the runs out, up to which all are tried
ENOUGH = 3  # runs below which nothing is claimed
BOOTSTRAPPED = 5  # runs from which on intervals are bootstrapped


@dataclass(frozen=True)
class Summary:
    """One metric of one model over its runs."""

    values: tuple[float, ...]
    mean: float
    sd: float | None  # with one run there is none
    low: float | None
    high: float | None

    @property
    def n(self) -> int:
        return len(self.values)


def summarise(values: list[float]) -> Summary:
    """Mean, standard deviation and a 95 % interval of the mean; the interval needs three runs."""
    x = np.asarray(values, np.float64)
    sd = float(x.std(ddof=1)) if len(x) > 1 else None
    low, high = interval(x) if len(x) >= ENOUGH else (None, None)
    return Summary(tuple(map(float, x)), float(x.mean()), sd, low, high)


def interval(x: np.ndarray) -> tuple[float, float]:
    """A 95 % interval of the mean: BCa bootstrap, at a level that makes up for few runs.

    A bootstrap of n values scatters by √((n−1)/n) too little and knows nothing of Student: its "95 %" hold the truth in
    86 % of cases with five runs. Taken at the level 1 − 2Φ(−√(n/(n−1)) t), as Hesterberg (2015) proposes, it is 92 %,
    and nearer with more. Below five runs there is too little to resample, and Student's interval is used.
    """
    from scipy.stats import bootstrap, norm, t

    n, spread = len(x), float(x.std(ddof=1))
    if np.ptp(x) == 0:
        return float(x[0]), float(x[0])
    quantile = float(t.ppf((1 + CONFIDENCE) / 2, n - 1))
    if n < BOOTSTRAPPED:
        half = quantile * spread / math.sqrt(n)
        return float(x.mean() - half), float(x.mean() + half)
    level = 1 - 2 * float(norm.cdf(-math.sqrt(n / (n - 1)) * quantile))
    made = bootstrap(
        (x,), np.mean, confidence_level=level, n_resamples=RESAMPLES, method="BCa", rng=np.random.default_rng(0)
    ).confidence_interval
    return float(made.low), float(made.high)


@dataclass(frozen=True)
class Comparison:
    """Model a against model b on one metric, seed by seed."""

    a: str
    b: str
    n: int
    difference: float  # mean of a − mean of b
    low: float | None
    high: float | None
    p: float | None  # of the permutation test
    p_adjusted: float | None  # after Holm's correction
    improvement: float  # the probability that a run of a beats a run of b
    callable: float | None  # the smallest difference that this many runs with this spread could call

    @property
    def called(self) -> bool:
        """Whether the difference can be claimed at 5 %."""
        return self.p_adjusted is not None and self.p_adjusted <= 1 - CONFIDENCE


def compare(models: dict[str, dict[int, float]], larger_is_better: bool = True) -> list[Comparison]:
    """Every pair of models, over the seeds that both have; the better one comes first. Values are by seed."""
    pairs = []
    for a, b in itertools.combinations(models, 2):
        seeds = sorted(models[a].keys() & models[b].keys())
        x, y = (np.array([models[name][seed] for seed in seeds], np.float64) for name in (a, b))
        if seeds and (x.mean() < y.mean()) == larger_is_better and x.mean() != y.mean():
            a, b, x, y = b, a, y, x
        if seeds:
            pairs.append((a, b, x, y))
    raw = [permutation_p(x, y) if len(x) >= ENOUGH else None for _, _, x, y in pairs]
    corrected = iter(holm([p for p in raw if p is not None]))
    tested = sum(p is not None for p in raw)
    return [_comparison(pair, p, next(corrected) if p is not None else None, tested, larger_is_better)
            for pair, p in zip(pairs, raw, strict=True)]  # fmt: skip


def _comparison(
    pair: tuple[str, str, np.ndarray, np.ndarray],
    p: float | None,
    adjusted: float | None,
    tested: int,
    larger_is_better: bool,
) -> Comparison:
    a, b, x, y = pair
    low, high = interval(x - y) if p is not None else (None, None)
    difference = float(x.mean() - y.mean())
    return Comparison(
        a=a,
        b=b,
        n=len(x),
        difference=difference if abs(difference) > 1e-12 else 0.0,
        low=low,
        high=high,
        p=p,
        p_adjusted=adjusted,
        improvement=improvement(x, y) if larger_is_better else improvement(y, x),
        callable=smallest_callable(x, y, tested) if p is not None else None,
    )


def permutation_p(x: np.ndarray, y: np.ndarray) -> float:
    """Two-sided p of the difference of means under all ways to deal the runs out to the two models.

    This takes all runs as exchangeable if the models do not differ: the seeds are drawn apart for each architecture but
    for the order of the examples, and if sharing that makes runs of a seed alike, the test errs on the safe side.
    Flipping the signs of paired differences would assume less, but with five seeds it can never get below 2/2⁵ =
    0.0625; dealing out all ten can reach 2/252.
    """
    both, n = np.concatenate([x, y]), len(x)
    if np.ptp(both) == 0:
        return 1.0
    centred = (both - both.mean()) / np.ptp(both)
    if math.comb(len(both), n) <= EXACT:
        deals = np.array(list(itertools.combinations(range(len(both)), n)))
        added = 0
    else:
        random = np.random.default_rng(0)
        deals = random.permuted(np.tile(np.arange(len(both)), (RESAMPLES, 1)), axis=1)[:, :n]
        added = 1  # the deal at hand is one of them
    # Accuracies are multiples of one test image, so many deals tie with the one at hand, and none must be lost to
    # rounding: SciPy's own tolerance is relative to the difference, which is much smaller than the accuracies.
    sums = np.abs(centred[deals].sum(1))
    extreme = np.count_nonzero(sums >= abs(centred[:n].sum()) - 1e-9) + added
    return float(extreme / (len(deals) + added))


def holm(p: list[float]) -> list[float]:
    """p values for several tests at once (Holm 1979): the smallest times their number, the next times one less, …"""
    order = np.argsort(p, kind="stable")
    adjusted, largest = [0.0] * len(p), 0.0
    for rank, place in enumerate(order):
        largest = max(largest, min(1.0, (len(p) - rank) * p[place]))
        adjusted[place] = largest
    return adjusted


def improvement(x: np.ndarray, y: np.ndarray) -> float:
    """The share of all pairs of a run of x and one of y in which x is larger; a tie counts half."""
    return float(np.mean((x[:, None] > y) + 0.5 * (x[:, None] == y)))


def fewest_runs(comparisons: int) -> int:
    """The runs of each model from which on some difference, however large, can be called."""
    return next(n for n in itertools.count(ENOUGH) if _can_call(n, n, comparisons))


def _can_call(n: int, m: int, comparisons: int) -> bool:
    """Whether the smallest p that the test can reach passes the strictest level of Holm's correction."""
    return 2 / math.comb(n + m, n) <= (1 - CONFIDENCE) / comparisons


def smallest_callable(x: np.ndarray, y: np.ndarray, comparisons: int) -> float | None:
    """The difference at which the test would say yes, given how these runs scatter about their means.

    With Holm's correction the first of several comparisons has to pass the strictest level. None: no difference,
    however large, can pass with so few runs.
    """
    level = (1 - CONFIDENCE) / comparisons
    if not _can_call(len(x), len(y), comparisons):
        return None
    a, b = x - x.mean(), y - y.mean()
    scale = max(float(a.std() + b.std()), 1e-12)
    low, high = 0.0, 1.0
    while permutation_p(a + high * scale, b) > level:
        high *= 2
        if high > 1e6:
            return None
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (low, middle) if permutation_p(a + middle * scale, b) <= level else (middle, high)
    return high * scale
