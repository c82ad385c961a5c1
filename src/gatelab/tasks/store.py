"""Data sets on disk: search path, checksums, download, and a cache of decoded arrays."""

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
MOST_BYTES = 1 << 30  # of a published file; the largest has 180 MB


@dataclass(frozen=True)
class PublishedData:
    """A published data set."""

    name: str
    folders: tuple[str, ...]  # in a data directory: gatelab's layout first, then those of other tools
    contents: dict[str, str]  # each required file, and the SHA-256 of its uncompressed content
    downloads: tuple[Download, ...]
    mirrors: tuple[str, ...]
    system: tuple[str, ...] = ()  # where packages of the operating system install it


@dataclass(frozen=True)
class StoredFile:
    """A required file on disk: plain, gzipped, or as a member of a tarball."""

    path: Path
    member: str | None = None

    def read(self) -> bytes:
        """The uncompressed content."""
        if self.member is not None:
            return _members(self.path)[self.member]
        with gzip.open(self.path) if self.path.suffix == ".gz" else self.path.open("rb") as file:
            return file.read(MOST_BYTES)  # of a file that is longer the checksum differs


def search_path(data_dir: Path | None) -> list[Path]:
    """The data directories in search order: `data_dir`, GATELAB_DATA, the user's cache."""
    configured = [data_dir, os.environ.get("GATELAB_DATA")]
    return [*(Path(folder).expanduser() for folder in configured if folder), cache_folder("data")]


def is_here(source: PublishedData, data_dir: Path | None, variant: str) -> bool:
    """Whether the set is available without a download."""
    return _cached(source, variant).is_file() or not _missing(source, data_dir)


def load(
    source: PublishedData, data_dir: Path | None, variant: str, decode: Callable[[dict[str, bytes]], Arrays]
) -> Arrays:
    """The decoded arrays from the cache, or else from the files, which are downloaded if missing.

    Files are verified against known checksums before they are decoded, so the cached arrays depend only on `variant`
    (grey, rgb) and not on where the files came from.
    """
    cached = _cached(source, variant)
    with contextlib.suppress(DataError):  # missing or damaged: decode the files again
        return sealed.read_arrays(cached)
    if _missing(source, data_dir):
        _download_missing(source, data_dir)
    try:
        arrays = decode({name: _read_verified(source, name, data_dir) for name in source.contents})
    finally:
        _members.cache_clear()
    with contextlib.suppress(OSError):  # without a cache the next start only takes longer
        sealed.write_arrays(cached, arrays, compressed=False)
    return arrays


def _cached(source: PublishedData, variant: str) -> Path:
    key = hashlib.sha256(repr((source.contents, variant)).encode()).hexdigest()[:16]
    return cache_folder("decoded") / f"{source.name}-{variant}-{key}-sealed.npz"


def _missing(source: PublishedData, data_dir: Path | None) -> list[str]:
    return [name for name in source.contents if _find(source, name, data_dir) is None]


def _find(source: PublishedData, name: str, data_dir: Path | None) -> StoredFile | None:
    """The first match in any folder of the search path, under any known name."""
    folders = [directory / layout for directory in search_path(data_dir) for layout in source.folders]
    for folder in [*folders, *map(Path, source.system)]:
        for spelling in (name, f"{name}.gz"):
            if (folder / spelling).is_file():
                return StoredFile(folder / spelling)
        for tarball in (d for d in source.downloads if name in d.members):
            if (folder / tarball.name).is_file():
                return StoredFile(folder / tarball.name, name)
    return None


def _read_verified(source: PublishedData, name: str, data_dir: Path | None) -> bytes:
    """The content of a file whose checksum is right, or raise an error that names the file."""
    file = _find(source, name, data_dir)
    assert file is not None
    remedy = f"replace it, or move it away to download {source.name} again"
    try:
        content = file.read()
    except DAMAGED as error:
        raise DataError(
            f"{file.path} is truncated, damaged or unreadable ({type(error).__name__}: {error}): {remedy}"
        ) from error
    if (checksum := hashlib.sha256(content).hexdigest()) != source.contents[name]:
        raise DataError(
            f"{file.path} is not {name} of {source.name}: {len(content):,} bytes with SHA-256 {checksum[:12]}…, "
            f"expected {source.contents[name][:12]}…: {remedy}"
        )
    return content


@functools.lru_cache(maxsize=1)
def _members(path: Path) -> dict[str, bytes]:
    """All files of a tarball by base name; a compressed tarball has no random access."""
    with tarfile.open(path) as tar:
        opened = ((member.name.rpartition("/")[2], tar.extractfile(member)) for member in tar)
        return {name: file.read() for name, file in opened if file is not None}


def _download_missing(source: PublishedData, data_dir: Path | None) -> None:
    """Download missing files into the first writable data directory."""
    searched = search_path(data_dir)
    target = next((folder / source.folders[0] for folder in searched if _writable(folder)), None)

    def required() -> list[Download]:
        missing = set(_missing(source, data_dir))
        return [d for d in source.downloads if missing & set(d.members)]

    if target is None:
        reasons = ["no data directory is writable"]
    else:
        reasons = fetch(required, source.mirrors, target, source.name)
    if reasons:
        size = sum(d.bytes for d in required()) / 1e6
        raise DataError(
            f"{source.name} is not available: missing {', '.join(_missing(source, data_dir))}\n"
            f"searched {', '.join(map(str, [*searched, *source.system]))}; {'; '.join(reasons)}\n"
            f"what to do: put {', '.join(d.name for d in required())} ({size:.0f} MB) into "
            f"{searched[0] / source.folders[0]}, or set --data-dir or GATELAB_DATA to a folder that has it, "
            "or use the task digits, which is bundled"
        )


def _writable(folder: Path) -> bool:
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
