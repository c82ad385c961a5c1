"""What is compared: models on one task, over seeds. Read from a config file, every model checked by itself.

A file may hold several studies, the same comparison on other tasks: what they share is said once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field

from gatelab.errors import unknown
from gatelab.experiments import ablation
from gatelab.experiments.overlay import numbers_of, overlaid
from gatelab.training import config
from gatelab.training.config import Key, Problem
from gatelab.training.spec import (
    ConfiguredTask,
    ModelSpec,
    OptimizationSpec,
    RunSpec,
    Section,
    TrainingSpec,
    disagreements,
)

NAME = re.compile(r"[^\W_][\w.+=,-]*")
STUDIES = "studies"
ALIASES = {"a-gru": "agru", "a_gru": "agru", "vanilla": "rnn"}


class Design(Section):
    """How models are compared."""

    runs: int = Field(3, ge=1, description="runs of each model, with the seeds training.seed, training.seed + 1, …")
    match: Literal["none", "parameters"] = Field(
        "none",
        description="parameters: hidden sizes are chosen so that all have nearly as many parameters as the first",
    )
    base: str | None = Field(None, description="the model that all others are compared with; without it all pairs are")
    design: dict[str, dict[str, str]] = Field(
        {}, description="of a factorial design: the level of each factor, for each model that belongs to it"
    )
    ablation: bool = Field(False, description="whether the models are arms, as `arms` and `factors` make them")


class BenchSpec(Design):
    """A comparison of models, each trained with every seed."""

    task: ConfiguredTask
    models: dict[str, ModelSpec]
    optimization: OptimizationSpec = OptimizationSpec()
    training: TrainingSpec = TrainingSpec()


def load(path: Path, changes: Mapping[Key, Any] | None = None) -> dict[str, BenchSpec]:
    """The studies in a file by name; where there is only one it has none, and stands under the empty name."""
    document, changes = config.read(path), changes or {}
    for own in [key for key in changes if key[0] == STUDIES]:  # of one study
        document = document._replace(content=config.changed(document.content, {own: changes[own]}))
    changes = {key: value for key, value in changes.items() if key[0] != STUDIES}
    shared = {key: value for key, value in document.content.items() if key != STUDIES}
    if STUDIES not in document.content:
        return {"": parse(config.changed(shared, changes), str(path), document.lines, changes)}
    studies = document.content[STUDIES]
    if not isinstance(studies, dict) or not studies:
        raise ValueError(
            f"{path}: {STUDIES}: this is {studies!r}: expected studies by name, as {{one: {{task: sine}}}}"
        )
    if ("task",) in changes:
        raise ValueError(f"{path} holds {STUDIES}, each with its task: --task cannot be given for all of them")
    found = {}
    for name, own in studies.items():
        if not NAME.fullmatch(str(name)) or not isinstance(own, dict):
            raise ValueError(f"{path}: {STUDIES}.{name}: this is {own!r}: expected a word and keys such as task")
        lines = {key[2:]: line for key, line in document.lines.items() if key[:2] == (STUDIES, str(name)) and key[2:]}
        content = config.changed(shared, dict(_leaves(own)))
        try:
            found[str(name)] = parse(config.changed(content, changes), str(path), {**document.lines, **lines}, changes)
        except ValueError as error:
            raise ValueError(f"in the study {name}:\n{error}") from error
    return found


def _leaves(content: dict[str, Any]) -> Iterator[tuple[Key, Any]]:
    """A study's own keys: of a section one by one, anything else as a whole."""
    for name, value in content.items():
        if name in ("model", "optimization", "training") and isinstance(value, dict):
            yield from (((name, key), inner) for key, inner in value.items())
        else:
            yield (name,), value


def parse(
    content: dict[str, Any],
    source: str,
    lines: Mapping[Key, int] | None = None,
    changes: Mapping[Key, Any] | None = None,
) -> BenchSpec:
    """A comparison from plain values, or all that is wrong with them in one error."""
    parts: dict[str, Any] = {}
    problems: list[Problem] = []
    if is_arms := ablation.is_ablation(content):
        problems = list(_base_problems(content.get("model", {})))
        if not problems:
            content, problems = ablation.as_comparison(content)
    else:
        content = _for_all(content, changes or {})
    if not problems:
        problems = list(_problems(content, parts))
    if is_arms:
        problems = [Problem(ablation.as_written(key, parts.get("design", {})), why) for key, why in problems]
    else:
        problems = _said_once(problems, changes or {})
    config.refuse_located(problems, source, lines or {}, changes or {})
    return BenchSpec.model_validate(parts)


def _for_all(content: dict[str, Any], changes: Mapping[Key, Any]) -> dict[str, Any]:
    """What the command line says of all models goes over what each says of itself."""
    said = config.changed({}, {key[1:]: value for key, value in changes.items() if key[0] == "model" and key[1:]})
    models, base = content.get("models"), content.get("model", {})
    if not said or not isinstance(models, dict) or not isinstance(base, dict):
        return content
    own = {
        name: overlaid({"cell": base.get("cell", cell_of(str(name))), **entry}, said)
        if isinstance(entry, dict)
        else entry
        for name, entry in models.items()
    }
    return {**content, "models": own}


def _said_once(problems: list[Problem], changes: Mapping[Key, Any]) -> list[Problem]:
    """What is wrong with a value that the command line gives to all models is not said of each of them."""
    found = []
    for key, why in problems:
        rest = key[2:] if key[:1] == ("models",) else ()
        shared = (("model", *rest), ("model", *(part for part in rest if part != "options")))
        found.append(Problem(next((one for one in shared if one in changes), key), why))
    return list(dict.fromkeys(found))


def _base_problems(base: Any) -> Iterator[Problem]:
    """What is wrong with the base model of an ablation, said once instead of for every arm."""
    if isinstance(base, dict):
        _, wrong = _model(overlaid({"cell": "gru"}, base))
        yield from (Problem(("model", *problem.key), problem.message) for problem in wrong)


def _problems(content: dict[str, Any], parts: dict[str, Any]) -> Iterator[Problem]:
    """What is wrong; what is right goes into `parts`."""
    known = [*BenchSpec.model_fields, "model", *ablation.OWN]
    for name in content:
        if name not in known:
            yield Problem((str(name),), str(unknown("key", name, known)))
    shared = {name: content[name] for name in RunSpec.model_fields if name in content and name != "model"}
    yield from config.section_problems(shared, parts)
    parts.pop("model", None)  # there are several instead
    design, wrong = config.validated(Design, {name: content[name] for name in Design.model_fields if name in content})
    yield from wrong
    parts |= design.model_dump() if design is not None else {}
    models, base = content.get("models", {}), content.get("model", {})
    if not isinstance(base, dict) or "enabled" in base:
        yield Problem(("model",), f"this is {base!r}: expected what all models share, such as hidden_size")
        base = {}
    if not isinstance(models, dict) or not models:
        yield Problem(
            ("models",), f"this is {models!r}: expected models by name, as gru: {{hidden_size: 128}}, or arms"
        )
        return
    enabled, disabled = dict[str, ModelSpec](), set[str]()
    for name, entry in models.items():
        if not NAME.fullmatch(str(name)):
            yield Problem(
                ("models", str(name)),
                "a model's name is also a file's: expected a letter or digit, then also . + - _ = ,",
            )
            continue
        if entry is not None and not isinstance(entry, dict):
            yield Problem(("models", str(name)), f"this is {entry!r}: expected keys such as hidden_size")
            continue
        own = dict(entry or {})
        is_enabled = own.pop("enabled", True)
        options = overlaid({"cell": cell_of(str(name)), **base}, own)
        if not isinstance(is_enabled, bool):
            yield Problem(("models", str(name), "enabled"), f"this is {is_enabled!r}: expected true or false")
        made, wrong = _model(options)
        yield from (Problem(("models", str(name), *problem.key), problem.message) for problem in wrong)
        if is_enabled is False:
            disabled.add(str(name))
        elif is_enabled is True and isinstance(made, ModelSpec) and not wrong:
            enabled[str(name)] = made
            yield from _across(str(name), made, parts)
    if len(disabled) == len(models):
        yield Problem(("models",), "all of them have enabled: false: enable two at least to compare them")
    if parts.get("ablation") and parts.get("base") is None:
        yield Problem(("ablation",), "this is for what `arms` and `factors` make: write those, or leave it out")
    design = parts.get("design", {})
    named: dict[Key, str] = {("design", name): name for name in design}
    if parts.get("base") is not None:
        named[("base",)] = parts["base"]
    for key, name in named.items():
        if name not in models:
            yield Problem(key, str(unknown("model", name, models)))
        elif name in disabled:
            yield Problem(key, f"the model {name!r} has enabled: false: enable it, or name another")
    if design and not _is_complete(design):
        yield Problem(("design",), "expected the same factors for every model, and a model for every combination")
    for name, other in same(enabled):
        yield Problem(("models", name), f"this is the same model as {other!r}, after defaults: they cannot differ")
    parts["models"] = enabled


def _model(options: dict[str, Any]) -> tuple[BaseModel | None, list[Problem]]:
    """A model, and what is wrong with it in the words of a config in which a cell's numbers may stand by themselves."""
    numbers = numbers_of(options.get("cell"))
    made, wrong = config.validated(ModelSpec, options, numbers)
    found = []
    for key, why in wrong:
        if len(key) > 1 or key[0] not in numbers:
            found.append(Problem(key, why))
        elif isinstance(options.get("options"), dict):  # else it could not be put there, which is said by itself
            found.append(Problem(key, "this is given here and under options: once is enough"))
    return made, found


def _is_complete(design: dict[str, dict[str, str]]) -> bool:
    """Whether every combination of levels is there, once."""
    first, *others = design.values()
    if not first or any(levels.keys() != first.keys() for levels in others):
        return False
    seen = {tuple(levels[name] for name in first) for levels in design.values()}
    wanted = math.prod(len({levels[name] for levels in design.values()}) for name in first)
    return len(seen) == len(design) == wanted


def cell_of(name: str) -> str:
    """The cell that a model's name stands for, unless it says otherwise."""
    short = name.lower()
    return ALIASES.get(short, short)


def _across(name: str, model: ModelSpec, parts: dict[str, Any]) -> Iterator[Problem]:
    if parts.get("task") is not None and parts.get("training") is not None:
        for conflict in disagreements(parts["task"], model, parts["training"]):
            section, _, key = conflict.keys[0].partition(".")
            yield Problem(("models", name, key) if section == "model" else (section, key), conflict.why)


def resolved(model: ModelSpec) -> tuple[ModelSpec, Any]:
    """A model with the cell's own numbers as they will be: what is not given is the cell's default."""
    options = model.cell.cell.signature.resolve(model.cell.name, model.options)
    return model.model_copy(update={"options": {}}), options


def same(models: dict[str, ModelSpec]) -> Iterator[tuple[str, str]]:
    """Models that cannot differ from an earlier one: an experiment with them would compare chance with chance."""
    names = list(models)
    for i, name in enumerate(names):
        for other in names[:i]:
            if resolved(models[name]) == resolved(models[other]):
                yield name, other
                break
