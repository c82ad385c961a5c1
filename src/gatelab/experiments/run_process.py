"""The process of one run. It takes the run directory as its argument, and its spec, its number of threads and the claim
on its run as a line of JSON on stdin. At end of file on stdin the parent process is gone, and this one saves and exits.
The spec contains the equations: neither the user's file nor the user's directory is needed.

Each run has a process of its own so that a crash does not affect other runs, and because the threads of the compiled
kernels do not survive a fork.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

import gatelab
from gatelab import memory
from gatelab.disk import whole_file
from gatelab.errors import BusyError, GatelabError, bug_report
from gatelab.experiments.claims import Claim, adopted
from gatelab.experiments.planned import Planned
from gatelab.experiments.tuning.search import pruner_of
from gatelab.training import Run, config, train
from gatelab.training.reporter import Reporter
from gatelab.training.run import LOG, PROGRESS
from gatelab.training.spec import RunSpec

if TYPE_CHECKING:
    from gatelab.training.checkpoint import Place
    from gatelab.training.manifest import Manifest
    from gatelab.training.objective import Tally

STATUSES = {0: "done", 3: "diverged", 130: "interrupted", 75: "lost"}  # by exit code
REFUSED, BUG, LOST = 2, 70, 75  # exit codes: of failures as on the command line, and of a run that others have taken
# Nothing is imported from the current directory, where a file may have the name of any module. (From Python 3.11 on
# this is the option `-P`. The module `sys` is built in and cannot be shadowed.)
COMMAND = (
    "import sys; sys.path[:] = [p for p in sys.path if p]; from gatelab.experiments.run_process import main; main()"
)


class Order(NamedTuple):
    """What a run process is told."""

    spec: RunSpec
    rivals: list[list[float]] | None = None  # scores of earlier trials, for a pruner

    def document(self) -> dict[str, Any]:
        """As plain data, for another process or machine."""
        return {"spec": self.spec.self_contained(), "rivals": self.rivals}


def ordered(run: Planned, directory: Path) -> Order | None:
    """The order for a run; None if it has to wait for others. Raises if it waits in vain."""
    spec = run.settled(directory)
    return None if spec is None else Order(spec, run.rivals(directory))


def start(order: Order, path: Path, claim: Claim, threads: int) -> subprocess.Popen[bytes]:
    """Start the process of a run in its directory; from then on it holds the claim."""
    path.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "PYTHONSAFEPATH": "1"}
    for name in (LOG, PROGRESS):  # of an earlier session; they may be symbolic links: remove those, not their targets
        (path / name).unlink(missing_ok=True)
    with (path / LOG).open("xb") as log:
        command = [sys.executable, "-c", COMMAND, str(path)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment)
    job = {**order.document(), "threads": threads, "claim": claim.handed_over()}
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # it died at once; `poll` reports that
        process.stdin.write(json.dumps(job).encode() + b"\n")
        process.stdin.flush()  # and stays open: end of file tells the process that its parent is gone
    return process


def status(process: subprocess.Popen[bytes], path: Path) -> tuple[str, str]:
    """How a process that has ended did so: its status, and the reason of a failure."""
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # it never read its input
        process.stdin.close()
    code = process.returncode
    if code < 0:
        return "killed", f"its process was killed by {signal.Signals(-code).name}"
    if code in STATUSES:
        return STATUSES[code], ""
    return "failed", Run(path).last_log_line() or f"its process ended with code {code}"


class ClaimCheck(Reporter):
    """Before anything is saved after a batch, the run must still be ours."""

    def __init__(self, claim: Claim) -> None:
        self.claim = claim

    def batch(self, epoch: int, batch: int, batches: int, examples: int, tally: Tally) -> None:
        """Leave if somebody else has the run."""
        self.claim.check(_leave)


class ProgressFile(Reporter):
    """Writes the progress of a run to a file in its directory, for a display in another process."""

    EVERY = 0.5  # seconds

    def __init__(self, path: Path) -> None:
        self.path, self.written = path / PROGRESS, 0.0
        self.best: float | None = None

    def start(self, spec: RunSpec, manifest: Manifest, place: Place) -> None:
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


def _stop_without_parent() -> None:
    """Send SIGTERM to this process at end of file on stdin, which comes even if the parent was killed."""
    while os.read(sys.stdin.fileno(), 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def _leave() -> None:
    """The run is somebody else's: nothing more may be written into its directory."""
    os._exit(LOST)


def main() -> None:
    """Train one run; the exit code gives its status."""
    path, job = Path(sys.argv[1]), json.loads(sys.stdin.readline())
    claim = adopted(job["claim"])
    if claim.is_lost():
        sys.exit(LOST)
    threading.Thread(target=_stop_without_parent, daemon=True).start()
    claim.keep(_leave)
    torch.set_num_threads(job["threads"])
    try:
        spec, pruner = config.parse(job["spec"], "the plan"), pruner_of(job.get("rivals"))
        outcome = train(spec, path, ClaimCheck(claim), ProgressFile(path), pruner=pruner)
    except KeyboardInterrupt:
        claim.release()
        sys.exit(130)
    except BusyError:  # a process that was presumed dead, or its lock, is still there: later, or elsewhere
        claim.release()
        sys.exit(LOST)
    except Exception as error:
        if claim.is_lost():  # somebody else has the run, and its files
            sys.exit(LOST)
        if isinstance(error, (GatelabError, OSError)) or memory.is_exhausted(error):  # a message is enough
            code, message = REFUSED, "; ".join(str(error).splitlines()) or type(error).__name__
        else:
            traceback.print_exc()
            code, message = BUG, bug_report(error, gatelab.__version__, f"the run process of {path}")
        print(message, flush=True)
        claim.fail(message.splitlines()[-1])
        sys.exit(code)
    claim.release(ended=True)
    sys.exit(next(code for code, status in STATUSES.items() if status == outcome.status))
