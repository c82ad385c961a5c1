"""Data sets on disk: where they are looked for, how their files are checked, and a cache of what was decoded."""

from __future__ import annotations

import contextlib
import functools
import gzip
import hashlib
import os
import tarfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gatelab import sealed
from gatelab.disk import cache_folder
from gatelab.errors import DataError
from gatelab.tasks.download import Download, fetch

Arrays = dict[str, np.ndarray]
DAMAGED = (OSError, EOFError, zlib.error, tarfile.TarError, KeyError)


@dataclass(frozen=True)
class Source:
    """A data set as it is published."""

    name: str
    folders: tuple[str, ...]  # in a data directory: our own layout, then those of other tools
    contents: dict[str, str]  # each file that is needed, and the SHA-256 of what it holds when unpacked
    downloads: tuple[Download, ...]
    mirrors: tuple[str, ...]
    system: tuple[str, ...] = ()  # folders where packages of the operating system put it


@dataclass(frozen=True)
class Found:
    """A file that holds one of the contents: plain, gzipped, or a tarball that has it as a member."""

    path: Path
    member: str | None = None

    def read(self) -> bytes:
        if self.member is not None:
            return _members(self.path)[self.member]
        with gzip.open(self.path) if self.path.suffix == ".gz" else self.path.open("rb") as file:
            return file.read()


def places(data_dir: Path | None) -> list[Path]:
    """The data directories, in the order in which they are looked through."""
    chosen = [data_dir, os.environ.get("GATELAB_DATA")]
    return [*(Path(place).expanduser() for place in chosen if place), cache_folder("data")]


def is_here(source: Source, data_dir: Path | None, variant: str) -> bool:
    """Whether no download is needed."""
    return _cached(source, variant).is_file() or not _missing(source, data_dir)


def load(source: Source, data_dir: Path | None, variant: str, decode: Callable[[dict[str, bytes]], Arrays]) -> Arrays:
    """The decoded arrays: from the cache if they are there and whole, else from the files, downloaded if need be.

    What the files hold is checked against known sums before it is decoded, so the cached arrays are the same wherever
    the files came from; `variant` (grey, rgb) is all that they depend on.
    """
    cached = _cached(source, variant)
    with contextlib.suppress(DataError):  # not there, or not whole: it is made again
        return sealed.read_arrays(cached)
    if _missing(source, data_dir):
        _get(source, data_dir)
    try:
        arrays = decode({name: _checked(source, name, data_dir) for name in source.contents})
    finally:
        _members.cache_clear()
    with contextlib.suppress(OSError):  # no room for it only costs time at the next start
        sealed.write_arrays(cached, arrays, compressed=False)
    return arrays


def _cached(source: Source, variant: str) -> Path:
    key = hashlib.sha256(repr((source.contents, variant)).encode()).hexdigest()[:16]
    return cache_folder("decoded") / f"{source.name}-{variant}-{key}-sealed.npz"


def _missing(source: Source, data_dir: Path | None) -> list[str]:
    return [name for name in source.contents if _find(source, name, data_dir) is None]


def _find(source: Source, name: str, data_dir: Path | None) -> Found | None:
    """The first file under any known name in any known place."""
    folders = [place / folder for place in places(data_dir) for folder in source.folders]
    for folder in [*folders, *map(Path, source.system)]:
        for spelling in (name, f"{name}.gz"):
            if (folder / spelling).is_file():
                return Found(folder / spelling)
        for tarball in (d for d in source.downloads if name in d.members):
            if (folder / tarball.name).is_file():
                return Found(folder / tarball.name, name)
    return None


def _checked(source: Source, name: str, data_dir: Path | None) -> bytes:
    """What a file holds, all of it and nothing else, or an error that names the file."""
    found = _find(source, name, data_dir)
    assert found is not None
    remedy = f"put the right one in its place, or move it away and {source.name} is downloaded again"
    try:
        content = found.read()
    except DAMAGED as error:
        raise DataError(
            f"{found.path} is cut off, damaged or unreadable ({type(error).__name__}: {error}): {remedy}"
        ) from error
    if (given := hashlib.sha256(content).hexdigest()) != source.contents[name]:
        raise DataError(
            f"{found.path} does not hold {source.name}'s {name}: {len(content):,} bytes with SHA-256 {given[:12]}…, "
            f"expected {source.contents[name][:12]}…: {remedy}"
        )
    return content


@functools.lru_cache(maxsize=1)
def _members(path: Path) -> dict[str, bytes]:
    """The files in a tarball, by name without folder, read in one go: a compressed tarball cannot be read at random."""
    with tarfile.open(path) as tar:
        opened = ((member.name.rpartition("/")[2], tar.extractfile(member)) for member in tar)
        return {name: file.read() for name, file in opened if file is not None}


def _get(source: Source, data_dir: Path | None) -> None:
    """Download what is not here, into the first data directory that can be written."""
    looked = places(data_dir)
    home = next((place / source.folders[0] for place in looked if _writable(place)), None)

    def wanted() -> list[Download]:
        missing = set(_missing(source, data_dir))
        return [d for d in source.downloads if missing & set(d.members)]

    reasons = ["no data directory can be written"] if home is None else fetch(wanted, source.mirrors, home, source.name)
    if reasons:
        size = sum(d.bytes for d in wanted()) / 1e6
        raise DataError(
            f"{source.name} is not here: {', '.join(_missing(source, data_dir))}\n"
            f"looked in {', '.join(map(str, [*looked, *source.system]))}; {'; '.join(reasons)}\n"
            f"what to do: put {', '.join(d.name for d in wanted())} ({size:.0f} MB) into "
            f"{looked[0] / source.folders[0]}, or name a folder that has it with --data-dir or GATELAB_DATA, "
            "or use the task digits, which needs no download"
        )


def _writable(place: Path) -> bool:
    while not place.exists() and place != place.parent:
        place = place.parent
    return place.is_dir() and os.access(place, os.W_OK | os.X_OK)
