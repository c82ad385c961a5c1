"""Synthetic tasks, checked against an independent construction: errors would be silent."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from gatelab import tasks
from gatelab.tasks import agreement, mnist1d, series
from gatelab.tasks.scaling import Scaling


def test_the_target_of_adding_is_the_sum_of_the_marked_numbers():
    task = tasks.get("adding", length=21, size=500)
    x, y, _ = task.train.first(500)
    for numbers, target in zip(x, y, strict=True):
        marked = numbers[:, 1].nonzero().flatten().tolist()
        assert len(marked) == 2
        assert marked[0] < 10 <= marked[1]
        assert float(target) == pytest.approx(float(numbers[marked[0], 0]) + float(numbers[marked[1], 0]), abs=1e-6)
    marked_steps = {int(step) for row in x for step in row[:, 1].nonzero().flatten()}
    assert marked_steps == set(range(21))  # every step can be marked
    # The sum of two uniform numbers has variance 1/6, the MSE of predicting its mean.
    assert tasks.get("adding").baseline().value == pytest.approx(1 / 6, rel=0.05)


def test_copy_has_blanks_cue_and_targets_at_the_right_steps():
    task = tasks.get("copy", symbols=5, length=4, pause=7, size=100)
    x, y, _ = task.train.first(100)
    tokens = x
    assert tokens.shape == (100, 15)
    assert task.vocabulary == ("·", "a", "b", "c", "d", "e", "?")
    for row, target in zip(tokens, y, strict=True):
        symbols = row[:4]
        assert ((symbols >= 1) & (symbols <= 5)).all()
        assert (row[4:10] == 0).all()
        assert row[10] == 6
        assert (row[11:] == 0).all()
        assert (target[:11] == 0).all()
        assert torch.equal(target[11:], symbols)
    assert len(range(15)[task.scored_steps]) == 4
    assert tasks.get("copy").baseline().value == pytest.approx(1 / 8, abs=0.01)


def test_recall_shows_the_target_once_at_the_first_step():
    task = tasks.get("recall", symbols=3, distractors=4, delay=6, size=60)
    tokens, y = task.train.first(60).x, task.train.targets
    assert torch.equal(tokens[:, 0], y)
    assert ((tokens[:, 1:-1] >= 3) & (tokens[:, 1:-1] < 7)).all()
    assert (tokens[:, -1] == 7).all()
    assert set(y.tolist()) == {0, 1, 2}


def test_too_few_distinct_sequences_are_an_error():
    with pytest.raises(ValueError, match="recall has too few distinct sequences with these options: expected 140"):
        tasks.get("recall", delay=0, symbols=2, size=100).load()


def test_only_the_subject_determines_the_target_of_agreement():
    task = tasks.get("agreement", size=4000)
    number_of = {**dict.fromkeys(agreement.SINGULAR, 0), **dict.fromkeys(agreement.PLURAL, 1)}
    bags = np.zeros((4000, task.input_size))
    for i, (row, target, length) in enumerate(
        zip(task.train.stored, task.train.targets, task.train.lengths, strict=True)
    ):
        words = task.words(row, int(length))
        assert words[0] == "the"
        assert number_of[words[1]] == int(target)
        assert 4 <= len(words) - 2 <= 12
        assert_grammatical(words[2:])
        for word in words[2:]:
            bags[i, task.vocabulary.index(word)] += 1
    labels = task.train.targets.numpy()
    fit = LogisticRegression(max_iter=500).fit(bags[:3000], labels[:3000])
    assert abs(fit.score(bags[3000:], labels[3000:]) - 0.5) < 0.05  # the gap reveals nothing
    assert abs(labels.mean() - 0.5) < 0.03


def assert_grammatical(words: list[str]) -> None:
    """Parse the filler, independently of the generator."""
    nouns = set(agreement.SINGULAR + agreement.PLURAL)
    if words[:1] == ["that"]:
        if words[1] in agreement.SAW:
            assert words[2] == "the"
            assert words[3] in nouns
            words = words[4:]
        else:
            assert words[1] in agreement.SLEPT
            words = words[2:]
    while words:
        if words[0] in agreement.ADVERBS:
            words = words[1:]
        else:
            assert words[0] == "in" or words[0] in agreement.NEAR
            assert words[1] == "the"
            assert words[2] in (agreement.PLACES if words[0] == "in" else nouns)
            words = words[3:]


def test_all_parts_of_agreement_have_the_same_distribution():
    """Short sentences run out early; the test set must not be left with long ones."""
    task = tasks.get("agreement", gap=6, size=10_000)
    train, test = (torch.bincount(part.lengths, minlength=9) / len(part) for part in (task.train, task.test))
    assert float((train - test).abs().max()) < 0.04
    x, _, lengths = task.train.first(50)
    assert all((row[end:] >= task.input_size).all() for row, end in zip(x, lengths, strict=True))  # padding


@pytest.mark.parametrize("gap", range(8))
def test_every_gap_has_exactly_its_words(gap):
    random = np.random.RandomState(0)
    for _ in range(50):
        words = agreement._filler(gap, random)
        assert len(words) == gap
        assert_grammatical(words)


def test_the_vocabulary_names_each_word_once():
    words = tasks.get("agreement").vocabulary
    assert len(set(words)) == len(words)
    with pytest.raises(ValueError, match="shortest_gap is 5 and gap is 3"):
        tasks.get("agreement", gap=3, shortest_gap=5)


def test_the_target_of_sine_is_the_next_value_and_the_split_is_chronological():
    task = tasks.get("sine", length=10, duration=300, noise=0.0, period=20)
    assert task.sizes == (200, 35, 35)
    x, y, _ = task.train.first(200)
    assert torch.equal(x[:, 1:], y[:, :-1])
    wave = torch.cat([x[:, 0], x[-1, 1:]]).flatten().double()
    # A sine obeys s[t+1] + s[t-1] = 2 cos(ω) s[t], whatever its phase; the scaling only shifts and stretches it.
    inner = wave - wave[:200].mean()  # ten whole periods
    torch.testing.assert_close(inner[2:] + inner[:-2], 2 * np.cos(2 * np.pi / 20) * inner[1:-1], atol=1e-4, rtol=0)
    with pytest.raises(ValueError, match=r"duration is 300: expected at least 6\d\d for windows of 100 steps"):
        tasks.get("sine", length=100, duration=300)
    with pytest.raises(ValueError, match="noise is inf"):
        tasks.get("sine", noise=float("inf"))


@pytest.mark.parametrize("length", [1, 2, 7, 50])
def test_the_least_number_of_steps_is_the_least(length):
    least = series.least_steps(length)
    assert min(series.window_counts(least, length)) == 1
    assert min(series.window_counts(least - 1, length)) < 1


def test_the_persistence_baseline_repeats_the_current_value():
    task = tasks.get("sine", length=10, duration=300)
    x, y, _ = task.test.first(1000)
    assert task.baseline().value == pytest.approx(float((x - y).square().mean()), rel=1e-5)


def test_scaling_holds_for_huge_and_tiny_and_constant_columns():
    values = np.stack(
        [1e308 * np.linspace(-1, 1, 50), 1e-300 * np.arange(1, 51), np.full(50, 7.0), 1e9 + np.arange(50)], -1
    )
    scaling = Scaling.of(values)
    scaled = scaling.apply(values)
    assert np.isfinite(scaled).all()
    assert scaled[:, [0, 1, 3]].std(0) == pytest.approx(1, rel=1e-5)
    assert (scaled[:, 2] == 0).all()
    np.testing.assert_allclose(scaling.undo(scaled.astype(np.float64)), values, rtol=1e-5)


def test_mnist1d_follows_the_paper():
    shapes = mnist1d.shapes()
    assert shapes.shape == (10, 12)
    assert (shapes[:, 0] == 0).all()
    np.testing.assert_allclose(shapes.std(1), 1 / 6)

    # A shape without randomness: no noise, padded by 48 and not shifted.
    class Middle:
        def randint(self, low, high=None):
            return 48 if high else 0

        def uniform(self):
            return 0.5

        def standard_normal(self, count):
            return np.zeros(count)

    line = mnist1d.signal(shapes[3], Middle())
    grid = np.linspace(0, 59, 72)
    canvas = np.interp(grid, np.arange(60), np.concatenate([shapes[3], np.zeros(48)]))
    np.testing.assert_allclose(line, np.interp(np.linspace(0, 71, 40), np.arange(72), canvas), atol=1e-7)
    task = tasks.get("mnist1d")
    assert torch.bincount(task.train.targets).tolist() == [340] * 10
    assert torch.bincount(task.test.targets).tolist() == [100] * 10


def test_mnist1d_is_as_hard_as_published():
    """A linear model gets about a third right, as in the paper (32 %); a slip in the noise or the shift would show."""
    task = tasks.get("mnist1d")
    (x, y, _), (x_test, y_test, _) = task.train.first(4000), task.test.first(1000)
    fit = LogisticRegression(max_iter=300).fit(x[..., 0].numpy(), y.numpy())
    assert 0.25 < fit.score(x_test[..., 0].numpy(), y_test.numpy()) < 0.42


def test_mnist1d_agrees_with_the_published_generator():
    published = pytest.importorskip("mnist1d", reason="the package mnist1d is not installed")
    templates = published.data.get_templates()
    np.testing.assert_allclose(mnist1d.shapes(), templates["x"])
    arguments = published.data.get_dataset_args()
    theirs = published.data.make_dataset(arguments)
    ours = tasks.get("mnist1d")
    x = torch.cat([ours.train.first(9999).x, ours.validation.first(9999).x])[..., 0].numpy()
    y = torch.cat([ours.train.targets, ours.validation.targets]).numpy()
    for label, quantile in itertools.product(range(10), (10, 50, 90)):
        a, b = (np.percentile(v, quantile, axis=0) for v in (x[y == label], theirs["x"][theirs["y"] == label]))
        assert np.abs(a - b).mean() < 0.25
