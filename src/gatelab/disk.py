"""The cache folder, atomic file writes, and protection against links that lead out of a folder."""

from __future__ import annotations

import json
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Collection, Container, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, cast

from gatelab import memory
from gatelab.errors import DataError, GatelabError

TEMPORARY = ".gatelab-tmp-"  # prefix of unfinished files and folders
FOLDER = f"{TEMPORARY}folder-"  # of unfinished folders
MOVED = "moved.json"  # in an unfinished folder that is complete: the names that are moved out of it, in this order


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
    followed. Without `sync` this is faster, but the file may be lost in a power failure. Errors of the system name it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
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
    except OSError as error:
        if error.filename is None or Path(error.filename).name.startswith(TEMPORARY):
            raise (
                OSError(f"{error}: {path}") if error.errno is None else OSError(error.errno, error.strerror, str(path))
            ) from error
        raise
    if sync:
        _sync_folder(path.parent)


@contextmanager
def whole_folder(path: Path, last: str, material: Container[str], own: Collection[str] = ()) -> Iterator[Path]:
    """Write the files of a new or empty directory: they appear there when all are complete, the one called `last` at
    the end.

    What is unfinished is in a folder of its own inside; if the process is killed, the next call clears it. A directory
    that has the same `material` files already stays as it is: the process may have been killed just after the end. Its
    `own` files may be there before, and are replaced.
    """
    path, is_new = resolved(path), not path.is_dir()
    if not (path / last).exists():
        refuse_place(path, own)
    path.mkdir(parents=True, exist_ok=True)
    clear_folders(path)
    made = Path(tempfile.mkdtemp(dir=path, prefix=FOLDER))
    try:
        yield made
        if (path / last).exists():
            if not _are_same(made, path, material):
                raise _not_empty(path)
        else:
            names = sorted(os.listdir(made), key=lambda name: (name == last, name))
            write_text(made / MOVED, json.dumps(names))
            for name in names:
                if name == last:
                    _sync_folder(path)
                if name in own:
                    (path / name).unlink(missing_ok=True)
                os.rename(made / name, path / name)
            _sync_folder(path)
    finally:
        _clear_folder(made)
        if is_new:
            with suppress(OSError):  # it has files
                path.rmdir()


def _are_same(made: Path, path: Path, material: Container[str]) -> bool:
    """Whether all files of these names in a folder are in another one, too."""
    files = [file for file in made.rglob("*") if file.name in material]
    places = [within(path, path / file.relative_to(made)) for file in files]
    return all(
        place.is_file() and read_regular(place) == file.read_bytes() for file, place in zip(files, places, strict=True)
    )


def refuse_place(path: Path, own: Collection[str] = ()) -> None:
    """Refuse a path at which something is other than `own` files and what a killed process left, which is cleared."""
    clear_folders(path)
    if (path.exists() and not path.is_dir()) or foreign(path, own):
        raise _not_empty(path)


def _not_empty(path: Path) -> GatelabError:
    return GatelabError(f"{path} exists and is not empty: choose a new directory")


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
    """Delete the unfinished files and folders of a killed process."""
    clear_folders(folder)
    for path in folder.glob(f"{TEMPORARY}*"):
        path.unlink(missing_ok=True)


def clear_folders(folder: Path) -> None:
    """Delete the unfinished folders of a killed process, and what was moved out of them."""
    for path in folder.glob(f"{FOLDER}*"):
        if path.is_dir() and not path.is_symlink():
            _clear_folder(path)


def _clear_folder(made: Path) -> None:
    """Delete an unfinished folder, and what was moved out of it unless all was."""
    try:
        names = [str(name) for name in json.loads((made / MOVED).read_text())]
    except (OSError, ValueError):
        names = []
    if names and (made / names[-1]).exists():
        for name in names:
            place = made.parent / Path(name).name  # nothing outside, whoever wrote the list
            if (made / name).exists():
                continue
            if place.is_dir() and not place.is_symlink():
                shutil.rmtree(place)
            else:
                place.unlink(missing_ok=True)
        (made / MOVED).unlink()
    shutil.rmtree(made)


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
