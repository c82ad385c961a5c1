"""Runs far from the majority of their model's, and how often a model fails: by hand, by SciPy, and by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats as scipy_stats

from gatelab.experiments.failures import failures, limit, majority, share

FINE = [0.981, 0.983, 0.9815, 0.9822, 0.984]


def by_seed(values, first=0):
    return dict(enumerate(values, first))


def test_the_majority_are_the_runs_that_lie_closest_together():
    rows = {
        (5.0, 1.0, 9.0): (1.0, 5.0),  # of two equal widths the lower one
        (0.0, 7.0, 8.0): (7.0, 8.0),
        (0.0, 0.2, 10.0, 11.0): (0.0, 10.0),  # three of four
        (3.0, 1.0, 2.0, 50.0, 60.0): (1.0, 3.0),
        (1.0, 2.0, 3.0, 4.0, 90.0, 95.0): (1.0, 4.0),  # four of six
    }
    for values, expected in rows.items():
        assert tuple(majority(np.array([values]))[0]) == expected
    both = majority(np.array([[0.0, 7.0, 8.0], [8.0, 1.0, 2.0]]))
    assert both.tolist() == [[7.0, 8.0], [1.0, 2.0]]


def test_runs_are_far_if_they_are_so_many_widths_from_the_majority():
    width, far = 0.0012, limit(5) * 0.0012  # 0.981 to 0.9822
    found = failures(by_seed(FINE, first=7))
    assert (found.runs, found.majority, found.failed, found.better) == (5, 3, (), ())
    assert (found.smallest, found.largest) == (0.981, 0.9822)
    assert found.largest - found.smallest == pytest.approx(width)
    for distance, is_far in ((0.99 * far, False), (1.01 * far, True)):
        low = failures(by_seed([*FINE[:4], 0.981 - distance], first=7))
        assert (low.failed, low.better) == (((11,) if is_far else ()), ())
        high = failures(by_seed([*FINE[:4], 0.9822 + distance], first=7))
        assert (high.failed, high.better) == ((), ((11,) if is_far else ()))
        error = failures(by_seed([*FINE[:4], 0.9822 + distance], first=7), larger_is_better=False)
        assert (error.failed, error.better) == (((11,) if is_far else ()), ())


def test_far_runs_do_not_hide_each_other():
    found = failures({3: 0.99, 8: 0.10, 5: 0.991, 1: 0.40, 9: 0.992})
    assert (found.failed, found.better) == ((1, 8), ())
    assert (found.smallest, found.largest) == (0.99, 0.992)
    assert failures({3: 0.10, 8: 0.99, 5: 0.101, 1: 0.102, 9: 0.98}).better == (8, 9)  # most did not learn


def test_diverged_runs_have_failed():
    found = failures(by_seed(FINE), diverged=[9, 7])
    assert (found.runs, found.failed) == (7, (7, 9))
    assert (found.low, found.high) == share(2, 7)
    assert failures(by_seed([0.9, 0.8])) is None
    assert failures(by_seed([0.9, 0.8]), diverged=[2]) is None


def test_what_differs_by_no_more_than_the_finest_difference_is_not_far():
    assert failures(by_seed([1.0, 1.0, 1.0, 1.0, 0.99])).failed == (4,)
    assert failures(by_seed([1.0, 1.0, 1.0, 1.0, 0.99]), finest=0.005).failed == ()
    assert failures(by_seed([1.0, 1.0, 1.0, 1.0, 0.5]), finest=0.005).failed == (4,)


@pytest.mark.parametrize("n", [3, 5, 6, 10])
def test_one_model_in_a_hundred_has_a_far_run_by_chance(n):
    draws = np.random.default_rng(100 + n).normal(2, 3, (50_000, n))
    smallest, largest = majority(draws).T
    ratio = np.maximum(smallest - draws.min(1), draws.max(1) - largest) / (largest - smallest)
    assert np.mean(ratio > limit(n)) == pytest.approx(0.01, abs=0.002)
    some = np.flatnonzero(ratio > limit(n))[:20]
    assert all(found.failed or found.better for found in map(failures, map(by_seed, draws[some])))


def test_most_failures_are_noticed_with_five_runs():
    random = np.random.default_rng(0)
    rows = 0.02 * random.normal(size=(100, 5))
    rows[:, 2] -= 1
    assert np.mean([failures(by_seed(row)).failed == (2,) for row in rows]) > 0.85


def test_the_share_is_clopper_and_pearsons():
    for count, of in ((0, 5), (1, 5), (3, 7), (10, 10)):
        theirs = scipy_stats.binomtest(count, of).proportion_ci(0.95, "exact")
        assert share(count, of) == pytest.approx((theirs.low, theirs.high))
