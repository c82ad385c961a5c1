"""Downloads: mirrors in turn, checksums, one process at a time, atomic writes."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

TIMEOUT = 30  # seconds without data before the next mirror is tried


@dataclass(frozen=True)
class Download:
    """A file on the mirrors."""

    name: str
    bytes: int
    hash: str  # of the compressed file, "md5:…" or "sha256:…"
    members: tuple[str, ...]  # the required files that it contains


def fetch(required: Callable[[], list[Download]], mirrors: tuple[str, ...], folder: Path, name: str) -> list[str]:
    """Download the required files of the data set `name` into `folder`. Return the reasons of a failure, or nothing.

    `required` is called under the lock: another process may have downloaded the files in the meantime.
    """
    from filelock import FileLock

    if os.environ.get("GATELAB_OFFLINE", "0") not in ("", "0"):
        return ["GATELAB_OFFLINE disables downloads"]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / ".download.lock"):
            for download in required():
                if reasons := _from_any(download, mirrors, folder, name):
                    return reasons
    except OSError as error:
        return [f"{folder} is not writable: {error}"]
    return []


def _from_any(download: Download, mirrors: tuple[str, ...], folder: Path, name: str) -> list[str]:
    reasons = []
    for mirror in mirrors:
        url = f"{mirror}{download.name}"
        try:
            _download(url, download, folder, name)
        except Exception as error:  # any failure of one mirror: try the next
            reasons.append(f"{url}: {_one_line(error)}")
        else:
            return []
    return reasons


def _download(url: str, download: Download, folder: Path, name: str) -> None:
    """Download with pooch, which verifies and renames a temporary file: an interruption leaves nothing behind."""
    import pooch

    pooch.get_logger().setLevel("WARNING")
    with _bar(name) as bar:
        http = pooch.HTTPDownloader(timeout=TIMEOUT, progressbar=_Bar(bar, download))

        def to_disk(url: str, output: Any, client: Any) -> None:
            http(url, output, client)
            with open(output, "rb") as file:
                os.fsync(file.fileno())

        pooch.retrieve(url, download.hash, fname=download.name, path=folder, downloader=to_disk)


def _one_line(error: Exception) -> str:
    first = str(error).splitlines()[0] if str(error) else ""
    return f"{type(error).__name__}: {first[:160]}"


def _bar(name: str) -> Progress:
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    return Progress(
        TextColumn(f"{name} {{task.description}}"), *columns, console=console, disable=not console.is_terminal
    )


class _Bar:
    """A progress bar of rich with the interface that pooch expects."""

    def __init__(self, progress: Progress, download: Download) -> None:
        self.total = download.bytes
        self._progress = progress
        self._row = progress.add_task(download.name, total=download.bytes)

    def update(self, count: int) -> None:
        self._progress.update(self._row, advance=count, total=self.total or None)

    def reset(self) -> None:
        self._progress.reset(self._row, total=self.total or None)

    def close(self) -> None:
        self._progress.refresh()
