"""A worker: takes the next run that nobody has, until none is left. `gatelab bench` has one of its own; others can join
it, on any machine that sees the directory, and leave it at any time.
"""

from __future__ import annotations

import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gatelab.disk import within
from gatelab.errors import HopelessError
from gatelab.experiments import run_process
from gatelab.experiments.claims import LEASE, RENEWAL, Claim, Claims
from gatelab.experiments.planned import Planned, has_ended

POLL = 0.1  # seconds between two polls of this worker's processes
LOOK = 1.0  # seconds between two looks at what other workers do
ATTEMPTS = 3  # a run whose process is killed (for want of memory, say) is resumed, and given up in the end


@dataclass(frozen=True)
class Finished:
    """A run that has ended, with its status."""

    run: Planned
    status: str  # done, diverged, failed or interrupted
    reason: str = ""
    elsewhere: bool = False  # whether another worker had it


class Worker:
    """Executes up to `jobs` runs of an experiment at a time, and at most `most` of them in all. With `most`, it also
    leaves if living workers have all runs: a cluster would keep cores for it in vain.
    """

    def __init__(self, runs: list[Planned], directory: Path, jobs: int, threads: int, most: int | None = None) -> None:
        self.directory, self.jobs, self.threads = directory, jobs, threads
        self.claims = Claims(directory)
        self.open = {run.path: run for run in runs}  # neither ended nor failed, as far as this worker knows
        self.running: dict[Path, tuple[subprocess.Popen[bytes], Claim]] = {}
        self.kills: Counter[Path] = Counter()
        self.left, self.may_leave = (len(runs) * ATTEMPTS, False) if most is None else (most, True)
        self.busy = time.monotonic()  # when it last had a run

    def work(self, tick: Callable[[], None] = lambda: None) -> Generator[Finished, None, None]:
        """Yield each run when it ends, also those of other workers. Waits for these: if they die, their runs are taken.
        If the caller stops, SIGTERM makes this worker's processes save and exit.
        """
        looked = 0.0
        try:
            while self.open and (self.running or self.left):
                if time.monotonic() - looked > LOOK:
                    looked = time.monotonic()
                    yield from self._ended_elsewhere()
                    self._take()
                    self._renew()
                    if self._is_superfluous():
                        return
                time.sleep(POLL)
                tick()
                for finished in self._ended_here():
                    looked = 0.0  # there is room for another, and others may have waited for this one
                    yield finished
        finally:
            self._stop()

    def _take(self) -> None:
        """Start runs that nobody has, as many as there is room for."""
        for path, run in self.open.items():
            if len(self.running) >= self.jobs or not self.left:
                return
            if path in self.running or self.claims.state(path) != "free" or not (order := self._order(run)):
                continue
            if (claim := self.claims.take(path)) is None:
                continue
            if has_ended(path, self.directory):  # since it was looked at
                claim.release(ended=True)
                continue
            place = within(self.directory, self.directory / path)
            self.running[path] = run_process.start(order, place, claim, self.threads), claim
            self.left -= 1

    def _order(self, run: Planned) -> run_process.Order | None:
        """What a run process is told; None if the run has to wait for others. A run that waits in vain has failed."""
        try:
            return run_process.ordered(run, self.directory)
        except HopelessError as error:
            if (claim := self.claims.take(run.path)) is not None:
                claim.fail(str(error))
            return None

    def _renew(self) -> None:
        """Renew claims for processes that may still be importing, and do not renew them yet."""
        for process, claim in self.running.values():
            if process.poll() is None and claim.since_renewal() > RENEWAL:
                with suppress(OSError):  # it was lost, which its process finds out
                    claim.renew()

    def _ended_here(self) -> Iterator[Finished]:
        for path, (process, claim) in list(self.running.items()):
            if process.poll() is None:
                continue
            del self.running[path]
            status, reason = run_process.status(process, self.directory / path)
            if status == "lost":  # another worker has it
                self.left += 1
                continue
            if status in ("killed", "interrupted"):  # by others: if this worker is interrupted, it does not get here
                self.kills[path] += 1
                if self.kills[path] < ATTEMPTS:
                    claim.release()  # its holder is dead, or did not live to hold it
                    self.left += 1
                    continue
                status, reason = "failed", reason or "its process was interrupted again and again"
            if status == "failed":
                claim.fail(reason)
            yield Finished(self.open.pop(path), status, reason)

    def _ended_elsewhere(self) -> Iterator[Finished]:
        """Runs that other workers have ended, and those that they failed with."""
        for path in [path for path in self.open if path not in self.running]:
            if (status := has_ended(path, self.directory)) is not None:
                yield Finished(self.open.pop(path), status, elsewhere=True)
            elif self.claims.state(path) == "failed":
                holder = self.claims.holder(path)
                yield Finished(self.open.pop(path), "failed", holder.reason if holder else "", elsewhere=True)

    def _is_superfluous(self) -> bool:
        """Whether all runs were others' for so long that these are known to be alive."""
        if self.running:
            self.busy = time.monotonic()
        waited = time.monotonic() - self.busy
        if not self.may_leave or waited < LEASE + RENEWAL:
            return False
        return all(self._order(run) for run in self.open.values())

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
