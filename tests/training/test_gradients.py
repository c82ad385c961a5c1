"""Recorded gradients: against autograd, without a trace in the training, the same after a stop or a kill."""

from __future__ import annotations

import itertools
import os
import signal

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from stopping import StopAfter

from gatelab import cell, tanh, tasks
from gatelab.analysis.subject import in_float64
from gatelab.engine.unroll import unroll
from gatelab.errors import DataError
from gatelab.models import SequenceClassifier, StepPredictor
from gatelab.tasks import Batch
from gatelab.training import ModelSpec, RunSpec, TrainingSpec, config, gradients, train
from gatelab.training.objective import Objective

MODEL = {"hidden_size": 6, "num_layers": 2, "dropout": 0.2, "head_dropout": 0.3}


def spec(task="digits:limit=100", model=MODEL, **training) -> RunSpec:
    options = {"num_epochs": 3, "batch_size": 25, "threads": 1, "record": "gradients", **training}
    return RunSpec(task=task, model=ModelSpec(**model), training=TrainingSpec(**options))


# Against autograd.


def test_they_are_autograds_on_a_gru_unrolled_by_hand():
    task = tasks.get("digits", limit=50)
    model = SequenceClassifier("gru", 8, 5, 10, 1, dropout=0)
    batch = task.validation.first(4)
    norms = gradients.gradient_norms(model, batch, Objective(task, TrainingSpec())).by_step
    p, h, states = model.recurrent.layers[0]["fwd"], torch.zeros(4, 5, requires_grad=True), []
    for x in batch.x.transpose(0, 1):
        r = torch.sigmoid(x @ p.W.r.T + h @ p.U.r.T + p.b.r)
        z = torch.sigmoid(x @ p.W.z.T + h @ p.U.z.T + p.b.z)
        n = torch.tanh(x @ p.W.n.T + p.b.n + r * (h @ p.U.n.T + p.b.hn))
        h = z * h + (1 - z) * n
        states.append(h)
    losses = torch.nn.functional.cross_entropy(model.head[-1](h), batch.y, reduction="sum")  # each example's own
    wanted = [by.norm(dim=1).mean().item() for by in torch.autograd.grad(losses, states)]
    assert norms.shape == (1, 1, 8)
    np.testing.assert_allclose(norms[0, 0], wanted, rtol=1e-5)
    assert model.training
    assert all(parameter.grad is None for parameter in model.parameters())


def test_where_every_step_answers_the_last_state_matters_only_to_the_last():
    task = tasks.get("sine", duration=200, length=10)
    model = StepPredictor("lstm", 1, 4, 1)
    batch = task.validation.first(3)
    norms = gradients.gradient_norms(model, batch, Objective(task, TrainingSpec())).by_step
    off = (model(batch.x) - batch.y)[:, -1].detach().abs().mean()
    weight = model.head[-1].weight.detach().norm()
    assert norms.shape == (1, 2, 10)
    np.testing.assert_allclose(norms[0, 0, -1], (2 * off * weight / 10).item(), rtol=1e-5)  # one of ten answers
    assert norms[0, 1, -1] == 0  # c matters through a next step alone


def test_steps_that_no_example_has_are_nan():
    task = tasks.get("agreement", size=100, gap=6, shortest_gap=2)
    model = SequenceClassifier("gru", task.input_size, 4, 2, 1, dropout=0)
    batch = task.validation.first(16)
    norms = gradients.gradient_norms(model, batch, Objective(task, TrainingSpec())).by_step
    shortest = torch.nonzero(batch.lengths == batch.lengths.min()).flatten()
    cut = batch._replace(x=batch.x[shortest], y=batch.y[shortest], lengths=batch.lengths[shortest])
    few = gradients.gradient_norms(model, cut, Objective(task, TrainingSpec())).by_step
    end = int(batch.lengths.min())
    assert np.isnan(few[0, 0, :-end]).all()
    assert not np.isnan(few[0, 0, -end:]).any()
    assert not np.isnan(norms[0, 0]).any()


@pytest.mark.parametrize("name", ["digits:limit=50", "sine:duration=200,length=8"])
def test_each_example_counts_with_its_own_loss_to_its_own_end(name):
    """One target per sequence, and one per step: the norms of a batch are the means over its examples, end to end."""
    task = tasks.get(name)
    kind = StepPredictor if task.per_step else SequenceClassifier
    model, goal = (
        kind("gru", task.input_size, 5, task.output_size, 1, dropout=0).double(),
        Objective(task, TrainingSpec()),
    )
    batch, ends = in_float64(task.validation.first(4)), [3, 8, 5, 3]
    ours = gradients.gradient_norms(model, batch._replace(lengths=torch.tensor(ends)), goal)
    alone, first = np.full((4, *ours.by_step.shape), np.nan), []
    for row, end in enumerate(ends):
        one = Batch(batch.x[[row], :end], batch.y[[row], :end] if task.per_step else batch.y[[row]], None)
        alone[row, ..., -end:] = gradients.gradient_norms(model, one, goal).by_step  # the last step is its own last
        first.append(alone[row, ..., -end])
    np.testing.assert_allclose(ours.by_step, np.nanmean(alone, axis=0), rtol=1e-9)
    np.testing.assert_allclose(ours.first, np.mean(first, axis=0), rtol=1e-9)


def test_of_two_directions_the_forward_one_is_told_layer_by_layer():
    """Against finite differences: every entry of a state is moved a little, and the loss looked at."""
    task = tasks.get("digits", limit=50)
    model = SequenceClassifier("lstm", 8, 3, 10, 2, dropout=0, bidirectional=True).double().eval()
    batch, goal = in_float64(task.validation.first(1)), Objective(task, TrainingSpec())

    def loss(run, step, kind, unit, by):
        def moved(number, at, states):
            states = [state.clone() for state in states]
            if (number, at) == (run, step):
                states[kind][:, unit] += by
            return tuple(states)

        done = unroll(model.recurrent, batch.x, change=moved)
        return goal.loss(model.answer(done.output, done.state, None), batch).item()

    found = gradients.gradient_norms(model, batch, goal).by_step
    assert found.shape == (2, 2, 8)
    for layer, kind, step in itertools.product(range(2), range(2), (0, 5, 7)):
        ends = [[loss(2 * layer, step, kind, unit, by) for by in (1e-5, -1e-5)] for unit in range(3)]
        wanted = np.linalg.norm([(up - down) / 2e-5 for up, down in ends])
        np.testing.assert_allclose(found[layer, kind, step], wanted, rtol=1e-5, atol=1e-9)


def test_a_cell_that_remembers_nothing_has_a_gradient_at_its_end_alone():
    @cell
    def forgetful(x, h, W, U, b):
        return tanh(W.h(x) + b.h)

    task = tasks.get("digits", limit=50)
    model = SequenceClassifier(forgetful, 8, 3, 10, 1, dropout=0).requires_grad_(False)
    norms = gradients.gradient_norms(model, task.validation.first(4), Objective(task, TrainingSpec())).by_step
    assert not norms[0, 0, :-1].any()
    assert norms[0, 0, -1] > 0


# Recording.


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_the_weights_are_the_same_to_the_bit_with_and_without(tmp_path, cell):
    recorded = train(spec(model={**MODEL, "cell": cell}), tmp_path / "recorded").run
    plain = train(spec(model={**MODEL, "cell": cell}, record=()), tmp_path / "plain").run
    ours, theirs = load_file(recorded.checkpoint_path), load_file(plain.checkpoint_path)
    assert all(torch.equal(ours[name], value) for name, value in theirs.items())
    assert not (plain.path / gradients.FILE).exists()
    found = gradients.read(recorded.path)
    assert found.epochs.tolist() == [0, 1, 2, 3]
    assert found.norms.shape == (4, 2, {"gru": 1, "lstm": 2}[cell], 8)
    assert (found.norms[:, :, 0] > 0).all()
    best = gradients.gradient_norms(
        recorded.model(), gradients.probe(spec().task.validation), Objective(spec().task, TrainingSpec())
    ).by_step
    np.testing.assert_allclose(found.norms[recorded.manifest().best_epoch], best, rtol=1e-6)


def fail() -> None:
    raise OSError("no space left")


def test_stopped_failed_and_continued_it_is_the_same_record(tmp_path):
    whole = train(spec(), tmp_path / "whole").run
    with pytest.raises(KeyboardInterrupt):
        train(spec(), tmp_path / "pieces", StopAfter(2, lambda: os.kill(os.getpid(), signal.SIGINT)))
    with pytest.raises(OSError, match="no space"):
        train(spec(), tmp_path / "pieces", StopAfter(7, fail))
    pieces = train(spec(), tmp_path / "pieces").run
    ours, theirs = gradients.read(pieces.path), gradients.read(whole.path)
    assert np.array_equal(ours.epochs, theirs.epochs)
    assert np.array_equal(ours.norms, theirs.norms)


SCRIPT = """
import os, signal, sys
from gatelab.training import config, train
from gatelab.training.reporter import Reporter
class Kill(Reporter):
    def epoch(self, line, better):
        if line["epoch"] == 2:
            os.kill(os.getpid(), signal.SIGKILL)
train(config.parse(eval(sys.argv[1]), "here"), sys.argv[2], Kill())
"""


def test_killed_between_epochs_it_is_the_same_record(tmp_path, forks):
    whole = train(spec(), tmp_path / "whole").run
    killed = forks.run(SCRIPT, repr(spec().document()), str(tmp_path / "pieces"))
    assert killed.returncode == -signal.SIGKILL
    assert gradients.read(tmp_path / "pieces").epochs.tolist() == [0, 1]
    pieces = train(spec(), tmp_path / "pieces").run
    assert np.array_equal(gradients.read(pieces.path).norms, gradients.read(whole.path).norms)


def test_what_cannot_be_recorded_is_refused_with_what_can():
    with pytest.raises(ValueError, match=r"record: unknown record 'gradient'; did you mean 'gradients'\?"):
        config.parse({"training": {"record": ["gradient"]}}, "here")
    assert config.parse({"training": {"record": "gradients"}}, "here").training.record == ("gradients",)
    assert "record: []" in config.example()


def test_a_record_that_cannot_be_read_says_so(tmp_path):
    assert gradients.read(tmp_path) is None
    (tmp_path / gradients.FILE).write_bytes(b"half")
    with pytest.raises(DataError, match=r"gradients\.npz cannot be read"):
        gradients.read(tmp_path)
