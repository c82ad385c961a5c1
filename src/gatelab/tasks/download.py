"""Downloads: several mirrors in turn, check sums, one process at a time, and a file is there whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

TIMEOUT = 30  # seconds without a byte before a mirror counts as dead


@dataclass(frozen=True)
class Download:
    """A file as mirrors have it."""

    name: str
    bytes: int
    hash: str  # of the file itself, "md5:…" or "sha256:…"
    members: tuple[str, ...]  # which of the contents it brings


def fetch(wanted: Callable[[], list[Download]], mirrors: tuple[str, ...], folder: Path, what: str) -> list[str]:
    """Bring what is wanted into `folder`. Returns why it failed, nothing if all is there.

    `wanted` is asked again once the lock is ours: another process may have brought everything in the meantime.
    """
    from filelock import FileLock

    if os.environ.get("GATELAB_OFFLINE", "0") not in ("", "0"):
        return ["GATELAB_OFFLINE forbids downloads"]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / ".download.lock"):
            for download in wanted():
                if reasons := _from_any(download, mirrors, folder, what):
                    return reasons
    except OSError as error:
        return [f"{folder} cannot be written: {error}"]
    return []


def _from_any(download: Download, mirrors: tuple[str, ...], folder: Path, what: str) -> list[str]:
    reasons = []
    for mirror in mirrors:
        url = f"{mirror}{download.name}"
        try:
            _download(url, download, folder, what)
        except Exception as error:  # whatever is wrong with one mirror, the next may be well
            reasons.append(f"{url}: {_in_a_line(error)}")
        else:
            return []
    return reasons


def _download(url: str, download: Download, folder: Path, what: str) -> None:
    """pooch writes beside the final place, compares the sum and moves: a broken connection leaves nothing behind."""
    import pooch

    pooch.get_logger().setLevel("WARNING")
    with _bar(what) as bar:
        http = pooch.HTTPDownloader(timeout=TIMEOUT, progressbar=_Bar(bar, download))

        def to_disk(url: str, output: Any, client: Any) -> None:
            http(url, output, client)
            with open(output, "rb") as file:
                os.fsync(file.fileno())

        pooch.retrieve(url, download.hash, fname=download.name, path=folder, downloader=to_disk)


def _in_a_line(error: Exception) -> str:
    first = str(error).splitlines()[0] if str(error) else ""
    return f"{type(error).__name__}: {first[:160]}"


def _bar(what: str) -> Progress:
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    return Progress(
        TextColumn(f"{what} {{task.description}}"), *columns, console=console, disable=not console.is_terminal
    )


class _Bar:
    """A bar of rich with the verbs that pooch expects."""

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
