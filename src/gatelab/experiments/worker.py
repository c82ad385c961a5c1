"""The process of one run. `main` takes the run directory as its argument and the spec as a line of JSON on stdin.
At end of file on stdin the parent process is gone, and the worker saves and exits. The spec contains the equations: the
worker needs neither the user's file nor the user's directory.

Each run has a process of its own so that a crash does not affect other runs, and because the threads of the compiled
kernels do not survive a fork.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

import gatelab
from gatelab import memory
from gatelab.disk import whole_file, within
from gatelab.errors import DataError, GatelabError, bug_report
from gatelab.training import config, train
from gatelab.training.reporter import Reporter
from gatelab.training.run import LOG, PROGRESS
from gatelab.training.spec import RunSpec

if TYPE_CHECKING:
    from gatelab.training.checkpoint import Place
    from gatelab.training.objective import Tally

STATUSES = {0: "done", 3: "diverged", 130: "interrupted"}  # by exit code
REFUSED, BUG = 2, 70  # exit codes of failures, as on the command line


class ProgressFile(Reporter):
    """Writes the progress of a run to a file in its directory, for a display in another process."""

    EVERY = 0.5  # seconds

    def __init__(self, path: Path) -> None:
        self.path, self.written = path / PROGRESS, 0.0
        self.best: float | None = None

    def start(self, spec: RunSpec, manifest: dict[str, Any], place: Place) -> None:
        """Start the clock; the best score so far is that of the resumed epochs."""
        self.epochs, self.begin, self.from_epoch = spec.training.num_epochs, time.time(), place.epoch
        for line in place.history:
            self._update_best(line)

    def batch(self, epoch: int, batch: int, batches: int, examples: int, tally: Tally) -> None:
        """Write the progress, at most every `EVERY` seconds."""
        if (now := time.time()) - self.written > self.EVERY:
            self.written = now
            self._write(epoch + batch / batches)

    def epoch(self, line: dict[str, Any], better: bool) -> None:
        """Write the progress with the score of the epoch."""
        self._update_best(line)
        self._write(float(line["epoch"]))

    def note(self, text: str) -> None:
        """Print a note, which goes to the log."""
        print(text, flush=True)

    def _update_best(self, line: dict[str, Any]) -> None:
        score = line.get("validation_accuracy", -line["validation_loss"])
        self.best = score if self.best is None else max(self.best, score)

    def _write(self, epochs_done: float) -> None:
        """Without fsync: the file is of no use after a crash."""
        speed = (epochs_done - self.from_epoch) / max(1e-9, time.time() - self.begin)
        left = (self.epochs - epochs_done) / speed if speed > 0 else None
        content = {"epochs_done": epochs_done, "epochs": self.epochs, "best": self.best, "seconds_left": left}
        with contextlib.suppress(OSError), whole_file(self.path, sync=False) as file:  # an error must not end the run
            file.write(json.dumps(content).encode())


def last_log_line(path: Path) -> str:
    """The last line in the log of a run; empty if there is none."""
    try:
        log = within(path, path / LOG)
        lines = log.read_text(errors="replace").strip().splitlines() if log.is_file() else []
    except (OSError, DataError) as error:
        return str(error)
    return lines[-1] if lines else ""


def _stop_without_parent() -> None:
    """Send SIGTERM to this process at end of file on stdin, which comes even if the parent was killed."""
    while os.read(sys.stdin.fileno(), 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def main() -> None:
    """Train one run; the exit code gives its status."""
    path, job = Path(sys.argv[1]), json.loads(sys.stdin.readline())
    threading.Thread(target=_stop_without_parent, daemon=True).start()
    torch.set_num_threads(job["threads"])
    try:
        outcome = train(config.parse(job["spec"], "the plan"), path, ProgressFile(path))
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        if isinstance(error, (GatelabError, OSError)) or memory.is_exhausted(error):  # a message is enough
            print("; ".join(str(error).splitlines()) or type(error).__name__, flush=True)
            sys.exit(REFUSED)
        traceback.print_exc()
        command = f"the worker of {path}"
        print(bug_report(error, gatelab.__version__, command), file=sys.stderr, flush=True)
        sys.exit(BUG)
    sys.exit(next(code for code, status in STATUSES.items() if status == outcome.status))
