"""A process that does one run: `main` with the run directory as its argument, and the spec as a line of JSON on its
input. When that input ends, whoever started it is gone, and it saves and stops. The spec has the equations inside: the
worker needs neither the user's file nor his folder.

It is a process of its own so that a run that crashes takes nothing with it, and because the threads of the compiled
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
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from gatelab.disk import whole_file, within
from gatelab.errors import DataError
from gatelab.training import config, train
from gatelab.training.reporter import Reporter
from gatelab.training.run import LOG, PROGRESS
from gatelab.training.spec import RunSpec

if TYPE_CHECKING:
    from gatelab.training.checkpoint import Place
    from gatelab.training.objective import Tally

STATUSES = {0: "done", 3: "diverged", 130: "interrupted"}  # by exit code


class Told(Reporter):
    """Writes where the run is into its directory, for whoever watches."""

    EVERY = 0.5  # seconds

    def __init__(self, path: Path) -> None:
        self.path, self.told = path / PROGRESS, 0.0
        self.best: float | None = None

    def start(self, spec: RunSpec, manifest: dict[str, Any], place: Place) -> None:
        self.epochs, self.begin, self.from_epoch = spec.training.num_epochs, time.time(), place.epoch
        for line in place.history:
            self._note(line)

    def batch(self, epoch: int, batch: int, batches: int, examples: int, tally: Tally) -> None:
        if (now := time.time()) - self.told > self.EVERY:
            self.told = now
            self._tell(epoch + batch / batches)

    def epoch(self, line: dict[str, Any], better: bool) -> None:
        self._note(line)
        self._tell(float(line["epoch"]))

    def note(self, text: str) -> None:
        print(text, flush=True)  # into the log

    def _note(self, line: dict[str, Any]) -> None:
        score = line.get("validation_accuracy", -line["validation_loss"])
        self.best = score if self.best is None else max(self.best, score)

    def _tell(self, epochs_done: float) -> None:
        """Not synced to the disk: it is of no use after a crash."""
        speed = (epochs_done - self.from_epoch) / max(1e-9, time.time() - self.begin)
        left = (self.epochs - epochs_done) / speed if speed > 0 else None
        content = {"epochs_done": epochs_done, "epochs": self.epochs, "best": self.best, "seconds_left": left}
        with contextlib.suppress(OSError), whole_file(self.path, sync=False) as file:  # nothing a run should end for
            file.write(json.dumps(content).encode())


def last_words(path: Path) -> str:
    """The last line that the process of a run wrote; nothing if it was silent or never began."""
    try:
        log = within(path, path / LOG)
        lines = log.read_text(errors="replace").strip().splitlines() if log.is_file() else []
    except (OSError, DataError) as error:
        return str(error)
    return lines[-1] if lines else ""


def _stop_when_alone() -> None:
    while os.read(sys.stdin.fileno(), 1):  # until the other end is closed, which even a kill cannot prevent
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def main() -> None:
    path, given = Path(sys.argv[1]), json.loads(sys.stdin.readline())
    threading.Thread(target=_stop_when_alone, daemon=True).start()
    torch.set_num_threads(given["threads"])
    try:
        outcome = train(config.parse(given["spec"], "the plan"), path, Told(path))
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(next(code for code, status in STATUSES.items() if status == outcome.status))
