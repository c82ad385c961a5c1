"""Executors of runs: the local machine. A cluster would be another class with the same method."""

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
from gatelab.errors import GatelabError
from gatelab.experiments.plan import Planned
from gatelab.experiments.worker import STATUSES, last_log_line
from gatelab.training.run import LOG, PROGRESS

POLL = 0.1  # seconds between two polls of the processes
# Nothing is imported from the current directory, where a file may have the name of any module. (From Python 3.11 on
# this is the option `-P`. The module `sys` is built in and cannot be shadowed.)
WORKER = "import sys; sys.path[:] = [p for p in sys.path if p]; from gatelab.experiments.worker import main; main()"


@dataclass(frozen=True)
class Finished:
    """A run that has ended, with its status."""

    run: Planned
    status: str  # done, diverged, failed or interrupted
    reason: str = ""


class Executor(Protocol):
    """Executes runs in the directory of an experiment."""

    def execute(self, runs: list[Planned], directory: Path, tick: Callable[[], None]) -> Iterator[Finished]:
        """Yield each run when it ends, in any order; call `tick` several times per second."""


class LocalExecutor:
    """Executes `jobs` processes at a time on this machine; by default one per core."""

    def __init__(self, jobs: int | None = None) -> None:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        limit = os.environ.get("OMP_NUM_THREADS", "")  # as in torch
        if jobs is not None and jobs < 1:
            raise GatelabError(f"jobs is {jobs}: expected at least one process")
        self.jobs = jobs or cores
        # With at least as many runs as cores, one thread per process is fastest: threads need no synchronization.
        self.threads = max(1, min(cores // self.jobs, int(limit) if limit.isdecimal() else cores))

    def execute(self, runs: list[Planned], directory: Path, tick: Callable[[], None]) -> Iterator[Finished]:
        """Yield each run when its process ends. If the caller stops, SIGTERM makes the others save and exit."""
        waiting, running = list(runs), dict[subprocess.Popen[bytes], Planned]()
        for run in waiting:
            (directory / run.path / PROGRESS).unlink(missing_ok=True)  # of an earlier session
        try:
            while waiting or running:
                while waiting and len(running) < self.jobs:
                    run = waiting.pop(0)
                    self._start(run, within(directory, directory / run.path), running)
                time.sleep(POLL)
                tick()
                for process in [p for p in running if p.poll() is not None]:
                    yield _finished(process, running.pop(process), directory)
        finally:
            # Ctrl-C reaches the processes too, which save. If this process ends otherwise, SIGTERM asks them to.
            for process in running:
                process.send_signal(signal.SIGTERM)
            for process in running:
                process.communicate()

    def _start(self, run: Planned, path: Path, running: dict[subprocess.Popen[bytes], Planned]) -> None:
        path.mkdir(parents=True, exist_ok=True)
        environment = {**os.environ, "OMP_NUM_THREADS": str(self.threads), "PYTHONSAFEPATH": "1"}
        (path / LOG).unlink(missing_ok=True)  # it may be a symbolic link: remove the link, not its target
        with (path / LOG).open("xb") as log:
            command = [sys.executable, "-c", WORKER, str(path)]
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment)
        running[process] = run
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it died at once; `poll` reports that
            process.stdin.write(
                json.dumps({"spec": run.spec.self_contained(), "threads": self.threads}).encode() + b"\n"
            )
            process.stdin.flush()  # and stays open: end of file tells the worker that its parent is gone


def _finished(process: subprocess.Popen[bytes], run: Planned, directory: Path) -> Finished:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # it never read its input
        process.stdin.close()
    code, path = process.returncode, directory / run.path
    if code < 0:
        reason = f"its process was killed by {signal.Signals(-code).name}"
        return Finished(run, "failed", reason)
    if code in STATUSES:
        return Finished(run, STATUSES[code])
    return Finished(run, "failed", last_log_line(path) or f"its process ended with code {code}")
