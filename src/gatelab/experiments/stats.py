"""Statistics over seeds: means, differences, effects, with confidence intervals and tests. No plotting here.

The seed is the unit: each run contributes one number. There is one construction throughout, Student's t: the interval
of a mean, the interval of a paired difference, and its test. All tests of an experiment form one family with
Bonferroni's correction, and the intervals of differences are simultaneous at the same level: an interval excludes 0
exactly when its test is significant. (Holm's correction rejects a little more, but has no such intervals.)

`python benchmarks/calibration.py` simulates coverage and false alarms; the table is in docs/bench.md.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass

import numpy as np

LEVEL = 0.05  # of significance; intervals have confidence 1 − LEVEL
FEWEST = 3  # seeds below which nothing is tested and no interval is given
POWER = 0.5  # of the detectable difference
ROUNDING = 1e-12  # a spread below this share of the values is none: 0.85 − 0.65 and 0.75 − 0.55 differ in the last bit

BySeed = dict[int, float]


@dataclass(frozen=True)
class Summary:
    """One metric of one model over its runs."""

    values: tuple[float, ...]
    mean: float
    sd: float | None  # None with one run
    low: float | None  # the 95 % confidence interval of the mean, of this model by itself; None below three runs
    high: float | None


def summarise(values: list[float], largest: float = math.inf) -> Summary:
    """Mean, standard deviation and Student's interval of the mean.

    Metrics are never negative, and an accuracy is at most 1: the interval is cut off there.
    """
    x = np.asarray(values, np.float64)
    mean, sd = float(x.mean()), _sd(x, float(np.abs(x).max())) if len(x) > 1 else None
    if sd is None or len(x) < FEWEST:
        return Summary(tuple(map(float, x)), mean, sd, None, None)
    half = critical_value(len(x), 1) * sd / math.sqrt(len(x))
    return Summary(tuple(map(float, x)), mean, sd, max(0.0, mean - half), min(largest, mean + half))


@dataclass(frozen=True)
class Estimate:
    """The mean of one difference per seed, with its test. Without variance over the seeds there is no test."""

    n: int  # seeds
    mean: float
    sd: float | None = None
    low: float | None = None  # the simultaneous 95 % confidence interval; None where nothing is tested
    high: float | None = None
    p: float | None = None  # two-sided
    p_adjusted: float | None = None  # after Bonferroni's correction over the family
    detectable: float | None = None  # the true difference that would be significant with 50 % power, given this sd

    @property
    def significant(self) -> bool:
        """Whether the difference is significant at 5 % after the correction."""
        return self.p_adjusted is not None and self.p_adjusted <= LEVEL

    @property
    def constant(self) -> bool:
        """Whether the difference is the same in every seed, so that there is nothing to estimate its error from."""
        return self.sd == 0


def estimate(differences: np.ndarray, tests: int, size: float | None = None) -> Estimate:
    """Student's interval and test of paired differences, in a family of this number of tests.

    `size` is that of the values whose differences these are: it bounds their rounding errors.
    """
    from scipy.stats import t

    n, mean = len(differences), float(differences.mean())
    size = float(np.abs(differences).max()) if size is None else size
    mean = mean if abs(mean) > ROUNDING * size else 0.0
    sd = _sd(differences, size) if n > 1 else None
    if sd is None or sd == 0 or n < FEWEST:
        return Estimate(n, mean, sd)
    error = sd / math.sqrt(n)
    half = critical_value(n, tests) * error
    p = float(2 * t.sf(abs(mean) / error, n - 1))
    power = detectable(n, tests) * sd
    return Estimate(n, mean, sd, mean - half, mean + half, p, min(1.0, tests * p), power)


def critical_value(n: int, tests: int) -> float:
    """The quantile of Student's t that |mean| / standard error has to exceed."""
    from scipy.stats import t

    return float(t.isf(LEVEL / (2 * tests), n - 1))


@functools.cache
def detectable(n: int, tests: int) -> float:
    """The true mean, in standard deviations of the differences, that is significant with 50 % power.

    Given the sample's standard deviation, the t statistic is normal; the power is the mean over that deviation's
    distribution. (SciPy's noncentral t is NaN for the large values that few seeds and many tests lead to.)
    """
    from scipy.optimize import brentq
    from scipy.stats import chi2, norm

    limit = critical_value(n, tests)
    spread = np.sqrt(chi2.ppf((np.arange(2000) + 0.5) / 2000, n - 1) / (n - 1))  # sample sd / true sd

    def power(shift: float) -> float:
        return float(np.mean(norm.sf(limit * spread - shift) + norm.sf(limit * spread + shift)))

    return float(brentq(lambda shift: power(shift) - POWER, 0, limit)) / math.sqrt(n)


def _sd(x: np.ndarray, size: float) -> float:
    """The standard deviation; exactly 0 where values differ by rounding errors of numbers of this size alone."""
    return float(x.std(ddof=1)) if np.ptp(x) > ROUNDING * size else 0.0


@dataclass(frozen=True)
class PairedComparison:
    """Model a, the better one, against model b on one metric: a − b, paired by seed."""

    a: str
    b: str
    difference: Estimate
    superiority: float  # the probability that a run of a is better than a run of b


def compare(
    values: dict[str, BySeed], tests: int, larger_is_better: bool = True, base: str | None = None
) -> list[PairedComparison]:
    """Every pair of models, or each with the base, over the seeds that both have finished."""
    comparisons = []
    for a, b in pairs(list(values), base):
        seeds = sorted(values[a].keys() & values[b].keys())
        if not seeds:
            continue
        x, y = (np.array([values[name][seed] for seed in seeds], np.float64) for name in (a, b))
        if x.mean() != y.mean() and (x.mean() < y.mean()) == larger_is_better:
            a, b, x, y = b, a, y, x
        better, worse = (x, y) if larger_is_better else (y, x)
        size = float(np.abs([x, y]).max())
        comparisons.append(PairedComparison(a, b, estimate(x - y, tests, size), superiority(better, worse)))
    return comparisons


def pairs(names: list[str], base: str | None) -> list[tuple[str, str]]:
    """The models that are compared with each other: all pairs, or each with the base."""
    return [pair for pair in itertools.combinations(names, 2) if base is None or base in pair]


def superiority(x: np.ndarray, y: np.ndarray) -> float:
    """The share of all pairs of a run of x and a run of y in which x is larger; a tie counts half."""
    return float(np.mean((x[:, None] > y) + 0.5 * (x[:, None] == y)))


@dataclass(frozen=True)
class Change:
    """One factor of a factorial design taken from its first level to another."""

    factor: str
    before: str
    after: str


@dataclass(frozen=True)
class Effect:
    """The effect of one change, averaged over all other factors; of two changes, their interaction."""

    changes: tuple[Change, ...]
    difference: Estimate

    @property
    def interaction(self) -> bool:
        """Whether this is what two changes do beyond the sum of both."""
        return len(self.changes) > 1


Design = dict[str, dict[str, str]]  # arm → factor → level


def effects(values: dict[str, BySeed], design: Design, tests: int) -> list[Effect]:
    """Main effects and interactions of two factors, seed by seed, over the seeds that all arms have finished.

    A main effect is the mean over all arms at a level minus that at the first level of the factor. An interaction is
    the effect of one factor at a level of the other minus that at the other's first level.
    """
    seeds = sorted(set.intersection(*(set(values[arm]) for arm in design))) if design else []
    if not seeds:
        return []
    size = max(abs(values[arm][seed]) for arm in design for seed in seeds)
    return [
        Effect(changes, estimate(_contrast(values, design, seeds, changes), tests, size))
        for changes in design_changes(design)
    ]


def design_changes(design: Design) -> list[tuple[Change, ...]]:
    """The changes whose effects are estimated: each alone, and each two of different factors."""
    if not design:
        return []
    factors = {
        name: list(dict.fromkeys(levels[name] for levels in design.values())) for name in next(iter(design.values()))
    }
    single = [Change(name, levels[0], level) for name, levels in factors.items() for level in levels[1:]]
    double = [pair for pair in itertools.combinations(single, 2) if pair[0].factor != pair[1].factor]
    return [*((change,) for change in single), *double]


def _contrast(values: dict[str, BySeed], design: Design, seeds: list[int], changes: tuple[Change, ...]) -> np.ndarray:
    """The effect of the changes in each seed."""
    contrast = np.zeros(len(seeds))
    for sides in itertools.product((0, 1), repeat=len(changes)):
        levels = {c.factor: (c.before, c.after)[side] for c, side in zip(changes, sides, strict=True)}
        arms = [arm for arm, own in design.items() if levels.items() <= own.items()]
        mean = np.mean([[values[arm][seed] for seed in seeds] for arm in arms], axis=0)
        contrast += (-1) ** (len(changes) - sum(sides)) * mean
    return contrast


def count_tests(models: list[str], base: str | None, design: Design) -> int:
    """The tests of one study: its comparisons and its effects. Known before the first run, whatever comes out."""
    return len(pairs(models, base)) + len(design_changes(design))
