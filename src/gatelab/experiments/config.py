"""The config of a comparison: models on one task, over seeds. Every model is validated by itself.

A file may hold several studies, the same comparison on different tasks: keys that they share are written once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field, ValidationError

from gatelab.errors import GatelabError, short, unknown
from gatelab.experiments import ablation
from gatelab.experiments.overlay import hyperparameters_of, overlaid
from gatelab.experiments.tuning import space
from gatelab.experiments.tuning.space import TuneSpec
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
MAX_SEED = 2**63
MAX_RUNS = 2000  # of a model, final runs and trials
ALIASES = {"a-gru": "agru", "a_gru": "agru", "vanilla": "rnn"}


class Design(Section):
    """How models are compared."""

    runs: int = Field(
        3, ge=1, le=1000, description="number of runs per model, with seeds training.seed, training.seed + 1, …"
    )
    match: Literal["none", "parameters"] = Field(
        "none",
        description="parameters: choose hidden sizes so that all models have about as many parameters as the first",
    )
    base: str | None = Field(
        None, description="the model that all others are compared with; by default all pairs are compared"
    )
    design: dict[str, dict[str, str]] = Field(
        {}, description="factorial design: the level of each factor, for each model of the design"
    )
    ablation: bool = Field(
        False, description="whether the models are the arms of an ablation, made from `arms` and `factors`"
    )


class BenchSpec(Design):
    """A comparison of models, each trained with every seed."""

    task: ConfiguredTask
    models: dict[str, ModelSpec]
    optimization: OptimizationSpec = OptimizationSpec()
    training: TrainingSpec = TrainingSpec()
    tune: TuneSpec | None = None


def load(path: Path, changes: Mapping[Key, Any] | None = None) -> dict[str, BenchSpec]:
    """The studies in a file by name. A file without `studies` is one study, whose name is empty."""
    document, changes = config.read(path), changes or {}
    for key in [key for key in changes if key[0] == STUDIES]:  # of one study
        document = document._replace(content=config.changed(document.content, {key: changes[key]}))
    changes = {key: value for key, value in changes.items() if key[0] != STUDIES}
    shared = {key: value for key, value in document.content.items() if key != STUDIES}
    if STUDIES not in document.content:
        return {"": parse(config.changed(shared, changes), str(path), document.lines, changes)}
    studies = document.content[STUDIES]
    if not isinstance(studies, dict) or not studies:
        raise GatelabError(
            f"{path}: {STUDIES}: this is {short(studies)}: expected studies by name, as {{one: {{task: sine}}}}"
        )
    if ("task",) in changes:
        raise GatelabError(f"{path} holds {STUDIES}, each with its task: --task cannot be given for all of them")
    specs = {}
    for name, own in studies.items():
        if not NAME.fullmatch(str(name)) or not isinstance(own, dict):
            raise GatelabError(f"{path}: {STUDIES}.{name}: this is {short(own)}: expected a word and keys such as task")
        lines = {key[2:]: line for key, line in document.lines.items() if key[:2] == (STUDIES, str(name)) and key[2:]}
        content = config.changed(shared, dict(_leaves(own)))
        try:
            specs[str(name)] = parse(config.changed(content, changes), str(path), {**document.lines, **lines}, changes)
        except ValueError as error:
            raise GatelabError(f"in the study {name}:\n{error}") from error
    return specs


def _leaves(content: dict[str, Any]) -> Iterator[tuple[Key, Any]]:
    """The keys of a study: those of sections one by one, others as a whole."""
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
    """A comparison from plain values; all problems in one error."""
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
        problems = _merged_problems(problems, changes or {})
    config.refuse_located(problems, source, lines or {}, changes or {})
    return BenchSpec.model_validate(parts)


def _for_all(content: dict[str, Any], changes: Mapping[Key, Any]) -> dict[str, Any]:
    """The config with options of the command line for all models; they override each model's own keys."""
    shared = config.changed({}, {key[1:]: value for key, value in changes.items() if key[0] == "model" and key[1:]})
    models, base = content.get("models"), content.get("model", {})
    if not shared or not isinstance(models, dict) or not isinstance(base, dict):
        return content
    own = {
        name: overlaid({"cell": base.get("cell", cell_of(str(name))), **entry}, shared)
        if isinstance(entry, dict)
        else entry
        for name, entry in models.items()
    }
    return {**content, "models": own}


def _merged_problems(problems: list[Problem], changes: Mapping[Key, Any]) -> list[Problem]:
    """A problem with a value that the command line sets for all models is reported once, not for each of them."""
    merged = []
    for key, why in problems:
        rest = key[2:] if key[:1] == ("models",) else ()
        shared = (("model", *rest), ("model", *(part for part in rest if part != "options")))
        merged.append(Problem(next((option for option in shared if option in changes), key), why))
    return list(dict.fromkeys(merged))


def _base_problems(base: Any) -> Iterator[Problem]:
    """The problems of the base model of an ablation, reported once instead of for every arm."""
    if isinstance(base, dict):
        _, wrong = _model(overlaid({"cell": "gru"}, base))
        yield from (Problem(("model", *problem.key), problem.message) for problem in wrong)


def _problems(content: dict[str, Any], parts: dict[str, Any]) -> Iterator[Problem]:
    """Yield all problems; valid values are stored in `parts`."""
    yield from _section_problems(content, parts)
    models, base = content.get("models", {}), content.get("model", {})
    if not isinstance(base, dict) or "enabled" in base:
        yield Problem(("model",), f"this is {short(base)}: expected keys that all models share, such as hidden_size")
        base = {}
    if not isinstance(models, dict) or not models:
        yield Problem(
            ("models",), f"this is {short(models)}: expected models by name, as gru: {{hidden_size: 128}}, or arms"
        )
        return
    enabled, disabled = dict[str, ModelSpec](), set[str]()
    for name, entry in models.items():
        yield from _entry_problems(str(name), entry, base, parts, enabled, disabled)
    if len(disabled) == len(models):
        yield Problem(("models",), "all models have enabled: false: enable at least two to compare them")
    for name, other in same(enabled):
        yield Problem(
            ("models", name), f"this is the same model as {other!r}, after defaults: remove or change one of them"
        )
    yield from _design_problems(parts, list(models), disabled)
    parts["models"] = enabled
    yield from _tune_problems(content.get("tune"), parts)


def _section_problems(content: dict[str, Any], parts: dict[str, Any]) -> Iterator[Problem]:
    """The problems of all but the models."""
    known = [*BenchSpec.model_fields, "model", *ablation.OWN]
    for name in content:
        if name not in known:
            yield Problem((str(name),), str(unknown("key", name, known)))
    shared = {name: content[name] for name in RunSpec.model_fields if name in content and name != "model"}
    yield from config.section_problems(shared, parts)
    parts.pop("model", None)  # there are several instead
    design, wrong = config.validated(Design, {name: content[name] for name in Design.model_fields if name in content})
    yield from wrong
    if design is not None:
        parts.update(design.model_dump())
    training = parts.get("training")
    if not isinstance(training, TrainingSpec):
        return
    if not training.test:
        yield Problem(("training", "test"), "models are compared on the test set: remove this key")
    if training.seed + MAX_RUNS > MAX_SEED:
        yield Problem(
            ("training", "seed"), f"this is {training.seed}, and the last run would have a seed beyond 63 bits"
        )


def _entry_problems(
    name: str,
    entry: Any,
    base: dict[str, Any],
    parts: dict[str, Any],
    enabled: dict[str, ModelSpec],
    disabled: set[str],
) -> Iterator[Problem]:
    """The problems of one model; a valid one is stored in `enabled`."""
    if not NAME.fullmatch(name):
        why = "names of models are used as file names: expected a letter or digit, then also . + - _ = ,"
        yield Problem(("models", name), why)
        return
    if entry is not None and not isinstance(entry, dict):
        yield Problem(("models", name), f"this is {short(entry)}: expected keys such as hidden_size")
        return
    options = dict(entry or {})
    is_enabled = options.pop("enabled", True)
    if not isinstance(is_enabled, bool):
        yield Problem(("models", name, "enabled"), f"this is {short(is_enabled)}: expected true or false")
    model, wrong = _model(overlaid({"cell": cell_of(name), **base}, options))
    yield from (Problem(("models", name, *problem.key), problem.message) for problem in wrong)
    if is_enabled is False:
        disabled.add(name)
    elif is_enabled is True and isinstance(model, ModelSpec) and not wrong:
        enabled[name] = model
        yield from _conflicts(name, model, parts)


def _design_problems(parts: dict[str, Any], models: list[str], disabled: set[str]) -> Iterator[Problem]:
    """The problems of an ablation's design, and of models that are named somewhere else."""
    design, base = parts.get("design", {}), parts.get("base")
    if parts.get("ablation") and base is None:
        yield Problem(
            ("ablation",), "only a config with `arms` or `factors` is an ablation: use one of them, or remove this key"
        )
    mentions: dict[Key, str] = {("design", name): name for name in design}
    if base is not None:
        mentions[("base",)] = base
    for key, name in mentions.items():
        if name not in models:
            yield Problem(key, str(unknown("model", name, models)))
        elif name in disabled:
            yield Problem(key, f"the model {name!r} has enabled: false: enable it, or name another")
    if design and not _is_complete(design):
        yield Problem(("design",), "expected the same factors for every model, and a model for every combination")


def _tune_problems(content: Any, parts: dict[str, Any]) -> Iterator[Problem]:
    """The problems of a search; a valid one goes into `parts`."""
    if content is None:
        return
    if not isinstance(content, dict):
        yield Problem(("tune",), f"this is {short(content)}: expected keys such as trials and space")
        return
    tune, wrong = config.validated(TuneSpec, content)
    yield from (Problem(("tune", *problem.key), problem.message) for problem in wrong)
    if isinstance(tune, TuneSpec) and not wrong:
        parts["tune"] = tune
        shared = {name: parts.get(name) for name in ("task", "optimization", "training")}
        with suppress(ValidationError):  # a problem of its own, which is reported as such
            specs = {name: RunSpec.model_validate({**shared, "model": m}) for name, m in parts["models"].items()}
            yield from space.problems(tune, specs, parts.get("match", "none"))


def _model(options: dict[str, Any]) -> tuple[BaseModel | None, list[Problem]]:
    """A model and its problems, whose keys are those of a config that has hyperparameters outside `options`."""
    hyperparameters = hyperparameters_of(options.get("cell"))
    model, wrong = config.validated(ModelSpec, options, hyperparameters)
    problems = []
    for key, why in wrong:
        if len(key) > 1 or key[0] not in hyperparameters:
            problems.append(Problem(key, why))
        elif isinstance(options.get("options"), dict):  # otherwise the problem is that of `options`
            problems.append(Problem(key, "this is given here and under options: remove one of them"))
    return model, problems


def _is_complete(design: dict[str, dict[str, str]]) -> bool:
    """Whether there is exactly one model per combination of levels."""
    first, *others = design.values()
    if not first or any(levels.keys() != first.keys() for levels in others):
        return False
    combinations = {tuple(levels[name] for name in first) for levels in design.values()}
    expected = math.prod(len({levels[name] for levels in design.values()}) for name in first)
    return len(combinations) == len(design) == expected


def cell_of(name: str) -> str:
    """The default cell of a model: its name, or the cell that the name is an alias of."""
    short = name.lower()
    return ALIASES.get(short, short)


def _conflicts(name: str, model: ModelSpec, parts: dict[str, Any]) -> Iterator[Problem]:
    """Conflicts of a model with the task or the training."""
    if parts.get("task") is not None and parts.get("training") is not None:
        for conflict in disagreements(parts["task"], model, parts["training"]):
            section, _, key = conflict.keys[0].partition(".")
            yield Problem(("models", name, key) if section == "model" else (section, key), conflict.why)


def resolved(model: ModelSpec) -> tuple[ModelSpec, Any]:
    """A model without its options, and the values of the cell's hyperparameters after defaults."""
    options = model.cell.cell.signature.resolve(model.cell.name, model.options)
    return model.model_copy(update={"options": {}}), options


def same(models: dict[str, ModelSpec]) -> Iterator[tuple[str, str]]:
    """Pairs of equal models: comparing them would measure noise only."""
    names = list(models)
    for i, name in enumerate(names):
        for other in names[:i]:
            if resolved(models[name]) == resolved(models[other]):
                yield name, other
                break
