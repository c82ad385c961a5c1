"""Statistics against SciPy, against known cases, and by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from gatelab.experiments import stats

FIVE = [0.9882, 0.9891, 0.9877, 0.9885, 0.9890]
DESIGN = {f"{i}{j}": {"i": str(i), "j": str(j)} for i in (0, 1) for j in (0, 1)}


def by_seed(values) -> dict[int, float]:
    return dict(enumerate(map(float, values)))


# One model.


def test_a_summary_is_mean_sample_deviation_and_students_interval():
    summary = stats.summarise(FIVE)
    assert (summary.mean, summary.sd) == pytest.approx((np.mean(FIVE), np.std(FIVE, ddof=1)))
    expected = scipy_stats.t.interval(0.95, 4, np.mean(FIVE), scipy_stats.sem(FIVE))
    assert (summary.low, summary.high) == pytest.approx(expected)
    assert stats.summarise([0.5]).sd is None
    assert stats.summarise([0.5, 0.6]).low is None
    equal = stats.summarise([0.5] * 5)
    assert (equal.low, equal.high, equal.sd) == (0.5, 0.5, 0.0)


def test_the_interval_of_a_mean_stays_within_what_is_possible():
    assert stats.summarise([0.97, 1.0, 0.99], largest=1).high == 1
    assert stats.summarise([0.97, 1.0, 0.99]).high > 1
    assert stats.summarise([0.1, 2.0, 0.1]).low == 0


# Differences: one construction for interval and test.


@pytest.mark.parametrize("tests", [1, 6])
def test_estimates_are_scipys_paired_t_test_with_bonferroni(tests):
    random = np.random.RandomState(0)
    for n in (3, 5, 9):
        x, y = random.normal(size=(2, n))
        estimate, theirs = stats.estimate(x - y, tests), scipy_stats.ttest_rel(x, y)
        interval = theirs.confidence_interval(1 - 0.05 / tests)
        assert (estimate.low, estimate.high) == pytest.approx((interval.low, interval.high))
        assert estimate.p == pytest.approx(theirs.pvalue)
        assert estimate.p_adjusted == pytest.approx(min(1, tests * theirs.pvalue))


@settings(max_examples=300, deadline=None)
@given(st.lists(st.floats(-100, 100), min_size=3, max_size=12), st.integers(1, 40))
def test_an_interval_excludes_0_exactly_when_its_test_is_significant(differences, tests):
    estimate = stats.estimate(np.array(differences), tests)
    if estimate.p_adjusted is None:
        assert estimate.constant
        assert (estimate.low, estimate.high, estimate.significant) == (None, None, False)
    elif abs(estimate.p_adjusted - 0.05) > 1e-9:
        assert estimate.significant == (estimate.low > 0 or estimate.high < 0)


def test_five_differences_that_two_constructions_disagreed_about():
    estimate = stats.estimate(np.array([1.77, 1.78, -0.89, 11.11, 2.23]), 1)
    assert (estimate.low, estimate.high) == pytest.approx((-2.5, 8.9), abs=0.05)
    assert estimate.p == pytest.approx(0.195, abs=0.001)
    assert not estimate.significant


def test_a_difference_without_variance_is_not_tested():
    """0.85 − 0.65 and 0.75 − 0.55 differ in the last bit: that is no variance."""
    for k in range(40, 60):
        b = {seed: (k + 3 * seed) / 100 for seed in range(8)}
        a = {seed: (k + 3 * seed + 20) / 100 for seed in range(8)}
        (comparison,) = stats.compare({"a": a, "b": b}, 1)
        assert comparison.difference.constant
        assert comparison.difference.mean == pytest.approx(0.2)
        assert comparison.difference.p is None


@pytest.mark.parametrize(("n", "tests"), [(3, 1), (5, 3), (10, 12)])
def test_the_detectable_difference_is_significant_in_half_of_simulated_experiments(n, tests):
    random = np.random.default_rng(n)
    shift = stats.detectable(n, tests)
    draws = random.normal(shift, 1, (20_000, n))
    t = draws.mean(1) / (draws.std(1, ddof=1) / np.sqrt(n))
    assert np.mean(np.abs(t) > stats.critical_value(n, tests)) == pytest.approx(0.5, abs=0.015)
    assert stats.detectable(n, tests + 5) > shift  # more tests, less power
    estimate = stats.estimate(draws[0], tests)
    assert estimate.detectable == pytest.approx(shift * draws[0].std(ddof=1))


@pytest.mark.parametrize("shape", ["normal", "skewed", "accuracy"])
def test_false_alarms_over_four_models_are_about_five_in_a_hundred_experiments(shape):
    random = np.random.RandomState(1)
    draw = {
        "normal": lambda: random.normal(size=5),
        "skewed": lambda: random.exponential(size=5),
        "accuracy": lambda: random.binomial(200, 0.95, 5) / 200,
    }[shape]
    alarms = 0
    for _ in range(300):
        models = {name: by_seed(draw()) for name in "abcd"}
        alarms += any(comparison.difference.significant for comparison in stats.compare(models, 6))
    assert alarms / 300 <= 0.08


# Comparisons.


def test_the_probability_of_superiority_is_mann_whitneys():
    random = np.random.RandomState(0)
    x, y = random.normal(0.5, 1, 7), random.normal(0, 1, 9)
    expected = scipy_stats.mannwhitneyu(x, y).statistic / (7 * 9)
    assert stats.superiority(x, y) == pytest.approx(expected)
    assert stats.superiority(np.array([1.0]), np.array([1.0])) == 0.5


def test_a_comparison_names_the_better_model_first():
    low, high = [0.1, 0.2, 0.15, 0.12, 0.11], [0.9, 0.8, 0.85, 0.88, 0.87]
    (clear,) = stats.compare({"low": by_seed(low), "high": by_seed(high)}, 1)
    assert (clear.a, clear.b) == ("high", "low")
    assert clear.difference.significant
    assert clear.difference.mean == pytest.approx(0.724)
    assert clear.superiority == 1.0
    errors = {"a": by_seed([0.1, 0.2, 0.3]), "b": by_seed([0.5, 0.65, 0.7])}
    (smaller,) = stats.compare(errors, 1, larger_is_better=False)
    assert (smaller.a, smaller.superiority) == ("a", 1.0)
    assert smaller.difference.mean < 0


def test_with_two_seeds_nothing_is_tested():
    (two,) = stats.compare({"a": by_seed([0.1, 0.2]), "b": by_seed([0.8, 0.95])}, 1)
    assert (two.difference.p, two.difference.low, two.difference.significant) == (None, None, False)


def test_pairs_are_compared_over_the_seeds_they_share():
    models = {"a": by_seed([1.0, 2.0, 3.0, 4.0]), "b": {1: 2.5, 2: 3.6, 3: 4.4}, "c": {9: 1.0}}
    (comparison,) = stats.compare(models, 3)  # c shares no seed with anyone
    assert (comparison.a, comparison.b, comparison.difference.n) == ("b", "a", 3)
    assert comparison.difference.mean == pytest.approx(0.5)


def test_each_model_is_compared_with_the_base_where_there_is_one():
    values = {name: by_seed(FIVE) for name in "abcd"}
    assert len(stats.compare(values, 6)) == 6
    assert {frozenset((c.a, c.b)) for c in stats.compare(values, 3, base="b")} == {
        frozenset(pair) for pair in ("ab", "bc", "bd")
    }


# Effects.


def test_effects_are_those_of_least_squares():
    """Against a regression on ±½ codes, whose coefficients are the effects of a balanced 2×2."""
    random = np.random.RandomState(3)
    values = {arm: by_seed(random.normal(int(arm, 2), 1, 6)) for arm in DESIGN}
    i, j, y = np.array([(int(arm[0]) - 0.5, int(arm[1]) - 0.5, v) for arm in DESIGN for v in values[arm].values()]).T
    expected = np.linalg.lstsq(np.stack([np.ones_like(i), i, j, i * j], 1), y, rcond=None)[0][1:]
    effects = stats.effects(values, DESIGN, 3)
    assert [[(c.factor, c.before, c.after) for c in effect.changes] for effect in effects] == [
        [("i", "0", "1")],
        [("j", "0", "1")],
        [("i", "0", "1"), ("j", "0", "1")],
    ]
    assert [effect.interaction for effect in effects] == [False, False, True]
    assert [effect.difference.mean for effect in effects] == pytest.approx(list(expected))
    assert all(effect.difference.n == 6 for effect in effects)
    del values["11"][0]  # a run that failed takes its seed out of all arms
    assert {effect.difference.n for effect in stats.effects(values, DESIGN, 3)} == {5}
    assert stats.effects(values, {}, 0) == []


def test_three_levels_have_two_effects_and_their_interactions():
    design = {f"{a}{b}": {"a": a, "b": b} for a in "xyz" for b in "01"}
    values = {arm: {0: float("xyz".index(arm[0])) * (1 + int(arm[1]))} for arm in design}
    effects = {
        tuple(c.after for c in effect.changes): effect.difference.mean for effect in stats.effects(values, design, 5)
    }
    assert (effects["y",], effects["z",], effects["z", "1"]) == (1.5, 3.0, 2.0)
    assert len(effects) == 5


def test_an_effect_is_found_where_there_is_one():
    random = np.random.RandomState(4)
    clear = {arm: by_seed(5 * int(arm[0]) + 0.1 * random.normal(size=8)) for arm in DESIGN}
    assert [effect.difference.significant for effect in stats.effects(clear, DESIGN, 3)] == [True, False, False]


def test_the_family_is_every_comparison_and_every_effect():
    assert stats.count_tests(["a", "b", "c"], None, {}) == 3
    assert stats.count_tests(["a", "b", "c"], "a", {}) == 2
    assert stats.count_tests(list(DESIGN), "00", DESIGN) == 3 + 3
    assert stats.count_tests(["a"], None, {}) == 0
