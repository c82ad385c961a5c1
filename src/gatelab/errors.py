"""Errors that say what was given, what was expected, and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class CellError(ValueError):
    """A function that is not a cell: something in its text is outside the language."""


def unknown(kind: str, given: object, known: Iterable[str]) -> ValueError:
    """The error for a name that does not exist, with the nearest one that does."""
    names = list(known)
    by_lower = {name.lower(): name for name in names}
    close = difflib.get_close_matches(str(given).lower(), by_lower, n=1, cutoff=0.6)
    hint = f"; did you mean {by_lower[close[0]]!r}?" if close else ""
    listed = ", ".join(names) if names else "there are none"
    return ValueError(f"unknown {kind} {given!r}{hint} (known: {listed})")
