"""A model as a config has it: what all models share, and over it what is one's own."""

from __future__ import annotations

from typing import Any

from gatelab import cells
from gatelab.training.spec import ModelSpec

BY_NAME = ("options", "remove", "gate_bias")


def overlaid(base: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """The base with a model's own keys over it; numbers of the cell, gates and biases name by name."""
    cell = own.get("cell", base.get("cell"))
    made = options_apart(base, cell)
    for key, value in options_apart(own, cell).items():
        there = made.get(key) if key in BY_NAME else None
        made[key] = {**there, **value} if isinstance(there, dict) and isinstance(value, dict) else value
    return made


def options_apart(model: dict[str, Any], cell: Any) -> dict[str, Any]:
    """`gamma: 0.01` beside hidden_size is the cell's own number: it may stand there without `options:`."""
    given = model.get("options") or {}
    if not isinstance(given, dict):
        return dict(model)
    names = set(numbers_of(cell)) - given.keys()
    moved = {name: value for name, value in model.items() if name in names}
    rest = {name: value for name, value in model.items() if name not in names}
    return {**rest, "options": {**given, **moved}} if moved else rest


def numbers_of(cell: Any) -> list[str]:
    """The keys of a cell's own numbers; none if there is no such cell, which is said elsewhere."""
    try:
        own = cells.choose(cell).cell.options
    except ValueError:
        return []
    return [name for name in (*own, *(f"learnable_{name}" for name in own)) if name not in ModelSpec.model_fields]
