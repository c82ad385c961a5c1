"""Arrays in memory as a task: the same as from a file, kept with the task, and refused in words."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

import gatelab
from gatelab import tasks
from gatelab.errors import DataError
from gatelab.training import ModelSpec, RunSpec, TrainingSpec, train
from gatelab.training.identity import fingerprint

RANDOM = np.random.RandomState(0)
X = RANDOM.normal(size=(40, 7, 2))
Y = np.array(["up", "down"])[np.arange(40) % 2]


class Frame:
    """What data frames of any library have: columns, and a column by its name."""

    def __init__(self, **columns: list[float]) -> None:
        self.columns, self._values = list(columns), columns

    def __getitem__(self, name: str) -> np.ndarray:
        return np.array(self._values[name])


def same(a: tasks.Task, b: tasks.Task) -> bool:
    return all(
        torch.equal(x.stored, y.stored) and torch.equal(x.targets, y.targets)
        for x, y in zip(a.parts, b.parts, strict=True)
    )


def test_arrays_and_an_npz_are_the_same_task(tmp_path):
    lengths = RANDOM.randint(2, 8, 40)
    np.savez(tmp_path / "d.npz", X=X, y=Y, lengths=lengths)
    assert same(tasks.from_arrays(X, Y, lengths=lengths), tasks.get("files", path=tmp_path / "d.npz"))


@pytest.mark.parametrize("values", [X.tolist(), torch.tensor(X), list(X), tuple(map(torch.tensor, X))])
@pytest.mark.parametrize("labels", [Y.tolist(), Y.astype(object)])
def test_lists_and_tensors_are_arrays(values, labels):
    assert same(tasks.from_arrays(values, labels), tasks.from_arrays(X, Y))


def test_a_list_has_sequences_of_any_length():
    rows = [x[: 3 + i % 4] for i, x in enumerate(X)]
    task = tasks.from_arrays(rows, Y, columns=["u", "v"])
    assert task.content.ends.tolist() == [len(row) for row in rows]
    assert task.preparation.columns == ("u", "v")
    per_step = tasks.from_arrays(rows, [row.sum(1) for row in rows])
    assert (per_step.per_step, per_step.output_size) == (True, 1)
    for index, row in enumerate(rows):
        np.testing.assert_array_equal(per_step.content.targets[index, : len(row), 0], row.sum(1))


def test_data_frames_have_names():
    frames = [Frame(u=x[: 4 + i % 3, 0].tolist(), v=x[: 4 + i % 3, 1].tolist()) for i, x in enumerate(X)]
    task = tasks.from_arrays(frames, Y)
    assert task.preparation.columns == ("u", "v")
    series = tasks.from_arrays({"level": np.sin(np.arange(200)), "rain": np.cos(np.arange(200))}, length=10)
    assert (series.forecasts, series.preparation.columns) == (True, ("level", "rain"))


def test_without_y_a_series_is_forecast(tmp_path):
    values = np.sin(np.arange(300) / 4)
    (tmp_path / "d.csv").write_text("v\n" + "\n".join(map(repr, values.tolist())))
    task = tasks.from_arrays(values, length=12, columns=["v"])
    assert same(task, tasks.get("files", path=tmp_path / "d.csv", length=12))
    split = np.repeat(["train", "val", "test"], [200, 40, 60])
    assert tasks.from_arrays(values, length=12, split=split).sizes == (188, 28, 48)


def test_tokens_are_words_or_integers():
    words = [["a", "b"], ["b", "c", "a"], ["c"], ["a", "a"]] * 5
    task = tasks.from_arrays(words, np.arange(20) % 2, tokens=True)
    assert task.preparation.vocabulary == ("a", "b", "c")
    assert task.content.values[1].tolist() == [1, 2, 0]
    assert task.content.values[0].tolist() == [0, 1, 255]
    x = task.train.first(20).x
    assert set(x.unique().tolist()) == {0, 1, 2, 255}  # padding is no token
    numbers = tasks.from_arrays([[5, 900], [900, 7, 5]] * 6, np.arange(12) % 2, tokens=True)
    assert numbers.preparation.vocabulary == ("5", "7", "900")
    large = tasks.from_arrays(np.arange(1200).reshape(40, 30) % 300, np.arange(40) % 2, tokens=True)
    assert (large.train.stored.dtype, large.input_size) == (torch.int32, 300)


def test_equal_arrays_are_equal_tasks_and_options_keep_them():
    one, same_one, other = tasks.from_arrays(X, Y), tasks.from_arrays(X.copy(), Y.tolist()), tasks.from_arrays(X + 1, Y)
    assert one == same_one
    assert hash(one) == hash(same_one)
    assert one != other
    assert tasks.from_arrays(X.reshape(40, 14), Y) != tasks.from_arrays(X.reshape(40, 14, 1), Y) != one
    assert one.with_options(seed=3).sizes == one.sizes
    assert json.dumps(one.model_dump(mode="json"))
    forgotten = tasks.find("arrays").make(one.options())
    assert (forgotten == one, forgotten.is_here()) == (True, False)
    with pytest.raises(DataError, match=r"passed as arrays, which are not stored: pass them again"):
        forgotten.load()


def test_they_can_be_trained_on_and_predicted(tmp_path):
    task = tasks.from_arrays([[3, 9], [9, 9, 4], [4, 3]] * 12, ["p", "q", "p"] * 12, tokens=True)
    model = ModelSpec(hidden_size=4, engine="eager")
    run = train(RunSpec(task=task, model=model, training=TrainingSpec(num_epochs=1, threads=1)), tmp_path / "run").run
    loaded = gatelab.load(run.path)
    test = task.indices[2]
    rows = [([3, 9], [9, 9, 4], [4, 3])[i % 3] for i in test]
    expected = np.array(task.classes)[run.predictions()["predictions"].argmax(1)]
    assert (loaded.predict(rows) == expected).all()
    with pytest.raises(ValueError, match=r"X has \[5\]: expected the integers of training, 3, 4, 9"):
        loaded.predict([[3, 5]])


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((X, Y[:-1]), {}, "expected a target for each of the 40 sequences"),
        (("abc", Y), {}, "X is 'abc': expected an array or a list of sequences, or of the steps of a series"),
        ((None,), {}, "X is None: expected an array or a list of sequences"),
        ((X,), {}, r"X is float64 of shape \(40, 7, 2\) without y: expected a series to forecast"),
        ((np.arange(9.0),), {}, "X has 9 steps: expected at least"),
        ((np.arange(400.0),), {"groups": np.arange(400)}, "groups are for sequences with targets"),
        ((np.arange(400.0),), {"columns": ["a", "b"]}, "2 names of columns: expected 1"),
        ((np.where(np.arange(400) == 7, np.nan, 1.0),), {}, r"X\[7, 0\] is nan: fill=interpolate or fill=previous"),
        (([*X[1:], X[0, :3]], Y), {"lengths": np.full(40, 7)}, "which have their own lengths: leave them out"),
        (([X[0], X[1][:, :1], X[2]], Y[:3]), {}, r"sequence 1 of X has the shape \(7, 1\)"),
        (([[1.0], ["a"], [2.0]], Y[:3]), {}, "sequences of text and of numbers"),
        (([Frame(a=[1.0]), Frame(b=[1.0])], Y[:2]), {}, "data frames with the columns b and a"),
        (({"a": ["x", "y"]},), {}, "the column 'a' of X is not numeric"),
        ((X, np.array([1, "a", None] * 13 + [1], object)), {}, "y has objects of different kinds"),
        ((X, Y), {"columns": ["a"]}, "1 names of columns: expected 2"),
        ((X, Y), {"split": ["test"] * 40}, "its split has no training examples"),
        ((X, Y), {"weights": np.ones(39)}, r"weights are float64 of shape \(39,\): expected numbers of shape \(40,\)"),
        ((X, Y), {"weights": [-1.0] * 40}, "weights are from -1 to -1: expected finite numbers from 0 up"),
        ((X, Y), {"weights": np.zeros(40)}, "all weights of the training or validation set are zero"),
        ((np.arange(400.0),), {"weights": np.ones(400)}, "weights are for sequences with targets"),
        ((X, Y), {"split": ["train", "tset"] * 20}, "sequence 1: the split is 'tset': expected train, validation"),
        ((X, Y), {"groups": np.zeros(40, int)}, "has 1 groups: expected at least three"),
        ((X, Y), {"groups": np.zeros(40)}, r"groups is float64 of shape \(40,\): expected text or integers"),
        ((X, Y), {"tokens": True}, r"expected tokens \(N, T\), integers or text"),
        ((X, Y), {"classify": False}, "classify=false, but the targets are text"),
        ((X, np.arange(40) + 0.5), {"classify": True}, "expected text or whole numbers"),
    ],
)
def test_invalid_arrays_are_refused(arguments, options, message):
    with pytest.raises(DataError, match=message):
        tasks.from_arrays(*arguments, **options).load()


def test_the_description_and_the_figure_need_no_file():
    text = str(tasks.from_arrays(X, Y, groups=np.arange(40) // 4).describe())
    assert "arrays in memory" in text
    assert "whole groups stay together" in text
    assert tasks.from_arrays(X, Y).picture().axes


def test_a_comparison_does_not_take_arrays(tmp_path, here):
    from gatelab.experiments.bench import bench
    from gatelab.experiments.config import parse

    spec = parse({"task": "digits", "models": {"gru": {}}, "runs": 1}, "here")
    with pytest.raises(ValueError, match=r"processes of its own, .*np\.savez\('data\.npz', X=X, y=y\)"):
        bench(spec.model_copy(update={"task": tasks.from_arrays(X, Y)}), tmp_path / "bench", here)


def test_all_sequences_may_be_for_training():
    assert tasks.from_arrays(X, Y, split=["train"] * 40).sizes == (40, 0, 0)
    assert tasks.from_arrays(X, Y, split=["train"] * 30 + ["val"] * 10).sizes == (30, 10, 0)
    assert tasks.from_arrays(X[:1], [0.5], split=["train"]).sizes == (1, 0, 0)
    assert tasks.from_arrays(X, Y, split=["train"] * 30 + ["test"] * 10).sizes == (26, 4, 10)


def test_weights_belong_to_the_sequences_of_training_and_validation():
    weights = np.arange(40) + 1.0
    split = np.repeat(["train", "validation", "test"], [20, 10, 10])
    task = tasks.from_arrays(X, Y, split=split, weights=weights)
    np.testing.assert_allclose(task.train.weights, weights[:20] / weights[:20].mean(), rtol=1e-6)
    np.testing.assert_allclose(task.validation.weights, weights[20:30] / weights[20:30].mean(), rtol=1e-6)
    assert task.test.weights is None
    assert task != tasks.from_arrays(X, Y, split=split)
    np.testing.assert_allclose(
        task.scaling.mean, np.average(X[:20].reshape(-1, 2), 0, np.repeat(weights[:20], 7)), rtol=1e-12
    )
    repeated = np.repeat(np.arange(40), (weights % 3).astype(int) + 1)
    one, other = tasks.from_arrays(X, Y, split=["train"] * 40, weights=weights % 3 + 1), X[repeated].reshape(-1, 2)
    np.testing.assert_allclose(one.scaling.deviation, other.std(0), rtol=1e-12)


def test_values_of_a_sequence_may_be_as_many_as_its_steps():
    y = RANDOM.normal(size=(40, 7))
    per_step, per_sequence = tasks.from_arrays(X, y), tasks.from_arrays(X, y, per_sequence=True)
    assert (per_step.per_step, per_step.output_size) == (True, 1)
    assert (per_sequence.per_step, per_sequence.output_size) == (False, 7)
    np.testing.assert_array_equal(per_sequence.content.targets, y)


def test_the_mean_that_a_model_has_to_beat_is_that_of_the_weighted_examples():
    values, split = np.linspace(0, 1, 30), np.repeat(["train", "validation", "test"], 10)
    weights = np.where(np.arange(30) < 5, 9.0, 1.0)
    task = tasks.from_arrays(np.zeros((30, 4)) + values[:, None], values, split=split, weights=weights)
    scaling, known = task.target_scaling, np.average(values[:10], weights=weights[:10])
    expected = np.square((values[20:] - known) / scaling.deviation).mean()
    assert task.baseline().value == pytest.approx(expected, rel=1e-5)


def test_weights_are_a_part_of_what_data_is():
    X, y = np.arange(120.0).reshape(30, 4), np.arange(30) % 2
    given = [tasks.from_arrays(X, y, weights=weights) for weights in (None, np.ones(30), 1.0 + np.arange(30) % 3)]
    assert len({fingerprint(task) for task in given}) == 3
