"""The pieces a paper is made of, as plain data; the layout knows how each of them looks.

A text is a list of strings, references and symbols, such as ["see ", {"ref": "results"}, " for ", {"symbol": "x_t"}].
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Block = dict[str, Any]
Text = list[Any]

ROWS = 40  # of a table as wide as the page, which cannot go on over pages


def heading(text: str, numbered: bool = True) -> Block:
    """A heading."""
    return {"kind": "heading", "text": text, "numbered": numbered}


def paragraph(*parts: Any) -> Block:
    """A paragraph of strings, references and symbols."""
    return {"kind": "text", "parts": list(parts)}


def bullets(sentences: list[str]) -> Block:
    """A list."""
    # Some are read from a file, and what is no text there must not become a reference or a symbol here.
    return {"kind": "list", "items": [[str(sentence)] for sentence in sentences]}


def ref(label: str) -> Block:
    """A reference to a table or figure."""
    return {"ref": label}


def symbol(name: str) -> Block:
    """One of those that the layout knows."""
    return {"symbol": name}


def table(label: str, caption: str, head: list[str], rows: list[list[str]], **layout: Any) -> Block:
    """A table; `words` are the columns, counted from 0, that hold words instead of numbers."""
    layout = {"wide": False, "words": [0], **layout}
    return {"kind": "table", "label": label, "caption": caption, "head": head, "rows": rows, **layout}


def figure(label: str, file: str, caption: str, wide: bool = False) -> Block:
    """A picture, as wide as a column or as the page."""
    return {"kind": "figure", "label": label, "file": file, "caption": caption, "wide": wide}


def parted(whole: Block) -> Iterator[Block]:
    """A wide table in parts that fit on a page."""
    rows = whole["rows"]
    yield {**whole, "rows": rows[:ROWS]} if whole["wide"] else whole
    for start in range(ROWS, len(rows), ROWS) if whole["wide"] else ():
        yield {**whole, "label": f"{whole['label']}-{start}", "rows": rows[start : start + ROWS],
               "caption": f"{whole['caption']} (Continued.)"}  # fmt: skip
