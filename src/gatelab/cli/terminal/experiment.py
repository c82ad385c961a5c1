"""An experiment on the terminal: a live table, a line for each run in a pipe, or nothing."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.table import Table

from gatelab.experiments.bench import Watcher
from gatelab.experiments.planned import Planned
from gatelab.experiments.results import main_metric
from gatelab.experiments.status import RunStatus, RunWatch
from gatelab.experiments.worker import Finished
from gatelab.formatting import counted, named
from gatelab.training import Run

MOST = 30  # rows; with more runs, only those that have not ended
ENDED = ("done", "diverged", "failed", "damaged")


class LineWatcher(Watcher):
    """Prints a line when a run ends."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def start(self, runs: list[Planned], ended: list[Planned], directory: Path) -> None:
        """Print the number of runs, and of those that ended in an earlier session."""
        self.directory, self.total, self.ended = directory, len(runs), len(ended)
        before = f", {len(ended)} of them ended earlier" if ended else ""
        self.say(f"{counted(len(runs), 'run')}{before}, in {directory}")

    def finished(self, finished: Finished) -> None:
        """Print the status of the run, and its test metric."""
        self.ended += 1
        self.say(f"{self.ended}/{self.total}  {finished.run.title}: {self._outcome(finished)}")

    def _outcome(self, finished: Finished) -> str:
        if finished.status != "done":
            return f"{finished.status} {finished.reason}".strip()
        run = Run(self.directory / finished.run.path)
        manifest = run.manifest()
        if not (test := manifest.test):  # a trial
            line = run.metrics()[(manifest.best_epoch or 0) - 1]
            metric = "validation_accuracy" if "validation_accuracy" in line else "validation_loss"
            score = named(metric.removeprefix("validation_"), line[metric])
            pruned = ", pruned" if manifest.pruned else ""
            return f"validation {score}, epoch {manifest.best_epoch} of {manifest.epochs}{pruned}"
        metric = main_metric(test, manifest.spec.training.loss) or "loss"
        return f"test {named(metric, test[metric])}, epoch {manifest.best_epoch} of {manifest.epochs}"

    def say(self, text: str) -> None:
        """Print a line as it is."""
        self.console.print(text, markup=False, emoji=False, soft_wrap=True)


class LiveWatcher(LineWatcher):
    """Shows a live table of all runs with their progress."""

    EVERY = 0.5  # seconds

    def start(self, runs: list[Planned], ended: list[Planned], directory: Path) -> None:
        """Show the table."""
        super().start(runs, ended, directory)
        self.watch, self.shown = RunWatch(directory), 0.0
        self.live = Live(table(self.watch.look()), console=self.console, transient=True, auto_refresh=False)
        self.live.start()

    def tick(self) -> None:
        """Refresh the table, at most every `EVERY` seconds."""
        if time.monotonic() - self.shown > self.EVERY:
            self.shown = time.monotonic()
            self.live.update(table(self.watch.look()), refresh=True)

    def close(self) -> None:
        """Remove the table."""
        self.live.stop()


def table(runs: list[RunStatus]) -> Table:
    """All runs, their progress, and where they are going on."""
    counts = Counter(run.status for run in runs)
    ended = sum(counts[status] for status in ENDED)
    title = f"{ended} of {len(runs)} runs ended"
    if others := ", ".join(f"{number} {status}" for status, number in counts.items() if status != "done"):
        title += f" ({others})"
    shown = Table(title=title, title_justify="left", box=None, pad_edge=False)
    hosts = {run.host for run in runs if run.host}
    columns = ["model", "run", "status", "epoch", "best validation", "left", *(["host"] if len(hosts) > 1 else [])]
    for name in columns:
        shown.add_column(name, justify="left" if name in ("model", "run", "status", "host") else "right")
    rows = runs if len(runs) <= MOST else [run for run in runs if run.status not in ENDED][:MOST]
    for run in rows:
        shown.add_row(*map(_escaped, [run.model, run.name, *_state(run), run.host][: len(columns)]))
    return shown


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(text)


def _state(run: RunStatus) -> tuple[str, str, str, str]:
    best = "" if run.best is None else f"{100 * run.best:.2f} %" if run.best >= 0 else f"{-run.best:.4f}"
    epoch = f"{run.epochs_done:.1f}/{run.epochs}" if run.epochs else ""
    left = "" if run.seconds_left is None else f"{int(run.seconds_left) // 60}:{int(run.seconds_left) % 60:02}"
    return run.status, epoch, best, left


def watcher(quiet: bool) -> Watcher:
    """A live table on a terminal, lines in a pipe, or nothing."""
    if quiet:
        return Watcher()
    console = Console(highlight=False)
    return LiveWatcher(console) if console.is_terminal else LineWatcher(console)
