"""Errors that say what was given, what was expected, and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import ValidationError


class CellError(ValueError):
    """A function that is not a cell: something in its text is outside the language."""


class DataError(ValueError):
    """Data that is not here, or not what it should be."""


def unknown(kind: str, given: object, known: Iterable[str]) -> ValueError:
    """The error for a name that does not exist, with the nearest one that does."""
    names = list(known)
    by_lower = {name.lower(): name for name in names}
    close = difflib.get_close_matches(str(given).lower(), by_lower, n=1, cutoff=0.6)
    hint = f"; did you mean {by_lower[close[0]]!r}?" if close else ""
    listed = ", ".join(names) if names else "there are none"
    return ValueError(f"unknown {kind} {given!r}{hint} (known: {listed})")


def expectation(message: str) -> str:
    """pydantic's "Input should be greater than 0" in our words."""
    return (
        message.replace("Input should be", "expected")
        .replace("a valid integer", "an integer")
        .replace("a valid dictionary", "values by name, as {name: value}")
        .replace("a valid tuple", "a list, as [one, other]")
        .replace("a valid ", "a ")
    )


def invalid(kind: str, error: ValidationError, known: Iterable[str]) -> ValueError:
    """All that is wrong with some options, a line each, in our words."""
    names, lines = list(known), []
    for wrong in error.errors():
        option = ".".join(str(part) for part in wrong["loc"])
        if wrong["type"] == "extra_forbidden":
            lines.append(f"{kind}: {unknown('option', option, names)}")
        elif wrong["type"] == "missing":
            lines.append(f"{kind}: the option {option!r} has to be given")
        elif wrong["type"] == "value_error":
            lines.append(f"{kind}: {wrong['ctx']['error']}")
        else:
            lines.append(f"{kind}: {option} is {wrong['input']!r}: {expectation(wrong['msg'])}")
    return ValueError("\n".join(lines))
