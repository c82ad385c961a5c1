"""Numbers as people write them, in files and on the command line: 12, 0.01, 1e-2, 1e3."""

from __future__ import annotations

import re
from typing import Any, get_args

from gatelab.errors import GatelabError, short

INTEGER = re.compile(r"[-+]?[0-9]+")
FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
MOST_DIGITS = 40  # of an integer; no setting is anywhere near
FLOAT32_MAX = 3.4028234663852886e38


def number(text: str) -> int | float | None:
    """The number that a text is, an integer if it is written as one; None if it is not a number."""
    if INTEGER.fullmatch(text):
        return int(text) if len(text) <= MOST_DIGITS else float(text)
    return float(text) if FLOAT.fullmatch(text) else None


def whole(text: str) -> int:
    """The integer that a text is, also if it is written as 1e3; raises `GatelabError`."""
    value = number(text.strip())
    if value is None or value in (float("inf"), float("-inf")) or value != int(value):
        raise GatelabError(f"{short(text)} is not an integer: expected one, such as 100 or 1e2")
    return int(value)


def before_validation(value: Any, annotation: Any) -> Any:
    """A value of a config or of the command line for a field of this type, as pydantic is to see it: 1e3 is an integer,
    also as text, and true is not a number (pydantic takes it for 1, and YAML takes yes for true).
    """
    kinds = (annotation, *get_args(annotation))
    if isinstance(value, bool) and bool not in kinds:
        raise GatelabError("expected a value of another kind, not true or false")
    if isinstance(value, dict) and float in kinds and any(isinstance(inner, bool) for inner in value.values()):
        raise GatelabError("expected numbers by name, not true or false")
    if isinstance(value, str) and int in kinds and not INTEGER.fullmatch(value.strip()):
        as_number = number(value.strip())
        return value if as_number is None else as_number
    return value


def fits_float32(value: Any) -> bool:
    """Whether a number is finite in the precision of models."""
    return bool(-FLOAT32_MAX <= value <= FLOAT32_MAX)
