"""Options that several commands share: `--set KEY=VALUE`, and `--accept-changes`."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gatelab.errors import GatelabError
from gatelab.numerals import whole

if TYPE_CHECKING:
    from gatelab.training.config import Key


def integer(value: str | int) -> int:
    """Parse an integer option, also as 1e3; a default is an integer already."""
    try:
        return value if isinstance(value, int) else whole(value)
    except GatelabError as error:
        raise typer.BadParameter(str(error)) from None


WHOLE: dict[str, Any] = {"parser": integer, "metavar": "INTEGER"}  # of an integer option

AcceptChanges = Annotated[
    bool, typer.Option("--accept-changes", help="Continue although the cell's file or the data has changed.")
]


def assignments(given: list[str], flag: str, example: str) -> dict[str, str]:
    """Parse `KEY=VALUE` as it was given to a flag several times."""
    values: dict[str, str] = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise GatelabError(f"{flag} {shlex.quote(text)} is not understood: expected KEY=VALUE, as {example}")
        values[key.strip()] = value
    return values


def settings(given: list[str]) -> dict[Key, Any]:
    """Parse assignments such as `training.patience=5`; values are YAML."""
    from gatelab.training.config import parse_yaml

    parsed = assignments(given, "--set", "training.patience=5")
    return {tuple(key.split(".")): parse_yaml(value, f"--set {key}={value}") for key, value in parsed.items()}
