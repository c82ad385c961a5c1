"""Run directories that travel to machines without the experiment directory, and back while they are trained there.

Files are read while the run's process writes them, so their order matters. The manifest says that a run has ended, and
the checkpoint which weights were the best: both are read before the files that they refer to, which are then at least
as new, and written after them. What is ahead of a checkpoint is written again by the resumed run, the same.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path

from gatelab.disk import read_regular, whole_file, within
from gatelab.errors import DataError
from gatelab.experiments.claims import Claim, Claims
from gatelab.training import Run
from gatelab.training.run import CHECKPOINT, EXPLORER, FILES, INSPECTION, LOG, MANIFEST, PROGRESS

SMALL = (LOG, PROGRESS)  # files for people, also of a run that has not begun
ORDER = (MANIFEST, CHECKPOINT, *(name for name in FILES if name not in (MANIFEST, CHECKPOINT, INSPECTION, EXPLORER)))

Stamps = dict[str, tuple[int, int]]  # of files by name: each writing gives a new one


def changed(place: Path, known: Stamps, names: tuple[str, ...] = ORDER) -> dict[str, bytes]:
    """The files of a run directory that are newer than `known`, which is updated, in the order for `write`."""
    files = {}
    for name in names if Run(place).exists() else SMALL:  # without a manifest, others would be taken for foreign files
        path = Run(place).file(name)
        try:
            status = os.stat(path)  # before reading: a file that is replaced in between counts as changed next time
            if known.get(name) != (stamp := (status.st_ino, status.st_mtime_ns)):
                files[name], known[name] = read_regular(path), stamp
        except FileNotFoundError:
            continue
    return dict(reversed(files.items()))


def write(place: Path, files: dict[str, bytes]) -> None:
    """Write files of a run into its directory, each completely or not at all."""
    for name, content in files.items():
        if name not in ORDER:
            raise DataError(f"{name!r} is not a file of a run: expected one of {', '.join(ORDER)}")
        with whole_file(place / name, sync=name not in SMALL) as file:
            file.write(content)


class DirectoryKeeper:
    """Keeps the run directories of an experiment: lends their files to tasks on other machines, and takes back what
    these have trained. It holds the claim on each run, and takes files only from the task that asked last: an earlier
    one was on a machine that is presumed lost.
    """

    def __init__(self, directory: str) -> None:
        self.directory = Path(directory)
        self.claims = Claims(self.directory)
        self.lent: dict[str, tuple[str, Claim]] = {}  # the task that has a run, and the claim

    def lend(self, path: str, task: str) -> dict[str, bytes] | None:
        """The files of a run, which are the task's from now on; None as long as a worker of this machine has it."""
        place = within(self.directory, self.directory / path)
        if path not in self.lent:
            self.claims.forget_failures(Path(path))  # of a worker that came in between
            if (claim := self.claims.take(Path(path))) is None:
                return None
            claim.keep(functools.partial(self._forget, path))
            self.lent[path] = task, claim
        self.lent[path] = task, self.lent[path][1]
        return changed(place, {}) if Run(place).exists() else {}

    def receive(self, path: str, task: str, files: dict[str, bytes]) -> bool:
        """Write files of a run that the task has; False if it no longer has it."""
        if (has := self._has(path, task)) and files:
            write(within(self.directory, self.directory / path), files)
        return has

    def give_back(self, path: str, task: str, status: str, reason: str) -> None:
        """End the claim on a run that the task has."""
        if self._has(path, task):
            _, claim = self.lent.pop(path)
            if status == "failed":
                claim.fail(reason)
            else:
                claim.release()

    def _has(self, path: str, task: str) -> bool:
        return path in self.lent and self.lent[path][0] == task

    def _forget(self, path: str) -> None:
        self.lent.pop(path, None)
