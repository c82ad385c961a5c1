"""Claims on runs: any number of workers, on any number of machines that see the directory, never train the same run.

A claim is a file `claims/RUN/NUMBER` in the directory of the experiment. It is created exclusively, which is atomic on
local and on network file systems. The process that trains renews it by touching it; if it stops doing so it is presumed
dead, and the next number takes over. The highest number holds the run: of several workers that find a dead claim, one
succeeds in creating its successor, and a holder that wakes up again sees that it has been replaced.

Clocks of machines differ, so no time of one is compared with that of another: a claim is dead if it has not changed for
`LEASE` seconds by the clock of whoever watches it. On the machine of its process, death is seen at once.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from gatelab.disk import whole_file, within

FOLDER = "claims"
LEASE = 60.0  # seconds without renewal after which a process on another machine is presumed dead
RENEWAL = 10.0  # seconds between renewals
MOST_BYTES = 10_000  # of a claim
PROC = Path("/proc")


@dataclass(frozen=True)
class Holder:
    """The process behind a claim, and what it says about its run."""

    token: str  # unique to the claim
    host: str  # for people
    machine: str  # where process numbers mean the same: one boot of one machine, one container
    pid: int
    started: str  # process numbers are used again
    state: Literal["held", "free", "failed"] = "held"
    reason: str = ""  # of a failure

    def is_here(self) -> bool:
        """Whether the process is on this machine, so that its end is seen at once."""
        return self.machine == _machine()

    def is_alive_here(self) -> bool:
        """Whether the process exists on this machine."""
        return _start_of(self.pid) == self.started


@dataclass(frozen=True)
class Seen:
    """A claim as it was read."""

    number: int
    holder: Holder | None  # None: it was being written, or cannot be understood
    stamp: int  # changes with every renewal


class Claims:
    """The claims on the runs of an experiment, as one process sees them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._unchanged: dict[Path, tuple[Any, float]] = {}  # the last sight of a claim, and since when it is the same

    def state(self, run: Path) -> Literal["free", "held", "failed"]:
        """Whether a run can be taken; of a failed one its worker has said so, and others need not try again."""
        return self._state(run, newest(self._folder(run)))

    def holder(self, run: Path) -> Holder | None:
        """Who has a run, dead or alive."""
        seen = newest(self._folder(run))
        return seen.holder if seen else None

    def take(self, run: Path) -> Claim | None:
        """The claim on a run that nobody has; None if somebody has it, or was faster."""
        folder = self._folder(run)
        seen = newest(folder)
        if self._state(run, seen) != "free":
            return None
        folder.mkdir(parents=True, exist_ok=True)
        claim = Claim(folder / str(seen.number + 1 if seen else 1), _this_process(uuid.uuid4().hex))
        try:
            with claim.path.open("x") as file:
                file.write(json.dumps(asdict(claim.holder)))
        except FileExistsError:
            return None
        return None if claim.is_lost() else claim  # the run has ended in between, and its claims were removed

    def forget_failures(self, run: Path) -> None:
        """Let a failed run be tried again."""
        seen = newest(self._folder(run))
        if seen is not None and seen.holder is not None and seen.holder.state == "failed":
            _write(self._folder(run) / str(seen.number), replace(seen.holder, state="free", reason=""))

    def _state(self, run: Path, seen: Seen | None) -> Literal["free", "held", "failed"]:
        if seen is None:
            return "free"
        if seen.holder is not None and seen.holder.state != "held":
            return seen.holder.state
        return "free" if self._is_dead(run, seen) else "held"

    def _is_dead(self, run: Path, seen: Seen) -> bool:
        if seen.holder is not None and seen.holder.is_here():
            return not seen.holder.is_alive_here()
        sight = (seen.number, seen.stamp)
        before, since = self._unchanged.get(run, (None, 0.0))
        if sight != before:
            self._unchanged[run] = sight, time.monotonic()
            return False
        return time.monotonic() - since > LEASE  # a clock that stands still while this machine sleeps

    def _folder(self, run: Path) -> Path:
        return within(self.directory, self.directory / FOLDER / run)


class Claim:
    """A run that this process has."""

    def __init__(self, path: Path, holder: Holder) -> None:
        self.path, self.holder = path, holder
        self.renewed = clocks()
        self._over = threading.Event()

    def renew(self) -> None:
        """Tell others that this process is alive."""
        os.utime(self.path)
        self.renewed = clocks()

    def since_renewal(self) -> float:
        """Seconds since it was renewed, also those in which the machine slept."""
        return clocks()[0] - self.renewed[0]

    def is_lost(self) -> bool:
        """Whether others have presumed this process dead, and the run is theirs."""
        seen = newest(self.path.parent)
        mine = seen is not None and seen.number == int(self.path.name)
        return not mine or (seen is not None and seen.holder is not None and seen.holder.token != self.holder.token)

    def handed_over(self) -> dict[str, str]:
        """What a child process needs to adopt the claim."""
        return {"path": str(self.path), "token": self.holder.token}

    def keep(self, lost: Callable[[], None]) -> None:
        """Renew the claim in the background until it is released; call `lost` if it is no longer this process's."""
        threading.Thread(target=self._renew_until_released, args=[lost], daemon=True).start()

    def check(self, lost: Callable[[], None]) -> None:
        """Call `lost` if the claim was not renewed in time (this process, or its machine, may have been suspended), and
        is lost. In a virtual machine that was paused only the time of day shows it.
        """
        passed = max(now - then for now, then in zip(clocks(), self.renewed, strict=True))
        if passed > LEASE / 2 and self.is_lost():
            lost()

    def _renew_until_released(self, lost: Callable[[], None]) -> None:
        while not self._over.wait(RENEWAL):
            try:
                if self.is_lost():
                    lost()
                    return
                self.renew()
            except OSError:  # the network may be back in a moment; others will take the run if it is not
                if self.since_renewal() > LEASE:
                    lost()
                    return

    def release(self, ended: bool = False) -> None:
        """Give the run back. Others may go on with it, or it has ended. Numbers are not used again before that: whoever
        saw an older claim, and has not made its own yet, must not succeed.
        """
        self._over.set()
        if self.is_lost():
            return
        if ended:
            _remove(self.path.parent, int(self.path.name))
        else:
            _write(self.path, replace(self.holder, state="free"))
            _remove(self.path.parent, int(self.path.name) - 1)

    def fail(self, reason: str) -> None:
        """Say that the run has failed, so that others do not fail in the same way."""
        self._over.set()
        if not self.is_lost():
            _write(self.path, replace(self.holder, state="failed", reason=reason[-1000:]))


def clocks() -> tuple[float, float]:
    """Seconds on a clock that goes on while the machine sleeps, where the system has one; and the time of day."""
    is_known = hasattr(time, "CLOCK_BOOTTIME")
    return time.clock_gettime(time.CLOCK_BOOTTIME) if is_known else time.monotonic(), time.time()


def adopted(handed_over: dict[str, str]) -> Claim:
    """A claim that a parent process made for this one."""
    claim = Claim(Path(handed_over["path"]), _this_process(handed_over["token"]))
    if not claim.is_lost():
        _write(claim.path, claim.holder)
    return claim


def newest(folder: Path) -> Seen | None:
    """The claim that counts, the one with the highest number."""
    for _ in range(10):  # a file may be removed between being listed and being read
        try:
            numbers = [int(name) for name in os.listdir(folder) if name.isdecimal()]
        except FileNotFoundError:
            return None
        if not numbers:
            return None
        try:
            return _read(folder / str(max(numbers)))
        except FileNotFoundError:
            continue
    return None


def _read(path: Path) -> Seen:
    """Opened before its time is asked for: network file systems then ask the server, not their cache."""
    with path.open("rb") as file:
        stamp, content = os.fstat(file.fileno()).st_mtime_ns, file.read(MOST_BYTES)
    return Seen(int(path.name), _parsed(content), stamp)


def _parsed(content: bytes) -> Holder | None:
    try:
        holder = Holder(**json.loads(content))
    except (ValueError, TypeError):
        return None
    texts = (holder.token, holder.host, holder.machine, holder.started, holder.reason)
    is_sound = all(isinstance(text, str) for text in texts) and isinstance(holder.pid, int)
    return holder if is_sound and holder.state in ("held", "free", "failed") else None


def _write(path: Path, holder: Holder) -> None:
    with whole_file(path, sync=False) as file:
        file.write(json.dumps(asdict(holder)).encode())


def _remove(folder: Path, last: int) -> None:
    """Remove the claims up to a number, which goes last: as long as it is there, the run is taken."""
    for number in sorted(int(name) for name in os.listdir(folder) if name.isdecimal() and int(name) <= last):
        (folder / str(number)).unlink(missing_ok=True)


def _this_process(token: str) -> Holder:
    pid = os.getpid()
    return Holder(token, socket.gethostname(), _machine(), pid, _start_of(pid) or "")


def _machine() -> str:
    """Different after a restart, and in another container, where process numbers mean others."""
    if PROC.is_dir():
        try:
            boot = (PROC / "sys/kernel/random/boot_id").read_text().strip()
            return f"{boot} {os.readlink('/proc/self/ns/pid')}"
        except OSError:
            pass
    return f"{socket.gethostname()} {uuid.getnode()}"


def _start_of(pid: int) -> str | None:
    """When a process of this machine began; None if there is none (or it has ended, and nobody asked how)."""
    if PROC.is_dir():
        try:
            fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
        return None if fields[0] in "ZX" else fields[19]
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass
    return "unknown"
