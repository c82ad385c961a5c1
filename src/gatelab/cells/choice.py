"""A cell as somebody named it, and what that name stood for: looked up once, and from then on carried along as data."""

from __future__ import annotations

import functools
import importlib.util
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gatelab.errors import CellError, DataError, unknown
from gatelab.lang import Cell
from gatelab.lang.document import from_document, to_document

LONGEST = 1_000_000  # bytes of a file of cells


@dataclass(frozen=True)
class Choice:
    """`gru`, or `FILE.py:NAME`: the name and the equations; of one's own also the file and its text, for people."""

    name: str
    cell: Cell
    file: str | None = field(default=None, compare=False)
    text: str | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return self.name

    def document(self) -> dict[str, Any]:
        """As data from which `choose` makes the same again, without the file."""
        return {"name": self.name, "equations": to_document(self.cell), "file": self.file, "text": self.text}

    def changed_file(self) -> str | None:
        """The file that the equations were taken from, if it is at hand and its text is another now. It is not run."""
        if self.file is None or self.text is None or not (path := Path(self.file)).is_file():
            return None
        try:
            return None if _content(path) == self.text.encode() else self.file
        except OSError:
            return None
        except ValueError:
            return self.file


def choose(given: Any, library: dict[str, Cell]) -> Choice:
    """From a name, a cell, or a document that `Choice.document` made. A name alone may lead to a file, which is run."""
    if isinstance(given, Choice):
        return given
    if isinstance(given, Cell):
        return Choice(given.name, _shared(given, library))
    if isinstance(given, dict):
        return _read(given, library)
    if not isinstance(given, str):
        raise ValueError(f"the name of a cell is {given!r}: expected one of {', '.join(library)}, or FILE.py:NAME")
    file, colon, own_name = given.rpartition(":")
    if colon and file.endswith(".py"):
        path = Path(file)
        own, text = _from_file(path)
        if own_name not in own:
            raise unknown(f"cell in {path} (a function under @cell):", own_name, own)
        return Choice(given, _shared(own[own_name], library), str(path.absolute()), text)
    if given.endswith(".py"):
        raise ValueError(f"{given} is a file: name the cell in it, as in {given}:my_cell")
    if given not in library:
        raise unknown("cell", given, library)
    return Choice(given, library[given])


def _read(given: dict[str, Any], library: dict[str, Cell]) -> Choice:
    """From a document; nothing of it is executed, and no file is looked for."""
    if given.keys() != {"name", "equations", "file", "text"} or not isinstance(given["name"], str):
        raise DataError(f"a cell is {str(given)[:80]}: expected name, equations, file and text")
    for key in ("file", "text"):
        if not isinstance(given[key], str | None):
            raise DataError(f"{key} of the cell {given['name']!r} is {given[key]!r}: expected a text")
    return Choice(given["name"], _shared(from_document(given["equations"]), library), given["file"], given["text"])


def _shared(cell: Cell, library: dict[str, Cell]) -> Cell:
    """The library's own where it has the same, else the one that its equations as data give: whoever has the same
    equations has the same cell, and trains to the same bits, whether they come from a function or from a file.
    """
    if library.get(cell.name) is cell:
        return cell
    document = to_document(cell)
    known = library.get(cell.name)
    return known if known is not None and to_document(known) == document else from_document(document)


def _from_file(path: Path) -> tuple[dict[str, Cell], str]:
    """The cells that a file defines, and its text."""
    if not path.is_file():
        raise ValueError(f"there is no file {path} to take a cell from: start the command in the folder that has it")
    content = _content(path)
    try:
        return _run(path.absolute(), content), content.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not a text in UTF-8: {error}") from error


def _content(path: Path) -> bytes:
    with path.open("rb") as file:
        content = file.read(LONGEST + 1)
    if len(content) > LONGEST:
        raise ValueError(f"{path} has more than {LONGEST:,} bytes: expected a file of cells")
    return content


@functools.cache
def _run(path: Path, content: bytes) -> dict[str, Cell]:
    """The cells in a file. It is run once, and again only if it holds something else.

    What is run is what was read: an import might take compiled code of an earlier text, if both are of the same second.
    """
    spec = importlib.util.spec_from_file_location(f"gatelab_cells_from_{path.stem}", path)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # so that what it defines can be pickled
    try:
        exec(compile(content, str(path), "exec"), vars(module))
    except CellError:
        raise
    except Exception as error:
        raise ValueError(f"{path} could not be run: {type(error).__name__}: {error}") from error
    return {key: value for key, value in vars(module).items() if isinstance(value, Cell)}
