"""Models in a config: the keys that all models share, overridden by each model's own."""

from __future__ import annotations

from typing import Any

from gatelab import cells
from gatelab.training.spec import ModelSpec

BY_NAME = ("options", "remove", "gate_bias")


def overlaid(base: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """The base, overridden by a model's own keys; hyperparameters of the cell, gates and biases are merged by name."""
    cell = own.get("cell", base.get("cell"))
    model = with_options(base, cell)
    for key, value in with_options(own, cell).items():
        inherited = model.get(key) if key in BY_NAME else None
        model[key] = {**inherited, **value} if isinstance(inherited, dict) and isinstance(value, dict) else value
    return model


def with_options(model: dict[str, Any], cell: Any) -> dict[str, Any]:
    """A model with the cell's hyperparameters under `options`; a config may write `gamma: 0.01` next to hidden_size."""
    options = model.get("options") or {}
    if not isinstance(options, dict):
        return dict(model)
    names = set(hyperparameters_of(cell)) - options.keys()
    moved = {name: value for name, value in model.items() if name in names}
    rest = {name: value for name, value in model.items() if name not in names}
    return {**rest, "options": {**options, **moved}} if moved else rest


def hyperparameters_of(cell: Any) -> list[str]:
    """The config keys of a cell's hyperparameters; none for an unknown cell, which the validation of `cell` reports."""
    try:
        own = cells.choose(cell).cell.options
    except ValueError:
        return []
    return [name for name in (*own, *(f"learnable_{name}" for name in own)) if name not in ModelSpec.model_fields]
