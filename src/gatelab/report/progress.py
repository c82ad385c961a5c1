"""A training run on the terminal: a live bar, plain lines in a pipe, or nothing."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column

from gatelab.formatting import counted, duration, named
from gatelab.report.words.baseline import against_baseline, own_units
from gatelab.training.reporter import Reporter
from gatelab.training.spec import RunSpec

if TYPE_CHECKING:
    from gatelab.training.checkpoint import Place
    from gatelab.training.manifest import Manifest
    from gatelab.training.objective import Tally
    from gatelab.training.recorder import Outcome


class Lines(Reporter):
    """Prints a line per epoch: for pipes, logs and CI."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False)

    def start(self, spec: RunSpec, manifest: Manifest, place: Place) -> None:
        """Print the task, the model and the epoch at which a run resumes."""
        self.epochs = spec.training.num_epochs
        model = f"{spec.model.cell}, {manifest.parameters:,} parameters"
        threads, device = counted(manifest.threads, "thread"), manifest.device
        where = threads if device == "cpu" else f"{threads}, on {device}"
        self.say(f"{spec.task.short_name}: {model}, seed {spec.training.seed}, {where}")
        if place.epoch or place.batch:
            self.say(f"resuming in epoch {place.epoch + 1}, batch {place.batch + 1}")

    def epoch(self, line: dict[str, Any], better: bool) -> None:
        """Print the metrics of an epoch; `*` marks the best so far."""
        seconds = f"{line['seconds']:.1f} s, {line['samples_per_second']:,.0f}/s"
        self.say(f"epoch {line['epoch']:>3}/{self.epochs}  {summary(line)}  {seconds}{'  *' if better else ''}")

    def end(self, outcome: Outcome, manifest: Manifest) -> None:
        """Print the test metrics and the baseline, or why training stopped."""
        if outcome.status == "done":
            if outcome.test:
                self.say(f"test (weights of epoch {outcome.best_epoch}): {metrics(outcome.test)}")
            else:
                self.say(f"not tested (training.test: false); the best epoch is {outcome.best_epoch}")
            for sentence in (*against_baseline(outcome.test, manifest.baseline), *own_units(manifest)):
                self.say(sentence)
            self.say(f"The run is in {outcome.run.path}")
        elif outcome.status == "interrupted":
            self.say(f"interrupted; resume with: gatelab train --resume {shlex.quote(str(outcome.run.path))}")
        elif (facts := manifest.divergence) is not None:
            batch = f", batch {facts.batch}" if facts.batch else ""
            self.say(f"diverged: {facts.what} in epoch {facts.epoch}{batch}")
            for name, size in facts.largest_gradients.items():
                self.say(f"  gradient of {name}: {size}")
            self.say("try a smaller learning_rate, or clip_norm")

    def known(self, outcome: Outcome, manifest: Manifest) -> None:
        """Print the outcome of a run that ended in an earlier session."""
        self.say(f"{outcome.run.path} ended before ({outcome.status}, {manifest.ended})")
        self.end(outcome, manifest)

    def note(self, text: str) -> None:
        """Print a note."""
        self.say(f"note: {text}")

    def say(self, text: str) -> None:
        """Print a line as it is."""
        self.console.print(text, soft_wrap=True, markup=False, emoji=False)


class ForecasterProgress:
    """Prints what a forecaster is doing: a line for each network, and for long forecasts how much is left."""

    def __init__(self, say: Callable[[str], object], every: float = 5.0) -> None:
        self.say, self.every = say, every  # seconds
        self.networks, self.took = 0, ""
        self.what, self.done, self.first, self.begun, self.shown = "", 0, 0, 0.0, 0.0

    def __call__(self, kind: str, what: str, done: int, total: int) -> None:
        """Hear that so much is done, of what there is."""
        now = time.perf_counter()
        if what != self.what or done <= self.done:
            self.what, self.first, self.begun, self.shown = what, done, now, now
        self.done = done
        if kind == "training":
            self._network(done)
        elif self.first < done < total and now - self.shown >= self.every:
            self.shown = now
            left = (now - self.begun) * (total - done) / (done - self.first)
            self.say(f"  forecasting {what}: {100 * done / total:.0f} %, about {duration(left)} left")

    def _network(self, done: int) -> None:
        if done:
            self.took = f"; the one before took {duration(time.perf_counter() - self.begun)}"
            return
        self.networks += 1
        self.say(f"  training {self.what}, number {self.networks}{self.took} …")


class Bar(Lines):
    """Shows a progress bar below a line for each finished epoch."""

    EVERY = 0.1  # seconds between refreshes
    bar: Progress | None = None

    def start(self, spec: RunSpec, manifest: Manifest, place: Place) -> None:
        """Show the bar."""
        super().start(spec, manifest, place)
        remaining = TimeRemainingColumn(compact=True, table_column=Column(no_wrap=True, min_width=5))
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=10),
            TextColumn("{task.fields[metrics]}"),
            remaining,
        )
        self.bar = Progress(*columns, console=self.console, transient=True)
        self.row = self.bar.add_task("starting", metrics="")
        self.bar.start()
        self.refreshed = 0.0
        self.begin: tuple[float, int] | None = None  # the time after the first batch, and its number

    def batch(self, epoch: int, batch: int, batches: int, examples: int, tally: Tally) -> None:
        """Update the bar, at most every `EVERY` seconds."""
        moment, done = time.monotonic(), epoch * batches + batch
        if self.begin is None:
            self.begin = moment, done  # without the first batch, which includes compiling
        if self.bar is None or moment - self.refreshed < self.EVERY:
            return
        self.refreshed = moment
        parts = [f"{batch}/{batches}", *(named(name, value) for name, value in tally.metrics().items())][:3]
        begin, first = self.begin
        speed = f"{(done - first) * examples / batch / (moment - begin):,.0f}/s" if done > first else ""
        self.bar.update(
            self.row,
            description=f"epoch {epoch + 1}/{self.epochs}",
            completed=done,
            total=self.epochs * batches,
            metrics="  ".join([*parts, speed]),
        )

    def close(self) -> None:
        """Remove the bar."""
        if self.bar is not None:
            self.bar.stop()


def reporter(quiet: bool) -> Reporter:
    """A progress bar on a terminal, lines in a pipe, or nothing."""
    if quiet:
        return Reporter()
    console = Console(highlight=False)
    return Bar(console) if console.is_terminal else Lines(console)


def summary(line: dict[str, Any]) -> str:
    """The metrics of training and validation in one line."""
    parts = []
    for part in ("train", "validation"):
        own = {name.removeprefix(f"{part}_"): value for name, value in line.items() if name.startswith(f"{part}_")}
        own.pop("seconds", None)
        if own:
            parts.append(f"{part} {metrics(own)}")
    return "  ".join(parts)


def metrics(values: dict[str, float]) -> str:
    """accuracy 98.20 %, loss 0.0512."""
    return ", ".join(named(name, value) for name, value in values.items())
