"""Where gatelab keeps what it can make again, and how a file is written so that it is there whole or not at all."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, cast

from gatelab.errors import DataError

TEMPORARY = ".gatelab-tmp-"  # how the names of unfinished files begin; nobody else's do


def cache_folder(room: str) -> Path:
    """`room` in $GATELAB_CACHE, else in `gatelab` in the user's cache directory; it may not exist yet."""
    if chosen := os.environ.get("GATELAB_CACHE"):
        return Path(chosen) / room
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "gatelab" / room
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gatelab" / room


@contextmanager
def whole_file(path: Path, sync: bool = True) -> Iterator[BinaryIO]:
    """A file to write that takes its place under `path` only when all of it is on the disk. A link that is there is
    replaced, not followed. Without `sync` it is there at once and may be lost when the machine stops.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f"{TEMPORARY}{path.name}.", delete=False) as file:
        try:
            yield cast(BinaryIO, file)
            file.flush()
            if sync:
                os.fsync(file.fileno())
            os.chmod(file.name, 0o666 & ~_umask())  # a temporary file is for its owner alone, the final one is not
            os.replace(file.name, path)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)  # an interrupt may come just after the renaming
            raise
    if sync:
        _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Put the folder's list of names on the disk, so that a renaming survives a power failure. Systems that cannot do
    this for a folder are left alone.
    """
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write_text(path: Path, text: str) -> None:
    with whole_file(path) as file:
        file.write(text.encode())


def clear_unfinished(folder: Path) -> None:
    """Delete what a killed process was writing."""
    for path in folder.glob(f"{TEMPORARY}*"):
        path.unlink(missing_ok=True)


def foreign(folder: Path, ours: Iterable[str]) -> list[str]:
    """What a folder holds beside these names and unfinished files; nothing if there is no such folder."""
    if not folder.is_dir():
        return []
    known = {*ours, ".lock"}
    return sorted(p.name for p in folder.iterdir() if p.name not in known and not p.name.startswith(TEMPORARY))


def within(folder: Path, path: Path) -> Path:
    """The path, if it stays inside the folder also where links are followed: a directory that came from elsewhere must
    not lead anyone to other files.
    """
    if not path.resolve().is_relative_to(folder.resolve()):
        raise DataError(f"{path} leads out of {folder}, to {path.resolve()}: put a copy in the place of the link")
    return path


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
