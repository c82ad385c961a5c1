"""Statistics against SciPy, against known cases, and by simulation."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats as scipy_stats

from gatelab.experiments import stats

FIVE = [0.9882, 0.9891, 0.9877, 0.9885, 0.9890]


def test_a_summary_is_mean_and_sample_deviation():
    summary = stats.summarise(FIVE)
    assert summary.mean == pytest.approx(np.mean(FIVE))
    assert summary.sd == pytest.approx(np.std(FIVE, ddof=1))
    assert summary.low < summary.mean < summary.high
    assert stats.summarise([0.5]).sd is None
    assert stats.summarise([0.5, 0.6]).low is None
    equal = stats.summarise([0.5] * 5)
    assert (equal.low, equal.high, equal.sd) == (0.5, 0.5, 0.0)


def test_an_interval_does_not_leave_what_is_possible():
    assert stats.interval(np.array([0.97, 1.0, 0.99]))[1] > 1
    assert stats.summarise([0.97, 1.0, 0.99], most=1).high == 1
    assert stats.summarise([0.1, 2.0, 0.1]).low == 0
    assert stats.summarise([0.97, 1.0, 0.99]).high > 1


def test_runs_that_all_differ_by_the_same_have_that_for_an_interval():
    """0.85 − 0.65 and 0.75 − 0.55 differ in the last bit, and a bootstrap of that is not a number."""
    for k in range(40, 60):
        b = {seed: (k + 3 * seed) / 100 for seed in range(8)}
        a = {seed: (k + 3 * seed + 20) / 100 for seed in range(8)}
        [found] = stats.compare({"a": a, "b": b})
        assert (found.low, found.high) == pytest.approx((0.2, 0.2))
        assert found.called
        assert found.smallest < 1e-9  # nothing to judge another difference by


@pytest.mark.parametrize("n", [3, 4])
def test_few_runs_have_students_interval(n):
    x = np.array(FIVE[:n])
    expected = scipy_stats.t.interval(0.95, n - 1, x.mean(), scipy_stats.sem(x))
    assert stats.interval(x) == pytest.approx(expected)


def test_many_runs_have_the_same_interval_as_student():
    """With many values of a normal the bootstrap, Student's and the plain BCa interval agree."""
    x = np.random.RandomState(0).normal(10, 1, 200)
    expected = scipy_stats.t.interval(0.95, 199, x.mean(), scipy_stats.sem(x))
    assert stats.interval(x) == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize(("n", "least"), [(3, 0.92), (5, 0.88), (10, 0.90)])
def test_intervals_hold_the_truth_about_as_often_as_they_say(n, least, monkeypatch):
    monkeypatch.setattr(stats, "RESAMPLES", 999)
    random = np.random.RandomState(n)
    held = 0
    for _ in range(300):
        low, high = stats.interval(random.normal(0, 1, n))
        held += low <= 0 <= high
    assert least <= held / 300 <= 0.985


def test_the_permutation_test_is_scipys_and_exact():
    random = np.random.RandomState(0)
    for n in (3, 5, 7):
        x, y = random.normal(size=(2, n))
        theirs = scipy_stats.permutation_test((x, y), lambda a, b: a.mean() - b.mean(), n_resamples=np.inf)
        assert stats.permutation_p(x, y) == pytest.approx(theirs.pvalue)
    x, y = random.normal(size=(2, 12))  # too many deals to try them all
    theirs = scipy_stats.ttest_ind(x, y)
    assert stats.permutation_p(x, y) == pytest.approx(theirs.pvalue, abs=0.03)
    x, y = np.array([1.0, 2.0, 3.5, 4.0]), np.array([2.5, 5.0, 6.0, 7.0])
    both, observed = np.concatenate([x, y]), abs(x.mean() - y.mean())
    differences = []
    for chosen in itertools.combinations(range(8), 4):
        mask = np.isin(np.arange(8), chosen)
        differences.append(abs(both[mask].mean() - both[~mask].mean()))
    exact = np.mean(np.array(differences) >= observed - 1e-12)
    assert stats.permutation_p(x, y) == pytest.approx(exact)
    assert stats.permutation_p(x, x) == 1.0
    far = stats.permutation_p(np.arange(5.0), np.arange(5.0) + 100)
    assert far == pytest.approx(2 / 252)


def test_false_alarms_are_about_five_in_a_hundred():
    random = np.random.RandomState(0)
    alarms = [stats.permutation_p(random.normal(size=6), random.normal(size=6)) <= 0.05 for _ in range(400)]
    assert 0.02 <= np.mean(alarms) <= 0.08


def test_false_alarms_over_three_models_are_no_more():
    """Holm's correction is over all pairs: in at most one experiment of twenty is anything called that is not there."""
    random = np.random.RandomState(1)
    called = 0
    for _ in range(150):
        models = {name: dict(enumerate(random.normal(size=5))) for name in "abc"}
        called += any(comparison.called for comparison in stats.compare(models))
    assert called / 150 <= 0.09


def test_holm_against_a_case_by_hand():
    assert stats.holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert stats.holm([0.5, 0.9]) == pytest.approx([1.0, 1.0])
    assert stats.holm([]) == []


def test_the_probability_of_improvement_is_mann_whitneys():
    random = np.random.RandomState(0)
    x, y = random.normal(0.5, 1, 7), random.normal(0, 1, 9)
    expected = scipy_stats.mannwhitneyu(x, y).statistic / (7 * 9)
    assert stats.improvement(x, y) == pytest.approx(expected)
    assert stats.improvement(np.array([1.0]), np.array([1.0])) == 0.5


def test_a_comparison_names_the_better_one_first_and_says_what_could_be_called():
    low, high = [0.1, 0.2, 0.15, 0.12, 0.11], [0.9, 0.8, 0.85, 0.88, 0.87]
    (clear,) = stats.compare({"low": by_seed(low), "high": by_seed(high)})
    assert (clear.a, clear.b) == ("high", "low")
    assert clear.called
    assert clear.difference == pytest.approx(0.724)
    assert clear.low < 0.724 < clear.high
    assert clear.improvement == 1.0
    # At the smallest difference that can be called the test says yes, and a little below it no longer does.
    x, y = np.array(high), np.array(low)
    a, b = x - x.mean(), y - y.mean()
    assert stats.permutation_p(a + clear.smallest, b) <= 0.05
    assert stats.permutation_p(a + 0.9 * clear.smallest, b) > 0.05
    errors = {"a": by_seed([0.1, 0.2, 0.3]), "b": by_seed([0.5, 0.6, 0.7])}
    smaller = stats.compare(errors, larger_is_better=False)[0]
    assert (smaller.a, smaller.improvement) == ("a", 1.0)


def test_with_few_runs_nothing_is_claimed():
    two = stats.compare({"a": by_seed([0.1, 0.2]), "b": by_seed([0.8, 0.9])})[0]
    assert two.p is None
    assert not two.called
    three = stats.compare({name: by_seed([i + 0.1, i + 0.2, i + 0.3]) for i, name in enumerate("abcd")})
    assert all(c.smallest is None and not c.called for c in three)  # 2/20 is never below 0.05


def test_pairs_are_compared_over_the_seeds_they_share():
    models = {"a": by_seed([1.0, 2.0, 3.0, 4.0]), "b": {1: 2.5, 2: 3.5, 3: 4.5}, "c": {9: 1.0}}
    (found,) = stats.compare(models)  # c shares no seed with anyone
    assert (found.a, found.b, found.n) == ("b", "a", 3)
    assert found.difference == pytest.approx(0.5)


def test_ties_are_not_lost_to_rounding():
    """Accuracies of 10,000 images, against the same test on whole numbers."""
    random = np.random.RandomState(0)
    for _ in range(20):
        x, y = random.randint(9860, 9866, (2, 5))
        both, observed = np.concatenate([x, y]), abs(int(x.sum()) - int(y.sum()))
        sums = [sum(chosen) for chosen in itertools.combinations(both.tolist(), 5)]
        exact = np.mean([abs(2 * total - int(both.sum())) >= observed for total in sums])
        assert stats.permutation_p(x / 10_000, y / 10_000) == pytest.approx(exact)


def by_seed(values: list[float]) -> dict[int, float]:
    return dict(enumerate(values))


def test_swapping_pairs_is_scipys_test_of_samples():
    random = np.random.RandomState(1)
    for n in (3, 6, 9):
        difference = random.normal(0.5, 1, n)
        theirs = scipy_stats.permutation_test(
            (difference,), np.mean, permutation_type="samples", n_resamples=np.inf
        ).pvalue
        assert stats.sign_flip_p(difference) == pytest.approx(theirs)
    many = random.normal(0.3, 1, 30)
    assert stats.sign_flip_p(many) == pytest.approx(scipy_stats.ttest_1samp(many, 0).pvalue, abs=0.02)
    assert stats.sign_flip_p(np.zeros(8)) == 1.0


def test_pairs_are_swapped_where_there_are_enough_of_them():
    random = np.random.RandomState(2)
    seeds = random.normal(0, 1, 8)  # runs of a seed are alike, and b is a little better in each
    models = {"a": dict(enumerate(seeds)), "b": dict(enumerate(seeds + 0.1 + 0.01 * random.normal(size=8)))}
    (eight,) = stats.compare(models)
    assert eight.paired
    assert eight.p == 2 / 2**8
    assert eight.called
    assert eight.smallest < 0.05
    (five,) = stats.compare({name: {seed: values[seed] for seed in range(5)} for name, values in models.items()})
    assert not five.paired
    assert not five.called  # on the safe side
    alarms = sum(stats.p_value(*random.normal(size=(2, 8)), 1) <= 0.05 for _ in range(400))
    assert alarms / 400 < 0.08


def test_each_model_is_compared_with_the_base_where_there_is_one():
    values = {name: dict(enumerate(FIVE)) for name in "abcd"}
    assert len(stats.compare(values)) == 6
    assert {frozenset((c.a, c.b)) for c in stats.compare(values, base="b")} == {
        frozenset(pair) for pair in ("ab", "bc", "bd")
    }


def test_effects_are_those_of_least_squares():
    """Against a regression on ±½ codes, whose coefficients are the effects of a balanced 2×2."""
    random = np.random.RandomState(3)
    design = {f"{i}{j}": {"i": str(i), "j": str(j)} for i in (0, 1) for j in (0, 1)}
    values = {arm: {seed: float(random.normal(int(arm, 2), 1)) for seed in range(6)} for arm in design}
    i, j, y = np.array([(int(arm[0]) - 0.5, int(arm[1]) - 0.5, v) for arm in design for v in values[arm].values()]).T
    expected = np.linalg.lstsq(np.stack([np.ones_like(i), i, j, i * j], 1), y, rcond=None)[0][1:]
    found = stats.effects(values, design)
    assert [effect.name for effect in found] == ["i: 0 → 1", "j: 0 → 1", "i: 0 → 1 × j: 0 → 1"]
    assert [effect.difference for effect in found] == pytest.approx(list(expected))
    for effect in found:
        assert effect.low < effect.difference < effect.high
        assert effect.n == 6
    del values["11"][0]  # a run that failed takes its seed out of all arms
    assert {effect.n for effect in stats.effects(values, design)} == {5}
    assert stats.effects(values, {}) == []


def test_three_levels_have_two_effects_and_their_interactions():
    design = {f"{a}{b}": {"a": a, "b": b} for a in "xyz" for b in "01"}
    values = {arm: {0: float("xyz".index(arm[0])) * (1 + int(arm[1]))} for arm in design}
    found = {effect.name: effect.difference for effect in stats.effects(values, design)}
    assert found["a: x → y"] == 1.5
    assert found["a: x → z"] == 3.0
    assert found["a: x → z × b: 0 → 1"] == 2.0
    assert len(found) == 5


def test_effects_are_tested_and_corrected():
    """With no effect at all, hardly any is called; with few seeds none can be."""
    random = np.random.RandomState(4)
    design = {f"{i}{j}": {"i": str(i), "j": str(j)} for i in (0, 1) for j in (0, 1)}
    alarms = 0
    for _ in range(60):
        values = {arm: dict(enumerate(random.normal(size=8))) for arm in design}
        alarms += any(effect.called for effect in stats.effects(values, design))
    assert alarms / 60 <= 0.15
    clear = {arm: dict(enumerate(5 * int(arm[0]) + 0.1 * random.normal(size=8))) for arm in design}
    assert [effect.called for effect in stats.effects(clear, design)][:2] == [True, False]
    few = {arm: {seed: values[seed] for seed in range(5)} for arm, values in clear.items()}
    assert not any(effect.called for effect in stats.effects(few, design))
