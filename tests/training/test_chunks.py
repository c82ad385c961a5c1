"""Truncated back-propagation: against a plain loop in torch; the state is carried, detached, saved and restored."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from stopping import StopAfter
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss

from gatelab import tasks
from gatelab.training import ModelSpec, OptimizationSpec, Run, RunSpec, TrainingSpec, build, chunks, evaluation, train
from gatelab.training.objective import Objective

TIMES = ("seconds", "validation_seconds", "samples_per_second")
SINE = "sine:duration=1200,length=20"


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("text") / "t.txt"
    path.write_text("".join("abcd efg\n"[i] for i in np.cumsum(np.random.RandomState(0).randint(0, 3, 3300)) % 9))
    return f"text:path={path}"


def spec(task: str, model: dict | None = None, optimization: dict | None = None, **training) -> RunSpec:
    return RunSpec(
        task=task,
        model=ModelSpec(**{"hidden_size": 10, **(model or {})}),
        optimization=OptimizationSpec(**{"learning_rate": 5e-3, **(optimization or {})}),
        training=TrainingSpec(**{"num_epochs": 2, "batch_size": 4, "threads": 1, **training}),
    )


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_it_is_the_loop_anybody_would_write(tmp_path, text, cell):
    """Segments of the text, chunk by chunk, with a detached state, torch's embedding, clipping and Adam."""
    made = spec(text, {"cell": cell, "embedding_size": 6}, {"clip_norm": 0.5}, bptt=30)
    run = train(made, tmp_path / "run").run
    model = build.model(made.model, made.task, seed=0)
    layer, table, head = model.recurrent, model.input_layer.weight, model.head[-1]
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, foreach=False)
    tokens = torch.from_numpy(made.task.content.tokens[: round(0.9 * 3300)]).long()
    rows = (len(tokens) - 1) // 4
    x, y = (part[: 4 * rows].view(4, rows) for part in (tokens[:-1], tokens[1:]))
    for line in run.metrics():
        state, total, norms = None, 0.0, []
        for start in range(0, rows, 30):
            output, state = layer(nn.functional.embedding(x[:, start : start + 30], table), state)
            state = tuple(s.detach() for s in state) if isinstance(state, tuple) else state.detach()
            loss = cross_entropy(head(output).flatten(0, 1), y[:, start : start + 30].flatten())
            optimizer.zero_grad()
            loss.backward()
            norms.append(float(nn.utils.clip_grad_norm_(model.parameters(), 0.5)))
            optimizer.step()
            total += loss.item() * output.shape[1]
        assert line["train_loss"] == pytest.approx(total / rows, rel=1e-5)
        assert line["gradient_norm"] == pytest.approx(np.mean(norms), rel=1e-4)
    for name, value in load_file(run.checkpoint_path).items():
        if name.startswith("model."):
            torch.testing.assert_close(value, model.state_dict()[name.removeprefix("model.")], rtol=1e-3, atol=1e-5)


def test_gradients_end_at_the_chunk_and_values_do_not(text):
    """The gradient of a chunk is that of its own steps, from a state that is a given number."""
    task = tasks.get(text)
    model = build.model(ModelSpec(hidden_size=7, engine="eager"), task, seed=1)
    part = task.in_streams().train.segments(3)
    first, second = chunks.in_time(part, torch.arange(3), 12)[:2]
    assert not first.continues
    assert second.continues
    with torch.no_grad():
        whole, _ = model.process(part.batch(torch.arange(3), slice(0, 24)).x, None)
    _, state = evaluation.run_chunk(model, part.batch(*first), None)
    state = chunks.detached(state)
    assert not state.requires_grad
    output, _ = evaluation.run_chunk(model, part.batch(*second), state)
    torch.testing.assert_close(output, whole[:, 12:])
    loss = Objective(task, TrainingSpec()).loss(output, part.batch(*second))
    (ours,) = torch.autograd.grad(loss, [model.recurrent.layers[0]["fwd"].U["n"]])
    again = state.clone().requires_grad_()  # if the gradient went on, it would be through this
    output, _ = evaluation.run_chunk(model, part.batch(*second), again)
    loss = Objective(task, TrainingSpec()).loss(output, part.batch(*second))
    (theirs,) = torch.autograd.grad(loss, [model.recurrent.layers[0]["fwd"].U["n"]])
    torch.testing.assert_close(ours, theirs)


def test_every_step_is_trained_on_once(text):
    task = tasks.get(text).in_streams()
    training = TrainingSpec(batch_size=7, bptt=40)
    part, pieces = chunks.epoch(task.train, True, 40, training, 0)
    rows = [torch.cat([part.batch(*piece).x[row] for piece in pieces]) for row in range(7)]
    seen = torch.cat(rows)
    assert torch.equal(seen, task.train.first(1).x[0, : len(seen)])
    assert len(task.train.stored[0]) - len(seen) < 7  # what does not fill a row
    assert [piece.continues for piece in pieces] == [False] + [True] * (len(pieces) - 1)


@pytest.mark.parametrize("kind", ["text", "series", "two layers with dropout", "sequences"])
def test_interrupted_and_resumed_it_is_the_same_bit_for_bit(tmp_path, text, kind):
    np.savez(tmp_path / "d.npz", **ragged())
    made = {
        "text": spec(text, {"cell": "lstm"}, bptt=50),
        "series": spec(SINE, bptt=25),
        "two layers with dropout": spec(text, {"num_layers": 2, "dropout": 0.3}, bptt=50),
        "sequences": spec(f"files:path={tmp_path / 'd.npz'}", bptt=6, batch_size=16),
    }[kind]
    whole = train(made, tmp_path / "whole")
    for batches in (1, 4, 9):
        with pytest.raises(KeyboardInterrupt):
            train(made, tmp_path / "pieces", StopAfter(batches))
        assert any(name.startswith("carried.") for name in load_file(tmp_path / "pieces" / "checkpoint.safetensors"))
    outcome = train(made, tmp_path / "pieces")
    assert outcome.test == whole.test
    one, other = (load_file(run.checkpoint_path) for run in (whole.run, outcome.run))
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert without_times(whole.run) == without_times(outcome.run)


def without_times(run: Run) -> list[dict]:
    return [{key: value for key, value in line.items() if key not in TIMES} for line in run.metrics()]


def ragged() -> dict[str, np.ndarray]:
    """Sequences of unequal length with a target at every step: the running mean."""
    random = np.random.RandomState(0)
    X = random.normal(size=(60, 20, 1))
    return {"X": X, "y": X.cumsum(1) / np.arange(1, 21)[:, None], "lengths": random.randint(3, 21, 60)}


def test_chunks_as_long_as_the_sequences_are_whole_sequences(tmp_path):
    np.savez(tmp_path / "d.npz", **ragged())
    task = f"files:path={tmp_path / 'd.npz'}"
    whole = train(spec(task, batch_size=16), tmp_path / "whole").run
    chunked = train(spec(task, batch_size=16, bptt=20), tmp_path / "chunked").run
    assert load_file(whole.best_path).keys() == load_file(chunked.best_path).keys()
    for name, value in load_file(whole.best_path).items():
        assert torch.equal(value, load_file(chunked.best_path)[name])
    assert whole.manifest().test == chunked.manifest().test
    shorter = train(spec(task, batch_size=16, bptt=5), tmp_path / "shorter").run
    assert shorter.manifest().test != whole.manifest().test
    assert np.isfinite(shorter.manifest().test["mse"])


def test_a_series_is_evaluated_from_its_start_to_its_end(tmp_path):
    """Against the model run over the whole test part at once; the baseline is that of the same steps."""
    made = spec(SINE, {"hidden_size": 16}, {"learning_rate": 1e-2}, bptt=25, num_epochs=15)
    outcome = train(made, tmp_path / "run")
    x, y, _ = made.task.in_streams().test.first(1)
    with torch.no_grad():
        loss = mse_loss(outcome.run.model()(x), y)
    assert outcome.test["mse"] == pytest.approx(float(loss), rel=1e-5)
    baseline = outcome.run.manifest().baseline.value
    assert baseline == pytest.approx(float(mse_loss(x, y)), rel=1e-5)
    assert outcome.test["mse"] < 0.5 * baseline
    assert outcome.run.predictions()["predictions"].shape == y.shape


@pytest.mark.parametrize(
    ("task", "model", "message"),
    [
        ("digits", {}, "training.bptt: the task 'digits' has one target per sequence"),
        ("copy", {}, "training.bptt: the task 'copy' scores the last steps"),
        (SINE, {"bidirectional": True}, "model.bidirectional: a backward direction would see the targets"),
    ],
)
def test_what_does_not_go_with_chunks_is_refused(task, model, message):
    with pytest.raises(ValueError, match=message):
        spec(task, model, bptt=10)


def test_text_is_not_read_backwards(text):
    with pytest.raises(ValueError, match=r"model.bidirectional: a backward direction reads from the end"):
        spec(text, {"bidirectional": True})


def test_predictions_of_a_long_text_are_kept_in_part(tmp_path, text, monkeypatch):
    monkeypatch.setattr(evaluation, "STREAM_STEPS", 50)
    monkeypatch.setattr(evaluation, "KEPT", 400)
    run = train(spec(text, num_epochs=1), tmp_path / "run").run
    saved = run.predictions()
    assert saved["predictions"].shape == (1, 50, 9)
    assert saved["answers"].shape == (1, 50)
    assert int(saved["total_steps"]) == 164
    from gatelab.training.verify import verify

    findings = {finding.file: finding for finding in verify(run)}
    assert "the first 50 of 164 test steps" in findings["predictions.npz"].message
    assert all(finding.good for finding in findings.values())


@pytest.mark.parametrize(
    ("steps", "bptt", "lengths"), [(100, 30, [25] * 4), (90, 30, [30] * 3), (91, 30, [23] * 3 + [22])]
)
def test_the_chunks_of_a_stream_are_even(steps, bptt, lengths):
    part = tasks.Examples(torch.zeros(1, steps, 1), torch.zeros(1, steps, 1), per_step=True)
    _, pieces = chunks.epoch(part, True, 30, TrainingSpec(batch_size=1, bptt=30), 0)
    assert [piece.steps.stop - piece.steps.start for piece in pieces] == lengths
