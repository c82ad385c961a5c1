"""Options that several commands share: `--set KEY=VALUE`, and `--accept-changes`."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gatelab.errors import GatelabError

if TYPE_CHECKING:
    from gatelab.training.config import Key


AcceptChanges = Annotated[
    bool, typer.Option("--accept-changes", help="Continue although the cell's file or the data has changed.")
]


def settings(assignments: list[str]) -> dict[Key, Any]:
    """Parse assignments such as `training.patience=5`; values are YAML."""
    from gatelab.training.config import parse_yaml

    values: dict[Key, Any] = {}
    for setting in assignments:
        key, equals, value = setting.partition("=")
        if not equals or not key:
            raise GatelabError(
                f"--set {shlex.quote(setting)} is not understood: expected KEY=VALUE, as training.patience=5"
            )
        values[tuple(key.strip().split("."))] = parse_yaml(value, f"--set {setting}")
    return values
