"""The training loop: what it learns, against a plain loop in torch; how it ends; and that it goes on to the bit."""

from __future__ import annotations

import json
import math
import os
import random
import re
import signal
import subprocess
import sys
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sklearn import metrics as sklearn_metrics
from stopping import StopAfter

import gatelab
from gatelab import sealed, tasks
from gatelab.engine import team
from gatelab.errors import DataError
from gatelab.report.words.baseline import against_baseline, own_units
from gatelab.tasks import Baseline
from gatelab.training import (
    ModelSpec,
    OptimizationSpec,
    Run,
    RunSpec,
    TrainingSpec,
    build,
    checkpoint,
    gradients,
    optimizers,
    recorder,
    seeds,
    train,
)  # fmt: skip
from gatelab.training.optimizers import OPTIMIZERS
from gatelab.training.reporter import Reporter
from gatelab.training.schedule import Schedule
from gatelab.training.verify import verify

TIMES = ("seconds", "validation_seconds", "samples_per_second")


def spec(task="digits:limit=200", model=None, optimization=None, **training) -> RunSpec:
    return RunSpec(
        task=task,
        model=ModelSpec(**{"hidden_size": 16, **(model or {})}),
        optimization=OptimizationSpec(**(optimization or {})),
        training=TrainingSpec(**{"num_epochs": 3, "batch_size": 32, "threads": 1, **training}),
    )


def lines_without_times(run: Run) -> list[dict]:
    return [{key: value for key, value in line.items() if key not in TIMES} for line in run.metrics()]


# What it learns.


def test_it_learns_the_digits(tmp_path):
    outcome = train(spec("digits", {"hidden_size": 48}, {"learning_rate": 5e-3}, num_epochs=12), tmp_path / "run")
    assert outcome.status == "done"
    assert outcome.test["accuracy"] > 0.93
    lines = outcome.run.metrics()
    assert len(lines) == 12
    assert lines[-1]["train_loss"] < 0.3 * lines[0]["train_loss"]


@pytest.mark.parametrize(
    ("task", "model", "better"),
    [
        ("sine:duration=1000,length=30", {}, 0.7),
        ("recall:delay=3,size=1000", {}, None),
        ("agreement:size=1000,gap=4,shortest_gap=2", {"bidirectional": True}, None),
        ("copy:length=3,pause=2,symbols=16,size=1000", {"num_layers": 2, "dropout": 0.1, "residual": True}, None),
        ("adding:length=8,size=1000", {"pool": "mean"}, 0.7),
    ],
)
def test_it_learns_every_kind_of_task(tmp_path, task, model, better):
    """Better than without learning: by accuracy for classes, by error for numbers."""
    outcome = train(spec(task, {"hidden_size": 24, **model}, {"learning_rate": 1e-2}, num_epochs=15), tmp_path / "run")
    baseline = outcome.run.spec().task.baseline().value
    if better is None:
        assert outcome.test["accuracy"] > baseline + 0.25
    else:
        assert outcome.test["mse"] < better * baseline


THEIRS = {
    "adam": lambda p: torch.optim.Adam(p, lr=3e-3, weight_decay=1e-2, foreach=False),
    "adamw": lambda p: torch.optim.AdamW(p, lr=3e-3, weight_decay=1e-2, foreach=False),
    "sgd": lambda p: torch.optim.SGD(p, lr=3e-3, weight_decay=1e-2, momentum=0.8, foreach=False),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=3e-3, weight_decay=1e-2, momentum=0.8, foreach=False),
}


@pytest.mark.parametrize("name", THEIRS)
def test_it_is_the_loop_anybody_would_write(tmp_path, name):
    """The same weights, order and rules in plain torch, with its own clipping and the plainest form of optimiser."""
    options = {"optimizer": name, "learning_rate": 3e-3, "clip_norm": 0.5, "weight_decay": 1e-2, "warmup_steps": 9}
    if name in ("sgd", "rmsprop"):
        options["momentum"] = 0.8
    made = spec(optimization=options)
    run = train(made, tmp_path / "run").run
    task, model = made.task, build.model(made.model, made.task, seed=0)
    optimizer, step = THEIRS[name](model.parameters()), 0
    for epoch in range(3):
        norms = []
        for index in torch.split(seeds.order(0, epoch, len(task.train)), 32):
            step += 1
            batch = task.train.batch(index)
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(batch.x), batch.y).backward()
            norms.append(float(torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)))  # the length before clipping
            optimizer.param_groups[0]["lr"] = 3e-3 * min(1, step / 9)
            optimizer.step()
        assert run.metrics()[epoch]["gradient_norm"] == pytest.approx(np.mean(norms), rel=1e-3)
    assert max(norms) > 0.5
    ours = load_file(run.checkpoint_path)
    for key, value in model.state_dict().items():
        torch.testing.assert_close(ours[f"model.{key}"], value, atol=5e-6, rtol=1e-3)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_every_optimiser_moves_and_what_is_frozen_stays(tmp_path, optimizer):
    """Weight decay, momentum and clipping included: a frozen parameter is not the optimiser's to move."""
    made = spec(
        model={"freeze": ("b.z", "U.n"), "gate_bias": {"z": 0.75}},
        optimization={"optimizer": optimizer, "weight_decay": 0.1, "clip_norm": 0.1}
        | ({"momentum": 0.9} if optimizer in ("sgd", "rmsprop") else {}),
    )
    start = build.model(made.model, made.task, seed=0).state_dict()
    end = train(made, tmp_path / "run").run
    weights = load_file(end.best_path)
    for name, value in weights.items():
        assert torch.equal(value, start[name]) == name.endswith(("b.z", "U.n"))
    assert (weights["recurrent.layers.0.fwd.b.z"] == 0.75).all()


# What it writes down.


def test_the_tested_weights_are_those_of_the_best_validation_epoch(tmp_path):
    outcome = train(spec(optimization={"learning_rate": 0.05}, num_epochs=8), tmp_path / "run")
    run, task = outcome.run, outcome.run.spec().task
    accuracies = [line["validation_accuracy"] for line in run.metrics()]
    assert outcome.best_epoch == 1 + int(np.argmax(accuracies))  # the first of equals
    model = build.model(run.spec().model, task, seed=1)
    model.load_state_dict(load_file(run.best_path))
    model.eval()
    with torch.no_grad():
        scores = model(task.test.first(9999).x)
    saved = run.predictions()
    np.testing.assert_allclose(saved["predictions"], scores, atol=1e-5)
    assert (saved["answers"] == task.test.targets.numpy()).all()
    said, right = saved["predictions"].argmax(1), saved["answers"]
    test = run.manifest().test
    assert test == outcome.test
    assert test["accuracy"] == sklearn_metrics.accuracy_score(right, said)
    for name, function in (("precision", "precision_score"), ("recall", "recall_score"), ("f1", "f1_score")):
        assert test[name] == getattr(sklearn_metrics, function)(right, said, average="macro", zero_division=0)


@pytest.fixture(scope="module")
def worsening(tmp_path_factory) -> Run:
    """A run that is best in the middle: its learning rate grows without end, and dropout is at work."""
    options = {"learning_rate": 5.0, "warmup_steps": 200}
    model = {"head_dropout": 0.3}
    return train(spec(model=model, optimization=options, num_epochs=6), tmp_path_factory.mktemp("worsening") / "r").run


def scored_by_hand(run: Run, weights: dict, part: tasks.Examples) -> tuple[torch.Tensor, float, float]:
    """The scores, the mean loss and the accuracy of these weights on a part of the data."""
    model = build.model(run.spec().model, run.spec().task, seed=1)
    model.load_state_dict(weights)
    batch = part.first(len(part))
    with torch.no_grad():
        scores = model.eval()(batch.x)
    loss = torch.nn.functional.cross_entropy(scores, batch.y)
    return scores, float(loss), float((scores.argmax(1) == batch.y).double().mean())


def test_the_best_weights_are_tested_and_not_the_last_ones(worsening):
    lines, manifest = worsening.metrics(), worsening.manifest()
    assert manifest.best_epoch < len(lines) == 6
    scores, loss, accuracy = scored_by_hand(worsening, load_file(worsening.best_path), worsening.spec().task.test)
    np.testing.assert_allclose(worsening.predictions()["predictions"], scores, atol=1e-4)
    assert (manifest.test["loss"], manifest.test["accuracy"]) == pytest.approx((loss, accuracy), rel=1e-4)


def test_epochs_are_judged_by_the_validation_part_without_dropout(worsening):
    saved = load_file(worsening.checkpoint_path)
    last = {name.removeprefix("model."): value for name, value in saved.items() if name.startswith("model.")}
    lines, best_epoch = worsening.metrics(), worsening.manifest().best_epoch
    for line, weights in ((lines[-1], last), (lines[best_epoch - 1], load_file(worsening.best_path))):
        _, loss, accuracy = scored_by_hand(worsening, weights, worsening.spec().task.validation)
        assert (line["validation_loss"], line["validation_accuracy"]) == pytest.approx((loss, accuracy), rel=1e-4)


def test_the_training_metrics_are_those_of_the_training_part(tmp_path):
    """With steps too small to change a weight they are those of the starting values."""
    made = spec("recall:delay=2,size=60", optimization={"optimizer": "sgd", "learning_rate": 1e-30}, num_epochs=1)
    run = train(made, tmp_path / "run").run
    start = build.model(made.model, made.task, seed=0).state_dict()
    (line,) = run.metrics()
    for name, part in (("train", made.task.train), ("validation", made.task.validation)):
        _, loss, accuracy = scored_by_hand(run, start, part)
        assert (line[f"{name}_loss"], line[f"{name}_accuracy"]) == pytest.approx((loss, accuracy), rel=1e-5)


def test_the_learning_rate_written_down_is_that_of_an_epochs_last_batch(worsening):
    batches = math.ceil(len(worsening.spec().task.train) / 32)
    rates = [line["learning_rate"] for line in worsening.metrics()]
    assert rates == pytest.approx([5.0 * (epoch + 1) * batches / 200 for epoch in range(6)])


def test_a_checkpoint_of_a_newer_version_is_refused(tmp_path, monkeypatch):
    made, path = spec("recall:delay=2,size=60"), tmp_path / "checkpoint.safetensors"
    model = build.model(made.model, made.task, seed=0)
    optimizer, schedule = optimizers.optimizer(made.optimization, model), Schedule(made.optimization, 3)
    monkeypatch.setattr(checkpoint, "SCHEMA", 2)
    checkpoint.write(path, model, optimizer, schedule, checkpoint.Place(epoch=1))
    assert checkpoint.read(path, model, optimizer, schedule)[0].epoch == 1
    monkeypatch.setattr(checkpoint, "SCHEMA", 1)
    with pytest.raises(DataError, match=r"written by a newer gatelab \(schema 2, this one reads up to 1\)") as raised:
        checkpoint.read(path, model, optimizer, schedule)
    assert "damaged" not in str(raised.value)


def test_a_file_with_the_weights_of_another_epoch_is_refused(tmp_path):
    model, path = torch.nn.Linear(2, 1), tmp_path / "best.safetensors"
    checkpoint.write_weights(path, model.state_dict(), 2)
    saved = model.weight.detach().clone()
    model.weight.data.zero_()
    with pytest.raises(DataError, match="holds the weights of epoch 2, expected those of epoch 3"):
        checkpoint.read_weights(path, model, 3)
    assert not model.weight.any()
    for epoch in (2, None):  # that one, or whichever there is
        model.weight.data.zero_()
        checkpoint.read_weights(path, model, epoch)
        assert torch.equal(model.weight, saved)


def test_a_run_gives_its_model_back(tmp_path):
    """A forecaster for a series, whose numbers can be brought back to its own units."""
    run = train(spec("sine:duration=400,length=20", num_epochs=1), tmp_path / "run").run
    model, task = run.model(), run.spec().task
    x = task.test.first(4).x
    assert model.predict_future(x, 6).shape == (4, 6, 1)
    with torch.no_grad():
        np.testing.assert_allclose(model(x), run.predictions()["predictions"][:4], atol=1e-6)
    wave = run.preparation.decode(run.predictions()["answers"][0], x[0].numpy())
    np.testing.assert_allclose(wave, task.wave[341:361], atol=1e-5)


def test_the_manifest_says_what_was_run(tmp_path):
    made = spec(model={"cell": "agru"}, seed=11)
    outcome = train(made, tmp_path / "run")
    manifest = outcome.run.manifest()
    assert manifest.status == "done"
    assert manifest.schema_ == 3
    assert manifest.seed == 11
    assert manifest.identity.engine == "fused"
    assert manifest.threads == 1
    assert manifest.versions["torch"] == torch.__version__
    assert manifest.parameters == sum(p.numel() for p in build.model(made.model, made.task, 0).parameters())
    assert outcome.run.spec() == made
    assert sorted(set(os.listdir(tmp_path / "run")) - {".lock"}) == [
        "best.safetensors", "cell.txt", "checkpoint.safetensors", "manifest.json", "metrics.jsonl", "model.json",
        "predictions.npz", "timing.json",
    ]  # fmt: skip
    for line in outcome.run.metrics():
        assert set(TIMES) < set(line)
        assert line["gradient_norm"] > 0
        assert line["learning_rate"] == 1e-3


def test_the_same_seed_is_the_same_run_and_gives_every_architecture_the_same_batches(tmp_path, monkeypatch):
    seen: dict[str, list] = {}
    batch = tasks.Examples.batch

    def watched(self, index, steps=None):
        seen.setdefault(name, []).append(index.tolist())
        return batch(self, index, steps)

    monkeypatch.setattr(tasks.Examples, "batch", watched)
    for name, cell in (("a", "gru"), ("b", "gru"), ("c", "lstm")):
        torch.manual_seed(hash(name) % 1000)  # must not matter
        train(spec(model={"cell": cell, "num_layers": 2, "dropout": 0.3, "head_dropout": 0.2}), tmp_path / name)
    assert seen["a"] == seen["b"] == seen["c"]
    a, b, c = (Run(tmp_path / name) for name in "abc")
    assert lines_without_times(a) == lines_without_times(b) != lines_without_times(c)
    assert a.best_path.read_bytes() == b.best_path.read_bytes()
    train(spec(model={"num_layers": 2, "dropout": 0.3, "head_dropout": 0.2}, seed=1), tmp_path / "d")
    assert lines_without_times(a) != lines_without_times(Run(tmp_path / "d"))


def test_every_batch_of_every_epoch_has_a_dropout_of_its_own(tmp_path, monkeypatch):
    masks, dropout = [], torch.nn.functional.dropout

    def watched(values, p, training, inplace):
        dropped = dropout(values, p, training, inplace)
        if training:
            masks.append((dropped == 0).numpy().tobytes())
        return dropped

    monkeypatch.setattr(torch.nn.functional, "dropout", watched)
    train(spec("recall:delay=2,size=60", {"head_dropout": 0.5}, num_epochs=3, batch_size=30), tmp_path / "run")
    assert len(set(masks)) == len(masks) == 6  # two batches an epoch


def test_the_process_is_left_as_it_was(tmp_path):
    torch.manual_seed(3)
    expected, threads = torch.rand(3), torch.get_num_threads()
    torch.set_num_threads(2)
    torch.manual_seed(3)
    handler = signal.getsignal(signal.SIGINT)
    train(spec(model={"head_dropout": 0.5}, num_epochs=1), tmp_path / "run")
    assert torch.equal(torch.rand(3), expected)
    assert torch.get_num_threads() == 2
    torch.set_num_threads(threads)
    assert signal.getsignal(signal.SIGINT) == handler
    assert torch.tensor(1e-39) * torch.tensor(1.0) > 0  # denormals exist again


# How it ends.


def test_early_stopping_waits_for_its_patience(tmp_path):
    """Steps too small for float32 change nothing: no epoch is better than the first, and of equals the last is kept."""
    outcome = train(spec(optimization={"learning_rate": 1e-30}, num_epochs=30, patience=3), tmp_path / "run")
    assert outcome.best_epoch == len(outcome.run.metrics()) == 4


def test_of_epochs_that_miss_every_validation_target_the_last_is_kept(tmp_path):
    """Their loss says how sure the network is of wrong answers: the least trained one has the smallest."""
    y = np.arange(24) % 5
    X = np.random.RandomState(0).normal(size=(24, 6, 1)) + y[:, None, None]
    task = tasks.from_arrays(X, np.where(y == 4, 5, y), split=np.where(y == 4, "validation", "train"))
    outcome = train(spec(task, optimization={"learning_rate": 0.03}, num_epochs=8, test=False), tmp_path / "run")
    lines = outcome.run.metrics()
    assert {line["validation_accuracy"] for line in lines} == {0.0}
    assert min(lines, key=lambda line: line["validation_loss"])["epoch"] < 8 == outcome.best_epoch
    waiting = spec(task, optimization={"learning_rate": 0.03}, num_epochs=8, test=False, patience=3)
    assert len(train(waiting, tmp_path / "waiting").run.metrics()) < 8  # none of them is an improvement


def test_of_epochs_with_the_same_accuracy_that_with_the_smallest_loss_is_kept(tmp_path):
    made = spec("digits:limit=100", optimization={"learning_rate": 0.01}, num_epochs=30, patience=8)
    outcome = train(made, tmp_path / "run")
    lines = outcome.run.metrics()
    best = max(line["validation_accuracy"] for line in lines)
    equals = [line for line in lines if line["validation_accuracy"] == best]
    assert len(equals) > 1  # ten examples to choose by
    assert outcome.best_epoch == min(equals, key=lambda line: line["validation_loss"])["epoch"] > equals[0]["epoch"]
    assert len(lines) == min(30, outcome.best_epoch + 8)  # and patience counts from it


def test_plateau_lowers_the_learning_rate(tmp_path):
    """Steps too small for float32 change nothing: no epoch after the first is better."""
    options = {"learning_rate": 1e-30, "schedule": "plateau", "plateau_patience": 2, "step_factor": 0.5}
    outcome = train(spec(optimization=options, num_epochs=6), tmp_path / "run")
    rates = [line["learning_rate"] for line in outcome.run.metrics()]
    assert rates == pytest.approx([1e-30, 1e-30, 1e-30, 5e-31, 5e-31, 2.5e-31], abs=0)


def test_divergence_is_written_down_with_the_largest_gradients(tmp_path):
    options = {"optimizer": "sgd", "learning_rate": 1e30, "clip_norm": None}
    outcome = train(spec("adding:size=200,length=10", optimization=options), tmp_path / "run")
    assert outcome.status == "diverged"
    facts = outcome.run.manifest().divergence
    assert facts.epoch == 1
    assert facts.batch >= 2
    assert re.fullmatch(r"the loss is (nan|inf|[\d.]+e\+\d\d)", facts.what)
    assert 1 <= len(facts.largest_gradients) <= 5
    assert all("." in name for name in facts.largest_gradients)
    before = outcome.run.manifest_path.read_bytes()
    assert train(spec("adding:size=200,length=10", optimization=options), tmp_path / "run").status == "diverged"
    assert outcome.run.manifest_path.read_bytes() == before


@pytest.mark.parametrize("clip_norm", [None, 1.0])
def test_a_gradient_that_is_not_finite_ends_a_run_before_it_reaches_the_weights(tmp_path, clip_norm):
    """1 / (1 + exp(v)) is 0 for a large v, and by the chain rule its derivative is 0 · ∞."""

    @gatelab.cell
    def overflowing(x, h, W, U, b):
        return gatelab.tanh(W.n(x) + U.n(h)) + 1 / (1 + gatelab.exp(200 + b.v))

    model = {"cell": overflowing, "hidden_size": 4, "engine": "eager"}
    outcome = train(spec("recall:delay=2,size=60", model, {"clip_norm": clip_norm}), tmp_path / "run")
    assert outcome.status == "diverged"
    facts = outcome.run.manifest().divergence
    assert (facts.what, facts.epoch, facts.batch) == ("the gradient norm is nan", 1, 1)


def test_a_loss_beyond_any_sense_is_divergence_though_it_is_finite(tmp_path):
    outcome = train(spec("adding:size=100,length=5", optimization={"learning_rate": 1e6}), tmp_path / "run")
    assert outcome.status == "diverged"
    assert re.fullmatch(r"the loss is [\d.]+e\+\d\d", outcome.run.manifest().divergence.what)


def test_an_outlier_among_the_targets_is_not_divergence(tmp_path):
    values = np.random.RandomState(0).normal(size=200)
    values[195] = 1e6
    (tmp_path / "d.csv").write_text("v\n" + "\n".join(map(str, values)))
    outcome = train(spec(f"files:path={tmp_path}/d.csv,length=5", num_epochs=1), tmp_path / "run")
    assert outcome.status == "done"
    assert outcome.test["loss"] > 1e6


def test_divergence_that_only_validation_or_test_shows(tmp_path):
    values = np.random.RandomState(0).normal(size=200)
    for name, place in (("validation", 150), ("test", 195)):
        huge = values.copy()
        huge[place] = 1e25
        (tmp_path / f"{name}.csv").write_text("v\n" + "\n".join(map(str, huge)))
        outcome = train(spec(f"files:path={tmp_path}/{name}.csv,length=5", num_epochs=2), tmp_path / name)
        assert outcome.status == "diverged"
        facts = outcome.run.manifest().divergence
        assert facts.what == f"the {name} loss is inf"
        assert facts.batch is None
        assert facts.epoch == (1 if name == "validation" else outcome.best_epoch)


def test_missing_data_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setenv("GATELAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("GATELAB_DATA", raising=False)
    with pytest.raises(DataError, match="cifar10 is not available"):
        train(spec("cifar10"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_run_that_fails_says_so(tmp_path):
    class Broken(Reporter):
        def epoch(self, line, better):
            raise OSError("no space left")

    with pytest.raises(OSError, match="no space"):
        train(spec(), tmp_path / "run", Broken())
    manifest = Run(tmp_path / "run").manifest()
    assert manifest.status == "failed"
    assert manifest.error == "OSError: no space left"
    outcome = train(spec(), tmp_path / "run")  # what failed can be gone on with
    assert outcome.status == "done"
    assert not outcome.run.manifest().error
    whole = train(spec(), tmp_path / "whole").run
    assert lines_without_times(outcome.run) == lines_without_times(whole)


# Stopping and going on.


def test_several_reporters_hear_the_same_in_their_order(tmp_path):
    class Heard(Reporter):
        def __init__(self, name: str) -> None:
            self.name = name

        def __getattribute__(self, what: str):
            if what in ("start", "batch", "epoch", "note", "close", "end", "known"):
                return lambda *given: heard.append((what, object.__getattribute__(self, "name"), given))
            return object.__getattribute__(self, what)

    class Failing(Reporter):
        def close(self) -> None:
            raise OSError("full")

    heard = []
    made = spec(num_epochs=2)
    train(made, tmp_path / "run", Heard("a"), Heard("b"))
    train(made, tmp_path / "run", Heard("a"), Heard("b"))  # once more: it is known
    assert [name for _, name, _ in heard] == ["a", "b"] * (len(heard) // 2)
    assert [(what, given) for what, _, given in heard[::2]] == [(what, given) for what, _, given in heard[1::2]]
    kinds = [what for what, _, _ in heard[::2]]
    assert (kinds[0], kinds.count("epoch"), kinds[-3:]) == ("start", 2, ["close", "end", "known"])
    with pytest.raises(OSError, match="full"):
        train(spec(num_epochs=1), tmp_path / "other", Heard("c"), Failing(), Heard("d"))
    assert {name for what, name, _ in heard if what == "close"} == set("abcd")


HARD = {
    "model": {"num_layers": 2, "dropout": 0.2, "head_dropout": 0.3, "cell": "lstm"},
    "optimization": {
        "optimizer": "adamw", "learning_rate": 5e-3, "weight_decay": 0.01,
        "schedule": "plateau", "plateau_patience": 1, "step_factor": 0.7, "warmup_steps": 10,
    },
    "num_epochs": 5,
    "patience": 4,
}  # fmt: skip


def assert_same_run(a: Run, b: Run) -> None:
    assert lines_without_times(a) == lines_without_times(b)
    assert a.best_path.read_bytes() == b.best_path.read_bytes()
    ours, theirs = load_file(a.checkpoint_path), load_file(b.checkpoint_path)
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert (a.predictions()["predictions"] == b.predictions()["predictions"]).all()
    assert a.manifest().test == b.manifest().test


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_interrupted_and_continued_is_the_same_to_the_bit(tmp_path, optimizer):
    hard = {**HARD, "optimization": {**HARD["optimization"], "optimizer": optimizer}}
    if optimizer in ("sgd", "rmsprop"):
        hard["optimization"]["momentum"] = 0.9
    made = spec("digits:limit=200", **hard)
    whole = train(made, tmp_path / "whole")
    assert whole.status == "done"
    for batches in (1, 6, 7, 3):  # an epoch has 7: within epochs and right at their ends
        with pytest.raises(KeyboardInterrupt):
            train(made, tmp_path / "pieces", StopAfter(batches))
        run = Run(tmp_path / "pieces")
        assert run.manifest().status == "interrupted"
        with (run.path / "metrics.jsonl").open("a") as file:
            file.write('{"epoch": 99}\n')  # as if it had run ahead of the checkpoint
    outcome = train(made, tmp_path / "pieces")
    assert_same_run(outcome.run, whole.run)
    assert len(outcome.run.manifest().resumed) == 4


def test_metrics_that_are_not_those_of_the_checkpoint_are_written_again(tmp_path):
    """As after a kill between the two: behind the checkpoint at the very end, or ahead of it in the middle."""
    made = spec("recall:delay=2,size=60")
    run = train(made, tmp_path / "run").run
    lines = run.metrics()
    run.write_metrics(lines[:-1])
    run.write_manifest(run.manifest().replaced(status="interrupted"))
    assert train(made, run.path).status == "done"
    assert run.metrics() == lines

    class Look(Reporter):
        def start(self, spec, manifest, place):
            assert run.metrics() == lines == place.history

    run.write_metrics([*lines, lines[-1] | {"epoch": 4}])
    assert train(spec("recall:delay=2,size=60", num_epochs=4), run.path, Look(), extend=True).status == "done"
    assert [line["epoch"] for line in run.metrics()] == [1, 2, 3, 4]


def test_the_best_weights_can_be_read_while_a_run_goes_on(tmp_path):
    made, seen = spec("digits:limit=200", **HARD), []

    class Look(Reporter):
        def epoch(self, line, better):
            run = Run(tmp_path / "run")
            run.model()
            seen.append((run.best_epoch(), better))

    with pytest.raises(KeyboardInterrupt):
        train(made, tmp_path / "run", StopAfter(8))  # in its second epoch
    assert Run(tmp_path / "run").best_epoch() == 1
    outcome = train(made, tmp_path / "run", Look())
    assert [epoch for epoch, better in seen if better] == [i + 2 for i, (_, better) in enumerate(seen) if better]
    assert outcome.run.best_epoch() == outcome.best_epoch == seen[-1][0]


@pytest.mark.parametrize("schedule", ["constant", "step", "plateau"])
def test_trained_for_longer_it_is_what_it_would_have_been_from_the_start(tmp_path, schedule):
    hard = {**HARD, "patience": None, "record": ("gradients",)}
    hard["optimization"] = {**HARD["optimization"], "schedule": schedule, "step_epochs": 2}
    whole = train(spec(**{**hard, "num_epochs": 5}), tmp_path / "whole").run
    assert train(spec(**{**hard, "num_epochs": 2}), tmp_path / "longer").run.manifest().epochs == 2
    with pytest.raises(ValueError, match=r"training.num_epochs is 2 there and 5 now"):
        train(spec(**{**hard, "num_epochs": 5}), tmp_path / "longer")
    with pytest.raises(KeyboardInterrupt):
        train(spec(**{**hard, "num_epochs": 4}), tmp_path / "longer", StopAfter(9), extend=True)
    outcome = train(spec(**{**hard, "num_epochs": 5}), tmp_path / "longer", extend=True)
    assert_same_run(outcome.run, whole)
    assert (outcome.run.path / "gradients.npz").read_bytes()[:4] == b"PK\3\4"
    ours, theirs = (gradients.read(path) for path in (outcome.run.path, whole.path))
    assert (ours.epochs == theirs.epochs).all()
    np.testing.assert_array_equal(ours.norms, theirs.norms)
    assert [entry.num_epochs for entry in outcome.run.manifest().resumed] == [4, 5]
    assert outcome.run.spec().training.num_epochs == 5
    with pytest.raises(ValueError, match="epochs is 3, and the run has had 5 already"):
        train(spec(**{**hard, "num_epochs": 3}), tmp_path / "longer", extend=True)


def test_where_the_end_decides_it_is_said(tmp_path):
    class Notes(Reporter):
        def __init__(self):
            self.said = []

        def note(self, text):
            self.said.append(text)

    cosine = {"optimization": {"schedule": "cosine"}}
    train(spec(num_epochs=1, **cosine), tmp_path / "cosine")
    heard = Notes()
    outcome = train(spec(num_epochs=2, **cosine), tmp_path / "cosine", heard, extend=True)
    assert outcome.run.manifest().epochs == 2
    assert "cosine schedule depends on the number of epochs" in heard.said[0]
    still = {"optimization": {"learning_rate": 1e-9}, "patience": 1}
    train(spec(num_epochs=5, **still), tmp_path / "patient")
    outcome = train(spec(num_epochs=9, **still), tmp_path / "patient", heard, extend=True)
    assert "stopped after 2 epochs by training.patience" in heard.said[1]
    assert outcome.run.manifest().epochs == 2


def test_what_cannot_be_resumed_stays_as_it_is(tmp_path):
    run = train(spec(num_epochs=1), tmp_path / "run").run
    before = run.manifest_path.read_bytes()
    run.checkpoint_path.write_bytes(run.checkpoint_path.read_bytes()[:-10])
    with pytest.raises(DataError, match=r"checkpoint\.safetensors cannot be read"):
        train(spec(num_epochs=2), tmp_path / "run", extend=True)
    assert run.manifest_path.read_bytes() == before


def test_a_second_ctrl_c_does_not_wait(tmp_path):
    class Twice(Reporter):
        def batch(self, epoch, batch, batches, examples, tally):
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
            raise AssertionError("went on after the second one")

    with pytest.raises(KeyboardInterrupt):
        train(spec(), tmp_path / "run", Twice())
    assert Run(tmp_path / "run").manifest().status == "interrupted"
    assert not Run(tmp_path / "run").checkpoint_path.exists()


def test_a_run_goes_on_only_with_what_it_began_with(tmp_path, monkeypatch):
    rows = [f"{i},{math.sin(i / 5)}" for i in range(200)]
    (tmp_path / "series.csv").write_text("t,v\n" + "\n".join(rows))
    (tmp_path / "mine.py").write_text(
        "from gatelab import cell, tanh\n@cell\ndef mine(x, h, W, U, b):\n    return tanh(W.h(x) + U.h(h) + b.h)\n"
    )
    monkeypatch.chdir(tmp_path)
    made = spec("files:path=series.csv,columns=v,length=8", {"cell": f"{tmp_path}/mine.py:mine"})
    with pytest.raises(KeyboardInterrupt):
        train(made, tmp_path / "run", StopAfter(3))

    def refused(what):
        with pytest.raises(ValueError, match=f"run was made with something else: .*{what}"):
            train(Run(tmp_path / "run").spec(), tmp_path / "run")

    monkeypatch.setenv("GATELAB_ENGINE", "eager")
    refused("its engine was fused and is eager")
    monkeypatch.delenv("GATELAB_ENGINE")
    equations = (tmp_path / "mine.py").read_text()
    (tmp_path / "mine.py").write_text(equations.replace("tanh", "sigmoid"))
    refused("mine.py, from which its cell was taken, was edited")
    with pytest.raises(ValueError, match=r"holds another run: the equations of model.cell, .*mine.py:mine, are others"):
        train(spec("files:path=series.csv,columns=v,length=8", {"cell": f"{tmp_path}/mine.py:mine"}), tmp_path / "run")
    (tmp_path / "mine.py").write_text(equations)
    (tmp_path / "series.csv").write_text("t,v\n" + "\n".join([*rows[:-1], "199,7.5"]))
    refused("its data was")
    (tmp_path / "series.csv").write_text("t,v\n" + "\n".join(rows))
    monkeypatch.chdir("/")  # from another folder
    assert train(Run(tmp_path / "run").spec(), tmp_path / "run").status == "done"


def test_what_a_killed_process_was_writing_is_cleared_away(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".gatelab-tmp-manifest.json.abcd1234").write_bytes(b"half")
    train(spec(num_epochs=1), tmp_path / "run")
    assert not list((tmp_path / "run").glob(".gatelab-tmp-*"))


SCRIPT = """
import os, signal, sys
from gatelab.training import config, train
from pathlib import Path

_, given, place, moment = sys.argv
work = 0

def count(event, arguments):
    global work
    if event in ("open", "os.rename", "os.remove", "os.mkdir", "os.chmod") and place in str(arguments[0]):
        work += 1
        if work == int(moment):
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(count)
train(config.load(Path(given)), place)
slow = {"torch._dynamo", "sklearn", "scipy", "pandas"} & set(sys.modules)
assert not slow, f"a run imports {slow}, which takes longer than torch itself"
print(work)
"""


def test_killed_at_any_moment_and_continued_is_the_same_to_the_bit(tmp_path, forks):
    """A moment is an operation on files: what is left behind changes with nothing else."""
    made = spec("digits:limit=200", **{**HARD, "patience": None, "checkpoint_seconds": 1e-9})  # after every batch
    (tmp_path / "config.yaml").write_text(json.dumps(made.document()))  # JSON is YAML
    whole, pieces = Run(tmp_path / "whole"), Run(tmp_path / "pieces")
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "config.yaml"), str(whole.path), "-1"]
    work = int(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)  # in a process of its own
    places, chance = [], random.Random(0)
    for moment in (1, 6, *(chance.randint(20, work // 4) for _ in range(6))):
        killed = forks.run(SCRIPT, command[3], str(pieces.path), str(moment))
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        places.append(place_of(pieces) if pieces.checkpoint_path.is_file() else None)
    assert forks.run(SCRIPT, command[3], str(pieces.path), "-1").returncode == 0
    assert None in places, "none was killed before its first checkpoint"
    assert any(batch > 0 for _, batch in filter(None, places)), "none was killed within an epoch"
    assert pieces.manifest().status == "done"
    assert_same_run(pieces, whole)


def place_of(run: Run) -> tuple[int, int]:
    from safetensors import safe_open

    with safe_open(run.checkpoint_path, framework="pt") as file:
        place = json.loads(file.metadata()["state"])["place"]
    return place["epoch"], place["batch"]


def test_a_continued_run_has_the_threads_it_began_with(tmp_path, monkeypatch):
    monkeypatch.setattr("gatelab.engine.team.idle_cores", lambda: 2.0)
    threads, seen = torch.get_num_threads(), []

    class Watch(StopAfter):
        def batch(self, *arguments):
            seen.append(team.of_kernels())
            super().batch(*arguments)

    torch.set_num_threads(2)
    with pytest.raises(KeyboardInterrupt):
        train(spec(threads=None), tmp_path / "run", Watch(2))
    torch.set_num_threads(1)
    train(spec(threads=None), tmp_path / "run", Watch(-1))
    torch.set_num_threads(threads)
    assert set(seen) == {2}


def test_what_is_done_is_not_done_again(tmp_path):
    train(spec(), tmp_path / "run")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "run").iterdir() if path.name != ".lock"}
    again = train(spec(checkpoint_seconds=5.0), tmp_path / "run")  # which does not change what is learned
    assert again.status == "done"
    assert again.test["accuracy"] > 0
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_another_run_in_the_same_directory_is_refused(tmp_path):
    train(spec(num_epochs=1), tmp_path / "run")
    with pytest.raises(
        ValueError, match=r"model.hidden_size is 16 there and 17 now; training.num_epochs is 1 there and 2 now"
    ):
        train(spec(model={"hidden_size": 17}, num_epochs=2), tmp_path / "run")


def test_two_processes_do_not_train_in_one_directory(tmp_path):
    class Second(Reporter):
        def epoch(self, line, better):
            with pytest.raises(ValueError, match="another process is training in"):
                train(spec(), tmp_path / "run")

    assert train(spec(num_epochs=1), tmp_path / "run", Second()).status == "done"


def test_what_cannot_be_read_is_refused_in_words(tmp_path):
    run = train(spec(num_epochs=1), tmp_path / "run").run
    content = run.manifest().document() | {"status": "interrupted"}
    sealed.write_json(run.manifest_path, content | {"schema": 4})
    with pytest.raises(DataError, match="written by a newer gatelab, with schema 4; this one reads 3"):
        run.manifest()
    sealed.write_json(run.manifest_path, content | {"schema": 1})
    with pytest.raises(DataError, match=r"written by an older gatelab, with schema 1.*train it again"):
        run.manifest()
    for change, wrong in (
        ({"status": "sleeping"}, "status"), ({"seed": "0"}, "seed"), ({"more": 1}, "more"),
        ({"baseline": {"rule": "x", "metric": "mse", "value": "0"}}, "baseline"),
    ):  # fmt: skip
        sealed.write_json(run.manifest_path, content | change)
        with pytest.raises(DataError, match=rf"manifest\.json cannot be read: {wrong}"):
            run.manifest()
    sealed.write_json(run.manifest_path, content)
    run.checkpoint_path.write_bytes(run.checkpoint_path.read_bytes()[:-100])
    with pytest.raises(DataError, match=r"checkpoint\.safetensors cannot be read"):
        train(spec(num_epochs=1), run.path)
    run.manifest_path.write_text('{"schema": 1, "sta')
    with pytest.raises(DataError, match=r"manifest\.json cannot be read"):
        run.manifest()
    run.manifest_path.write_text("[]")
    with pytest.raises(DataError, match="it holds no JSON object"):
        run.manifest()
    with pytest.raises(DataError, match="is not a run directory"):
        Run(tmp_path).manifest()


SEED_OF_THE_FIRST_ORDER = 3068321470174770311
FIRST_ORDER = [1, 5, 0, 2, 6, 3, 4, 7]


def test_seeds_are_these_on_every_machine():
    assert seeds.number(0, "order", 0) == SEED_OF_THE_FIRST_ORDER
    assert seeds.order(7, 0, 8).tolist() == FIRST_ORDER
    assert len({seeds.number(s, p, e) for s in range(5) for p in ("order", "dropout") for e in range(5)}) == 50
    assert math.log2(max(seeds.number(s, "order") for s in range(100))) < 63
    assert sorted(seeds.order(1, 2, 10).tolist()) == list(range(10))


def test_every_epoch_has_an_order_of_its_own():
    orders = [tuple(seeds.order(seed, epoch, 30).tolist()) for seed in range(3) for epoch in range(5)]
    assert len(set(orders)) == 15
    assert all(sorted(order) == list(range(30)) for order in orders)
    assert orders[0] == tuple(seeds.order(0, 0, 30).tolist())


# Baselines, and errors in the data's own units.


def test_the_trivial_baseline_stands_beside_the_result(tmp_path):
    run = train(spec("digits:limit=100", num_epochs=1), tmp_path / "run").run
    manifest = run.manifest()
    assert manifest.baseline.metric == "accuracy"
    (sentence,) = against_baseline({"accuracy": 0.5}, manifest.baseline)
    assert sentence.startswith("trivial baseline: accuracy 10.")
    _, warning = against_baseline({"accuracy": 0.05}, manifest.baseline)
    assert warning == "warning: the model does not beat the trivial baseline (accuracy 5.00 %)"
    persistence = Baseline("persistence", "mse", 0.01, (0.01,))
    _, warning = against_baseline({"mse": 0.43}, persistence)
    assert (
        warning == "warning: the model does not beat the trivial baseline (MSE 0.4300, 43 times that of the baseline)"
    )
    assert len(against_baseline({"mse": 0.0099}, persistence)) == 1
    assert against_baseline({"loss": 0.1}, persistence) == against_baseline({"mse": 0.1}, None) == []


def test_errors_are_given_in_the_units_of_the_data(tmp_path):
    random = np.random.RandomState(0)
    X = random.uniform(0, 1, (200, 6, 1))
    y = np.stack([1000 * X.mean((1, 2)), 5 + X[:, 0, 0]], 1)
    np.savez(tmp_path / "d.npz", X=X, y=y)
    run = train(spec(f"files:path={tmp_path}/d.npz", num_epochs=3), tmp_path / "run").run
    saved, scaling = run.predictions(), run.preparation.target_scaling
    error = scaling.undo(saved["predictions"].astype(np.float64)) - scaling.undo(saved["answers"].astype(np.float64))
    errors = run.manifest().errors
    assert list(errors) == ["target 1", "target 2"]
    for column, name in enumerate(errors):
        assert errors[name]["rmse"] == pytest.approx(np.sqrt(np.square(error[:, column]).mean()), rel=1e-4)
        assert errors[name]["mae"] == pytest.approx(np.abs(error[:, column]).mean(), rel=1e-4)
        true = scaling.undo(saved["answers"].astype(np.float64))[:, column]
        mean = true.mean()  # of the test set; that of the training set is near it
        assert errors[name]["baseline_rmse"] == pytest.approx(np.sqrt(np.square(true - mean).mean()), rel=0.1)
    assert "target 1 RMSE" in own_units(run.manifest())[0]


# Unequal lengths.


def ragged(tmp_path, count=90, longest=40):
    random = np.random.RandomState(0)
    lengths = random.randint(2, longest // 4, count)
    lengths[::10] = longest
    X = random.normal(size=(count, longest, 2))
    y = (X[np.arange(count), lengths - 1, 0] > 0).astype(int)
    np.savez(tmp_path / "d.npz", X=X, y=y, lengths=lengths)
    return tasks.get("files", path=tmp_path / "d.npz")


def test_batches_of_similar_length_hold_every_example_once_and_are_the_same_for_a_seed(tmp_path):
    lengths = ragged(tmp_path).train.lengths
    plain = seeds.batches(3, 1, len(lengths), 8)
    alike = seeds.batches(3, 1, len(lengths), 8, lengths)
    assert sorted(torch.cat(alike).tolist()) == sorted(torch.cat(plain).tolist()) == list(range(len(lengths)))
    assert all(len(batch) <= 8 for batch in alike)
    padding = [sum(int((lengths[b].max() - lengths[b]).sum()) for b in batches) for batches in (plain, alike)]
    assert padding[1] < padding[0] / 3
    again = seeds.batches(3, 1, len(lengths), 8, lengths)
    assert all(torch.equal(a, b) for a, b in zip(alike, again, strict=True))
    other = seeds.batches(3, 2, len(lengths), 8, lengths)
    assert any(a.tolist() != b.tolist() for a, b in zip(alike, other, strict=True))


def test_batches_of_similar_length_come_in_another_order_every_epoch():
    """With equal lengths nothing is sorted, and the batches are those of the plain order, shuffled."""
    orders = []
    for epoch in (0, 1):
        plain = [batch.tolist() for batch in seeds.batches(3, epoch, 64, 4)]
        alike = [batch.tolist() for batch in seeds.batches(3, epoch, 64, 4, torch.full((64,), 7))]
        orders.append([plain.index(batch) for batch in alike])
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(16))
    assert list(range(16)) != orders[0] != orders[1]


def test_a_batch_is_padded_to_its_own_longest_sequence(tmp_path):
    part = ragged(tmp_path).train
    short = (part.lengths < 10).nonzero().flatten()[:4]
    batch = part.batch(short)
    assert batch.x.shape[1] == int(part.lengths[short].max()) < 10
    assert torch.equal(batch.x, part.stored[short][:, : batch.x.shape[1]])


@pytest.mark.parametrize("bucket", [False, True])
def test_shorter_padding_changes_no_prediction(tmp_path, bucket):
    task = ragged(tmp_path)
    options = {"task": task, "model": ModelSpec(hidden_size=4)}
    training = TrainingSpec(num_epochs=2, batch_size=8, threads=1, bucket_by_length=bucket)
    run = train(RunSpec(**options, training=training), tmp_path / "run").run
    with torch.no_grad():
        whole = run.model()(task.test.stored, lengths=task.test.lengths)
    np.testing.assert_array_equal(run.predictions()["predictions"], whole.numpy())


def test_predictions_at_every_step_are_padded_for_the_whole_part(tmp_path):
    random = np.random.RandomState(0)
    X, lengths = random.normal(size=(60, 12, 2)), random.randint(1, 8, 60)
    lengths[:5] = 12
    np.savez(tmp_path / "d.npz", X=X, y=(X[..., 0] > 0).astype(int), lengths=lengths)
    run = train(spec(f"files:path={tmp_path}/d.npz", num_epochs=1), tmp_path / "run").run
    saved = run.predictions()
    assert saved["predictions"].shape[:2] == saved["answers"].shape == (9, 12)


# Which weights are kept, and what is written when.


def held_out_nothing(**training) -> RunSpec:
    X, y = np.random.RandomState(0).normal(size=(40, 6, 2)), np.arange(40) % 3
    task = tasks.from_arrays(X, y, split=["train"] * 40)
    return spec(task, None, None, **{"keep": "last", "test": False, **training})


def test_the_last_weights_are_kept_if_they_are_wanted(tmp_path):
    best, last = (train(spec(keep=keep), tmp_path / keep) for keep in ("best", "last"))
    assert last.best_epoch == 3
    assert [lines_without_times(best.run)[i]["train_loss"] for i in range(3)] == [
        line["train_loss"] for line in last.run.metrics()
    ]
    saved = load_file(last.run.checkpoint_path)
    for name, value in load_file(last.run.best_path).items():
        assert torch.equal(saved[f"model.{name}"], value)
    assert last.test["accuracy"] == pytest.approx(
        (last.run.predictions()["predictions"].argmax(1) == last.run.predictions()["answers"]).mean()
    )
    assert all(finding.good for finding in verify(last.run))


def test_a_run_without_validation_and_test_set(tmp_path):
    outcome = train(held_out_nothing(), tmp_path / "run")
    assert (outcome.status, outcome.test, outcome.best_epoch) == ("done", {}, 3)
    assert not any(name.startswith("validation_l") for name in outcome.run.metrics()[0])
    assert all(finding.good for finding in verify(outcome.run))
    assert gatelab.load(tmp_path / "run").predict(np.zeros((4, 6, 2))).shape == (4,)
    for options, message in (
        ({"keep": "best"}, "has no validation set, and training.keep: best needs one"),
        ({"patience": 3}, "has no validation set, and training.patience needs one"),
        ({"record": ["gradients"]}, "has no validation set, and training.record: gradients needs one"),
        ({"test": True}, "has no test set: set training.test: false"),
    ):
        with pytest.raises(ValueError, match=message):
            train(held_out_nothing(**options), tmp_path / "refused")
        assert not (tmp_path / "refused").exists()


@pytest.mark.parametrize("keep", ["best", "last"])
def test_checkpoints_at_the_end_alone_change_nothing(tmp_path, keep):
    every = train(spec(keep=keep), tmp_path / "every").run
    end = spec(keep=keep, checkpoint="end")
    with pytest.raises(KeyboardInterrupt):
        train(end, tmp_path / "end", StopAfter(4))
    assert all(finding.good for finding in verify(Run(tmp_path / "end")))
    resumed = train(end, tmp_path / "end").run
    assert lines_without_times(resumed) == lines_without_times(every)
    for name, value in load_file(every.best_path).items():
        assert torch.equal(load_file(resumed.best_path)[name], value)
    assert all(finding.good for finding in verify(resumed))


def test_a_run_may_begin_with_the_weights_of_another(tmp_path):
    first = train(spec(), tmp_path / "first").run.model().state_dict()
    slow = spec(optimization={"learning_rate": 1e-12}, num_epochs=1)
    second = train(slow, tmp_path / "second", initial_weights=first).run
    for name, value in second.model().state_dict().items():
        torch.testing.assert_close(value, first[name])
    assert len(second.manifest().initial_weights) == 64
    with pytest.raises(KeyboardInterrupt):  # the weights are still those of the other run when it is resumed
        train(slow, tmp_path / "resumed", StopAfter(1), initial_weights=first)
    for name, value in train(slow, tmp_path / "resumed").run.model().state_dict().items():
        assert torch.equal(value, second.model().state_dict()[name])
    with pytest.raises(ValueError, match="the initial weights do not fit the model"):
        train(spec(model={"hidden_size": 17}), tmp_path / "third", initial_weights=first)


def test_weights_are_part_of_the_data(tmp_path):
    X, y = np.random.RandomState(0).normal(size=(40, 6, 2)), np.arange(40) % 2
    runs = {}
    for name, weights in (("equal", np.full(40, 7.0)), ("other", 1.0 + y)):
        task = tasks.from_arrays(X, y, split=["train"] * 40, weights=weights)
        runs[name] = train(spec(task, keep="last", test=False), tmp_path / name).run
    plain = train(spec(tasks.from_arrays(X, y, split=["train"] * 40), keep="last", test=False), tmp_path / "plain").run
    loss = {name: run.metrics()[-1]["train_loss"] for name, run in (*runs.items(), ("plain", plain))}
    assert loss["equal"] == pytest.approx(loss["plain"], rel=1e-5)
    assert abs(loss["other"] - loss["plain"]) > 1e-4
    data = {run.manifest().identity.data for run in (*runs.values(), plain)}
    assert len(data) == 3


def test_a_run_that_another_process_made_while_this_one_waited_is_not_trained_again(tmp_path, monkeypatch):
    here, path, alone_in, waited, told = spec(num_epochs=1), tmp_path / "run", recorder.alone_in, [], []

    @contextmanager
    def late(folder):
        if not waited:
            waited.append(True)
            train(here, folder)  # as the other process does, before this one has the lock
        with alone_in(folder):
            yield

    class Hears(Reporter):
        def start(self, *facts):
            told.append("start")

        def known(self, *facts):
            told.append("known")

    monkeypatch.setattr(recorder, "alone_in", late)
    outcome = train(here, path, Hears())
    assert (outcome.status, told) == ("done", ["known"])
