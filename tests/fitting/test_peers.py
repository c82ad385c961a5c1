"""Simple methods beside a network: ridge regression, the nearest neighbour, ROCKET; and a gap that is no chance."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score
from sklearn.neighbors import NearestNeighbors

from gatelab import tasks
from gatelab.analysis.predictions import Predictions
from gatelab.estimators import ridge
from gatelab.fitting import gap, peers
from gatelab.fitting.comparison import MAJORITY, MethodComparison, compare

RANDOM = np.random.RandomState(0)
X = RANDOM.normal(size=(40, 12, 2))
Y = np.arange(40) % 3
SPLIT = np.repeat(["train", "test"], [30, 10])


@pytest.mark.parametrize("shape", [(30, 5), (15, 40)])
def test_ridge_regression_has_the_penalty_with_the_least_leave_one_out_error(shape):
    features = RANDOM.normal(size=shape) * RANDOM.uniform(0.1, 9, shape[1]) + 3
    features[:, 1] = 7  # says nothing
    targets = features[:, 2:4] @ RANDOM.normal(size=(2, 2)) + 2 * RANDOM.normal(size=(shape[0], 2)) - 5
    fitted = ridge.fit(features, targets)
    scaled = (features - features.mean(0)) / np.where(features.std(0) > 0, features.std(0), 1)
    theirs = Ridge(alpha=fitted.penalty).fit(scaled, targets)
    np.testing.assert_allclose(fitted.predict(features), theirs.predict(scaled), atol=1e-8)
    assert fitted.penalty == min(ridge.PENALTIES, key=lambda penalty: left_out(scaled, targets, penalty))


def left_out(features: np.ndarray, targets: np.ndarray, penalty: float) -> float:
    """The error at rows that were left out, each by a fit without it."""
    rows = np.arange(len(features))
    errors = [
        Ridge(alpha=penalty).fit(features[rows != i], targets[rows != i]).predict(features[i : i + 1]) - targets[i]
        for i in rows
    ]
    return float(np.square(errors).mean())


@pytest.mark.parametrize("seed", range(6))
def test_the_penalty_for_a_few_rows_takes_the_mean_of_the_others_into_account(seed):
    random = np.random.RandomState(seed)
    features = random.normal(size=(8, 3))
    targets = features[:, :1] + 2 * random.normal(size=(8, 2)) - 5
    scaled = (features - features.mean(0)) / features.std(0)
    expected = min(ridge.PENALTIES, key=lambda penalty: left_out(scaled, targets, penalty))
    assert ridge.fit(features, targets).penalty == expected


def test_the_nearest_neighbour_is_scikit_learns(monkeypatch):
    monkeypatch.setattr(peers, "AT_ONCE", 100)
    train, test = X[:30].reshape(30, -1), X[30:].reshape(10, -1)
    expected = NearestNeighbors(n_neighbors=1).fit(train).kneighbors(test)[1][:, 0]
    np.testing.assert_array_equal(peers._nearest(train, test), expected)


def test_kernels_are_convolutions(monkeypatch):
    """Their outputs as loops over steps compute them; some pad, some are dilated, some leave a channel out."""
    kernels = peers._Kernels(12, 2, 60)
    x = X[:3].astype(np.float32)
    found = kernels.features(x)
    expected = []
    for dilation, padding, weights, biases in kernels.groups:
        length = len(weights)
        steps = range(-padding, 12 + padding - (length - 1) * dilation)
        outputs = np.array([[biases + sum(
            x[n, t + i * dilation] @ weights[i] for i in range(length) if 0 <= t + i * dilation < 12
        ) for t in steps] for n in range(3)])  # fmt: skip
        expected += [outputs.max(1), (outputs > 0).mean(1)]
    np.testing.assert_allclose(found, np.concatenate(expected, 1), atol=1e-5)
    assert {group[0] for group in kernels.groups} == {1}  # 12 steps leave no room for dilation
    assert {group[1] > 0 for group in kernels.groups} == {True, False}
    assert {dilation for dilation, *_ in peers._Kernels(40, 1, 60).groups} == {1, 2, 4}
    weights = np.concatenate([group[2].transpose(2, 1, 0) for group in kernels.groups if len(group[2]) == 7])
    reads = (weights != 0).any(2)
    assert set(reads.sum(1).tolist()) == {1, 2}
    np.testing.assert_allclose(weights.sum(2), 0, atol=1e-5)
    monkeypatch.setattr(peers, "AT_ONCE", 100)
    np.testing.assert_allclose(kernels.features(x), found, atol=1e-5)
    assert peers._Kernels(3, 1, 5).features(x[:, :3, :1]).shape == (3, 10)


def test_sequences_of_unequal_length_are_resampled():
    ends = 6 + np.arange(40) % 7
    listed = [one[:end] for one, end in zip(X, ends, strict=True)]
    task = tasks.from_arrays(listed, Y, split=SPLIT)
    steps = int(np.median(ends[:30]))
    assert peers.common_length(task) == steps
    found = peers._resampled(task, task.test, steps)
    for index, one in enumerate(found):
        scaled = task.scaling.apply(listed[task.indices[2][index]])
        expected = [np.interp(np.linspace(0, len(scaled) - 1, steps), np.arange(len(scaled)), c) for c in scaled.T]
        np.testing.assert_allclose(one.T, expected, atol=1e-5)
    words = [[f"w{i % 3}", "end", f"w{i % 2}"][: 2 + i % 2] for i in range(40)]
    tokens = tasks.from_arrays(words, Y, split=SPLIT, tokens=True)
    one_hot = peers._resampled(tokens, tokens.test, 2)
    assert one_hot.sum(2).tolist() == [[1, 1]] * 10
    assert [tokens.vocabulary[i] for i in one_hot[0].argmax(1)] == [words[30][0], words[30][-1]]


@pytest.mark.parametrize("targets", [Y, Y * 2.0 + X[:, 3, 0]], ids=["classes", "numbers"])
def test_every_method_learns_what_is_easy(targets):
    bumps = X + 8 * np.eye(12)[3 * Y + 2][..., None]
    task = tasks.from_arrays(bumps, targets, split=SPLIT)
    true, found = task.test.targets.numpy(), dict(peers.predictions(task))
    linear = peers.LOGISTIC if task.classes is not None else peers.RIDGE
    assert list(found) == [linear, peers.NEAREST, peers.ROCKET]
    for name, predicted in found.items():
        assert predicted.shape == true.shape, name
        error = (predicted != true).mean() if true.ndim == 1 else np.square(predicted - true).mean() / true.var()
        assert error < (0.45 if name == peers.ROCKET else 0.25), name  # which hardly knows where something is
    assert peers.left_out(task) == ""


def test_methods_that_would_take_long_are_left_out(monkeypatch):
    task = tasks.from_arrays(X, Y, split=SPLIT)
    train, _, test = task.sizes
    monkeypatch.setattr(peers, "OUTPUTS", (train + test) * 12 * 2 * 150)
    assert "150 random convolutions" in peers.in_words(task)
    assert len(dict(peers.predictions(task))) == 3
    monkeypatch.setattr(peers, "FEATURES", (train + test) * 2 * 99)
    assert peers.left_out(task) == "the data is too large for small ROCKET to be quick"
    assert "ROCKET" not in peers.in_words(task)
    monkeypatch.setattr(peers, "MOST_PRODUCTS", train * test * 24 - 1)
    assert list(dict(peers.predictions(task))) == [peers.LOGISTIC]
    monkeypatch.setattr(peers, "MOST", (train + test) * 24 - 1)
    assert "logistic regression, nearest neighbour and small ROCKET" in peers.why_none(task)
    monkeypatch.undo()
    assert peers.why_none(tasks.from_arrays(X, np.zeros(40, int) + (SPLIT == "test"), split=SPLIT)) == (
        "the training set has one class"
    )
    assert peers.why_none(tasks.from_arrays(X, X[..., 0])).endswith("have no answer at every step")


def test_the_majority_class_is_that_of_the_training_set():
    task = tasks.from_arrays(X, np.where(SPLIT == "train", Y > 0, Y > 1).astype(int), split=SPLIT)
    true, ones = task.test.targets.numpy(), np.ones(10)
    ours = Predictions(true, true, ones > 0, ones, 0 * ones, None, 10)
    assert compare(task, ours).scores[MAJORITY] == true.mean() < 0.5


def test_the_spread_of_each_target_is_that_around_its_own_mean():
    """Of three targets of different levels; one is constant, of which nothing can be explained."""
    random = np.random.RandomState(1)
    true = random.normal(size=(20, 3)) * [1, 10, 0] + [0, 500, 7]
    predicted = true + random.normal(size=(20, 3))
    found = MethodComparison(true, {"network": predicted}, independent=True)
    np.testing.assert_allclose(found.r2("network"), r2_score(true, predicted, multioutput="raw_values"))
    assert found.scores["network"] == pytest.approx(r2_score(true, predicted))


# The gap between validation and test.


def test_the_interval_of_a_difference_is_newcombes():
    """The first example of Newcombe (1998), method 10."""
    assert gap.difference((56, 70), (48, 80), 0.95) == pytest.approx((0.0524, 0.3339), abs=5e-5)


def test_a_gap_is_reported_where_it_is_no_chance():
    low, _ = gap.difference((42, 45), (508, 700))
    assert low == pytest.approx(0.041, abs=5e-4)  # 93.3 and 72.6 %
    true = np.repeat([0, 1], 50)
    good, bad = np.where(np.arange(100) % 20, true, 1 - true), np.where(np.arange(100) % 3, true, 1 - true)
    found = gap.found((good, true), (bad, true))
    assert found is not None
    assert (found.validation, found.test, found.sequences) == (0.95, pytest.approx(0.66), 100)
    assert 0 < found.low < 0.29 < found.high
    assert gap.found((bad, true), (good, true)) is None
    few = slice(0, 100, 10)
    assert gap.found((good[few], true[few]), (bad[few], true[few])) is None  # of ten sequences it may be chance
    numbers, noise = RANDOM.normal(size=(2, 60, 2))
    worse = gap.found((numbers + 0.1 * noise, numbers), (numbers + noise, numbers))
    assert worse is not None
    assert worse.test == pytest.approx(10 * worse.validation)
    assert worse.low < worse.test - worse.validation < worse.high
    assert gap.found((numbers + noise, numbers), (numbers + 1.1 * noise, numbers)) is None
    assert gap.found((numbers[:1], numbers[:1]), (numbers, numbers)) is None


def test_the_interval_of_a_difference_of_errors_is_welchs():
    """A few sequences with much the same error, and many with errors of all sizes."""
    errors = [1 + 0.01 * RANDOM.normal(size=8), 4 + 3 * RANDOM.uniform(size=60)]
    found = gap.found(*((each[:, None], np.zeros((len(each), 1))) for each in errors))
    shares = [each.var(ddof=1) / len(each) for each in errors]
    freedom = sum(shares) ** 2 / sum(share**2 / (len(each) - 1) for share, each in zip(shares, errors, strict=True))
    width = t.ppf(0.995, freedom) * np.sqrt(sum(shares))
    middle = errors[1].mean() - errors[0].mean()
    assert (found.low, found.high) == pytest.approx((middle - width, middle + width))
