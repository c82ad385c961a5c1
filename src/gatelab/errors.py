"""Error types and messages: what was given, what was expected, and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import ValidationError


LISTED = 40  # names in a message
LONGEST = 6000  # characters of a message, whatever it quotes
LAST = 1000  # of them, those at its end, where it says what to do


class GatelabError(ValueError):
    """Base class of the errors that gatelab raises about its input: a message for the user, not a bug. What it quotes
    may be of any length; the middle of a message that is too long is left out.
    """

    def __init__(self, message: object = "") -> None:
        text = str(message)
        if len(text) > LONGEST:
            left_out = len(text) - LONGEST
            text = f"{text[: LONGEST - LAST]} … ({left_out:,} characters left out) … {text[-LAST:]}"
        super().__init__(text)


class CellError(GatelabError):
    """A function that is not a valid cell: it uses something outside the language."""


class HopelessError(GatelabError):
    """A run that cannot be executed by anybody, because of what it depends on."""


class BusyError(GatelabError):
    """A directory that another process is using."""


class DataError(GatelabError):
    """Missing, damaged or invalid data."""


def bug_report(error: BaseException, version: str, command: str) -> str:
    """The line after the traceback of an error that is not about the input: what to report, and where."""
    what = " ".join(f"{type(error).__name__}: {error}".split())[:200]
    return (
        f"this is a bug in gatelab {version} ({what}). Please report it to the project's issue tracker, with the lines "
        f"above and the command: {command}"
    )


def short(value: object, longest: int = 200) -> str:
    """A value in an error message: its repr, cut if it is long."""
    text = repr(value)
    return text if len(text) <= longest else f"{text[: longest - 1]}… ({len(text):,} characters)"


def unknown(kind: str, name: object, known: Iterable[str]) -> GatelabError:
    """The error for an unknown name, with the nearest known one as a hint."""
    names = list(known)
    by_lower = {each.lower(): each for each in names}
    close = difflib.get_close_matches(str(name).lower()[:100], by_lower, n=1, cutoff=0.6)
    hint = f"; did you mean {by_lower[close[0]]!r}?" if close else ""
    return GatelabError(f"unknown {kind} {short(name)}{hint} (known: {first_of(names) or 'there are none'})")


def first_of(names: Iterable[str], most: int = LISTED) -> str:
    """The first names, and how many there are: a, b, … (300 in all)."""
    known = list(names)
    more = f", … ({len(known):,} in all)" if len(known) > most else ""
    return ", ".join(name if len(name) <= 100 else f"{name[:99]}…" for name in known[:most]) + more


def expectation(message: str) -> str:
    """Rephrase a message of pydantic: "Input should be greater than 0" → "expected greater than 0"."""
    return (
        message.replace("Input should be", "expected")
        .replace("a valid integer", "an integer")
        .replace("a valid dictionary", "values by name, as {name: value}")
        .replace("a valid tuple", "a list, as [one, other]")
        .replace("a valid ", "a ")
    )


def bad_byte(error: UnicodeDecodeError) -> tuple[int, str]:
    """The line of a byte that cannot be decoded, and the byte."""
    return error.object[: error.start].count(b"\n") + 1, f"{error.object[error.start]:#04x}"


def first_problem(error: ValidationError) -> str:
    """The first thing that is wrong with a file's content, `where: what`."""
    problem = error.errors()[0]
    return f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}"


def invalid(
    kind: str, error: ValidationError, known: Iterable[str], names: Mapping[str, str] | None = None
) -> GatelabError:
    """One error for all invalid options, one line each, from pydantic's `ValidationError`. `names` are what the options
    are called here, where that is something else.
    """
    lines, owner = [], f"{kind}: " if kind else ""
    for problem in error.errors():
        option = ".".join(str(key) for key in problem["loc"])
        option = (names or {}).get(option, option)
        if problem["type"] == "extra_forbidden":
            lines.append(f"{owner}{unknown('option', option, list(known))}")
        elif problem["type"] == "missing":
            lines.append(f"{owner}the option {option!r} is required")
        elif problem["type"] == "value_error":
            lines.append(f"{owner}{problem['ctx']['error']}")
        else:
            lines.append(f"{owner}{option} is {short(problem['input'])}: {expectation(problem['msg'])}")
    return GatelabError("\n".join(lines))
