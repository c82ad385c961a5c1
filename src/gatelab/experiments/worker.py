"""A worker: takes the next run that nobody has, until none is left. `gatelab bench` has one of its own; others can join
it, on any machine that sees the directory, and leave it at any time.
"""

from __future__ import annotations

import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from gatelab.disk import within
from gatelab.experiments import run_process
from gatelab.experiments.claims import Claim, Claims
from gatelab.experiments.plan import Planned
from gatelab.training import Run
from gatelab.training.loop import FINAL

POLL = 0.1  # seconds between two polls of this worker's processes
LOOK = 1.0  # seconds between two looks at what other workers do
ATTEMPTS = 3  # a run whose process is killed (for want of memory, say) is resumed, and given up in the end


@dataclass(frozen=True)
class Finished:
    """A run that has ended, with its status."""

    run: Planned
    status: str  # done, diverged, failed or interrupted
    reason: str = ""


class Worker:
    """Executes up to `jobs` runs of an experiment at a time, and at most `most` of them in all."""

    def __init__(self, runs: list[Planned], directory: Path, jobs: int, threads: int, most: int | None = None) -> None:
        self.directory, self.jobs, self.threads = directory, jobs, threads
        self.claims = Claims(directory)
        self.open = {run.path: run for run in runs}  # neither ended nor failed, as far as this worker knows
        self.running: dict[Path, tuple[subprocess.Popen[bytes], Claim]] = {}
        self.kills: Counter[Path] = Counter()
        self.left = most if most is not None else len(runs) * ATTEMPTS

    def work(self, tick: Callable[[], None] = lambda: None) -> Iterator[Finished]:
        """Yield each run when it ends, also those of other workers. Waits for these: if they die, their runs are taken.
        If the caller stops, SIGTERM makes this worker's processes save and exit.
        """
        looked = 0.0
        try:
            while self.open and (self.running or self.left):
                if time.monotonic() - looked > LOOK or len(self.running) < self.jobs:
                    looked = time.monotonic()
                    yield from self._ended_elsewhere()
                    self._take()
                time.sleep(POLL if self.running else min(LOOK, 5 * POLL))
                tick()
                yield from self._ended_here()
        finally:
            self._stop()

    def _take(self) -> None:
        """Start runs that nobody has, as many as there is room for."""
        for path, run in self.open.items():
            if len(self.running) >= self.jobs or not self.left:
                return
            if path in self.running or (spec := run.settled(self.directory)) is None:
                continue
            if (claim := self.claims.take(path)) is None:
                continue
            if has_ended(run, self.directory):  # since it was looked at
                claim.release()
                continue
            place = within(self.directory, self.directory / path)
            self.running[path] = run_process.start(spec, place, claim, self.threads), claim
            self.left -= 1

    def _ended_here(self) -> Iterator[Finished]:
        for path, (process, claim) in list(self.running.items()):
            if process.poll() is None:
                continue
            del self.running[path]
            status, reason = run_process.status(process, self.directory / path)
            if status == "lost":  # another worker has it
                continue
            if status == "killed":
                self.kills[path] += 1
                if self.kills[path] < ATTEMPTS:
                    claim.release()  # its holder is dead, or did not live to hold it
                    self.left += 1
                    continue
                status = "failed"
            if status == "failed":
                claim.fail(reason)
            yield Finished(self.open.pop(path), status, reason)

    def _ended_elsewhere(self) -> Iterator[Finished]:
        """Runs that other workers have ended, and those that they failed with."""
        for path, run in list(self.open.items()):
            if path in self.running:
                continue
            if (status := has_ended(run, self.directory)) is not None:
                yield Finished(self.open.pop(path), status)
            elif self.claims.state(path) == "failed":
                holder = self.claims.holder(path)
                yield Finished(self.open.pop(path), "failed", holder.reason if holder else "")

    def _stop(self) -> None:
        # Ctrl-C reaches the processes too, which save. If this worker ends otherwise, SIGTERM asks them to.
        for process, _ in self.running.values():
            process.send_signal(signal.SIGTERM)
        for process, claim in self.running.values():
            process.communicate()
            claim.release()


def execute_one(
    run: Planned, directory: Path, threads: int, tick: Callable[[], None] = lambda: None
) -> tuple[str, str]:
    """Execute one run, or wait for the worker that has it. Returns its status, and the reason of a failure."""
    lost = Finished(run, "interrupted", "other workers took it again and again")
    finished = next(Worker([run], directory, 1, threads).work(tick), lost)
    return finished.status, finished.reason


def has_ended(run: Planned, directory: Path) -> str | None:
    """The status of a run that has ended; None if there is something left to do."""
    path = within(directory, directory / run.path)
    if not Run(path).exists():
        return None
    status: str = Run(path).manifest()["status"]
    return status if status in FINAL else None
