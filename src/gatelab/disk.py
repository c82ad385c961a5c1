"""Where gatelab keeps what it can make again, and how a file is written so that it is there whole or not at all."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast


def cache_folder(room: str) -> Path:
    """`room` in $GATELAB_CACHE, else in `gatelab` in the user's cache directory; it may not exist yet."""
    if chosen := os.environ.get("GATELAB_CACHE"):
        return Path(chosen) / room
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "gatelab" / room
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gatelab" / room


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write that takes its place under `path` only when all of it is on the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        try:
            yield cast(BinaryIO, file)
            file.flush()
            os.fsync(file.fileno())
            os.chmod(file.name, 0o666 & ~_umask())  # a temporary file is for its owner alone, the final one is not
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise


def write_text(path: Path, text: str) -> None:
    with whole_file(path) as file:
        file.write(text.encode())


def write_json(path: Path, content: Any) -> None:
    """Indented, and without what JSON does not know: NaN and infinity are an error."""
    write_text(path, json.dumps(content, indent=2, allow_nan=False) + "\n")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
