"""Losses and metrics by hand and against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn import metrics as sklearn_metrics
from torch.nn.functional import cross_entropy

from gatelab import tasks
from gatelab.tasks import Batch
from gatelab.training.objective import Objective, Tally, macro_metrics
from gatelab.training.spec import RunSpec, TrainingSpec


def tally_in_batches(objective: Objective, prediction, batch: Batch, sizes: list[int]) -> dict[str, float]:
    tally, begin = Tally(objective), 0
    for size in sizes:
        part = slice(begin, begin + size)
        piece = Batch(batch.x[part], batch.y[part], None if batch.lengths is None else batch.lengths[part])
        tally.add(prediction[part], piece, objective.loss(prediction[part], piece).item())
        begin += size
    assert begin == len(batch.y)
    return tally.metrics()


def test_one_class_a_sequence():
    task = tasks.get("digits")
    objective, batch, prediction = Objective(task, TrainingSpec()), task.test.first(50), torch.randn(50, 10)
    found = tally_in_batches(objective, prediction, batch, [20, 20, 10])
    assert found["loss"] == pytest.approx(float(cross_entropy(prediction, batch.y)), rel=1e-6)
    assert found["accuracy"] == sklearn_metrics.accuracy_score(batch.y, prediction.argmax(1))
    assert objective.score(found) == found["accuracy"]


@pytest.mark.parametrize(("predicted", "true"), [(10, 10), (4, 10), (10, 3), (2, 2), (1, 1)])
def test_macro_metrics_are_scikit_learns(predicted, true):
    """Also where classes occur in the predictions alone, in the targets alone, or nowhere."""
    targets, prediction = torch.randint(0, true, (40,)), torch.randn(40, 10)
    prediction[:, predicted:] = -9
    labels = prediction.argmax(1)
    metrics = sklearn_metrics.precision_recall_fscore_support(targets, labels, average="macro", zero_division=0)
    macro = macro_metrics(tasks.get("digits"), prediction, targets, None)
    assert macro == dict(zip(("precision", "recall", "f1"), metrics, strict=False))


def test_labels_are_smoothed_in_training_alone():
    task = tasks.get("digits")
    objective, batch = Objective(task, TrainingSpec(label_smoothing=0.2)), task.test.first(50)
    prediction, weights = torch.randn(50, 10), torch.arange(50) % 4 + 1.0
    smoothed = 0.8 * torch.eye(10)[batch.y] + 0.2 / 10
    losses = -(smoothed * prediction.log_softmax(1)).sum(1)
    assert float(objective.training_loss(prediction, batch)) == pytest.approx(float(losses.mean()), rel=1e-6)
    expected = float((weights * losses).mean())
    assert float(objective.training_loss(prediction, batch, weights)) == pytest.approx(expected, rel=1e-6)
    assert float(objective.loss(prediction, batch)) == pytest.approx(float(cross_entropy(prediction, batch.y)))


def test_numbers_have_no_labels_to_smooth():
    with pytest.raises(ValueError, match=r"label_smoothing.*numbers, which have no labels to smooth: leave it out"):
        RunSpec(task="sine", training=TrainingSpec(label_smoothing=0.1))


def test_copy_counts_all_steps_in_the_loss_and_the_last_in_accuracy():
    task = tasks.get("copy", length=3, pause=4, size=50)
    objective, batch = Objective(task, TrainingSpec()), task.test.first(10)
    prediction = torch.randn(10, 10, 9)
    found = tally_in_batches(objective, prediction, batch, [4, 6])
    expected = np.mean([-prediction[i, t].log_softmax(0)[batch.y[i, t]].item() for i in range(10) for t in range(10)])
    assert found["loss"] == pytest.approx(expected, rel=1e-5)
    hits = [int(prediction[i, t].argmax()) == int(batch.y[i, t]) for i in range(10) for t in (7, 8, 9)]
    assert found["accuracy"] == np.mean(hits)


def ragged(tmp_path, y) -> tasks.Task:
    np.savez(tmp_path / "d.npz", X=np.random.RandomState(0).normal(size=(20, 5, 2)), y=y, lengths=np.arange(20) % 5 + 1)
    return tasks.get("files", path=tmp_path / "d.npz")


def test_what_lies_beyond_the_end_does_not_count(tmp_path):
    labels = ragged(tmp_path, np.random.RandomState(0).randint(0, 3, (20, 5)))
    batch, prediction = labels.train.first(14), torch.randn(14, 5, 3)
    found = tally_in_batches(Objective(labels, TrainingSpec()), prediction, batch, [3, 11])
    each = [(i, t) for i in range(14) for t in range(int(batch.lengths[i]))]
    expected = np.mean([-prediction[i, t].log_softmax(0)[batch.y[i, t]].item() for i, t in each])
    assert found["loss"] == pytest.approx(expected, rel=1e-5)
    assert found["accuracy"] == np.mean([int(prediction[i, t].argmax()) == int(batch.y[i, t]) for i, t in each])


@pytest.mark.parametrize("loss", ["mse", "mae"])
def test_numbers(tmp_path, loss):
    values = ragged(tmp_path, np.random.RandomState(0).normal(size=(20, 5, 2)))
    batch, prediction = values.train.first(14), torch.randn(14, 5, 2)
    objective = Objective(values, TrainingSpec(loss=loss))
    found = tally_in_batches(objective, prediction, batch, [3, 11])
    errors = np.array([
        (prediction[i, t] - batch.y[i, t]).numpy() for i in range(14) for t in range(int(batch.lengths[i]))
    ])  # fmt: skip
    assert found["mse"] == pytest.approx((errors**2).mean(), rel=1e-5)
    assert found["mae"] == pytest.approx(np.abs(errors).mean(), rel=1e-5)
    assert found["loss"] == pytest.approx(found[loss], rel=1e-5)
    assert objective.score(found) == -found["loss"]
    assert macro_metrics(values, prediction, batch.y, batch.lengths) == {}


def weighted(y, **options) -> tasks.Task:
    """All for training; sequences weigh 1 to 4, which are scaled to a mean of 1."""
    X, random = np.random.RandomState(0).normal(size=(20, 5, 2)), np.arange(20) % 4 + 1
    return tasks.from_arrays(X, y, split=["train"] * 20, weights=random, **options)


def weighted_metrics(task: tasks.Task, prediction, loss: str = "auto") -> dict[str, float]:
    """In two batches, whose weights do not have a mean of 1."""
    objective = Objective(task, TrainingSpec(loss=loss))
    tally = Tally(objective)
    for index in (torch.arange(7), torch.arange(7, 20)):
        batch, weights = task.train.batch(index), task.train.weights_of(index)
        tally.add(prediction[index], batch, objective.loss(prediction[index], batch, weights).item(), weights)
    return tally.metrics()


def test_sequences_count_by_their_weights():
    y, random = np.arange(20) % 3, torch.Generator().manual_seed(0)
    task, prediction = weighted(y), torch.randn(20, 3, generator=random)
    weights = np.arange(20) % 4 + 1
    found = weighted_metrics(task, prediction)
    proba = prediction.double().softmax(1).numpy()
    assert found["loss"] == pytest.approx(sklearn_metrics.log_loss(y, proba, sample_weight=weights), rel=1e-5)
    accuracy = sklearn_metrics.accuracy_score(y, prediction.argmax(1), sample_weight=weights)
    assert found["accuracy"] == pytest.approx(accuracy, rel=1e-6)
    assert task.baseline().rule.endswith(f"{np.bincount(y, weights).argmax()!s}'")


@pytest.mark.parametrize("loss", ["mse", "mae"])
def test_numbers_count_by_the_weights_of_their_sequences(loss):
    values, weights = np.random.RandomState(1).normal(size=(20, 2)), np.arange(20) % 4 + 1
    task, prediction = weighted(values), torch.randn(20, 2, generator=torch.Generator().manual_seed(0))
    np.testing.assert_allclose(task.target_scaling.mean, np.average(values, 0, weights))
    targets = task.train.targets.numpy()
    np.testing.assert_allclose(np.average(targets, 0, weights), 0, atol=1e-6)
    np.testing.assert_allclose(np.average(targets**2, 0, weights), 1, rtol=1e-5)
    found = weighted_metrics(task, prediction, loss)
    expected = sklearn_metrics.mean_squared_error(targets, prediction, sample_weight=weights)
    assert found["mse"] == pytest.approx(expected, rel=1e-5)
    expected = sklearn_metrics.mean_absolute_error(targets, prediction, sample_weight=weights)
    assert found["mae"] == pytest.approx(expected, rel=1e-5)
    assert found["loss"] == pytest.approx(found[loss], rel=1e-5)


def test_steps_have_the_weights_of_their_sequences():
    labels, lengths = np.random.RandomState(0).randint(0, 3, (20, 5)), np.arange(20) % 5 + 1
    task, prediction = weighted(labels, lengths=lengths), torch.randn(20, 5, 3)
    each = [(i, t) for i in range(20) for t in range(lengths[i])]
    weights = [i % 4 + 1 for i, _ in each]
    losses = [-prediction[i, t].log_softmax(0)[labels[i, t]].item() for i, t in each]
    found = weighted_metrics(task, prediction)
    assert found["loss"] == pytest.approx(np.average(losses, weights=weights), rel=1e-5)
    hits = [int(prediction[i, t].argmax()) == labels[i, t] for i, t in each]
    assert found["accuracy"] == pytest.approx(np.average(hits, weights=weights), rel=1e-6)
    steps = np.array([task.content.values[i, t] for i, t in each])
    np.testing.assert_allclose(task.scaling.mean, np.average(steps, 0, weights))
