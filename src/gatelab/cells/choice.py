"""A user's choice of cell: looked up once by name, then carried along as data."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gatelab import user_code
from gatelab.errors import DataError, GatelabError, short, unknown
from gatelab.lang import Cell
from gatelab.lang.document import digest, from_document, to_document


@dataclass(frozen=True)
class Choice:
    """A cell by name, `gru` or `FILE.py:NAME`, with its equations; for a file also its path and text, for reference."""

    name: str
    cell: Cell
    file: str | None = field(default=None, compare=False)
    text: str | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return self.name

    def document(self) -> dict[str, Any]:
        """JSON-compatible data that `choose` turns into the same choice, without the file."""
        return {"name": self.name, "equations": to_document(self.cell), "file": self.file, "text": self.text}

    def changed_file(self) -> str | None:
        """The file that defined the cell, if its text has changed since; None otherwise. It is not executed."""
        if self.file is None or self.text is None or not (path := Path(self.file)).is_file():
            return None
        try:
            return None if user_code.content(path) == self.text.encode() else self.file
        except OSError:
            return None
        except ValueError:
            return self.file


def choose(source: Any, library: dict[str, Cell]) -> Choice:
    """A choice from a name, a cell, or a `Choice.document`. Only a name can refer to a file, which is then executed."""
    if isinstance(source, Choice):
        return source
    if isinstance(source, Cell):
        return Choice(source.name, _shared(source, library))
    if isinstance(source, dict):
        return _read(source, library)
    if not isinstance(source, str):
        raise GatelabError(
            f"the name of a cell is {short(source)}: expected one of {', '.join(library)}, or FILE.py:NAME"
        )
    if (named := user_code.parse(source)) is not None:
        values, text = user_code.load(named.file, "cells")
        own = {name: value for name, value in values.items() if isinstance(value, Cell)}
        if named.name not in own:
            raise unknown(f"cell in {named.file} (a function decorated with @cell):", named.name, own)
        return Choice(source, _shared(own[named.name], library), str(named.file.absolute()), text)
    if source not in library:
        raise unknown("cell", source, library)
    return Choice(source, library[source])


def _read(document: dict[str, Any], library: dict[str, Cell]) -> Choice:
    """From a document; executes nothing and opens no file."""
    if document.keys() != {"name", "equations", "file", "text"} or not isinstance(document["name"], str):
        raise DataError(f"a cell is {str(document)[:80]}: expected name, equations, file and text")
    for key in ("file", "text"):
        if not isinstance(document[key], str | None):
            raise DataError(f"{key} of the cell {document['name']!r} is {document[key]!r}: expected a string")
    return Choice(
        document["name"], _shared(from_document(document["equations"]), library), document["file"], document["text"]
    )


def _shared(cell: Cell, library: dict[str, Cell]) -> Cell:
    """The library's cell if it has the same equations, otherwise the cell rebuilt from its document: equal equations
    give the same object and bit-identical training, whether they come from a function or a file.
    """
    if library.get(cell.name) is cell:
        return cell
    known = library.get(cell.name)
    return known if known is not None and digest(known) == digest(cell) else from_document(to_document(cell))
