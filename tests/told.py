"""Digits whose training stops where a test says, not wherever it happens to be at some time.

A test uses the task `told.TASK` and gives `told.at_batch` to the environment: the process of a run then waits at that
batch until it is let go, kills itself, or interrupts all processes of its group.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

from gatelab.tasks.examples import Batch, Examples, Parts
from gatelab.tasks.images import Digits

TASK = f"{Path(__file__)}:Told"
ORDER = "GATELAB_TEST_AT_BATCH"


def at_batch(number: int, what: str, run: str, folder: Path, times: int = 1) -> dict[str, str]:
    """The environment in which processes of runs whose directory ends with `run` do something at this batch of theirs:
    `wait` until there is `folder / "go"`, or `kill` themselves or `interrupt` their group, so many times in all.
    """
    folder.mkdir()
    for time_left in range(times):
        (folder / f"left-{time_left}").touch()
    return {ORDER: json.dumps([number, what, run, str(folder)])}


class Told(Digits):
    """Digits whose training set counts its batches."""

    def load(self) -> Parts:
        """Return the digits."""
        train, *others = super().load()
        return Parts(_Counted(**vars(train)), *others)


class _Counted(Examples):
    numbers = itertools.count()  # of this process

    def batch(self, *given: object) -> Batch:
        number, what, run, folder = json.loads(os.environ.get(ORDER, '[0, "", "", ""]'))
        if what and sys.argv[-1].endswith(run) and next(self.numbers) == number:
            _do(what, Path(folder))
        return super().batch(*given)


def _do(what: str, folder: Path) -> None:
    if what == "wait":
        deadline = time.monotonic() + 600  # not for ever, if the test that should let it go has failed
        while not (folder / "go").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
    elif any(_is_taken(left) for left in sorted(folder.glob("left-*"))):
        if what == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        os.killpg(0, signal.SIGINT)  # as a terminal does it: to all of them


def _is_taken(left: Path) -> bool:
    with suppress(FileNotFoundError):
        left.unlink()
        return True
    return False
