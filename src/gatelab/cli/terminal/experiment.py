"""An experiment on the terminal: a live table, a line for each run in a pipe, or nothing."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from gatelab.experiments.bench import Watcher
from gatelab.experiments.executor import Finished
from gatelab.experiments.plan import Planned
from gatelab.experiments.results import main_metric
from gatelab.formatting import named
from gatelab.training import Run
from gatelab.training.run import PROGRESS


class LineWatcher(Watcher):
    """Prints a line when a run ends."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def start(self, runs: list[Planned], ended: list[Planned], directory: Path) -> None:
        """Print the number of runs, and of those that ended in an earlier session."""
        self.runs, self.directory = runs, directory
        self.ended: dict[Path, str] = {run.path: "ended earlier" for run in ended}
        before = f", {len(ended)} of them ended earlier" if ended else ""
        self.say(f"{len(runs)} runs{before}, in {directory}")

    def finished(self, finished: Finished) -> None:
        """Print the status of the run, and its test metric."""
        run = finished.run
        self.ended[run.path] = finished.status
        self.say(f"{len(self.ended)}/{len(self.runs)}  {run.model}, seed {run.seed}: {self._outcome(finished)}")

    def _outcome(self, finished: Finished) -> str:
        if finished.status != "done":
            return f"{finished.status} {finished.reason}".strip()
        manifest = Run(self.directory / finished.run.path).manifest()
        test = manifest["test"]
        metric = main_metric(test, manifest["spec"]["training"]["loss"]) or "loss"
        return f"test {named(metric, test[metric])}, epoch {manifest['best_epoch']} of {manifest['epochs']}"

    def say(self, text: str) -> None:
        """Print a line as it is."""
        self.console.print(text, markup=False, emoji=False, soft_wrap=True)


class LiveWatcher(LineWatcher):
    """Shows a live table of all runs with their progress."""

    EVERY = 0.5  # seconds
    MOST = 30  # rows; with more runs, only those that have not ended

    def start(self, runs: list[Planned], ended: list[Planned], directory: Path) -> None:
        """Show the table."""
        super().start(runs, ended, directory)
        self.shown = 0.0
        self.live = Live(self._table(), console=self.console, transient=True, auto_refresh=False)
        self.live.start()

    def tick(self) -> None:
        """Refresh the table, at most every `EVERY` seconds."""
        if time.monotonic() - self.shown > self.EVERY:
            self.shown = time.monotonic()
            self.live.update(self._table(), refresh=True)

    def close(self) -> None:
        """Remove the table."""
        self.live.stop()

    def _table(self) -> Table:
        done = len(self.ended)
        table = Table(title=f"{done} of {len(self.runs)} runs ended", title_justify="left", box=None, pad_edge=False)
        for name in ("model", "seed", "status", "epoch", "best validation", "left"):
            table.add_column(name, justify="left" if name in ("model", "status") else "right")
        running = [run for run in self.runs if run.path not in self.ended]
        rows = self.runs if len(self.runs) <= self.MOST else running[: self.MOST]
        for run in rows:
            table.add_row(run.model, str(run.seed), *self._state(run))
        return table

    def _state(self, run: Planned) -> tuple[str, str, str, str]:
        progress = self._progress(run)
        if run.path not in self.ended and not progress:
            return ("waiting", "", "", "")
        best = progress.get("best")
        score = "" if best is None else f"{100 * best:.2f} %" if best >= 0 else f"{-best:.4f}"
        epoch = f"{progress.get('epochs_done', 0):.1f}/{progress.get('epochs', '?')}"
        if run.path in self.ended:
            return (self.ended[run.path], epoch, score, "")
        left = progress.get("seconds_left")
        return ("running", epoch, score, "" if left is None else f"{int(left) // 60}:{int(left) % 60:02}")

    def _progress(self, run: Planned) -> dict[str, Any]:
        try:
            content: dict[str, Any] = json.loads((self.directory / run.path / PROGRESS).read_text())
        except (OSError, ValueError):
            return {}
        return content


def watcher(quiet: bool) -> Watcher:
    """A live table on a terminal, lines in a pipe, or nothing."""
    if quiet:
        return Watcher()
    console = Console(highlight=False)
    return LiveWatcher(console) if console.is_terminal else LineWatcher(console)
