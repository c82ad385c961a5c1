"""Options that several commands share: `--set KEY=VALUE`, and `--accept-changes`."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from gatelab.training.config import Key


AcceptChanges = Annotated[
    bool, typer.Option("--accept-changes", help="Continue though the cell's file or the data is another than it was.")
]


def settings(given: list[str]) -> dict[Key, Any]:
    """`training.patience=5` as key and value; the value is read as YAML has it."""
    from gatelab.training.config import parse_yaml

    found: dict[Key, Any] = {}
    for setting in given:
        key, equals, value = setting.partition("=")
        if not equals or not key:
            raise ValueError(
                f"--set {shlex.quote(setting)} is not understood: expected KEY=VALUE, as training.patience=5"
            )
        found[tuple(key.strip().split("."))] = parse_yaml(value, f"--set {setting}")
    return found
