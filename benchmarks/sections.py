"""Sections of a Markdown page that different scripts write: each replaces its own and keeps the others'."""

from __future__ import annotations

import re

# In the page that engine.py writes.
ALL_CELLS = "## All cells"  # by zoo.py
COMPILED = "## The compiled engine"  # by compiled.py


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
