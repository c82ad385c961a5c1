"""Ablations: a base model, and arms that change named parts of it, converted to the models of a comparison.

    model: {cell: gru, hidden_size: 64, init: xavier}
    arms:
      forgets: {freeze: [b.z, b.r], at: 0.0}
      no_reset: {remove: {r: 1.0}}

    factors: {init_z: [0, 1], freeze: [none, [b.z, b.r]]}     # every combination: a 2×2

An arm takes the keys of `model`, with `init: {b.z: 1.0}` for the initialization of biases and `at` for the value of
frozen parameters. A factor is one such key (`init_z` stands for `init: {b.z: …}`) with a list of levels, the first of
which is the reference; or a mapping from the names of its levels to their changes.
"""

from __future__ import annotations

import itertools
from typing import Any

from gatelab.errors import GatelabError, short
from gatelab.experiments.overlay import BY_NAME, overlaid
from gatelab.lang import Cell
from gatelab.training.config import Key, Problem

OWN = ("arms", "factors")
BASE = "base"
NONE = (None, "none")


def is_ablation(content: dict[str, Any]) -> bool:
    """Whether a config has arms or factors."""
    return any(key in content for key in OWN)


def as_comparison(content: dict[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
    """An ablation as a comparison of models, and the problems of its arms."""
    if "models" in content:
        return content, [
            Problem(("models",), "an ablation has one model and arms that change it: use either models or arms")
        ]
    base = content.get("model", {})
    if not isinstance(base, dict):
        return content, [Problem(("model",), f"this is {short(base)}: expected the base model, as {{cell: gru}}")]
    arms, design, wrong = _arms(content)
    models: dict[str, Any] = {}
    for name, changes in arms.items():
        try:
            models[name] = changed(base, changes)
        except ValueError as error:
            wrong.append(Problem(("factors" if name in design else "arms", name), str(error)))
    rest = {key: value for key, value in content.items() if key not in (*OWN, "model")}
    unchanged = (name for name, changes in arms.items() if not changes)
    first = next(iter(design), None) or next(unchanged, None)  # the reference of effects, if there are any
    comparison = {**rest, "models": {name: {"cell": "gru", **model} for name, model in models.items()}}
    return {"base": first, **comparison, "design": design, "ablation": True}, wrong


def _arms(content: dict[str, Any]) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, str]], list[Problem]]:
    """The changes of each arm by name, the levels of the arms of a factorial design, and the problems."""
    wrong, arms = [], dict[str, dict[str, Any]]()
    factors, named = content.get("factors", {}), content.get("arms", {})
    for key, value, example in (("factors", factors, "{init_z: [0, 1]}"), ("arms", named, "{no_r: {remove: {r: 1}}}")):
        if not isinstance(value, dict) or (key in content and not value):
            return {}, {}, [Problem((key,), f"this is {short(value)}: expected {example}")]
    levels: dict[str, dict[str, dict[str, Any]]] = {}
    for factor, value in factors.items():
        try:
            levels[str(factor)] = _levels(str(factor), value)
        except ValueError as error:
            wrong.append(Problem(("factors", str(factor)), str(error)))
    design = {}
    for combination in itertools.product(*(changes.items() for changes in levels.values())) if levels else ():
        labels = dict(zip(levels, (label for label, _ in combination), strict=True))
        name = ",".join(f"{factor}={label}" for factor, label in labels.items())
        try:
            arms[name], design[name] = _merged(dict(zip(levels, (c for _, c in combination), strict=True))), labels
        except ValueError as error:
            return {}, {}, [*wrong, Problem(("factors",), str(error))]
    if not factors and all(changes for changes in named.values()):
        arms[BASE] = {}
    for name, changes in named.items():
        if not isinstance(changes, dict | None):
            wrong.append(
                Problem(("arms", str(name)), f"this is {short(changes)}: expected changes, as {{freeze: [b.z]}}")
            )
        elif str(name) in arms:
            taken = "the model without changes" if name == BASE else "a combination of the factors"
            wrong.append(Problem(("arms", str(name)), f"this is the name of {taken}: choose another"))
        else:
            arms[str(name)] = changes or {}
    return arms, design, wrong


def _levels(factor: str, value: Any) -> dict[str, dict[str, Any]]:
    """The changes of each level of a factor, by label."""
    if isinstance(value, dict):
        levels = {str(label): changes or {} for label, changes in value.items()}
        if any(not isinstance(changes, dict) for changes in levels.values()):
            raise GatelabError(
                f"this is {short(value)}: expected changes for each level, as {{low: {{init: {{b.z: 0}}}}}}"
            )
    elif isinstance(value, list):
        gate = factor.removeprefix("init_")
        levels = {_label(v): {"init": {f"b.{gate}": v}} if gate != factor else {factor: v} for v in value}
    else:
        raise GatelabError(f"this is {short(value)}: expected a list of levels, as [0, 1]")
    if len(levels) < 2 or len(levels) < len(value) or "" in levels:
        raise GatelabError(f"this is {short(value)}: expected at least two levels, all different")
    return levels


def _label(level: Any) -> str:
    """The label of a level, fit for a file name."""
    if level in NONE:
        return "none"
    if isinstance(level, dict):
        return "+".join(f"{key}-{_label(value)}" for key, value in level.items())
    if isinstance(level, list):
        return "+".join(map(_label, level))
    return f"{level:.12g}" if isinstance(level, (int, float)) and not isinstance(level, bool) else str(level)


def _merged(by_factor: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The changes of several factors at once: frozen parameters, removed gates and initial biases are combined."""
    merged: dict[str, Any] = {}
    for factor, changes in by_factor.items():
        for key, value in changes.items():
            other = merged.get(key)
            if isinstance(other, list) and isinstance(value, list):
                merged[key] = [*other, *(item for item in value if item not in other)]
            elif isinstance(other, dict) and isinstance(value, dict) and not other.keys() & value.keys():
                merged[key] = {**other, **value}
            elif key in merged and other not in NONE and value not in NONE and other != value:
                raise GatelabError(
                    f"{factor} sets {key} to {short(value)} and another factor to {short(other)}: a model cannot have "
                    "both. Let the factors change different keys, or list the arms under arms"
                )
            elif value not in NONE or key not in merged:
                merged[key] = value
    return merged


def changed(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """The base model with an arm's changes; `none` removes a key of the base."""
    own = {"freeze_at" if key == "at" else key: value for key, value in changes.items()}
    if isinstance(own.get("init"), dict):
        biases = dict(map(_bias, own.pop("init").items()))
        own = overlaid(own, {"gate_bias": biases})
    if own.get("freeze", ()) in NONE:
        own["freeze_at"] = None
    removed, biases = (_present(own.get(key)) for key in ("remove", "gate_bias"))
    if both := [gate for gate in biases if gate in removed]:
        raise GatelabError(f"init has b.{both[0]}, and remove removes the gate {both[0]}: use one of them")
    model = {
        key: _present(value) if key in BY_NAME and isinstance(value, dict) else value
        for key, value in overlaid(base, own).items()
        if value not in NONE
    }
    if isinstance(model.get("gate_bias"), dict):
        removed = _present(model.get("remove"))
        model["gate_bias"] = {gate: value for gate, value in model["gate_bias"].items() if gate not in removed}
    return model


def _present(values: Any) -> dict[str, Any]:
    """The entries that are not `none`."""
    return {name: v for name, v in values.items() if v not in NONE} if isinstance(values, dict) else {}


def _bias(item: tuple[Any, Any]) -> tuple[str, Any]:
    family, dot, gate = str(item[0]).partition(".")
    if family != "b" or not dot:
        raise GatelabError(f"init has {item[0]!r}: expected initial values of biases, as {{b.z: 1.0}}")
    return gate, item[1]


def every_gate(cell: Cell) -> dict[str, dict[str, Any]]:
    """One arm per gate of a cell, which replaces the gate by a constant that passes both the old state and the new."""
    return {f"no_{gate}": {"remove": {gate: value}} for gate, value in cell.neutral.items()}


def as_written(key: Key, design: dict[str, Any]) -> Key:
    """The key in the config file that a problem of a model comes from."""
    if key[:1] != ("models",) or len(key) < 2:
        return ("arms",) if key == ("models",) else key
    names = {"gate_bias": "init", "freeze_at": "at"}
    rest = tuple(names.get(str(part), part) for part in key[2:])
    return ("factors", *key[1:2], *rest) if key[1] in design else ("arms", key[1], *rest)
