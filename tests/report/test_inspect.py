"""`gatelab inspect` on every kind of run: all files, words that follow from numbers, a page that opens offline."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from types import SimpleNamespace

import matplotlib.image
import numpy as np
import pytest
from browser import VIEWS, refuse_clipped
from typer.testing import CliRunner

from gatelab import analysis, style
from gatelab.cli import app
from gatelab.report.inspection import memory
from gatelab.report.inspection.predictions import spread_out, without_overlap
from gatelab.report.words import inspection as words
from gatelab.training import ModelSpec, OptimizationSpec, RunSpec, TrainingSpec, train
from gatelab.training.gradients import Gradients
from gatelab.training.reporter import Reporter

ALWAYS = {"gates.png", "units.png", "memory.png", "eigenvalues.png", "gradients.png", "predictions.png"}
RUNS = {
    "digits": ("digits:limit=100", {"hidden_size": 6}, {"record": "gradients"}),
    "agreement": ("agreement:size=1000,gap=4,shortest_gap=2", {"hidden_size": 8}, {"num_epochs": 6}),
    "sine": ("sine:duration=300,length=12", {"cell": "lstm", "hidden_size": 4, "num_layers": 2}, {}),
    "adding": ("adding:length=6,size=100", {"cell": "rnn", "hidden_size": 4}, {}),
    "copy": (
        "copy:length=2,pause=2,symbols=9,size=50",
        {"cell": "agru", "hidden_size": 4, "bidirectional": True, "num_layers": 2, "residual": True},
        {},
    ),
    "pixels": ("digits:order=permuted,limit=50,noise_pad=6", {"cell": "mgu", "hidden_size": 4, "pool": "mean"}, {}),
    "signals": ("files:path=signals.npz", {"hidden_size": 4, "bidirectional": True}, {}),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Trained when they are first asked for, in a folder that a page would show if its name were markup."""
    folder, there = tmp_path_factory.mktemp("runs") / """<s>&copy;"'""", {}
    folder.mkdir()

    def run(name: str) -> Path:
        if name not in there:
            task, model, training = RUNS[name]
            if name == "signals":
                random = np.random.RandomState(0)
                np.savez(folder / "signals.npz", X=random.standard_normal((60, 9, 2)), y=np.arange(60) % 3)
                task = task.replace("signals.npz", str(folder / "signals.npz"))
            spec = RunSpec(
                task=task,
                model=ModelSpec(**{"engine": "eager", **model}),
                optimization=OptimizationSpec(learning_rate=0.02),
                training=TrainingSpec(**{"num_epochs": 1, "batch_size": 32, "threads": 1, **training}),
            )
            there[name] = train(spec, folder / name).run.path
        return there[name]

    return run


def inspected(path: Path, *options: str) -> str:
    done = CliRunner().invoke(app, ["inspect", str(path), *options])
    assert done.exit_code == 0, (done.output, done.exception)
    return done.output


# What it writes.


@pytest.mark.parametrize(
    ("name", "also"),
    [
        ("agreement", {"gate_values.png", "sentence.png", "clamping.png", "confusion.png"}),
        ("sine", {"gate_values.png", "errors.png", "numbers.png"}),
        ("adding", {"errors.png", "numbers.png"}),
        ("copy", {"gate_values.png", "errors.png", "confusion.png"}),
        ("pixels", {"gate_values.png", "errors.png", "confusion.png"}),
        ("signals", {"gate_values.png", "errors.png", "confusion.png"}),
    ],
)
def test_every_kind_of_run_has_its_pictures_and_its_page(runs, tmp_path, monkeypatch, name, also):
    monkeypatch.setitem(style.SETTINGS, "savefig.dpi", 50)  # small ones are drawn faster
    assert str(tmp_path / "inspect.html") in inspected(runs(name), "--out", str(tmp_path), "--sample", "1")
    check(tmp_path, ALWAYS | also)


def check(folder: Path, wanted: set[str]) -> None:
    """All pictures are there, show something, and are in the page, which refers to nothing outside itself."""
    drawn = {path.name for path in folder.glob("*.png")}
    assert drawn in (wanted, wanted | {"errors.png"})  # a good model may have none
    page = (folder / "inspect.html").read_text()
    inside = re.findall(r'src="data:image/png;base64,([^"]*)"', page)
    assert {base64.b64decode(content) for content in inside} == {path.read_bytes() for path in folder.glob("*.png")}
    words_alone = re.sub(r'src(set)?="[^"]*"', "", page)
    assert not re.findall(r"https?://|{{|\bnan\b|\binf\b", words_alone)
    assert "&lt;s&gt;&amp;copy;" in page
    assert "<s>" not in page
    assert page.count("<h2") == (6 if "clamping.png" in wanted else 5)
    for path in folder.glob("*.png"):
        pixels = matplotlib.image.imread(path)
        assert (pixels[..., :3].min(-1) < 0.6).mean() > 0.001, path.name  # a blank one has none, the palest 0.004


@pytest.fixture(scope="module")
def digits(runs) -> Path:
    """The page of a run, in the run, where an earlier look has left something."""
    folder = runs("digits") / "inspect"
    folder.mkdir()
    (folder / "clamping.png").write_bytes(b"of another time")
    inspected(runs("digits"))
    return folder


def test_without_out_it_goes_into_the_run_and_clears_an_earlier_look(digits):
    check(digits, ALWAYS | {"gate_values.png", "errors.png", "confusion.png"})


def test_a_layer_can_be_chosen(runs):
    upper, lower = analysis.inspect(runs("sine")), analysis.inspect(runs("sine"), layer=0)
    assert (upper.subject.layer, lower.subject.layer) == (1, 0)
    assert upper.subject.parameters.W.i.shape == (4, 4)
    assert lower.subject.parameters.W.i.shape == (4, 1)
    batch = upper.subject.examples(1)
    _, _, gates = upper.subject.recurrent(batch.x, gates=True)
    np.testing.assert_allclose(upper.example.gates["f"][0], gates["f"][1, 0], atol=1e-6)
    np.testing.assert_allclose(lower.example.gates["f"][0], gates["f"][0, 0], atol=1e-6)


def test_the_forward_direction_of_a_two_way_layer_is_looked_at(runs):
    found = analysis.inspect(runs("copy"), sample=2)
    batch = found.subject.examples(1, 2)
    _, _, gates = found.subject.recurrent(found.subject.model.inputs(batch.x)[0], gates=True)
    np.testing.assert_allclose(found.example.gates["z"][0], gates["z"][2, 0], atol=1e-6)


# Words.


def test_the_words_say_what_the_numbers_say(runs):
    found = analysis.inspect(runs("agreement"))
    carried = found.agreement
    told = " ".join(words.agreement(found))
    clamped, chance = carried.flips_of_few
    assert f"flips was/were in {100 * clamped:.0f} % of {carried.tested} sentences" in told
    assert f"random other units, in {100 * chance:.0f} % (20 draws" in told
    for claim, true in {"gate opens” ": carried.opens, "stays closed” ": carried.stays_closed}.items():
        assert claim + ("is true" if true else "is not true") in told
    assert carried.flips[-1] == 1.0  # all of a GRU's state is all it knows
    hits = np.trace(found.predictions.confusion) / found.predictions.confusion.sum()
    assert f"{100 * hits:.2f} %" in words.predictions(found)[0]
    assert float(hits) == pytest.approx(found.subject.run.manifest().test["accuracy"])
    rows = words.gate_table(found)
    assert [row[0] for row in rows] == ["gate", "r", "z", "n"]
    assert rows[2][1] == "keep"


def test_steps_that_are_counted_from_the_end_of_a_record_end_at_0():
    recorded = Gradients(np.arange(2), np.ones((2, 1, 1, 4)))
    for from_end, steps in ((True, (-3.5, 0.5)), (False, (-0.5, 3.5))):
        axes = style.new_figure(4, 3).subplots()
        memory._record(axes, recorded, 0, 0, from_end)
        assert axes.get_xlim() == steps


def test_recorded_gradients_are_shown_and_else_how_to_record_them(runs):
    with_record, without = analysis.inspect(runs("digits")), analysis.inspect(runs("adding"))
    assert with_record.recorded.norms.shape == (2, 1, 1, 8)
    np.testing.assert_allclose(with_record.recorded.norms[-1], with_record.gradient.by_step, rtol=1e-4)
    assert "training.record" not in " ".join(words.gradients(with_record))
    assert "training.record: [gradients]" in " ".join(words.gradients(without))


# Bad input.


def refused(*arguments: str) -> str:
    done = CliRunner().invoke(app, ["inspect", *arguments])
    assert isinstance(done.exception, ValueError), done.output
    return str(done.exception)


def test_what_cannot_be_looked_at_is_refused_in_words(runs, tmp_path):
    assert "is not a run directory; expected a directory with a manifest.json" in refused(str(tmp_path))
    (tmp_path / "runs" / "gru" / "seed-0").mkdir(parents=True)
    (tmp_path / "runs" / "gru" / "seed-0" / "manifest.json").write_text("{}")
    assert f"is an experiment: choose one of its runs, as {tmp_path}/runs/gru/seed-0" in refused(str(tmp_path))
    said = refused(str(runs("digits")), "--sample", "360")
    assert said == "sample is 360: expected 0 to 359, the index of a test example of digits"
    assert "sample is -1" in refused(str(runs("digits")), "--sample", "-1")
    assert "layer is 1: expected 0, since there is one layer" in refused(str(runs("digits")), "--layer", "1")
    assert "expected 0 to 1, counted from the input" in refused(str(runs("sine")), "--layer", "2")


def test_a_run_without_a_finished_epoch_says_how_to_go_on(tmp_path):
    class Stopped(Reporter):
        def batch(self, epoch, batch, batches, examples, tally):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(RunSpec(model=ModelSpec(hidden_size=2, engine="eager")), tmp_path / "run", Stopped())
    said = refused(str(tmp_path / "run"))
    assert "has no finished epoch (its status is interrupted)" in said
    assert f"gatelab train --resume {tmp_path / 'run'}" in said


# The page.


@pytest.mark.parametrize(("width", "scheme"), VIEWS)
def test_a_browser_shows_all_of_it(digits, open_page, width, scheme):
    view = open_page(digits / "inspect.html", width, scheme)
    refuse_clipped(view)
    pictures = view.locator("figure.picture img")
    assert pictures.count() == len(list(digits.glob("*.png")))
    for picture in pictures.all():
        box = picture.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width  # none is cut off at the right
    shown = pictures.first.evaluate("image => [image.complete, image.naturalWidth > 300, image.currentSrc.length]")
    light = pictures.first.evaluate("image => image.src.length")
    assert shown[:2] == [True, True]
    assert (shown[2] == light) == (scheme == "light")  # a dark page has dark pictures
    if width == 400:
        pictures.first.click()
        assert pictures.first.bounding_box()["width"] > width


# Windows of a series.


def test_windows_that_are_shown_do_not_overlap():
    ranked = np.array([7, 8, 30, 6, 19, 18, 50])
    assert without_overlap(ranked, 10, 3).tolist() == [7, 30, 19]
    assert without_overlap(ranked, 10, 9).tolist() == [7, 30, 19, 50]
    shown = spread_out(np.arange(72), 36, 6)
    assert len(shown) == 2
    assert np.diff(shown).min() >= 36
    assert spread_out(np.arange(5), 36, 6).tolist() == [0]


def test_a_stem_is_refused_in_words(tmp_path, cli):
    spec = RunSpec(
        task="digits:limit=50",
        model=ModelSpec(hidden_size=4, stem="conv", pool="attention", engine="eager"),
        training=TrainingSpec(num_epochs=1, threads=1),
    )
    train(spec, tmp_path / "run")
    code, _, err = cli("inspect", tmp_path / "run")
    assert code == 2
    assert "has a stem: its layers read sequences that convolutions have shortened" in err


def test_the_gradient_at_the_first_step_is_told_in_units_of_that_at_the_last():
    norms = SimpleNamespace(first=np.array([[0.02]]), by_step=np.array([[[0.02, 0.1, 0.5]]]))
    inspection = SimpleNamespace(subject=SimpleNamespace(layer=0), gradient=norms, recorded=norms)
    (sentence,) = words.gradients(inspection)
    assert "first step is 0.04 times that at its last step (0.02 and 0.5, means" in sentence
