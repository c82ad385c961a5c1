"""The files of compiled kernels, and their cache: complete or refused, and written by nobody else.

A library is executed as soon as it is loaded, and loading a truncated one can crash the process. So each ends in its
SHA-256, which is checked before; its name is part of that.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import os
import shlex
import shutil
import tempfile
import warnings
from pathlib import Path

from gatelab.disk import cache_folder, read_regular
from gatelab.errors import GatelabError

DIGEST = 32  # bytes of SHA-256, of name and content, appended to a file; loader and linker ignore trailing bytes
WRITABLE_BY_OTHERS = 0o022
ROOT = 0


def cache() -> Path:
    """The cache folder. Its libraries are executed, so a folder that other users can write to is not used."""
    folder = cache_folder("kernels")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder if is_private(folder) else _private_folder(folder)


@functools.cache
def _private_folder(shared: Path) -> Path:
    """A temporary folder for this process; kernels are recompiled into it."""
    warnings.warn(
        f"the kernel cache {shared} belongs to another user or is writable by others: it is not used, and kernels are "
        f"recompiled. Remove the write permission (chmod go-w {shlex.quote(str(shared))}), or set GATELAB_CACHE to "
        "another folder",
        stacklevel=2,
    )
    folder = tempfile.mkdtemp(prefix="gatelab-kernels-")  # mode 0o700
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def seal(path: Path, name: str, mode: int = 0o700) -> None:
    """Append the digest and put the file on the disk; `name` is what it will be called."""
    path.chmod(mode)
    digest = _digest(path.read_bytes(), name)
    with path.open("ab") as file:
        file.write(digest)
        file.flush()
        os.fsync(file.fileno())


def is_intact(path: Path) -> bool:
    """Whether the file exists, has the name it was made for, and matches its digest."""
    try:
        content = read_regular(path)
    except (OSError, GatelabError):
        return False
    return len(content) > DIGEST and _digest(content[:-DIGEST], path.name) == content[-DIGEST:]


def _digest(content: bytes, name: str) -> bytes:
    """The name says which cell a kernel is of, and for which CPU: another's would crash the process."""
    return hashlib.sha256(name.encode() + b"\0" + content).digest()


def is_usable(path: Path) -> bool:
    """Whether a file of the cache exists, matches its digest, and belongs to this user alone."""
    try:
        return is_private(path) and is_intact(path)
    except OSError:
        return False


def is_private(path: Path) -> bool:
    """Whether the file or folder belongs to this user, and nobody else can write to it."""
    return _is_protected(path, trusted_root=False)


def is_trusted(path: Path) -> bool:
    """Whether the file or folder belongs to this user or to root, and nobody else can write to it."""
    return _is_protected(path, trusted_root=True)


def _is_protected(path: Path, trusted_root: bool) -> bool:
    if not hasattr(os, "geteuid"):
        return True
    status = path.stat()
    owners = {os.geteuid(), ROOT} if trusted_root else {os.geteuid()}
    return status.st_uid in owners and not status.st_mode & WRITABLE_BY_OTHERS
