"""Where runs are executed. This one is the local machine; a cluster would be another class with the same verb."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gatelab.disk import within
from gatelab.experiments.plan import Planned
from gatelab.experiments.worker import STATUSES, last_words
from gatelab.training.run import LOG, PROGRESS

LOOK = 0.1  # seconds between two looks at the processes
# The current folder is not a place to import from: a file there may have the name of any module. (From Python 3.11 on
# that would be `-P`; the module `sys` is built in, and cannot be anybody's file.)
WORKER = "import sys; sys.path[:] = [p for p in sys.path if p]; from gatelab.experiments.worker import main; main()"


@dataclass(frozen=True)
class Finished:
    """A run that is over, however it ended."""

    run: Planned
    status: str  # done, diverged, failed or interrupted
    reason: str = ""


class Executor(Protocol):
    """Executes runs in the directory of an experiment."""

    def execute(self, runs: list[Planned], directory: Path, tick: Callable[[], None]) -> Iterator[Finished]:
        """Yield each run as it ends, in whatever order; call `tick` every now and then."""


class LocalExecutor:
    """So many processes at a time on this machine, which share its cores."""

    def __init__(self, jobs: int | None = None) -> None:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        wanted = os.environ.get("OMP_NUM_THREADS", "")  # as torch understands it
        if jobs is not None and jobs < 1:
            raise ValueError(f"jobs is {jobs}: expected at least one process")
        self.jobs = jobs or cores
        # One thread a process is the best use of cores while there are enough runs: nothing has to be shared out.
        self.threads = max(1, min(cores // self.jobs, int(wanted) if wanted.isdecimal() else cores))

    def execute(self, runs: list[Planned], directory: Path, tick: Callable[[], None]) -> Iterator[Finished]:
        waiting, running = list(runs), dict[subprocess.Popen[bytes], Planned]()
        for run in waiting:
            (directory / run.place / PROGRESS).unlink(missing_ok=True)  # of an earlier session
        try:
            while waiting or running:
                while waiting and len(running) < self.jobs:
                    run = waiting.pop(0)
                    self._start(run, within(directory, directory / run.place), running)
                time.sleep(LOOK)
                tick()
                for process in [p for p in running if p.poll() is not None]:
                    yield _finished(process, running.pop(process), directory)
        finally:
            # Ctrl-C reaches the processes as well, and they save; what else ends us asks them to.
            for process in running:
                process.send_signal(signal.SIGTERM)
            for process in running:
                process.communicate()

    def _start(self, run: Planned, path: Path, running: dict[subprocess.Popen[bytes], Planned]) -> None:
        path.mkdir(parents=True, exist_ok=True)
        environment = {**os.environ, "OMP_NUM_THREADS": str(self.threads), "PYTHONSAFEPATH": "1"}
        (path / LOG).unlink(missing_ok=True)  # and not what it may be a link to
        with (path / LOG).open("xb") as log:
            command = [sys.executable, "-c", WORKER, str(path)]
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment)
        running[process] = run
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it died at once, which is seen when it is waited for
            process.stdin.write(
                json.dumps({"spec": run.spec.self_contained(), "threads": self.threads}).encode() + b"\n"
            )
            process.stdin.flush()  # and stays open: its end tells the worker that nobody waits for it any more


def _finished(process: subprocess.Popen[bytes], run: Planned, directory: Path) -> Finished:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # it never read what it was told
        process.stdin.close()
    code, path = process.returncode, directory / run.place
    if code < 0:
        reason = f"its process was killed by {signal.Signals(-code).name}"
        return Finished(run, "failed", reason)
    if code in STATUSES:
        return Finished(run, STATUSES[code])
    return Finished(run, "failed", last_words(path) or f"its process ended with code {code}")
