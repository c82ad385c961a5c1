"""A run as a task of Ray: what happens on the node that trains it, in the experiment directory or in a copy."""

from __future__ import annotations

import json
import os
import socket
import tempfile
import time
import uuid
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gatelab.errors import GatelabError
from gatelab.experiments import transfer
from gatelab.experiments.planned import Planned
from gatelab.experiments.worker import LOOK, execute_one
from gatelab.training import config
from gatelab.training.run import PROGRESS

Outcome = tuple[str, str]  # status, and the reason of a failure


class TakenError(Exception):
    """The run is another task's by now."""


@dataclass(frozen=True)
class Sent(Planned):
    """A run whose order came from another machine."""

    place: Path
    scores: list[list[float]] | None  # of its rivals

    @property
    def path(self) -> Path:
        """Its directory, relative to that of the experiment."""
        return self.place

    def rivals(self, directory: Path) -> list[list[float]] | None:
        """The validation scores of runs that this one is measured by."""
        return self.scores

    @classmethod
    def read(cls, order: str, path: str) -> Sent:
        """From its order as JSON."""
        content = json.loads(order)
        spec = config.parse(content["spec"], "the plan")
        return cls(path, spec.training.seed, spec, Path(path), content["rivals"])


def sees(token: Path) -> bool:
    """Whether this node sees a file, and can write beside it."""
    return token.is_file() and os.access(token.parent, os.W_OK)


def train_in_place(order: str, path: str, token: Path, threads: int) -> Outcome:
    """Train in the directory of the experiment, in which the token is."""
    if not sees(token):  # nodes may have joined since all were asked
        return "failed", f"{socket.gethostname()} does not see {token.parent}: use --no-shared-folder"
    try:
        return execute_one(Sent.read(order, path), token.parent, threads)
    except KeyboardInterrupt:
        return "interrupted", ""
    except (GatelabError, OSError) as error:
        return "failed", _last_line(error)


def train_copy(order: str, path: str, keeper: Any, threads: int, every: tuple[float, float]) -> Outcome:
    """Train in a copy of the run directory, in a temporary directory of this node."""
    with tempfile.TemporaryDirectory(prefix="gatelab-") as folder, ThreadPoolExecutor(1) as background:
        copy = RunCopy(Path(folder), path, keeper, every, background)
        try:
            copy.fetch()
            outcome = execute_one(Sent.read(order, path), Path(folder), threads, copy.tick)
        except KeyboardInterrupt:
            outcome = "interrupted", ""
        except TakenError:
            return "interrupted", "another task has it"
        except (GatelabError, OSError) as error:
            outcome = "failed", _last_line(error)
        copy.give_back(*outcome)
    return outcome


class RunCopy:
    """A copy of a run directory, whose files are sent to the keeper of the directories while they change."""

    def __init__(
        self, folder: Path, path: str, keeper: Any, every: tuple[float, float], background: ThreadPoolExecutor
    ) -> None:
        self.place, self.path, self.keeper, self.background = folder / path, path, keeper, background
        self.files_every, self.progress_every = every
        self.task = uuid.uuid4().hex
        self.known: transfer.Stamps = {}  # files as the keeper has them
        self.sending: Future[Any] | None = None
        self.sent = self.shown = time.monotonic()

    def fetch(self) -> None:
        """Ask for the files, as long as a worker beside the keeper has the run."""
        while (files := self._call("lend").result()) is None:
            time.sleep(LOOK)
        transfer.write(self.place, files)
        transfer.changed(self.place, self.known)

    def tick(self) -> None:
        """Send what has changed, from time to time."""
        if self.sending is not None:
            if not self.sending.done():
                return
            self._check_received()
        now = time.monotonic()
        if now - self.sent > self.files_every:
            self.sent = self.shown = now
            self._send()
        elif now - self.shown > self.progress_every:
            self.shown = now
            self._send((PROGRESS,))

    def give_back(self, status: str, reason: str) -> None:
        """Send the rest, and end the keeper's claim."""
        self._send()
        self._call("give_back", status, reason).result()

    def _send(self, names: tuple[str, ...] = transfer.ORDER) -> None:
        self.sending = self._call("receive", transfer.changed(self.place, self.known, names))

    def _check_received(self) -> None:
        assert self.sending is not None
        if not self.sending.result():
            raise TakenError

    def _call(self, method: str, *arguments: Any) -> Future[Any]:
        """Call the keeper in another thread: if the main one waits, Ray gives the cores of this task to the next one,
        although the process of the run is using them.
        """
        import ray

        return self.background.submit(
            lambda: ray.get(getattr(self.keeper, method).remote(self.path, self.task, *arguments))
        )


def _last_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[-1]
