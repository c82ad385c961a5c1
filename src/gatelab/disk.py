"""The cache folder, atomic file writes, and protection against links that lead out of a folder."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, cast

from gatelab import memory
from gatelab.errors import DataError

TEMPORARY = ".gatelab-tmp-"  # prefix of unfinished files


def cache_folder(name: str) -> Path:
    """The folder `name` in $GATELAB_CACHE, by default in `gatelab` in the user's cache directory; it may not exist."""
    if override := os.environ.get("GATELAB_CACHE"):
        return Path(override) / name
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "gatelab" / name
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gatelab" / name


def read_regular(path: Path, limit: int | None = None, factor: int = 1) -> bytes:
    """The content of a regular file of at most `limit` bytes; raises `DataError`, or OSError if it cannot be opened.
    Pipes and devices are refused: reading them could block, or never end. So is what does not fit into memory, before
    it is read: `factor` bytes for each of the file's, for what its reader makes of them.
    """
    with open_regular(path) as file:
        status = os.fstat(file.fileno())
        if limit is None:
            needed, size = factor * status.st_size, memory.amount(status.st_size)
            memory.refuse(needed, f"{path}, a file of {size},", "split it, or remove what is not needed")
        content = file.read() if limit is None else file.read(limit + 1)
    if limit is not None and len(content) > limit:
        raise DataError(f"{path} has {max(status.st_size, len(content)):,} bytes: expected at most {limit:,}")
    return content


def open_regular(path: Path) -> BinaryIO:
    """A regular file, opened for reading; raises as `read_regular` does."""
    file = open(path, "rb", opener=_without_waiting)  # noqa: SIM115 - its caller closes it
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise DataError(f"{path} is a pipe or a device: expected a regular file; save its content as one first")
    return file


def _without_waiting(path: str, flags: int) -> int:
    """Open a file, and a pipe without waiting for its writer."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


@contextmanager
def whole_file(path: Path, sync: bool = True) -> Iterator[BinaryIO]:
    """Write a file atomically: it appears at `path` when it is complete and on disk. An existing link is replaced, not
    followed. Without `sync` this is faster, but the file may be lost in a power failure.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f"{TEMPORARY}{path.name}.", delete=False) as file:
        try:
            yield cast(BinaryIO, file)
            file.flush()
            if sync:
                os.fsync(file.fileno())
            os.chmod(file.name, 0o666 & ~_umask())  # the default permissions; temporary files are private
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
    """Write UTF-8 text atomically."""
    with whole_file(path) as file:
        file.write(text.encode())


def clear_unfinished(folder: Path) -> None:
    """Delete the unfinished files of a killed process."""
    for path in folder.glob(f"{TEMPORARY}*"):
        path.unlink(missing_ok=True)


def foreign(folder: Path, own: Iterable[str]) -> list[str]:
    """Files in a folder other than `own` and unfinished ones; empty if there is no such folder."""
    if not folder.is_dir():
        return []
    known = {*own, ".lock"}
    return sorted(p.name for p in folder.iterdir() if p.name not in known and not p.name.startswith(TEMPORARY))


def within(folder: Path, path: Path) -> Path:
    """The path, if it is inside the folder after resolving links; otherwise raises `DataError`. An untrusted directory
    must not give access to other files.
    """
    if not resolved(path).is_relative_to(resolved(folder)):
        raise DataError(f"{path} leads out of {folder}, to {resolved(path)}: replace the link by a copy")
    return path


def resolved(path: Path) -> Path:
    """The path without links. One that leads to itself stays as it is; `Path.resolve` raises RuntimeError then."""
    return Path(os.path.realpath(path))


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
