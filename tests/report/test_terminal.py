"""What a run says: lines in a pipe, a bar on a terminal, nothing when told so."""

from __future__ import annotations

import io
import itertools
import re
from types import SimpleNamespace

from rich.console import Console

from gatelab.report import progress
from gatelab.report.progress import Bar, Lines, reporter, summary
from gatelab.training import ModelSpec, RunSpec, TrainingSpec, train
from gatelab.training.reporter import Reporter

SPEC = RunSpec(
    task="digits:limit=100",
    model=ModelSpec(hidden_size=8),
    training=TrainingSpec(num_epochs=2, batch_size=10, threads=1),
)


def test_lines(tmp_path):
    text = io.StringIO()
    train(SPEC, tmp_path / "run", Lines(Console(file=text, highlight=False, width=200)))
    lines = text.getvalue().splitlines()
    assert lines[0] == "digits: gru, 506 parameters, seed 0, 1 thread"
    assert lines[1].startswith("epoch   1/2  train loss ")
    assert "validation loss" in lines[1]
    assert lines[3].startswith("test (weights of epoch ")
    assert re.fullmatch(
        r"trivial baseline: accuracy \d+\.\d\d % \(majority class of the training set, '\d'\)", lines[4]
    )
    assert len(lines) == 6


def test_the_bar_shows_epoch_batch_loss_accuracy_speed_and_time_left(tmp_path, monkeypatch):
    ticks = itertools.count(step=0.5)  # seconds: half of one for each batch of ten
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: next(ticks)))
    text = io.StringIO()
    bar = Bar(Console(file=text, force_terminal=True, width=80, highlight=False))
    bar.EVERY = 0.0
    train(SPEC, tmp_path / "run", bar)
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text.getvalue())
    assert re.search(r"epoch 2/2 .* \d+/10  loss \d\.\d{4}  accuracy \d+\.\d\d %  [\d,]+/s \d\d:\d\d", shown)
    assert "The run is in" in shown
    assert set(re.findall(r"%  ([\d,]+)/s", shown)) == {"20"}  # sequences a second, over all epochs


def test_names_are_printed_as_they_are(tmp_path):
    text = io.StringIO()
    train(SPEC, tmp_path / "[bold]my run[/x]", Lines(Console(file=text, highlight=False, width=300)))
    assert f"The run is in {tmp_path}/[bold]my run[/x]" in text.getvalue()


def test_quiet_says_nothing():
    assert type(reporter(quiet=True)) is Reporter
    assert isinstance(reporter(quiet=False), Lines)


def test_a_summary_leaves_out_times():
    line = {"train_loss": 0.5, "validation_accuracy": 0.25, "validation_seconds": 3.0}
    assert summary(line) == "train loss 0.5000  validation accuracy 25.00 %"
