"""Statistics over seeds: what was measured, how sure one can be of it, and what cannot be said. No plotting here.

A seed is the unit: every run of a model is one number, and all chance in a comparison comes from the seeds. Intervals
are bootstrapped (BCa), tests permute, and several comparisons in one experiment are corrected by Holm's method.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

import numpy as np

CONFIDENCE = 0.95
RESAMPLES = 9_999
EXACT = 20_000  # ways to deal the runs out, up to which all are tried
ENOUGH = 3  # runs below which nothing is claimed
BOOTSTRAPPED = 5  # runs from which on intervals are bootstrapped
ROUNDING = 1e-12  # a spread below this is none: 0.85 − 0.65 and 0.75 − 0.55 differ in the last bit


@dataclass(frozen=True)
class Summary:
    """One metric of one model over its runs."""

    values: tuple[float, ...]
    mean: float
    sd: float | None  # with one run there is none
    low: float | None
    high: float | None


def summarise(values: list[float], most: float = math.inf) -> Summary:
    """Mean, standard deviation and a 95 % interval of the mean; the interval needs three runs.

    What we measure is never negative, and an accuracy never above 1: what an interval has beyond that is cut off.
    """
    x = np.asarray(values, np.float64)
    sd = float(x.std(ddof=1)) if len(x) > 1 else None
    low, high = np.clip(interval(x), 0, most).tolist() if len(x) >= ENOUGH else (None, None)
    return Summary(tuple(map(float, x)), float(x.mean()), sd, low, high)


def interval(x: np.ndarray) -> tuple[float, float]:
    """A 95 % interval of the mean: BCa bootstrap, at a level that makes up for few runs.

    A bootstrap of n values scatters by √((n−1)/n) too little and knows nothing of Student: its "95 %" hold the truth in
    86 % of cases with five runs. Taken at the level 1 − 2Φ(−√(n/(n−1)) t), as Hesterberg (2015) proposes, it is 92 %,
    and nearer with more. Below five runs there is too little to resample, and Student's interval is used.
    """
    from scipy.stats import bootstrap, norm, t

    n, spread = len(x), float(x.std(ddof=1))
    if np.ptp(x) <= ROUNDING * max(1.0, float(np.abs(x).max())):  # the bootstrap divides by the spread
        return float(x.mean()), float(x.mean())
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
    smallest: float | None  # the smallest difference that this many runs with this spread could call
    paired: bool  # whether the test was that of the paired differences

    @property
    def called(self) -> bool:
        """Whether the difference can be claimed at 5 %."""
        return self.p_adjusted is not None and self.p_adjusted <= 1 - CONFIDENCE


def compare(
    models: dict[str, dict[int, float]], larger_is_better: bool = True, base: str | None = None
) -> list[Comparison]:
    """Every pair of models, or each with the base, over the seeds that both have; the better one comes first.

    Values are by seed.
    """
    pairs = []
    for a, b in paired(list(models), base):
        seeds = sorted(models[a].keys() & models[b].keys())
        x, y = (np.array([models[name][seed] for seed in seeds], np.float64) for name in (a, b))
        if seeds and (x.mean() < y.mean()) == larger_is_better and x.mean() != y.mean():
            a, b, x, y = b, a, y, x
        if seeds:
            pairs.append((a, b, x, y))
    tested = sum(len(x) >= ENOUGH for _, _, x, _ in pairs)
    raw = [p_value(x, y, tested) if len(x) >= ENOUGH else None for _, _, x, y in pairs]
    corrected = iter(holm([p for p in raw if p is not None]))
    return [_comparison(pair, p, next(corrected) if p is not None else None, tested, larger_is_better)
            for pair, p in zip(pairs, raw, strict=True)]  # fmt: skip


def paired(names: list[str], base: str | None) -> list[tuple[str, str]]:
    """What is compared with what."""
    return [pair for pair in itertools.combinations(names, 2) if base is None or base in pair]


@dataclass(frozen=True)
class Effect:
    """What changing one factor does (or two at once, beyond what each does alone), averaged over all others."""

    name: str
    n: int
    difference: float
    low: float | None
    high: float | None
    p: float | None = None  # of the test that swaps the levels in each seed
    p_adjusted: float | None = None  # after Holm's correction over all effects

    @property
    def called(self) -> bool:
        return self.p_adjusted is not None and self.p_adjusted <= 1 - CONFIDENCE


def effects(values: dict[str, dict[int, float]], design: dict[str, dict[str, str]]) -> list[Effect]:
    """Main effects and interactions of two factors of a factorial design, seed by seed, with intervals over the seeds.

    A main effect is the mean over all arms at a level minus that at the first level of the factor. An interaction is
    the effect of one factor at a level of the other minus that at the other's first level.
    """
    seeds = sorted(set.intersection(*(set(values[arm]) for arm in design))) if design else []
    if not seeds:
        return []
    found = [_effect(values, design, seeds, changes) for changes in _changes(design)]
    if len(seeds) < ENOUGH:
        return found
    corrected = holm([effect.p for effect in found if effect.p is not None])
    return [replace(effect, p_adjusted=p) for effect, p in zip(found, corrected, strict=True)]


def count_effects(design: dict[str, dict[str, str]]) -> int:
    return len(_changes(design)) if design else 0


def _changes(design: dict[str, dict[str, str]]) -> list[list[tuple[str, str, str]]]:
    """What each effect changes: (factor, first level, level), one or two of them at once."""
    names = next(iter(design.values()))
    factors = {name: list(dict.fromkeys(levels[name] for levels in design.values())) for name in names}
    single = [(name, levels[0], level) for name, levels in factors.items() for level in levels[1:]]
    both = [[one, other] for one, other in itertools.combinations(single, 2) if one[0] != other[0]]
    return [*([one] for one in single), *both]


def _effect(
    values: dict[str, dict[int, float]],
    design: dict[str, dict[str, str]],
    seeds: list[int],
    changes: list[tuple[str, str, str]],
) -> Effect:
    contrast = np.zeros(len(seeds))
    for sides in itertools.product((0, 1), repeat=len(changes)):
        wanted = {name: (before, after)[side] for (name, before, after), side in zip(changes, sides, strict=True)}
        arms = [arm for arm, levels in design.items() if wanted.items() <= levels.items()]
        mean = np.mean([[values[arm][seed] for seed in seeds] for arm in arms], axis=0)
        contrast += (-1) ** (len(changes) - sum(sides)) * mean
    name = " × ".join(f"{name}: {before} → {after}" for name, before, after in changes)
    if len(seeds) < ENOUGH:
        return Effect(name, len(seeds), float(contrast.mean()), None, None)
    return Effect(name, len(seeds), float(contrast.mean()), *interval(contrast), sign_flip_p(contrast))


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
        difference=difference if abs(difference) > ROUNDING else 0.0,
        low=low,
        high=high,
        p=p,
        p_adjusted=adjusted,
        improvement=improvement(x, y) if larger_is_better else improvement(y, x),
        smallest=smallest_callable(x, y, tested) if p is not None else None,
        paired=p is not None and pairing_suffices(len(x), tested),
    )


def p_value(x: np.ndarray, y: np.ndarray, comparisons: int) -> float:
    """Two-sided p of a difference of means. Which test it is depends on the number of runs alone, never on the data.

    Runs of one seed share the order of the examples, and where only a gate is changed also the starting values, so that
    their differences scatter less than the runs: the test of pairs sees that. It needs enough of them to reach the
    level at all; below that, all runs are dealt out.
    """
    return sign_flip_p(x - y) if pairing_suffices(len(x), comparisons) else permutation_p(x, y)


def pairing_suffices(n: int, comparisons: int) -> bool:
    """Whether n pairs can pass the strictest level of Holm's correction: 2/2ⁿ is the least p they can have."""
    return 2.0 ** (1 - n) <= (1 - CONFIDENCE) / comparisons


def fewest_pairs(comparisons: int) -> int:
    """The seeds from which on some difference, however large, can be called by the test of pairs."""
    return next(n for n in itertools.count(ENOUGH) if pairing_suffices(n, comparisons))


def sign_flip_p(difference: np.ndarray) -> float:
    """Two-sided p of the mean of paired differences under all ways to swap the two members of a pair."""
    n, largest = len(difference), float(np.abs(difference).max())
    if largest == 0:
        return 1.0
    if 2**n <= EXACT:
        signs, added = np.array(list(itertools.product((1, -1), repeat=n))), 0
    else:
        signs, added = np.random.default_rng(0).choice((1, -1), (RESAMPLES, n)), 1
    sums = np.abs(signs @ (difference / largest))
    extreme = np.count_nonzero(sums >= abs((difference / largest).sum()) - 1e-9) + added
    return float(extreme / (len(signs) + added))


def permutation_p(x: np.ndarray, y: np.ndarray) -> float:
    """Two-sided p of the difference of means under all ways to deal the runs out to the two models.

    This takes all runs as exchangeable if the models do not differ; if runs of a seed are alike, it errs on the safe
    side. With five seeds it can reach 2/252, where swapping members of pairs cannot get below 2/2⁵ = 0.0625.
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
    spread = (a - b).std() if pairing_suffices(len(x), comparisons) else a.std() + b.std()
    scale = max(float(spread), ROUNDING)
    low, high = 0.0, 1.0
    while p_value(a + high * scale, b, comparisons) > level:
        high *= 2
        if high > 1e6:
            return None
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (low, middle) if p_value(a + middle * scale, b, comparisons) <= level else (middle, high)
    return high * scale
