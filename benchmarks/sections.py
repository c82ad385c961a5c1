"""Sections of a Markdown page that different scripts write: each replaces its own and keeps the others'."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

# In the page that engine.py writes:
ALL_CELLS = "## All cells"  # by zoo.py
OVERHEAD = "## Overhead of a call"  # by overhead.py
STREAMING = "## One step at a time"  # by streaming.py
RESETS = "## Sequences with resets"  # by resets.py
SCANS = "## Recurrences without a matrix"  # by scans.py
COMPILED = "## The compiled engine"  # by compiled.py
EXPORT = "## Exported networks"  # by export.py
OTHERS = (ALL_CELLS, OVERHEAD, STREAMING, RESETS, SCANS, COMPILED, EXPORT)


def find(page: str, heading: str) -> str:
    """The section from this heading to the next one of its rank; empty if the page has none."""
    found = re.search(rf"^{re.escape(heading)}\n.*?(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    return found[0] if found else ""


def replaced(page: str, heading: str, section: str) -> str:
    """The page with this section in place of the old one, or at its end."""
    if old := find(page, heading):
        following = "\n" if page.partition(old)[2] else ""
        return page.replace(old, section.rstrip("\n") + "\n" + following)
    return "\n\n".join(part.rstrip("\n") for part in (page, section) if part) + "\n"


def with_others(page: str, before: str) -> str:
    """A new page of engine.py with the sections that the other scripts had written in the page before."""
    for heading in OTHERS:
        page = replaced(page, heading, find(before, heading))
    return page


def save(file: Path, heading: str, section: str) -> None:
    """Put a section into a page, which is made if there is none."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(replaced(file.read_text() if file.exists() else "", heading, section))
    print(f"saved {file}")


def paragraph(text: str, bullet: str = "") -> str:
    """The text in lines of 120 characters."""
    words, indent = " ".join(text.split()), " " * len(bullet)
    return textwrap.fill(words, 120, initial_indent=bullet, subsequent_indent=indent, break_on_hyphens=False)
