"""How much memory this process can still get, and a refusal in words of what would need more.

Without it, a size with a few zeros too many fills the machine's memory until the system kills a process.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

from gatelab.errors import GatelabError

CGROUPS = Path("/proc/self/cgroup")
CGROUP_ROOT = Path("/sys/fs/cgroup")
MEMINFO = Path("/proc/meminfo")
STATUS = Path("/proc/self/status")


class MemoryLimitError(GatelabError):
    """Something needs more memory than there is."""


def refuse(needed: int, what: str, remedy: str) -> None:
    """Raise `MemoryLimitError` if an estimate of bytes is more than what is available; `remedy` says what to reduce."""
    here = available()
    if here is not None and needed > here:
        raise MemoryLimitError(
            f"{what} needs about {amount(needed)} of memory, and {amount(here)} are available: {remedy}"
        )


def available() -> int | None:
    """Bytes that this process can still get: of the machine, its control group, and its own limit (ulimit -v); None
    where the system does not tell.
    """
    limits = (_kilobytes(MEMINFO, "MemAvailable"), *_left_in_cgroups(), _left_of_own_limit())
    known = [max(0, left) for left in limits if left is not None]
    return min(known) if known else None


def is_exhausted(error: BaseException) -> bool:
    """Whether an error means that memory ran out: Python's own, or torch's, which are RuntimeErrors."""
    words = ("allocate memory", "out of memory")  # of the CPU, and of other devices
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and any(w in str(error) for w in words))


def amount(bytes_: int) -> str:
    """Bytes for people: 1.5 GB."""
    for unit, size in (("EB", 1e18), ("PB", 1e15), ("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if bytes_ >= size:
            return f"{bytes_ / size:,.1f} {unit}"
    return f"{bytes_ / 1e3:,.0f} kB"


def _kilobytes(path: Path, name: str) -> int | None:
    """An entry of a file of /proc, `MemAvailable:  123 kB`, in bytes."""
    try:
        found = re.search(rf"^{name}:\s*(\d+) kB", path.read_text(), re.MULTILINE)
    except OSError:
        return None
    return int(found[1]) * 1024 if found else None


def _left_of_own_limit() -> int | None:
    try:
        import resource
    except ImportError:  # not on this system
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    used = _kilobytes(STATUS, "VmSize")
    return None if limit == resource.RLIM_INFINITY or used is None else limit - used


def _left_in_cgroups() -> list[int | None]:
    """What is left of the limit of each control group that this process is in; its cache of files can be freed."""
    return [_left(folder, *names) for folder, names in _cgroups()]


def _left(folder: Path, limit: str, usage: str, cache: str) -> int | None:
    try:
        most, used = (folder / limit).read_text().strip(), int((folder / usage).read_text())
        found = re.search(rf"^{cache} (\d+)", (folder / "memory.stat").read_text(), re.MULTILINE)
    except (OSError, ValueError):
        return None
    return int(most) - used + (int(found[1]) if found else 0) if most.isdecimal() else None


@functools.cache
def _cgroups() -> list[tuple[Path, tuple[str, str, str]]]:
    """The folders of the control groups that limit memory, from the inner to the outer ones, and the names of their
    files: version 2 and version 1.
    """
    try:
        entries = [line.split(":", 2) for line in CGROUPS.read_text().splitlines()]
    except OSError:
        return []
    found = []
    for _, controllers, path in (entry for entry in entries if len(entry) == 3):
        inside = Path(path.lstrip("/"))
        if not controllers:
            root, names = CGROUP_ROOT, ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            root = CGROUP_ROOT / "memory"
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        # In a container the path is that of the machine, and only the root is here.
        found += [(root / folder, names) for folder in (inside, *inside.parents)]
    return [(folder, names) for folder, names in found if (folder / names[0]).is_file()]
