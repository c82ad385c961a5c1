"""Kernels compiled ahead of time (ahead.py): where they are, and which of them this CPU can execute.

A library NAME-LEVEL.so has many kernels, whose functions are `forward_KEY` and `backward_KEY`. The key is the digest of
everything that a kernel is compiled from (compiler.py), so that a kernel fits its cell or is not found: a cell with
other equations has another key.
"""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import re
import shlex
import sys
from pathlib import Path
from typing import Any

from gatelab.engine.fused import files
from gatelab.errors import GatelabError

VARIABLE = "GATELAB_KERNELS"  # a folder written by `gatelab compile`
PACKAGE = Path(__file__).with_name("kernels")  # in platform wheels only

# The levels of x86-64, best first, with the flags of /proc/cpuinfo that a level adds to those below it
# (x86-64 psABI, "Microarchitecture levels"; Linux calls lzcnt abm and sse3 pni).
LEVELS = {
    "x86-64-v4": {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
    "x86-64-v3": {"abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "xsave"},
    "x86-64-v2": {"cx16", "lahf_lm", "pni", "popcnt", "sse4_1", "sse4_2", "ssse3"},
}


class Library(ctypes.CDLL):
    """One kernel of a library: `forward` is its `forward_KEY`; what all kernels share keeps its name."""

    def __init__(self, path: Path, key: str) -> None:
        super().__init__(str(path))
        self.key = key

    def __getitem__(self, name_or_ordinal: Any) -> Any:
        try:
            return super().__getitem__(f"{name_or_ordinal}_{self.key}")
        except AttributeError:
            return super().__getitem__(name_or_ordinal)


def is_possible() -> bool:
    """Whether kernels can be compiled ahead here: the levels are those of x86-64, and the libraries Linux's."""
    return sys.platform == "linux" and platform.machine() == "x86_64"


@functools.cache
def supported() -> tuple[str, ...]:
    """The levels that this CPU supports, best first."""
    if not is_possible():
        return ()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ()
    flags = next((line.partition(":")[2].split() for line in lines if line.startswith("flags")), [])
    return levels_of(set(flags))


def levels_of(flags: set[str]) -> tuple[str, ...]:
    """The levels that a CPU with these flags supports, best first. Each level needs all levels below it."""
    found: list[str] = []
    for level, needed in reversed(LEVELS.items()):
        if not needed <= flags:
            break
        found.insert(0, level)
    return tuple(found)


def folders() -> list[Path]:
    """The folders with kernels compiled ahead; that of the user comes first."""
    own = os.environ.get(VARIABLE)
    return ([_checked(Path(own))] if own else []) + ([PACKAGE] if PACKAGE.is_dir() else [])


def libraries(level: str) -> list[Path]:
    """The libraries for a level."""
    return [path for folder in folders() for path in sorted(folder.glob(f"*-{level}.so"))]


def find(key: str) -> Path | None:
    """The library with this kernel for the best level that this CPU supports; None if there is none."""
    found = (path for level in supported() for path in libraries(level) if key in keys(path))
    return next(found, None)


def load(path: Path, key: str) -> ctypes.CDLL:
    """The kernel of this key in a library."""
    try:
        return Library(path, key)
    except OSError as error:  # a folder mounted noexec, or a newer system's library
        raise GatelabError(
            f"the kernels in {path} cannot be loaded ({error}): compile them on a system as old as this one, or unset "
            f"the variable {VARIABLE}"
        ) from error


def keys(path: Path) -> frozenset[str]:
    """The keys of a library's kernels; none if it is damaged or if others can write to it. The package's libraries may
    belong to anybody: whoever can write there can change the package.
    """
    status = path.stat()
    return _keys(path, status.st_mtime_ns, status.st_size)


@functools.cache
def _keys(path: Path, *version: int) -> frozenset[str]:
    if not (path.parent == PACKAGE or files.is_trusted(path)) or not files.is_intact(path):
        return frozenset()
    return frozenset(key.decode() for key in re.findall(rb"forward_([0-9a-f]{20})\0", path.read_bytes()))


def _checked(folder: Path) -> Path:
    """The folder, if it exists and no other user can put libraries there, which would be executed."""
    if not folder.is_dir():
        raise GatelabError(
            f"{VARIABLE} names {str(folder)!r}, which is not a folder: expected one that `gatelab compile --out` has "
            "written; correct the variable, or unset it"
        )
    if not files.is_trusted(folder):
        raise GatelabError(
            f"{VARIABLE} names {str(folder)!r}, which belongs to another user or is writable by others: libraries in "
            f"it would be executed. Remove the write permission (chmod -R go-w {shlex.quote(str(folder))}), use a copy "
            "of your own, or unset the variable"
        )
    return folder
