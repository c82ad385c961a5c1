"""Ablations: a base model, and arms that change named parts of it. Here they become the models of a comparison.

    model: {cell: gru, hidden_size: 64, init: xavier}
    arms:
      forgets: {freeze: [b.z, b.r], at: 0.0}
      no_reset: {remove: {r: 1.0}}

    factors: {init_z: [0, 1], freeze: [none, [b.z, b.r]]}     # every combination: a 2×2

An arm's keys are those of `model`, with `init: {b.z: 1.0}` for starting values of biases and `at` for the value that is
frozen. A factor is one such key (`init_z` stands for `init: {b.z: …}`) with its levels, of which the first is the
reference; or it has names for its levels, each with its changes.
"""

from __future__ import annotations

import itertools
from typing import Any

from gatelab.experiments.overlay import BY_NAME, overlaid
from gatelab.lang import Cell
from gatelab.training.config import Key, Problem

OWN = ("arms", "factors")
BASE = "base"
NONE = (None, "none")


def is_ablation(content: dict[str, Any]) -> bool:
    return any(key in content for key in OWN)


def as_comparison(content: dict[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
    """The same as a comparison of models, and what is wrong with its arms."""
    if "models" in content:
        return content, [
            Problem(("models",), "an ablation has one model and arms that change it: use one or the other")
        ]
    base = content.get("model", {})
    if not isinstance(base, dict):
        return content, [Problem(("model",), f"this is {base!r}: expected the base model, as {{cell: gru}}")]
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
    made = {**rest, "models": {name: {"cell": "gru", **model} for name, model in models.items()}}
    return {"base": first, **made, "design": design, "ablation": True}, wrong


def _arms(content: dict[str, Any]) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, str]], list[Problem]]:
    """The changes of each arm by name, and the levels of those that belong to a factorial design."""
    wrong, arms = [], dict[str, dict[str, Any]]()
    factors, named = content.get("factors", {}), content.get("arms", {})
    for key, given, example in (("factors", factors, "{init_z: [0, 1]}"), ("arms", named, "{no_r: {remove: {r: 1}}}")):
        if not isinstance(given, dict) or (key in content and not given):
            return {}, {}, [Problem((key,), f"this is {given!r}: expected {example}")]
    levels: dict[str, dict[str, dict[str, Any]]] = {}
    for factor, given in factors.items():
        try:
            levels[str(factor)] = _levels(str(factor), given)
        except ValueError as error:
            wrong.append(Problem(("factors", str(factor)), str(error)))
    design = {}
    for combination in itertools.product(*(found.items() for found in levels.values())) if levels else ():
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
            wrong.append(Problem(("arms", str(name)), f"this is {changes!r}: expected changes, as {{freeze: [b.z]}}"))
        elif str(name) in arms:
            taken = "the model without changes" if name == BASE else "a combination of the factors"
            wrong.append(Problem(("arms", str(name)), f"this is the name of {taken}: choose another"))
        else:
            arms[str(name)] = changes or {}
    return arms, design, wrong


def _levels(factor: str, given: Any) -> dict[str, dict[str, Any]]:
    """The changes that each level of a factor makes."""
    if isinstance(given, dict):
        found = {str(label): changes or {} for label, changes in given.items()}
        if any(not isinstance(changes, dict) for changes in found.values()):
            raise ValueError(f"this is {given!r}: expected changes for each level, as {{low: {{init: {{b.z: 0}}}}}}")
    elif isinstance(given, list):
        gate = factor.removeprefix("init_")
        found = {_label(v): {"init": {f"b.{gate}": v}} if gate != factor else {factor: v} for v in given}
    else:
        raise ValueError(f"this is {given!r}: expected a list of levels, as [0, 1]")
    if len(found) < 2 or len(found) < len(given) or "" in found:
        raise ValueError(f"this is {given!r}: expected at least two levels, all different")
    return found


def _label(level: Any) -> str:
    """A level as a word that can stand in a file's name."""
    if level in NONE:
        return "none"
    if isinstance(level, dict):
        return "+".join(f"{key}-{_label(value)}" for key, value in level.items())
    if isinstance(level, list):
        return "+".join(map(_label, level))
    return f"{level:.12g}" if isinstance(level, (int, float)) and not isinstance(level, bool) else str(level)


def _merged(by_factor: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Changes of several factors at once: what each freezes, removes or starts elsewhere stands side by side."""
    made: dict[str, Any] = {}
    for factor, changes in by_factor.items():
        for key, value in changes.items():
            there = made.get(key)
            if isinstance(there, list) and isinstance(value, list):
                made[key] = [*there, *(one for one in value if one not in there)]
            elif isinstance(there, dict) and isinstance(value, dict) and not there.keys() & value.keys():
                made[key] = {**there, **value}
            elif key in made and there not in NONE and value not in NONE and there != value:
                raise ValueError(
                    f"{factor} sets {key} to {value!r} and another factor to {there!r}: a model cannot have both. "
                    "Change different things, or write the arms out under arms"
                )
            elif value not in NONE or key not in made:
                made[key] = value
    return made


def changed(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """The base model with an arm's changes; `none` takes something of the base away."""
    own = {"freeze_at" if key == "at" else key: value for key, value in changes.items()}
    if isinstance(own.get("init"), dict):
        started = dict(map(_bias, own.pop("init").items()))
        own = overlaid(own, {"gate_bias": started})
    if own.get("freeze", ()) in NONE:
        own["freeze_at"] = None
    removed, started = (_present(own.get(key)) for key in ("remove", "gate_bias"))
    if both := [gate for gate in started if gate in removed]:
        raise ValueError(f"init has b.{both[0]}, and remove takes the gate {both[0]} away: say one of them")
    made = {
        key: _present(value) if key in BY_NAME and isinstance(value, dict) else value
        for key, value in overlaid(base, own).items()
        if value not in NONE
    }
    if isinstance(made.get("gate_bias"), dict):
        removed = _present(made.get("remove"))
        made["gate_bias"] = {gate: value for gate, value in made["gate_bias"].items() if gate not in removed}
    return made


def _present(values: Any) -> dict[str, Any]:
    """What is there by name and not taken away."""
    return {name: v for name, v in values.items() if v not in NONE} if isinstance(values, dict) else {}


def _bias(item: tuple[Any, Any]) -> tuple[str, Any]:
    family, dot, gate = str(item[0]).partition(".")
    if family != "b" or not dot:
        raise ValueError(f"init has {item[0]!r}: starting values can be set for biases, as {{b.z: 1.0}}")
    return gate, item[1]


def every_gate(cell: Cell) -> dict[str, dict[str, Any]]:
    """An arm for each gate of a cell, in which it is a constant that lets both the old state and the new pass."""
    return {f"no_{gate}": {"remove": {gate: value}} for gate, value in cell.neutral.items()}


def as_written(key: Key, design: dict[str, Any]) -> Key:
    """Where in the file a problem of a model comes from, in the file's own words."""
    if key[:1] != ("models",) or len(key) < 2:
        return ("arms",) if key == ("models",) else key
    words = {"gate_bias": "init", "freeze_at": "at"}
    rest = tuple(words.get(str(part), part) for part in key[2:])
    return ("factors", *key[1:2], *rest) if key[1] in design else ("arms", key[1], *rest)
