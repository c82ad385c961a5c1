"""Python files of the user's, which define cells or tasks: executed where the user names one, and nowhere else."""

from __future__ import annotations

import functools
import importlib.util
import sys
from pathlib import Path
from typing import Any, NamedTuple

from gatelab.disk import read_regular
from gatelab.errors import GatelabError

MAX_BYTES = 1_000_000  # size limit of a file


class Definition(NamedTuple):
    """A file and the name of something that it defines."""

    file: Path
    name: str


def parse(text: str) -> Definition | None:
    """Split FILE.py:NAME; None if the text is a name of the library. FILE.py alone is an error."""
    file, colon, name = text.rpartition(":")
    if colon and file.endswith(".py"):
        return Definition(Path(file), name)
    if text.endswith(".py"):
        raise GatelabError(f"{text} is a file: name what it defines, as in {text}:my_name")
    return None


def load(path: Path, what: str) -> tuple[dict[str, Any], str]:
    """Execute a file, once per content. Returns its global names and its text; `what` it defines is for messages."""
    if not path.exists():
        raise GatelabError(
            f"there is no file {path}: expected a path, relative to the current folder, of a Python file with {what}"
        )
    code = content(path)
    try:
        return _execute(path.absolute(), code), code.decode()
    except UnicodeDecodeError as error:
        raise GatelabError(f"{path} is not UTF-8 text: {error}") from error


def content(path: Path) -> bytes:
    """The bytes of a regular file, if it is not too large."""
    return read_regular(path, MAX_BYTES)


@functools.cache
def _execute(path: Path, code: bytes) -> dict[str, Any]:
    """Execute a file and return its global names.

    Executes exactly the bytes that were read: an import might use stale bytecode of a file changed in the same second.
    """
    spec = importlib.util.spec_from_file_location(f"gatelab_code_of_{path.stem}", path)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # so that its functions can be pickled
    try:
        exec(compile(code, str(path), "exec"), vars(module))
    except GatelabError as error:
        raise error if str(path) in str(error) else type(error)(f"{path}: {error}") from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # it is the user's code, which may raise anything, also SystemExit
        raise GatelabError(f"{path} could not be executed: {type(error).__name__}: {error}") from error
    return vars(module)
