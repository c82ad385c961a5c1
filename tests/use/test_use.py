"""Prediction with a trained run: moved, loaded without its data, applied to new data."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import gatelab
from gatelab import sealed, tasks
from gatelab.analysis import inspect
from gatelab.data import time_intervals, timestamps
from gatelab.errors import DataError
from gatelab.experiments import config
from gatelab.experiments.bench import Watcher, bench
from gatelab.experiments.executors.local import LocalExecutor
from gatelab.report.inspection.write_inspection import write_inspection
from gatelab.tasks.images import permutation
from gatelab.tasks.series import cuts as series_cuts
from gatelab.training import ModelSpec, OptimizationSpec, Run, RunSpec, TrainingSpec, train
from gatelab.training.verify import verify
from gatelab.use.file_predictions import predict

CELL = """
from pathlib import Path
from gatelab import cell, learned, sigmoid, tanh

with (Path(__file__).parent / "ran.txt").open("a") as file:
    file.write("once\\n")

@cell
def leaky(x, h, W, U, b, *, rate=learned(0.1234567)):
    z = sigmoid(W.z(x) + U.z(h) + b.z)
    n = tanh(W.n(x) + U.n(h) + b.n)
    return h + (0.5 + rate) * z * (n - h)
"""


def gestures(count: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Three kinds of unequal sequences, far from 0 in units of their own."""
    random = np.random.RandomState(seed)
    y = random.randint(0, 3, count)
    X = 100 + 5 * random.standard_normal((count, 16, 2))
    X[..., 0] += 30 * np.sin(np.arange(16) * (y[:, None] + 1) / 3)
    return {"X": X, "y": np.array(["left", "right", "up"])[y], "lengths": random.randint(10, 17, count)}


def trained(path: Path, task: str, epochs: int = 15, **model) -> Run:
    spec = RunSpec(
        task=task,
        model=ModelSpec(**{"hidden_size": 12, **model}),
        optimization=OptimizationSpec(learning_rate=0.02),
        training=TrainingSpec(num_epochs=epochs, batch_size=32, threads=1),
    )
    return train(spec, path).run


@pytest.fixture(scope="module")
def own(tmp_path_factory) -> Path:
    """A run with a cell and data of the user's own, moved to an empty folder; both are gone."""
    home, away = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("away")
    (home / "mine.py").write_text(CELL)
    np.savez(home / "gestures.npz", **gestures(300))
    trained(home / "run", f"files:path={home}/gestures.npz", cell=f"{home}/mine.py:leaky")
    assert (home / "ran.txt").read_text().count("once") == 1
    shutil.move(home / "run", away / "run")
    for file in home.iterdir():
        file.unlink()
    home.rmdir()
    return away / "run"


@pytest.fixture(scope="module")
def series(tmp_path_factory) -> Path:
    """A run that forecasts a wave with dates."""
    home = tmp_path_factory.mktemp("series")
    days = np.datetime64("2024-02-01") + np.arange(400)
    wave = 50 + 10 * np.sin(2 * np.pi * np.arange(400) / 20)
    lines = [f"{day},{value:.6f}" for day, value in zip(days, wave, strict=True)]
    (home / "wave.csv").write_text("date,level\n" + "\n".join(lines) + "\n")
    trained(home / "run", f"files:path={home}/wave.csv,length=30", epochs=25)
    return home


# Self-contained.


def test_moved_to_an_empty_folder_it_predicts_the_same_to_the_bit(own):
    run, model = Run(own), gatelab.load(own)
    data = gestures(300)
    saved = run.predictions()
    # The test set from raw sequences: the split follows from the seed of the task.
    from gatelab.tasks.sampling import split, stream

    test = split(np.unique(data["y"], return_inverse=True)[1], 300, (210, 45, 45), stream(0, "division"))[2]
    output = model.output(data["X"][test] * 1.0, data["lengths"][test])
    assert (output == saved["predictions"]).all()
    expected = np.array(["left", "right", "up"])[saved["predictions"].argmax(1)]
    assert (model.predict(data["X"][test], lengths=data["lengths"][test]) == expected).all()
    assert run.manifest().test["accuracy"] > 0.9


def test_it_answers_for_new_recordings_as_well_as_for_the_test_set(own):
    new = gestures(120, seed=1)
    said = gatelab.load(str(own)).predict(new["X"], lengths=new["lengths"])
    assert np.mean(said == new["y"]) > 0.9


def test_sequences_have_lengths_of_their_own_in_every_batch(own, monkeypatch):
    model, new = gatelab.load(own), gestures(20, seed=1)
    at_once = model.output(new["X"], new["lengths"])
    monkeypatch.setattr("gatelab.use.trained_model.EVALUATED_AT_ONCE", 6)
    np.testing.assert_allclose(model.output(new["X"], new["lengths"]), at_once, atol=1e-5)


def test_a_stream_is_answered_step_by_step(own, series):
    model, sequence = gatelab.load(own), gestures(3, seed=7)["X"][0]
    state = None
    for t in range(len(sequence)):
        label, state = model.step(sequence[t], state)
    assert label == model.predict(sequence)
    with pytest.raises(ValueError, match=r"x has the shape \(2, 5\): expected one step"):
        model.step(np.zeros((2, 5)))
    with pytest.raises(ValueError, match="x has 2 sequences, and the state belongs to 1"):
        model.step(np.stack([sequence[0]] * 2), state)
    forecaster = gatelab.load(series / "run")
    values, state = wave(0, 40), None
    for t in range(40):
        following, state = forecaster.step(values[t], state)
    np.testing.assert_allclose(following, forecaster.predict(values)[-1], rtol=1e-5, atol=1e-5)


def test_another_process_needs_nothing_but_the_directory(own, tmp_path):
    new = gestures(20, seed=2)
    np.savez(tmp_path / "new.npz", X=new["X"], lengths=new["lengths"])
    script = (
        f"import gatelab, numpy; new = numpy.load('new.npz'); model = gatelab.load({str(own)!r}); "
        "print(model.predict_proba(new['X'], lengths=new['lengths']).tobytes().hex())"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    here = gatelab.load(own).predict_proba(new["X"], lengths=new["lengths"])
    assert done.stdout.strip() == here.tobytes().hex()
    np.testing.assert_allclose(here.sum(1), 1)


def test_what_it_is_can_be_asked(own):
    model = gatelab.load(own)
    assert model.classes.tolist() == ["left", "right", "up"]
    assert isinstance(model.module, torch.nn.Module)
    assert model.cell.name == "leaky"
    assert "h' = h + (0.5 + rate) · z ⊙ (n − h)" in model.describe()
    for part in ("files", "3 classes: left, right, up", "2 features per step, trained on up to 16 steps", "accuracy"):
        assert part in model.describe()
    assert "z = σ(W_z x + U_z h + b_z)" in model.describe()
    assert "@cell\ndef leaky(x, h, W, U, b, *, rate=learned(0.1234567)):" in (own / "cell.txt").read_text()


def test_one_sequence_many_sequences_and_lists_are_the_same(own):
    model, data = gatelab.load(own), gestures(6, seed=3)
    X, lengths = data["X"], data["lengths"]
    many = model.predict_proba(X, lengths=lengths)
    pieces = [x[:end] for x, end in zip(X, lengths, strict=True)]
    lists, tensors = [piece.tolist() for piece in pieces], [torch.tensor(piece) for piece in pieces]
    for given in (pieces, lists, tensors, tuple(pieces)):
        np.testing.assert_allclose(model.predict_proba(given), many, rtol=1e-5)
    for piece, expected in zip(pieces, many, strict=True):
        np.testing.assert_allclose(model.predict_proba(piece), expected, rtol=1e-5)
    assert model.predict(pieces[0]).shape == ()
    assert model.predict(X.astype(np.float32)).shape == (6,)
    table = {"1": pieces[0][:, 0], "2": pieces[0][:, 1]}
    np.testing.assert_allclose(model.predict_proba(table), many[0], rtol=1e-5)


@pytest.mark.parametrize(
    ("X", "more", "message"),
    [
        (np.zeros((4, 5, 3)), {}, r"X has the shape \(4, 5, 3\): expected \(T, D\) or \(N, T, D\) with D = 2"),
        (np.zeros(5), {}, r"X has the shape \(5,\): expected"),
        (np.zeros((0, 5, 2)), {}, "expected at least one sequence of one step"),
        ([], {}, "X has the shape"),
        ([np.zeros((3, 2)), np.zeros((3, 1))], {}, r"sequence 1 of X has the shape \(3, 1\)"),
        ([np.zeros((3, 2)), np.zeros((0, 2))], {}, "sequence 1 of X has no steps"),
        ([np.zeros((3, 2))], {"lengths": [3]}, "which have their own lengths: leave them out"),
        (np.zeros((2, 5, 2)), {"lengths": [5]}, r"expected 2 integers from 1 to 5"),
        (np.zeros((2, 5, 2)), {"lengths": [5, 6]}, r"expected 2 integers from 1 to 5"),
        (np.full((2, 5, 2), np.nan), {}, r"X has NaN in sequence 0, step 0, feature 0 \(20 such values\)"),
        (np.array([[1.0, np.inf]]), {}, "X has inf in step 0, feature 1"),
        ("words", {}, "expected numbers"),
        (np.full((1, 3, 2), 1e300), {}, "exceeds the range of float32"),
        ({"1": [1.0]}, {}, "X has 1 columns"),
    ],
)
def test_invalid_input_is_refused(own, X, more, message):
    with pytest.raises(ValueError, match=message):
        gatelab.load(own).predict(X, **more)


def test_what_it_cannot_do_is_said(own, series, tmp_path):
    with pytest.raises(ValueError, match="was not trained on a series"):
        gatelab.load(own).forecast(3)
    with pytest.raises(ValueError, match="have no probabilities: use predict"):
        gatelab.load(series / "run").predict_proba(np.zeros((3, 1)))
    with pytest.raises(DataError, match="is not a run directory"):
        gatelab.load(tmp_path)


# Other kinds of input.


def test_what_lies_beyond_an_end_is_not_looked_at(own):
    new, model = gestures(12, seed=5), gatelab.load(own)
    beyond = np.arange(16) >= new["lengths"][:, None]
    X = np.where(beyond[..., None], np.nan, new["X"])
    expected = model.predict(new["X"], lengths=new["lengths"])
    assert model.predict(X, lengths=new["lengths"]).tolist() == expected.tolist()
    with pytest.raises(ValueError, match="X has NaN in sequence"):
        model.predict(X, lengths=new["lengths"] + (new["lengths"] < 16))


@pytest.mark.parametrize("order", ["rows", "pixels", "permuted"])
def test_images_are_taken_as_they_are(tmp_path, order):
    task = f"digits:limit=100,order={order}"
    run = trained(tmp_path / "run", task, 2)
    from gatelab.tasks import get

    images, labels = get("digits:limit=100").images()["test"], get(task).test.targets
    model = gatelab.load(run.path)
    expected = run.predictions()["predictions"].argmax(1)
    assert len(labels) == len(images)
    for given in (images, images[..., 0], images.astype(float)):
        assert (model.predict(given).astype(int) == expected).all()
    assert int(model.predict(images[3, ..., 0])) == expected[3]
    sequences = images.reshape(len(images), *((8, 8) if order == "rows" else (64, 1)))
    sequences = sequences[:, permutation(64)] if order == "permuted" else sequences  # as the model reads them
    assert (model.predict(sequences).astype(int) == expected).all()
    with pytest.raises(ValueError, match="expected images of shape"):
        model.predict(np.zeros((2, 7, 7)))
    with pytest.raises(ValueError, match="expected unscaled pixels from 0 to 255"):
        model.predict(images[:1] - 1.0 - images.max())


def test_words_are_taken_as_they_are(tmp_path):
    run = trained(tmp_path / "run", "agreement:size=400,gap=4,shortest_gap=2", 4)
    task, model = run.spec().task.with_options(), gatelab.load(run.path)
    part = task.test
    sentences = [[task.vocabulary[t] for t in row[:end]] for row, end in zip(part.stored, part.lengths, strict=True)]
    expected = np.array(task.classes)[run.predictions()["predictions"].argmax(1)]
    assert (model.predict(sentences) == expected).all()
    assert (model.predict([" ".join(words) for words in sentences]) == expected).all()
    assert model.predict(" ".join(sentences[0])) == model.predict(sentences[0]) == expected[0]
    numbers = [part.stored[i][: part.lengths[i]].numpy() for i in range(5)]
    assert (model.predict(numbers) == expected[:5]).all()
    one_hot = np.eye(task.input_size)[numbers[0]]
    assert model.predict(one_hot) == expected[0]
    for vectors in (0 * one_hot, one_hot + np.roll(one_hot, 1, 1)):
        with pytest.raises(ValueError, match="not one-hot: expected a single 1 per step"):
            model.predict(vectors)
    with pytest.raises(ValueError, match="unknown word in X: 'cart'; did you mean 'cat"):
        model.predict("the cart that")
    with pytest.raises(ValueError, match="indices in the vocabulary"):
        model.predict([[1, 999]])


def test_numbers_come_back_in_their_own_units(tmp_path):
    random = np.random.RandomState(0)
    X = random.uniform(0, 1000, (200, 6, 1))
    np.savez(tmp_path / "sums.npz", X=X, y=X.mean((1, 2)))
    run = trained(tmp_path / "run", f"files:path={tmp_path}/sums.npz", 40)
    said = gatelab.load(run.path).predict(X)
    assert said.shape == (200, 1)
    assert np.abs(said[:, 0] - X.mean((1, 2))).mean() < 30
    assert gatelab.load(run.path).predict(X[0, :, 0]).shape == (1,)


def test_labels_come_back_as_they_were(tmp_path):
    data = gestures(60)
    for y in (data["y"] == "up", np.where(data["y"] == "up", 7, -3)):
        np.savez(tmp_path / "d.npz", X=data["X"], y=y)
        model = gatelab.load(trained(tmp_path / str(y.dtype), f"files:path={tmp_path}/d.npz", 1).path)
        assert model.predict(data["X"]).dtype == y.dtype
        assert set(model.predict(data["X"]).tolist()) <= set(y.tolist())


# Series.


def test_a_series_is_continued_in_its_own_units_with_dates(series, cli, tmp_path):
    assert np.abs(gatelab.load(series / "run").forecast(10)[:, 0] - wave(400, 410)).max() < 3
    code, out, _ = cli("forecast", series / "run", "--steps", 3, "--plot", tmp_path / "f.png")
    assert code == 0
    rows = [line.split(",") for line in out.splitlines()[:4]]
    assert [row[0] for row in rows] == ["time", "2025-03-07", "2025-03-08", "2025-03-09"]
    assert rows[0][1] == "level"
    assert (tmp_path / "f.png").stat().st_size > 5000
    os.rename(series / "wave.csv", tmp_path / "elsewhere.csv")
    try:
        assert (gatelab.load(series / "run").forecast(3)[:, 0] == [float(row[1]) for row in rows[1:]]).all()
        newer = [f"2026-01-{day:02},{value:.6f}" for day, value in zip(range(1, 31), wave(7, 37), strict=True)]
        (tmp_path / "newer.csv").write_text("level,date\n" + "\n".join(",".join(row.split(",")[::-1]) for row in newer))
        out_file = tmp_path / "out.csv"
        code, _, _ = cli("forecast", series / "run", "--steps", 2, "--data", tmp_path / "newer.csv", "--out", out_file)
        lines = out_file.read_text().splitlines()
        assert [line.split(",")[0] for line in lines] == ["time", "2026-01-31", "2026-02-01"]
        assert float(lines[1].split(",")[1]) == pytest.approx(wave(37, 38)[0], abs=2)
    finally:
        os.rename(tmp_path / "elsewhere.csv", series / "wave.csv")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"ending": np.zeros((24, 1), "datetime64[s]")},
            r"the end of the series is datetime64\[s\] of shape \(24, 1\)",
        ),
        ({"ending": np.zeros((0, 1))}, "the end of the series has no steps"),
        ({"ending": np.full((24, 1), np.nan)}, "or values that are not finite"),
        ({"ending_stamps": np.zeros(24)}, r"the times of the end of the series are float64 of shape \(24,\)"),
        ({"ending_stamps": np.zeros(10**4, np.int64)}, r"the times of the end of the series are int64 of shape"),
    ],
)
def test_a_forged_end_of_a_series_is_refused(series, tmp_path, change, message):
    shutil.copytree(series / "run", tmp_path / "run")
    kept = tmp_path / "run" / "examples.npz"
    sealed.write_arrays(kept, sealed.read_arrays(kept) | change)
    with pytest.raises(DataError, match=message):
        gatelab.load(tmp_path / "run").forecast(3)
    (found,) = [finding for finding in verify(Run(tmp_path / "run")) if not finding.good]
    assert found.file == "examples.npz"


def wave(start: int, end: int) -> np.ndarray:
    return 50 + 10 * np.sin(2 * np.pi * np.arange(start, end) / 20)


def test_a_series_that_drifts_is_differenced_and_beats_persistence(tmp_path):
    """A trend and a season, as of CO2: the levels of the test part were never seen in training."""
    t, noise = np.arange(500), np.random.RandomState(0).normal(size=500)
    level = 315 + 0.1 * t + 3 * np.sin(2 * np.pi * t / 12) + 0.3 * noise
    (tmp_path / "d.csv").write_text("level\n" + "\n".join(f"{value:.3f}" for value in level))
    run = trained(tmp_path / "run", f"files:path={tmp_path}/d.csv,length=24", 25)
    errors = run.manifest().errors["level"]
    assert run.preparation.differenced
    assert errors["rmse"] < 0.7 * errors["baseline_rmse"]
    changes = np.diff(np.round(level, 3))
    assert errors["baseline_rmse"] == pytest.approx(np.sqrt(np.square(changes[-74:]).mean()), rel=0.2)
    model, truth = (
        gatelab.load(run.path),
        315 + 0.1 * np.arange(500, 512) + 3 * np.sin(2 * np.pi * np.arange(500, 512) / 12),
    )
    assert np.abs(model.forecast(12)[:, 0] - truth).max() < 2.5
    # The test set from raw windows: the same output, bit for bit, and levels in the units of the data.
    task = tasks.get("files", path=tmp_path / "d.csv", length=24)
    start = series_cuts(500)[2]
    windows = np.lib.stride_tricks.sliding_window_view(np.round(level, 3)[start:-1], 24)[..., None]
    assert (model.output(windows) == run.predictions()["predictions"]).all()
    said = model.predict(windows)
    assert np.abs(said[:, :, 0] - np.lib.stride_tricks.sliding_window_view(level[start + 1 :], 24)).mean() < 1.0
    assert task.is_differenced
    assert not tasks.get("files", path=tmp_path / "d.csv", length=24, difference=False).is_differenced


@pytest.mark.usefixtures("one_picture")
def test_a_series_can_be_inspected_when_its_file_is_gone(tmp_path):
    (tmp_path / "d.csv").write_text("v\n" + "\n".join(map(str, np.random.RandomState(0).normal(size=300))))
    run = trained(tmp_path / "run", f"files:path={tmp_path}/d.csv,length=10", 1)
    (tmp_path / "d.csv").unlink()
    page = write_inspection(inspect(run.path), tmp_path / "page")
    assert "in units of the scaled targets" in page.read_text()


def test_options_for_tables_are_refused_for_other_files(tmp_path):
    data = gestures(30)
    np.savez(tmp_path / "d.npz", **data)
    for option in ({"difference": True}, {"length": 7}, {"header": True}):
        with pytest.raises(DataError, match=f"{next(iter(option))} is for tables, leave it out"):
            len(tasks.get("files", path=tmp_path / "d.npz", **option).train)
    assert tasks.get("files", path=tmp_path / "d.npz").with_options(seed=1).content is not None


def test_a_series_without_drift_is_forecast_by_its_levels(series):
    assert not Run(series / "run").preparation.differenced
    forced = tasks.get("files", path=series / "wave.csv", length=30, difference=True)
    x, y, _ = forced.train.first(1)
    scaling = forced.target_scaling
    np.testing.assert_allclose(scaling.undo(y[0].numpy())[:, 0], np.diff(wave(0, 31)), atol=1e-4)
    np.testing.assert_allclose(scaling.undo(x[0].numpy())[1:, 0], np.diff(wave(0, 30)), atol=1e-4)
    assert scaling.undo(x[0].numpy())[0, 0] == pytest.approx(0, abs=1e-6)  # what was before the window is not known


def test_it_continues_as_the_network_itself_does(series):
    model = gatelab.load(series / "run")
    window = wave(370, 400)
    scaled = model.preparation.encode(np.round(window, 6)[None, :, None])
    with torch.no_grad():
        theirs = model.preparation.decode(model.module.predict_future(scaled, 12)[0].numpy(), np.empty(0))
    np.testing.assert_allclose(model.forecast(12), theirs, rtol=1e-6)
    np.testing.assert_allclose(model.forecast(12, data=np.round(window, 6)), theirs, rtol=1e-6)
    np.testing.assert_allclose(model.forecast(12, data={"level": np.round(window, 6)}), theirs, rtol=1e-6)
    for steps in (0, 2.5, True):
        with pytest.raises(ValueError, match="expected an integer from 1 to 100,000"):
            model.forecast(steps)
    with pytest.raises(ValueError, match="unknown column of X: 'levle'; did you mean 'level'"):
        model.forecast(1, data={"levle": window})
    with pytest.raises(ValueError, match="has no exogenous inputs: leave it out"):
        model.forecast(2, future=[1.0])


def test_further_inputs_are_asked_for(tmp_path, cli):
    random = np.random.RandomState(0)
    drive = random.standard_normal(300)
    level = np.concatenate([[0.0], 3 * drive[:-1]]) + 20  # what follows from the input of one step before
    rows = "\n".join(f"{a},{b}" for a, b in zip(level, drive, strict=True))
    (tmp_path / "d.csv").write_text(f"level,drive\n{rows}")
    run = trained(tmp_path / "run", f"files:path={tmp_path}/d.csv,columns=level,inputs=drive,length=10", 30)
    model = gatelab.load(run.path)
    assert model.forecast(1)[0, 0] == pytest.approx(20 + 3 * drive[-1], abs=1)
    with pytest.raises(ValueError, match=r"exogenous inputs \(drive\): give their values for 3 future steps"):
        model.forecast(4)
    future = np.array([1.0, -1.0, 0.5])
    np.testing.assert_allclose(model.forecast(4, future=future)[1:, 0], 20 + 3 * future, atol=1.5)
    with pytest.raises(ValueError, match="future has 2 steps: expected at least 3"):
        model.forecast(4, future=[1.0, 2.0])
    (tmp_path / "f.csv").write_text("drive\n1\n-1\n0.5\n")
    code, out, _ = cli("forecast", run.path, "--steps", 4, "--future", tmp_path / "f.csv")
    assert code == 0
    said = [float(line.split(",")[1]) for line in out.splitlines()[1:]]
    assert said == model.forecast(4, future=future)[:, 0].tolist()
    assert cli("forecast", run.path, "--steps", 2)[0] == 2


@pytest.mark.parametrize(
    ("texts", "following"),
    [
        (["2024-01-01", "2024-01-02", "2024-01-03"], ["2024-01-04", "2024-01-05"]),
        (["2024-01-31", "2024-02-29", "2024-03-31"], ["2024-04-30", "2024-05-31"]),
        (["01.11.2023", "01.12.2023", "01.01.2024"], ["2024-02-01", "2024-03-01"]),
        (["12/30/2023", "12/31/2023", "01/01/2024"], ["2024-01-02", "2024-01-03"]),
        (["2023-10", "2024-01", "2024-04"], ["2024-07-01", "2024-10-01"]),
        (["2024-01-01T22:00:00Z", "2024-01-01T23:00:00Z"], ["2024-01-02 00:00:00", "2024-01-02 01:00:00"]),
        (["2024-01-01 00:00", "2024-01-01 00:15"], ["2024-01-01 00:30:00", "2024-01-01 00:45:00"]),
        (["2024-01-04", "2024-01-05", "2024-01-08", "2024-01-09"], ["2024-01-10", "2024-01-11"]),
        (["2024-01-04", "2024-01-05", "2024-01-08"], ["2024-01-09", "2024-01-10"]),
        (["11/01/2019", "12/01/2019"], None),  # two days of January, or two months
        (["10/12/2019", "11/12/2019", "12/12/2019", "13/12/2019"], ["2019-12-14", "2019-12-15"]),
        (["2024-01-01", "2024-01-03", "2024-01-04"], None),
        (["2024-01-02", "2024-01-01"], None),
        (["monday", "tuesday"], None),
    ],
)
def test_times_are_recognised_and_continued(texts, following):
    known = timestamps.parse(texts)
    times = None if known is None else time_intervals.future(known, 2)
    assert (None if times is None else timestamps.format_times(times)) == following


# Files.


def test_predict_takes_every_kind_of_file_with_and_without_labels(own, tmp_path, cli):
    new = gestures(12, seed=5)
    model = gatelab.load(own)
    expected = model.predict(new["X"], lengths=new["lengths"]).tolist()
    np.savez(tmp_path / "plain.npz", X=new["X"], lengths=new["lengths"])
    np.savez(tmp_path / "labelled.npz", **new)
    for folder in ("flat", "by_class"):
        for i in range(12):
            place = tmp_path / folder / (new["y"][i] if folder == "by_class" else "") / f"{i:02}.csv"
            place.parent.mkdir(parents=True, exist_ok=True)
            rows = "\n".join(f"{a!r},{b!r}" for a, b in new["X"][i, : new["lengths"][i]].tolist())
            place.write_text(f"speed,force\n{rows}\n")
    for name, scored in (("plain.npz", False), ("labelled.npz", True), ("flat", False), ("by_class", True)):
        code, out, err = cli("predict", own, tmp_path / name)
        assert code == 0
        rows = [line.split(",") for line in out.splitlines()]
        assert rows[0] == ["sequence", "predicted", "p", *(["true"] if scored else [])]
        said = {row[0].removesuffix(".csv").rpartition("/")[2]: row[1] for row in rows[1:]}
        assert [said[f"{i:02}" if str(i) not in said else str(i)] for i in range(12)] == expected
        assert ("12 predictions: accuracy" in err) == scored
    assert predict(model, tmp_path / "labelled.npz").note == ""
    true = np.where(np.arange(12) == 3, "down", new["y"])
    np.savez(tmp_path / "strange.npz", **{**new, "y": true})
    strange = predict(model, tmp_path / "strange.npz")
    assert strange.note == "labels unknown to the model count as errors: down"
    assert strange.scores["accuracy"] == np.mean(np.delete(new["y"] == expected, 3)) * 11 / 12
    found = [np.mean(np.array(expected)[true == label] == label) for label in ("down", "left", "right", "up")]
    assert strange.scores["recall"] == pytest.approx(np.mean(found))  # every class counts the same
    code, out, _ = cli("predict", own, tmp_path / "flat" / "03.csv", "--proba")
    assert out.splitlines()[0] == "sequence,predicted,p(left),p(right),p(up)"
    assert out.splitlines()[1].split(",")[1] == expected[3]
    code, out, _ = cli("predict", own, tmp_path / "plain.npz", "--out", tmp_path / "out.csv")
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 13


def test_labels_of_steps_stand_beside_their_predictions(tmp_path):
    random = np.random.RandomState(0)
    y, lengths = np.array(["a", "b"])[random.randint(0, 2, (40, 6))], random.randint(2, 7, 40)
    np.savez(tmp_path / "d.npz", X=random.standard_normal((40, 6, 1)), y=y, lengths=lengths)
    run = trained(tmp_path / "run", f"files:path={tmp_path}/d.npz", 1)
    rows = predict(gatelab.load(run.path), tmp_path / "d.npz").rows
    assert [row[0] for row in rows[:2]] == ["0, step 0", "0, step 1"]
    assert [row[-1] for row in rows] == [label for row, end in zip(y, lengths, strict=True) for label in row[:end]]


def test_a_sequence_may_be_a_parquet_file(own, tmp_path, cli):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    X = gestures(1)["X"][0]
    table = pyarrow.table({"a": X[:, 0], "b": X[:, 1]})
    parquet.write_table(table, tmp_path / "one.parquet")
    code, out, _ = cli("predict", own, tmp_path / "one.parquet")
    assert code == 0
    assert out.splitlines()[1].split(",")[1] == gatelab.load(own).predict(X)


def test_predictions_of_a_series_stand_beside_what_came(series, cli):
    code, out, err = cli("predict", series / "run", series / "wave.csv")
    assert code == 0
    rows = [line.split(",") for line in out.splitlines()]
    assert rows[0] == ["time", "predicted level", "level"]
    assert len(rows) == 400
    assert rows[1][0] == "2024-02-02"
    said, right = (np.array([float(row[i]) for row in rows[60:]]) for i in (1, 2))
    assert np.abs(said - right).mean() < 1.5
    assert "mae of the persistence baseline" in err
    assert "these are not test scores" in err


def test_invalid_files_are_refused(own, series, tmp_path, cli):
    np.savez(tmp_path / "wide.npz", X=np.zeros((3, 4, 5)))
    np.savez(tmp_path / "none.npz", Z=np.zeros(3))
    (tmp_path / "empty").mkdir()
    (tmp_path / "a.csv").write_text("a,b,c\n1,2,3\n4,5,6\n")
    (tmp_path / "b.jpg").write_text("")
    for run, name, message in (
        (own, "wide.npz", "expected (T, D) or (N, T, D) with D = 2"),
        (own, "none.npz", "has the arrays Z: expected X"),
        (own, "empty", "has no sequences"),
        (own, "a.csv", "with D = 2"),
        (own, "b.jpg", "ends in '.jpg'"),
        (own, "nowhere", "there is no file or folder"),
        (series / "run", "a.csv", "has no column 'level'"),
        (series / "run", "wide.npz", "is not a table"),
    ):
        code, out, err = cli("predict", run, tmp_path / name)
        assert (code, out) == (2, "")
        assert message in err
    for more in (["--out", series / "wave.csv"], ["--proba"]):
        assert cli("predict", series / "run", series / "wave.csv", *more)[0] == 2


# What a run was made with.


def test_workers_need_neither_the_file_nor_the_folder(tmp_path, monkeypatch):
    """It is gone when the first of them starts; its removed gates are removed from the same equations."""
    (tmp_path / "mine.py").write_text(CELL)
    np.savez(tmp_path / "gestures.npz", **gestures(60))
    monkeypatch.chdir(tmp_path)
    document = {
        "task": {"name": "files", "path": "gestures.npz"},
        "model": {"cell": "mine.py:leaky", "hidden_size": 4},
        "arms": {"ungated": {"remove": {"z": 1.0}}},
        "training": {"num_epochs": 1},
        "runs": 1,
    }
    spec = config.parse(document, "here")

    class Thief(Watcher):
        def start(self, runs, ended, directory):
            (tmp_path / "mine.py").unlink()

    results = bench(spec, tmp_path / "out", LocalExecutor(2), Thief())
    assert {name: model.counts for name, model in results.models.items()} == {
        "base": {"done": 1},
        "ungated": {"done": 1},
    }
    assert (tmp_path / "ran.txt").read_text().count("once") == 1
    assert "z" not in gatelab.load(tmp_path / "out" / "runs" / "ungated" / "seed-0").cell.gates


@pytest.mark.usefixtures("one_picture")
def test_a_change_is_named_and_refused_unless_one_insists(tmp_path, monkeypatch, cli):
    (tmp_path / "mine.py").write_text(CELL)
    np.savez(tmp_path / "gestures.npz", **gestures(60))
    monkeypatch.chdir(tmp_path)
    trained(tmp_path / "run", "files:path=gestures.npz", 1, cell="mine.py:leaky")
    before = gatelab.load("run").predict_proba(gestures(5)["X"])
    (tmp_path / "mine.py").write_text(CELL.replace("tanh(", "sin("))
    for command in (["inspect", "run", "--out", "look"], ["train", "--resume", "run", "--epochs", "2"]):
        code, _, err = cli(*command)
        assert code == 2
        assert "mine.py, from which its cell was taken, was edited" in err
        assert "--accept-changes" in err
    assert (gatelab.load("run").predict_proba(gestures(5)["X"]) == before).all()  # its own equations, as ever
    assert cli("inspect", "run", "--out", "look", "--accept-changes")[0] == 0
    (tmp_path / "mine.py").write_text(CELL)
    np.savez(tmp_path / "gestures.npz", **gestures(60, seed=9))
    more = ["train", "--resume", "run", "--epochs", "2"]
    for command in (["inspect", "run"], ["predict", "run", "gestures.npz"], more):
        code, _, err = cli(*command)
        assert code == 2
        said = "its data was" if command == more else "gestures.npz is not what it was trained and tested on"
        assert said in err
    assert cli("predict", "run", "gestures.npz", "--accept-changes")[0] == 0
    code, _, err = cli(*more, "--accept-changes")  # the weights belong to the scaling that they were learned with
    assert (code, "cannot be continued with other data" in err) == (2, True)
    np.savez(tmp_path / "gestures.npz", **gestures(60))
    (tmp_path / "mine.py").write_text(CELL + "# a remark\n")
    for command in (["predict", "run", "gestures.npz"], more):
        assert cli(*command)[0] == 2
    code, out, _ = cli(*more, "--accept-changes")
    assert code == 0
    assert "note: accepted: " in out
    (entry,) = Run("run").manifest().resumed
    assert "mine.py, from which its cell was taken, was edited" in entry.changed[0]
    assert entry.versions["torch"] == torch.__version__
    trained(tmp_path / "run", "files:path=gestures.npz", 2, cell="mine.py:leaky")  # named anew it is the same run


@pytest.mark.usefixtures("one_picture")
def test_inspect_shows_what_was_kept_when_the_data_is_gone(own, cli, tmp_path):
    code, _, err = cli("inspect", own, "--out", tmp_path / "page")
    assert code == 0
    assert "The data is not available: examples are the first 45 of the test set, which the run has kept." in err
    assert "which the run has kept" in (tmp_path / "page" / "inspect.html").read_text()


def test_the_record_says_all_that_lies_between_input_and_answer(own):
    record = json.loads((own / "model.json").read_text())
    prepared = record["preparation"]
    assert prepared["classes"] == ["left", "right", "up"]
    assert len(prepared["scaling"]["mean"]) == len(prepared["scaling"]["deviation"]) == 2
    assert prepared["steps"] == 16
    assert record["cell"]["text"] == CELL
    assert record["cell"]["equations"]["options"]["rate"] == {"value": 0.1234567, "learned": True}


def hourly_file(folder, steps=400, name="hourly.csv", start="2025-01-01T00", gap=()):
    stamps = np.datetime64(start, "h") + np.arange(steps)
    wind = np.cos(np.arange(steps) / 9)
    load = np.cumsum(np.sin(np.arange(steps) / 7)) * 0.1 + wind
    rows = [
        f"{stamp},{'' if i in gap else f'{a:.4f}'},{b:.4f}"
        for i, (stamp, a, b) in enumerate(zip(stamps, load, wind, strict=True))
    ]
    (folder / name).write_text("\n".join(["time,load,wind", *rows]) + "\n")
    return folder / name


def test_a_series_trained_in_chunks_is_used_with_its_state_carried_along(tmp_path, monkeypatch):
    path = hourly_file(tmp_path)
    task = tasks.get("files", path=path, columns="load", inputs="wind", length=3)
    spec = RunSpec(task=task, model=ModelSpec(hidden_size=6), training=TrainingSpec(num_epochs=2, bptt=20, threads=1))
    run = train(spec, tmp_path / "run").run
    lines = path.read_text().splitlines()
    (tmp_path / "test.csv").write_text("\n".join([lines[0], *lines[1 + task.cuts[2] :]]) + "\n")
    scores = predict(gatelab.load(run.path), tmp_path / "test.csv").scores
    load = np.array([float(line.split(",")[1]) for line in lines[1 + task.cuts[2] :]])
    assert scores["mae of the persistence baseline"] == pytest.approx(np.abs(np.diff(load)).mean())
    # The first change of a differenced series is known in the run, and not to a file that begins there.
    assert scores["mae"] == pytest.approx(run.manifest().errors["load"]["mae"], rel=0.02)
    model = gatelab.load(run.path)
    np.testing.assert_allclose(model.forecast(1), model.forecast(1, data=path), rtol=1e-6)
    wind = np.array([float(line.split(",")[2]) for line in lines[1 + task.cuts[2] :]])
    by_name, in_order = {"wind": wind, "load": load}, np.stack([load, wind], -1)
    np.testing.assert_array_equal(model.predict(by_name), model.predict(in_order))
    monkeypatch.setattr("gatelab.use.trained_model.STREAM_STEPS", 7)
    assert predict(model, tmp_path / "test.csv").scores["mae"] == pytest.approx(scores["mae"], rel=1e-5)


def test_future_inputs_are_those_of_the_forecasts_times(tmp_path):
    path = hourly_file(tmp_path)
    task = tasks.get("files", path=path, columns="load", inputs="wind", length=5)
    train(
        RunSpec(task=task, model=ModelSpec(hidden_size=4), training=TrainingSpec(num_epochs=1, threads=1)),
        tmp_path / "run",
    )
    model = gatelab.load(tmp_path / "run")
    later = hourly_file(tmp_path, 420, "later.csv")
    wind = np.cos(np.arange(400, 403) / 9).round(4)[:, None]
    np.testing.assert_array_equal(model.forecast(4, future=later), model.forecast(4, future=wind))
    with pytest.raises(ValueError, match=r"hourly\.csv has no row for 2025-01-17 16:00:00: it has 2025-01-01"):
        model.forecast(4, future=path)


def test_what_may_mislead_is_described(tmp_path):
    path = hourly_file(tmp_path, gap=range(380, 390))
    task = tasks.get("files", path=path, columns="load", length=5, fill="previous")
    assert "10 of 60 test values are filled, not measured" in task.describe().remarks["caution"]
    rows = [f"{i},p{i % 5},{i * t},{'ab'[i % 2]}" for i in range(20) for t in range(4)]
    (tmp_path / "long.csv").write_text("\n".join(["id,patient,v,label", *rows]))
    described = tasks.get("files", path=tmp_path / "long.csv", columns="v").describe().remarks["caution"]
    assert "group=patient keeps them together" in described


def test_a_file_of_one_sequence_is_read_once_and_as_the_training_data_was(tmp_path, monkeypatch):
    """With header=true, its first line has the names, even if they are numbers."""
    from gatelab.data.formats import csv_files
    from gatelab.use import file_predictions

    lines = [f"{i},{step},{i % 2}" for i in range(20) for step in range(4)]
    (tmp_path / "long.csv").write_text("id,7,label\n" + "\n".join(lines))
    preparation = tasks.get("files", path=tmp_path / "long.csv", header=True).preparation
    (tmp_path / "one.csv").write_text("7\n5\n6")
    parsed, read = [], csv_files.read
    monkeypatch.setattr(csv_files, "read", lambda *arguments: parsed.append(arguments) or read(*arguments))
    sequences = file_predictions.read(tmp_path / "one.csv", preparation)
    assert sequences.values[..., 0].tolist() == [[5, 6]]
    assert len(parsed) == 1
