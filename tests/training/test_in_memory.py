"""Training without a directory: the same as a run, and written as one when asked."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from stopping import StopAfter

import gatelab
from gatelab.errors import GatelabError
from gatelab.training import ModelSpec, OptimizationSpec, Run, RunSpec, Trained, TrainingSpec, train, train_in_memory
from gatelab.training.verify import verify


def spec(task="digits:limit=200", model=None, **training) -> RunSpec:
    return RunSpec(
        task=task,
        model=ModelSpec(**{"hidden_size": 8, **(model or {})}),
        training=TrainingSpec(**{"num_epochs": 3, "batch_size": 32, "threads": 1, **training}),
    )


def assert_same_weights(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> None:
    assert first.keys() == second.keys()
    for name, value in first.items():
        assert torch.equal(value, second[name]), name


@pytest.mark.parametrize(
    ("task", "settings"),
    [
        ("digits:limit=200", {}),
        ("digits:limit=200", {"keep": "last", "patience": 1}),
        ("sine:length=12", {"bptt": 40, "batch_size": 4}),
        ("recall", {"num_epochs": 1, "test": False}),
    ],
)
def test_it_is_the_run_bit_for_bit(tmp_path, task, settings):
    here = spec(task, **settings)
    trained = train_in_memory(here)
    run = train(here, tmp_path / "run").run
    assert_same_weights(trained.weights, run.model().state_dict())
    assert_same_weights(trained.model().state_dict(), trained.weights)
    facts, record = trained.record, run.manifest()
    assert (facts.status, facts.test, facts.best_epoch) == (record.status, record.test, record.best_epoch)
    trained.write(tmp_path / "written")
    written = Run(tmp_path / "written")
    assert [finding for finding in verify(written) if not finding.good] == []
    assert written.manifest() == facts
    if record.test:
        np.testing.assert_array_equal(written.predictions()["predictions"], run.predictions()["predictions"])
    assert_same_weights(gatelab.load(written.path).module.state_dict(), trained.weights)


def test_what_is_read_and_what_is_unpickled_is_what_was_trained(tmp_path):
    trained = train_in_memory(spec())
    trained.write(tmp_path / "run")
    for other in (Trained.read(tmp_path / "run"), pickle.loads(pickle.dumps(trained))):
        assert_same_weights(other.weights, trained.weights)
        assert (other.record, other.history, other.preparation) == (
            trained.record, trained.history, trained.preparation
        )  # fmt: skip
        assert other.spec().document() == trained.spec().document()
        for arrays, expected in ((other.examples, trained.examples), (other.predictions, trained.predictions)):
            assert arrays.keys() == expected.keys()
            assert all(np.array_equal(arrays[name], expected[name]) for name in expected)


def test_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    train_in_memory(spec(num_epochs=1))
    assert list(tmp_path.iterdir()) == []


def test_a_training_that_diverges_says_so():
    trained = train_in_memory(
        spec(num_epochs=2).model_copy(update={"optimization": OptimizationSpec(learning_rate=1e30, clip_norm=None)})
    )
    assert trained.record.status == "diverged"
    assert trained.record.divergence is not None


def test_gradients_are_recorded_in_a_directory_only():
    with pytest.raises(GatelabError, match=r"training\.record: gradients: expected a run directory"):
        train_in_memory(spec(record=["gradients"]))


def test_an_interruption_ends_it():
    with pytest.raises(KeyboardInterrupt):
        train_in_memory(spec(), StopAfter(2))


def test_a_run_without_checkpoints_begins_again(tmp_path):
    """It ends as one that was never interrupted."""
    here = spec(checkpoint="never")
    with pytest.raises(KeyboardInterrupt):
        train(here, tmp_path / "run", StopAfter(9))
    assert not Run(tmp_path / "run").checkpoint_path.exists()
    again = train(here, tmp_path / "run")
    assert_same_weights(again.run.model().state_dict(), train_in_memory(here).weights)
    assert [finding for finding in verify(again.run) if not finding.good] == []
