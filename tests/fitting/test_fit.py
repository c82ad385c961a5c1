"""`gatelab fit`: a file becomes a run or a forecaster, with a report; and what can be done with these afterwards."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from types import SimpleNamespace

import browser
import numpy as np
import pytest

import gatelab
from gatelab.data.index import Index
from gatelab.data.series import Series
from gatelab.errors import DataError
from gatelab.estimators import defaults, restarting
from gatelab.estimators.forecasting import progress
from gatelab.estimators.forecasting.backtest import Backtest
from gatelab.fitting import figures, file_task, forecasts
from gatelab.fitting import page as pages
from gatelab.fitting import words as fit_words
from gatelab.fitting.comparison import MethodComparison, wilson
from gatelab.fitting.series_fit import Backtested
from gatelab.report.progress import ForecasterProgress
from gatelab.sklearn import RecurrentForecaster
from gatelab.training import Run

HOSTILE = "<script>alert(1)</script>"
SMALL = ("--set", "model.hidden_size=4", "--threads", "1")
QUICK = [f"--set={each}" for each in ("num_networks=1", "num_steps=32", "transform=difference", "log=false")]


def write_csv(path: Path, titles: list[str], rows: list[list]) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([titles, *rows])
    return path


def gestures(count: int = 40, seed: int = 0) -> tuple[np.ndarray, list[str]]:
    """Waves of two frequencies, (N, 12)."""
    random = np.random.RandomState(seed)
    fast = np.arange(count) % 2
    waves = np.sin((1 + fast[:, None]) * np.arange(12) / 2) + 0.1 * random.standard_normal((count, 12))
    return waves, [HOSTILE if each else "a & b" for each in fast]


def wide(path: Path, count: int = 40, seed: int = 0, labels: bool = True) -> Path:
    waves, names = gestures(count, seed)
    rows = [([name] if labels else []) + wave.round(6).tolist() for wave, name in zip(waves, names, strict=True)]
    return write_csv(path, [*(["gesture"] if labels else []), *(f"t{i}" for i in range(12))], rows)


def monthly(path: Path, first: int = 0, last: int = 60, without: tuple[int, ...] = (), more: bool = False) -> Path:
    """A noisy season with a trend; `more` adds a covariate that the series depends on."""
    random = np.random.RandomState(0)
    noise, promoted = random.standard_normal(200), random.randint(0, 2, 200)
    rows = []
    for i in range(first, last):
        value = 100 + i + 10 * np.sin(i * np.pi / 6) + noise[i] + 20 * more * promoted[i]
        rows.append([f"{2015 + i // 12}-{i % 12 + 1:02d}-01", round(value, 3), promoted[i]])
    return write_csv(path, ["date", "sales", "promotion"], [row for i, row in enumerate(rows) if i not in without])


def words(text: str) -> str:
    """Text without the line breaks of a terminal."""
    return " ".join(text.split())


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_classes(tmp_path, cli, open_page, monkeypatch):
    file, run = wide(tmp_path / "gestures.csv"), tmp_path / "run"
    command = ("fit", file, "--target", "gesture", "--epochs", 3, *SMALL, "--output-dir", run)
    code, out, err = cli(*command)
    assert code == 0, err
    for fact in (
        "wide table: one sequence per row, the label in column 'gesture'",
        "28 training, 6 validation, 6 test",
        "70 / 15 / 15 %, random, stratified by label",
        "bidirectional gru, 1 layer of 4 units per direction",
        "standardized with mean and standard deviation of the training set",
        "3 epochs",
        "epoch with the best validation accuracy",
        "network",
        "majority class 50.0 %",
        "logistic regression",
        f"The report is {run}/report.html",
    ):
        assert fact in words(out), fact

    # The page: escaped, with what the run has.
    page = (run / "report.html").read_text()
    assert HOSTILE not in page
    assert "&lt;script&gt;alert(1)" in page
    assert f"{100 * Run(run).manifest().test['accuracy']:.1f}" in page
    for width, scheme in browser.VIEWS[::3]:
        view = open_page(run / "report.html", width, scheme)
        browser.refuse_clipped(view)
        titles = view.locator("h2").all_inner_texts()
    assert titles == [
        "Result", "What was assumed", "Data", "Classes", "Training", "Confusion matrix", "Worst errors",
        "Commands to go on with",
    ]  # fmt: skip

    for name in ("explore", "inspect"):
        code, _, err = cli(name, run)
        assert code == 2
        assert f"as `gatelab fit {file} … --set model.stem=none --output-dir NEW` makes it" in err

    # The run is one as any other.
    assert cli("verify", run)[0] == 0
    assert cli("export", run, "--to", "json", "--out", tmp_path / "model.json")[0] == 0
    new = wide(tmp_path / "new.csv", 10, seed=1, labels=False)
    code, out, err = cli("predict", run, new)
    assert code == 0, err
    expected = gatelab.load(run).predict(np.loadtxt(new, delimiter=",", skiprows=1)[..., None])
    assert [row["predicted"] for row in rows_of(out)] == expected.tolist()

    # The same command again ends with the same run; another one is refused.
    written = []
    monkeypatch.setattr(pages, "write_sequences", lambda fit, path, name: written.append(path))
    code, _, err = cli(*command)
    assert code == 0, err
    assert written == [run]
    code, _, err = cli(*command, "--seed", 1)
    assert code == 2
    assert "training.seed is 0 there and 1 now" in err


def many_classes(path: Path, classes: int = 12) -> Path:
    """One training example of each class, and a test set."""
    random = np.random.RandomState(0)
    shapes = random.standard_normal((classes, 24)).cumsum(1)
    y = np.concatenate([np.arange(classes), np.repeat(np.arange(classes), 3)])
    split = np.where(np.arange(len(y)) < classes, "train", "test")
    np.savez(path, X=(shapes[y] + 0.1 * random.standard_normal((len(y), 24)))[..., None], y=y, split=split)
    return path


def test_one_training_example_of_each_class(tmp_path, cli, monkeypatch):
    file, run = many_classes(tmp_path / "many.npz"), tmp_path / "run"
    code, out, err = cli("fit", file, "--epochs", 40, *SMALL, "--output-dir", run)
    assert code == 0, err
    assert "12 training, 0 validation, 36 test" in words(out)
    assert "no validation set: it would take the last 2 training examples of most classes" in words(out)
    assert "kept weights last epoch" in words(out)
    assert Run(run).best_epoch() == 40
    assert Run(run).manifest().test["accuracy"] > 0.8
    assert "The weights are those of epoch 40 of 40, the last one." in (run / "report.html").read_text()


def test_a_test_set_of_another_kind(tmp_path, cli, monkeypatch):
    """Its labels are right by chance alone: the difference from validation is no chance, and is said."""
    monkeypatch.setattr(pages, "write_sequences", lambda fit, path, name: None)
    waves, names = gestures(160)
    split = np.where(np.arange(160) < 110, "train", "test")
    labels = [names[i] if split[i] == "train" else names[i // 2] for i in range(160)]
    rows = [[label, part, *wave] for label, part, wave in zip(labels, split, waves.round(6).tolist(), strict=True)]
    file = write_csv(tmp_path / "gestures.csv", ["gesture", "split", *(f"t{i}" for i in range(12))], rows)
    flags = ("--target", "gesture", "--epochs", 12, "--set", "model.hidden_size=8", "--threads", 1)
    code, out, err = cli("fit", file, *flags, "--output-dir", tmp_path / "run")
    assert code == 0, err
    assert "The test accuracy is lower than on the 16 validation sequences (100.0 %) by" in words(out)
    assert "points (99 % confidence interval" in words(out)
    assert "The test set is probably of another kind" in words(out)


def test_cautions_stand_apart(tmp_path, cli):
    """After what was assumed on the terminal, below the result on the page."""
    waves, names = gestures()
    rows = [
        [name, f"u{i % 5}", *wave] for i, (name, wave) in enumerate(zip(names, waves.round(6).tolist(), strict=True))
    ]
    file = write_csv(tmp_path / "gestures.csv", ["gesture", "user", *(f"t{i}" for i in range(12))], rows)
    flags = ("--target", "gesture", "--option", "layout=wide", "--epochs", 1, *SMALL)
    code, out, err = cli("fit", file, *flags, "--output-dir", tmp_path / "run")
    assert code == 0, err
    caution = "sequences of one user may be in training and test set; --option group=user keeps them together."
    assert out.index("random seed") < out.index(f"\nCaution: {caution}\n") < out.index("epoch   1/1")
    page = (tmp_path / "run/report.html").read_text()
    assert page.index(">Result<") < page.index(">Caution<") < page.index(">What was assumed<")
    assert page.count("group=user") == 1
    rows = [[f"2020-{1 + i // 28:02d}-{1 + i % 28:02d}", "" if i == 130 else i % 7] for i in range(140)]
    file = write_csv(tmp_path / "series.csv", ["date", "value"], rows)
    code, out, err = cli("fit", file, "--horizon", 2, *QUICK, "--option", "fill=previous", "--option", "time=none",
                         "--output-dir", tmp_path / "series")  # fmt: skip
    assert code == 0, err
    assert out.index("networks") < out.index("\nCaution: 1 of 21 test values are filled") < out.index("backtest:")


def test_a_network_that_learns_nothing(tmp_path, cli, monkeypatch):
    """It is trained once more; then the reader is told, and the same command finds the same run."""
    monkeypatch.setattr(pages, "write_sequences", lambda fit, path, name: None)
    monkeypatch.setattr(restarting, "FACTOR", 0.0)
    file, run = wide(tmp_path / "gestures.csv"), tmp_path / "run"
    slow = ("--set", "optimization.learning_rate=1e-9", "--epochs", 10)
    command = ("fit", file, "--target", "gesture", *slow, *SMALL, "--output-dir")
    code, out, err = cli(*command, tmp_path / "chosen")
    assert code == 0, err
    assert "second run" not in out
    assert "The network learned nothing from its training data (training loss at best 0." in words(out)
    assert "0.6931 for the best constant answer). Try another learning rate (--set optimization.learning_rate=" in out
    assert "(--set model.stem=none)" in out
    monkeypatch.setattr(defaults, "LEARNING_RATE", 1e-9)
    monkeypatch.setattr(restarting, "FACTOR", 1e7)
    for _ in range(2):
        code, out, err = cli(*command, run)
        assert code == 0, err
        assert "This is a second run, at a learning rate of 0.01: at a learning rate of 1e-09, the network" in out
        assert "Try another" not in out
        assert Run(run).spec().optimization.learning_rate == 0.01
    assert "ended before (done" in out
    assert "epoch  10/10" not in out
    assert cli("verify", run)[0] == 0
    code, _, err = cli(*command, run, "--seed", 1)
    assert code == 2
    assert "training.seed is 0 there and 1 now" in err


def test_numbers_where_a_simple_method_is_better(tmp_path, cli):
    random = np.random.RandomState(0)
    X = random.standard_normal((40, 10, 2))
    np.savez(tmp_path / "sums.npz", X=X, y=1000 + X.sum((1, 2)))
    run = tmp_path / "run"
    code, out, err = cli("fit", tmp_path / "sums.npz", "--epochs", 1, *SMALL, "--output-dir", run)
    assert code == 0, err
    assert "Ridge regression is better than the network, whose RMSE is" in out
    assert "inputs, each feature and targets: standardized" in words(out)
    page = (run / "report.html").read_text()
    assert "Predicted against true" in page
    error = Run(run).manifest().errors["target"]
    assert f"<td>{error['rmse']:.4g}</td><td>{error['mae']:.4g}</td>" in page
    assert f"<td>{error['baseline_rmse']:.4g}</td>" in page


def test_a_target_at_every_step_and_tokens(tmp_path, cli):
    """No stem and no pooling where every step has a target; no stem over tokens."""
    rows = [[f"s{i}", t, "ab"[(i + t) % 2], "xy"[(i * t) % 2], "even" if i % 2 else "odd"] for i in range(20)
            for t in range(6 + i % 3)]  # fmt: skip
    file = write_csv(tmp_path / "words.csv", ["id", "t", "word", "tag", "kind"], rows)
    flags = ("--option", "columns=word", "--option", "tokens=true", "--epochs", 1, *SMALL)
    code, out, err = cli("fit", file, "--target", "tag", *flags, "--output-dir", tmp_path / "tags")
    assert code == 0, err
    assert "one label per step, 2 classes: x, y" in words(out)
    assert "sequences" in words(out)
    assert "Logistic regression, nearest neighbour and small ROCKET have no answer at every step." in out
    spec = Run(tmp_path / "tags").spec()
    assert (spec.model.stem, spec.model.pool) == ("none", "last")
    assert "95 % interval" not in (tmp_path / "tags/report.html").read_text()  # steps are not independent
    code, out, err = cli("fit", file, "--target", "kind", *flags, "--output-dir", tmp_path / "kinds")
    assert code == 0, err
    assert "logistic regression" in out
    assert "nearest neighbour" in out
    assert Run(tmp_path / "kinds").spec().model.stem == "none"
    assert "resampled to 7 steps (the median of the training set)" in (tmp_path / "kinds/report.html").read_text()
    assert "gatelab inspect" in (tmp_path / "kinds/report.html").read_text()


@pytest.mark.parametrize("kind", ["archive", "folder"])
def test_archives_and_folders(kind, tmp_path, cli, monkeypatch):
    monkeypatch.setattr(pages, "write_sequences", lambda fit, path, name: (path / "report.html").write_text("."))
    waves, _ = gestures()
    if kind == "archive":
        head = "@problemName Waves\n@univariate true\n@equalLength true\n@classLabel true 0 1\n@data\n"
        for part, members in (("TRAIN", range(30)), ("TEST", range(30, 40))):
            lines = [f"{','.join(map(str, waves[i].round(5)))}:{i % 2}" for i in members]
            (tmp_path / f"Waves_{part}.ts").write_text(head + "\n".join(lines) + "\n")
        file = tmp_path / "Waves"
    else:
        file = tmp_path / "waves"
        for i, wave in enumerate(waves):
            folder = file / ("slow", "fast")[i % 2]
            folder.mkdir(parents=True, exist_ok=True)
            np.save(folder / f"{i}.npy", wave[:, None])
    code, out, err = cli("fit", file, "--epochs", 1, *SMALL, "--output-dir", tmp_path / "run")
    assert code == 0, err
    assert ("published; 15 %" if kind == "archive" else "fast (20), slow (20)") in words(out)


def test_a_series(tmp_path, cli, open_page):
    file, run = monthly(tmp_path / "sales.csv"), tmp_path / "run"
    flags = ("--target", "sales", "--horizon", 3, *QUICK)
    code, out, err = cli("fit", file, *flags, "--output-dir", run)
    assert code == 0, err
    for fact in (
        "series: one row per step",
        "forecast sales",
        "ignored columns promotion; --option inputs=… reads columns whose future values are known",
        "date, 2015-01-01 to 2019-12-01, one step per month",
        "horizon 3 steps ahead",
        "12 steps, from the interval of the times",
        "the last 15 steps, from 2018-10-01",
        "backtest, 15 origins, 3 steps ahead: MASE",
        "linear autoregression",
        "ETS",
        "intervals of 90 % cover",
    ):
        assert fact in words(out), fact
    for width, scheme in browser.VIEWS[1:3]:
        browser.refuse_clipped(open_page(run / "report.html", width, scheme))

    # Forecasts with bounds, from the end and from newer values.
    code, out, err = cli("forecast", run, "--coverage", 0.8, "--plot", tmp_path / "forecast.png")
    assert code == 0, err
    rows = rows_of(out.replace(f"The figure is in {tmp_path}/forecast.png\n", ""))
    assert [row["time"] for row in rows] == ["2020-01-01", "2020-02-01", "2020-03-01"]

    loaded = RecurrentForecaster.load(run)
    assert [float(row["sales"]) for row in rows] == loaded.predict()["sales"].tolist()
    bounds = loaded.predict_interval(coverage=0.8).to_numpy()
    assert [[float(row["sales lower"]), float(row["sales upper"])] for row in rows] == bounds.tolist()
    newer = monthly(tmp_path / "newer.csv", 50, 63)
    code, out, err = cli("forecast", run, "--data", newer, "--steps", 4)
    assert code == 0, err
    assert [row["time"] for row in rows_of(out)] == ["2020-04-01", "2020-05-01", "2020-06-01", "2020-07-01"]
    assert rows_of(out)[3]["sales lower"] == ""
    assert "intervals are calibrated for 3 steps ahead" in err
    code, _, err = cli("forecast", run, "--data", file)
    assert code == 2
    assert "ends at 2019-12-01, and the series is known up to 2019-12-01: expected later rows" in err

    network = next(path.parent for path in sorted(run.glob("*/manifest.json")))
    out = str(tmp_path / "model.json")
    for command in (
        ("predict", run, newer), ("export", run, "--to", "json", "--out", out), ("explore", run), ("inspect", run),
        ("report", run),
    ):  # fmt: skip
        code, _, err = cli(*command)
        assert code == 2
        assert "holds a forecaster of 1 network, and not one run" in err
        assert f"`gatelab forecast {run}` continues its series, `gatelab verify {run}` checks it" in err
    assert f"each network is a run, which `gatelab export {network}` takes" in err
    assert cli("export", network, "--to", "json", "--out", out)[0] == 0
    with pytest.raises(DataError, match="holds a forecaster of 1 network"):
        gatelab.sklearn.RecurrentClassifier.load(run)
    assert cli("verify", run)[0] == 0

    # The same command again has nothing to do; another one is refused.
    code, out, err = cli("fit", file, *flags, "--output-dir", run)
    assert (code, out, err) == (
        0,
        f"{run} holds the forecaster of this fit already\nThe report is {run}/report.html\n",
        "",
    )
    for other in (("--seed", 1), ("--cell", "lstm"), ("--horizon", 2), ("--set", "lower=0")):
        code, _, err = cli("fit", file, *flags, *other, "--output-dir", run)
        assert code == 2
        assert f"{run} exists and is not empty: choose a new directory" in err
    code, _, err = cli("fit", newer, *flags, "--output-dir", run)
    assert code == 2
    later = tmp_path / "later.csv"  # the same values
    later.write_text(re.sub(r"\n20(\d\d)", r"\n21\1", file.read_text()))
    code, _, err = cli("fit", later, *flags, "--output-dir", run)
    assert code == 2
    assert f"{run} exists and is not empty: choose a new directory" in err
    (run / "reading.json").write_text((run / "reading.json").read_text().replace("sales", "salse"))
    assert cli("verify", run)[0] == 1


def test_counts_do_not_go_below_zero(tmp_path, cli, monkeypatch):
    """The advice names the setting of the command at hand, and both commands take it."""
    monkeypatch.setattr(pages, "write_series", lambda fit, path, name: (path / "report.html").write_text("."))
    counts = np.random.RandomState(0).poisson(0.6, 60)
    file, run = write_csv(tmp_path / "calls.csv", ["calls"], [[n] for n in counts]), tmp_path / "run"
    code, out, err = cli("fit", file, "--horizon", 2, *QUICK, "--output-dir", run)
    assert code == 0, err
    assert "Intervals go below 0, where the series has never been: --set lower=0 cuts them off there." in words(out)
    code, out, err = cli("forecast", run)
    assert "note: intervals go below 0, where the series has never been: --lower 0 cuts them off there" in words(err)
    assert min(float(row["calls lower"]) for row in rows_of(out)) < 0
    code, out, err = cli("forecast", run, "--lower", 0, "--upper", 1.5)
    assert code == 2
    assert "upper is 1.5, and the series has the value 2" in err
    code, out, err = cli("forecast", run, "--lower", 0, "--upper", 9)
    assert (code, err) == (0, "")
    assert all(row["calls lower"] == "0.0" for row in rows_of(out))
    code, out, err = cli("fit", file, "--horizon", 2, *QUICK, "--set", "lower=0", "--output-dir", tmp_path / "bounded")
    assert code == 0, err
    assert "never been" not in out
    assert all(row["calls lower"] == "0.0" for row in rows_of(cli("forecast", tmp_path / "bounded")[1]))


def test_an_interrupted_fit_of_a_series_keeps_its_backtest(tmp_path, cli, monkeypatch):
    """What was tested is shown and written before the second fit; epochs and threads are those of the networks."""
    monkeypatch.setattr(pages, "write_series", lambda fit, path, name: (path / "report.html").write_text("."))
    file, run = monthly(tmp_path / "sales.csv"), tmp_path / "run"
    quick = [each for each in QUICK if "num_steps" not in each]
    command = ("fit", file, "--target", "sales", "--horizon", 3, *quick, "--epochs", 4, "--threads", 2)
    fit = RecurrentForecaster.fit

    def interrupted(self, y, **given):
        if len(y.values) == 60:  # the whole series
            raise KeyboardInterrupt
        return fit(self, y, **given)

    monkeypatch.setattr(RecurrentForecaster, "fit", interrupted)
    code, out, err = cli(*command, "--output-dir", run)
    assert code == 130, err
    assert "about 4 epochs, on 2 threads" in words(out)
    assert "training network (difference) on " in out
    assert "windows, number 1 …" in out
    assert out.index("backtest, 15 origins, 3 steps ahead: MASE") < out.index("fitting on all 60 steps")
    assert f"The backtest is in {run}/backtest.csv. The same command begins again." in out
    assert [path.name for path in run.iterdir()] == ["backtest.csv"]
    rows = {(row["method"], row["step"]): row for row in rows_of((run / "backtest.csv").read_text())}
    assert f"MASE {float(rows['RecurrentForecaster', 'all']['MASE']):.3f};" in out
    assert ("linear autoregression", "3") in rows
    monkeypatch.setattr(RecurrentForecaster, "fit", fit)
    code, out, err = cli(*command, "--output-dir", run)
    assert code == 0, err
    assert rows == {(row["method"], row["step"]): row for row in rows_of((run / "backtest.csv").read_text())}
    manifest = Run(run / "difference-0").manifest()
    assert manifest.threads == 2
    training = manifest.spec.training
    assert (training.num_epochs, training.batch_size) == (6, 32)  # of windows, which are fewer than steps
    code, out, err = cli("verify", run)
    assert code == 0, err
    assert "backtest.csv" in out
    code, out, err = cli(*command, "--quiet", "--output-dir", tmp_path / "silent")
    assert (code, out) == (0, "")


def test_progress_of_a_forecaster_is_said():
    said: list[str] = []
    steps = ForecasterProgress(said.append, every=0.0)
    for done in (0, 1, 0):
        steps("training", "network (window) on 40 windows", done, 1)
    assert said[0] == "  training network (window) on 40 windows, number 1 …"
    assert said[1].startswith("  training network (window) on 40 windows, number 2; the one before took ")
    with progress.heard_by(steps):
        for _ in range(2):
            for done in range(1, 5):
                progress.tell("forecasting", "2 steps ahead from 7 origins", done, 4)
    progress.tell("forecasting", "2 steps ahead from 7 origins", 3, 4)  # nobody hears it
    shares = [line.partition(", about ")[0] for line in said[2:]]
    assert shares == [f"  forecasting 2 steps ahead from 7 origins: {each} %" for each in (50, 75)] * 2


def test_what_is_left_of_a_forecast_goes_by_what_was_done_since_it_began(monkeypatch):
    said, now = [], [0.0]
    monkeypatch.setattr("gatelab.report.progress.time", SimpleNamespace(perf_counter=lambda: now[0]))
    steps = ForecasterProgress(said.append)
    steps("forecasting", "all", 10, 120)
    now[0] = 100.0
    steps("forecasting", "all", 20, 120)
    assert said == ["  forecasting all: 17 %, about 17 minutes left"]


def test_covariates_and_gaps(tmp_path, cli, monkeypatch):
    monkeypatch.setattr(pages, "write_series", lambda fit, path, name: (path / "report.html").write_text("."))
    file, run = monthly(tmp_path / "sales.csv", without=(20,), more=True), tmp_path / "run"
    flags = ("fit", file, "--target", "sales", "--horizon", 2, *QUICK, "--option", "inputs=promotion")
    code, _, err = cli(*flags, "--output-dir", run)
    assert code == 2
    assert "the step 2016-09-01 is missing" in err
    assert "--option fill=interpolate or --option fill=previous inserts them" in err
    code, out, err = cli(*flags, "--option", "fill=previous", "--output-dir", run)
    assert code == 0, err
    assert "promotion: their future values have to be known" in words(out)
    assert "1 missing step, first 2016-09-01 after line 21; filled (previous)" in words(out)
    code, _, err = cli("forecast", run)
    assert code == 2
    assert "reads promotion: give the values of the 2 steps ahead, --future FILE.csv" in err
    future = monthly(tmp_path / "future.csv", 60, 62, more=True)
    code, out, err = cli("forecast", run, "--future", future)
    assert code == 0, err
    assert len(rows_of(out)) == 2


def test_an_interrupted_fit_leaves_no_report(tmp_path, cli, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("gatelab.fitting.page.page", interrupted)
    file, run = wide(tmp_path / "gestures.csv"), tmp_path / "run"
    command = ("fit", file, "--target", "gesture", "--epochs", 1, *SMALL, "--output-dir", run)
    assert cli(*command)[0] == 130
    assert not (run / "report.html").exists()
    monkeypatch.setattr("gatelab.fitting.series_fit.run_backtest", interrupted)
    file = monthly(tmp_path / "sales.csv")
    assert cli("fit", file, "--target", "sales", *QUICK, "--output-dir", tmp_path / "forecaster")[0] == 130
    assert not (tmp_path / "forecaster").exists()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("sales.csv",), "the columns sales and promotion, and it is not clear what to forecast: --target sales"),
        (
            ("sales.csv", "--target", "sale"),
            "unknown column 'sale'; did you mean 'sales'? (known: date, sales, promotion",
        ),
        (("sales.csv", "--target", "sales", "--horizon", "40"), "--horizon 40: expected 1 to 15 steps"),
        (("sales.csv", "--target", "sales", "--epochs", "0"), "--epochs is 0: expected an integer of at least 1"),
        (("sales.csv", "--target", "sales", "--threads", "0"), "--threads is 0: expected an integer of at least 1"),
        (("sales.csv", "--target", "sales", "--epochs", "3", "--set", "num_steps=9"), "both say how long networks are"),
        (("sales.csv", "--target", "sales", "--set", "windows=3"), "did you mean 'window'?"),
        (("sales.csv", "--target", "sales", "--option", "length=9"), "a forecaster has no option length"),
        (("sales.csv", "--target", "sales", "--option", "columns=sales"), "both name the target: leave one out"),
        (("sales.csv", "--target", "sales", "--option", "fill"), "expected KEY=VALUE, as id=patient"),
        (("sales.csv", "--target", "sales", "--option", "path=x"), "the file is the argument FILE"),
        (("gestures.csv",), "--option layout=wide --target gesture if each row is one sequence"),
        (("gestures.csv", "--target", "gesture", "--horizon", "3"), "--horizon is for a series: leave it out"),
        (("gestures.csv", "--target", "gesture", "--cell", "gro"), "unknown cell 'gro'; did you mean 'gru'"),
        (("gestures.csv", "--target", "gesture", "--epochs", "0"), "--epochs is 0: expected"),
        (("gestures.csv", "--target", "gesture", "--set", "task.seed=1"), "use --option instead"),
        (("gestures.csv", "--target", "gesture", "--set", "model.poll=last"), "did you mean 'pool'?"),
        (("numbers.csv", "--target", "4"), "it is not clear what a row is: --option layout=wide"),
        (("patients.csv", "--target", "diagnosis"), "--option id=patient --target diagnosis"),
        (("short.csv",), "expected at least 16, the steps of one series"),
        (("none.csv",), "there is no file or folder"),
        ((".", "--target", "x"), "says itself what its targets are: leave --target out"),
    ],
)
def test_errors(flags, message, tmp_path, cli, monkeypatch):
    """What was given, what was expected, what to do; nothing is trained and nothing is left behind."""
    monkeypatch.chdir(tmp_path)
    monthly(tmp_path / "sales.csv")
    wide(tmp_path / "gestures.csv")
    np.savetxt(tmp_path / "numbers.csv", np.random.RandomState(0).rand(30, 4), delimiter=",")
    write_csv(tmp_path / "short.csv", ["value"], [[i % 3] for i in range(9)])
    patients = [[p, t, t * p % 7, "ill" if p % 2 else "well"] for p in range(12) for t in range(5)]
    write_csv(tmp_path / "patients.csv", ["patient", "t", "x", "diagnosis"], patients)
    code, _, err = cli("fit", *flags, "--output-dir", "run")
    assert code == 2, err
    assert message in err
    assert not (tmp_path / "run").exists()


def test_steps_at_which_another_method_is_better_are_named():
    """Of 30 steps ahead some, none or all; of one step the verdict has said it already."""

    def sentences(lost: list[int], steps: int = 30, by: str = "persistence") -> list[str]:
        observed, ahead = np.zeros((2, steps, 1)), np.arange(1, steps + 1)
        theirs = np.where(np.isin(ahead, lost), 0.5, 2.0)[None, :, None] + observed
        forecasts = {"RecurrentForecaster": observed + 1, by: theirs, "ETS": observed + 3}
        outcome = Backtest((None,), ahead, observed, forecasts, *[observed] * 4, np.ones(1), 1, 0.9, 50, None)
        return fit_words._lost_steps(Backtested(None, outcome))

    assert sentences([10, 11]) == ["At 2 of the 30 steps ahead (10 and 11) another method is better: persistence."]
    assert sentences([1, 3, 4, 5, 9], by="linear autoregression") == [
        "At 5 of the 30 steps ahead (1, 3 to 5 and 9) another method is better: linear autoregression."
    ]
    assert sentences([1, 2, 3], 3) == ["At all 3 steps ahead another method is better: persistence."]
    assert sentences([]) == sentences([1], 1) == []


def test_intervals_of_several_series_are_their_own():
    both = np.stack([np.arange(60.0), 500 + np.random.RandomState(0).normal(size=60)], 1)
    options = {"num_networks": 1, "num_steps": 8, "hidden_size": 4, "transform": "difference", "log": False}
    forecaster = RecurrentForecaster(**options, random_state=0).fit(both, fh=[1, 2, 3])
    found, known = forecasts.forecast_ahead(forecaster, 4), forecaster.predict_interval()
    for k in (0, 1):
        np.testing.assert_array_equal(found.lower[:3, k], known[k, 0.9, "lower"])
        np.testing.assert_array_equal(found.upper[:3, k], known[k, 0.9, "upper"])
    assert np.isnan(found.lower[3]).all()


def test_each_bound_of_a_forecast_may_be_given_alone(tmp_path):
    options = {"num_networks": 1, "num_steps": 8, "hidden_size": 4, "transform": "difference", "log": False}
    values = np.random.RandomState(0).normal(size=60)
    RecurrentForecaster(**options, random_state=0).fit(values, fh=[1, 2]).save(tmp_path / "kept")
    low, high = values.min(), values.max()
    free = forecasts.forecast(tmp_path / "kept", coverage=0.97)
    assert (free.lower < low).any()
    assert (free.upper > high).any()
    below = forecasts.forecast(tmp_path / "kept", coverage=0.97, upper=high)
    np.testing.assert_array_equal(below.upper, np.minimum(free.upper, high))
    np.testing.assert_array_equal(below.lower, free.lower)
    above = forecasts.forecast(tmp_path / "kept", coverage=0.97, lower=low)
    np.testing.assert_array_equal(above.lower, np.maximum(free.lower, low))
    np.testing.assert_array_equal(above.upper, free.upper)


def two_series(errors: np.ndarray) -> Backtested:
    """A backtest of one step ahead with these errors, (N, 2), of series whose scales are 1 and 100."""
    values = np.stack([np.arange(20.0), 1000 - np.arange(20.0)], 1)
    series = Series(values, ("a", "b"), Index.of(None, 20), num_targets=2)
    plan = SimpleNamespace(
        series=series, values=values, names=("a", "b"), covariates=(), stamps=None, season=1, horizon=1, train=10
    )
    none = np.zeros((len(errors), 1, 2))
    forecasts = {"RecurrentForecaster": errors[:, None], "persistence": none}
    scale = np.array([1.0, 100.0])
    return Backtested(plan, Backtest(("a", "b"), np.array([1]), none, forecasts, *[none] * 4, scale, 1, 0.9, 10, None))


def test_the_worst_origin_is_that_of_the_largest_error_in_scales():
    _, origin = figures.worst_origin(two_series(np.array([[1.0, 200.0], [5.0, 0.0], [1.0, 300.0]])))
    assert origin == 10


def test_every_series_has_a_panel_with_its_values():
    fit = two_series(np.ones((3, 2)))
    for k, axes in enumerate(figures.series_with_split(fit).axes):
        drawn = np.concatenate([line.get_ydata() for line in axes.lines])
        np.testing.assert_array_equal(drawn, fit.plan.values[:, k])


def test_a_target_called_like_a_label_is_forecast_where_there_are_dates(tmp_path):
    rows = [[f"2020-01-{day:02d}", day % 7] for day in range(1, 31)]
    file = write_csv(tmp_path / "prophet.csv", ["ds", "y"], rows)
    assert file_task.read(file, "y", {}).forecasts
    with pytest.raises(DataError, match="--target y"):
        file_task.read(file, None, {})


def test_intervals_and_tests_are_those_of_other_packages():
    proportion = pytest.importorskip("statsmodels.stats.proportion")
    tables = pytest.importorskip("statsmodels.stats.contingency_tables")
    for hits, count in ((0, 5), (28, 30), (150, 150), (1, 1000)):
        assert wilson(hits, count) == pytest.approx(proportion.proportion_confint(hits, count, 0.05, "wilson"))
    random = np.random.RandomState(0)
    true, ours, theirs = random.randint(0, 2, (3, 60))
    found = MethodComparison(true, {"network": ours, "other": theirs}, True).p_value("other")
    table = [[sum((ours == true) & (theirs == true)), sum((ours == true) & (theirs != true))],
             [sum((ours != true) & (theirs == true)), sum((ours != true) & (theirs != true))]]  # fmt: skip
    assert found == pytest.approx(tables.mcnemar(table, exact=True).pvalue)
