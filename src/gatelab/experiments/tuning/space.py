"""The search space: which settings are varied, for all models or for one, and over which values.

    tune:
      trials: 12
      space: {learning_rate: {log: [1e-4, 1e-2]}, hidden_size: [64, 128]}
      models: {agru: {epsilon: {log: [0.01, 1.0]}}}        # in addition, or instead of the same key of `space`

A setting is a key of `optimization`, of `model`, or batch_size; or a hyperparameter of the cell, or `gate_bias.GATE`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pydantic import BaseModel, Field, model_serializer, model_validator

from gatelab.errors import GatelabError, short, unknown
from gatelab.experiments.overlay import hyperparameters_of
from gatelab.numerals import before_validation
from gatelab.training.config import Problem, validated
from gatelab.training.spec import ModelSpec, OptimizationSpec, RunSpec, Section, TrainingSpec

if TYPE_CHECKING:
    from typing_extensions import Self

Settings = dict[str, Any]  # by name, as the space has it

NOT_TUNED = ("cell", "engine", "freeze", "freeze_at", "remove", "options")  # they make another model
OF_TRAINING = ("batch_size",)
SECTIONS: dict[str, type[BaseModel]] = {"model": ModelSpec, "optimization": OptimizationSpec, "training": TrainingSpec}
KINDS = ("log", "uniform")
EXAMPLE_SPACE = "{learning_rate: {log: [1e-4, 1e-2]}}"
EXAMPLE = "{log: [1e-4, 1e-2]}, {uniform: [0.0, 0.5]}, or a list of values"


class Range(Section):
    """The values of a setting: an interval, sampled uniformly or in its logarithm, or a list."""

    log: tuple[float, float] | None = None
    uniform: tuple[float, float] | None = None
    choices: tuple[Any, ...] | None = None

    @model_validator(mode="before")
    @classmethod
    def _in_words(cls, value: Any) -> Any:
        if isinstance(value, Range):
            return value
        if isinstance(value, (list, tuple)):
            return {"choices": tuple(value)}
        if not isinstance(value, dict) or len(value) != 1 or next(iter(value)) not in (*KINDS, "choices"):
            raise GatelabError(f"this is {short(value)}: expected {EXAMPLE}")
        ((kind, ends),) = value.items()
        if kind == "choices":
            return value
        if not isinstance(ends, (list, tuple)) or len(ends) != 2:
            raise GatelabError(f"{kind} is {short(ends)}: expected two numbers, as [1e-4, 1e-2]")
        return {kind: tuple(before_validation(end, float) for end in ends)}

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        """Intervals without an inside and lists without a choice are errors, also inside another section."""
        if self.choices is not None and len({str(choice) for choice in self.choices}) < 2:
            raise GatelabError(f"this is {short(list(self.choices))}: expected at least two different values")
        for kind in KINDS:
            if (ends := getattr(self, kind)) is not None and not ends[0] < ends[1]:
                raise GatelabError(f"{kind} is {short(list(ends))}: expected a smaller number, then a larger one")
        if self.log is not None and self.log[0] <= 0:
            raise GatelabError(f"log is {short(list(self.log))}: expected numbers above 0")
        return self

    @model_serializer
    def _as_config(self) -> Any:
        if self.choices is not None:
            return list(self.choices)
        kind = "log" if self.log is not None else "uniform"
        return {kind: list(getattr(self, kind))}

    @property
    def ends(self) -> tuple[Any, ...]:
        """Values that must all be valid: the ends of an interval, or the whole list."""
        return self.choices or self.log or self.uniform or ()

    def position(self, value: Any) -> float:
        """Where a value lies, from 0 to 1, for figures."""
        if self.choices is not None:
            return self.choices.index(value) / (len(self.choices) - 1)
        scale = math.log if self.log is not None else float
        low, high = (scale(end) for end in self.ends)
        return (scale(value) - low) / (high - low)


class TuneSpec(Section):
    """The search for good settings of each model, before the final runs."""

    trials: int = Field(12, ge=2, le=1000, description="trials per model, the same number for each")
    space: dict[str, Range] = Field({}, description="settings of all models, as {learning_rate: {log: [1e-4, 1e-2]}}")
    models: dict[str, dict[str, Range]] = Field({}, description="further settings of single models, by their names")
    sampler: Literal["random", "tpe"] = Field(
        "random", description="Optuna's sampler: random, or tpe, whose trials depend on earlier ones"
    )
    pruner: Literal["median", "none"] = Field(
        "median", description="median: stop a trial that is worse than the median of earlier ones at the same epoch"
    )
    num_epochs: int | None = Field(
        None, ge=1, lt=2**31, description="epochs of a trial; by default as many as a final run"
    )
    round_size: int = Field(
        4,
        ge=1,
        le=1000,
        description="trials of a model that do not wait for each other; the next ones know their results",
    )

    def of_model(self, name: str) -> dict[str, Range]:
        """The space of one model; settings that it shares with the others come first."""
        return {**self.space, **self.models.get(name, {})}

    def round_start(self, number: int) -> int:
        """The first trial of the round of a trial: it knows the results of all before that one."""
        return number - number % self.round_size


def place_of(setting: str, model: ModelSpec) -> tuple[str, ...]:
    """The section and key of a setting, as (optimization, learning_rate) or (model, gate_bias, z)."""
    first, *rest = setting.split(".")
    hyperparameters = hyperparameters_of(model.cell)
    if first == "gate_bias" and len(rest) == 1:
        return ("model", "gate_bias", rest[0])
    tunable = [name for name in ModelSpec.model_fields if name not in (*NOT_TUNED, "gate_bias")]
    if not rest and first in tunable:
        return ("model", first)
    if not rest and first in hyperparameters:
        return ("model", "options", first)
    if not rest and first in OptimizationSpec.model_fields:
        return ("optimization", first)
    if not rest and first in OF_TRAINING:
        return ("training", first)
    raise unknown(
        "setting", setting, [*OptimizationSpec.model_fields, *tunable, *hyperparameters, *OF_TRAINING, "gate_bias.GATE"]
    )


def applied(settings: Mapping[str, Any], spec: RunSpec) -> RunSpec:
    """A spec with these settings."""
    return RunSpec(
        task=spec.task,
        model=of_model(settings, spec.model),
        optimization=_changed(spec.optimization, _of_section("optimization", settings, spec.model)),
        training=_changed(spec.training, _of_section("training", settings, spec.model)),
    )


def of_model(settings: Mapping[str, Any], model: ModelSpec) -> ModelSpec:
    """A model with those of the settings that are its own."""
    changes: dict[str, Any] = {}
    for setting, value in settings.items():
        section, key, *inner = place_of(setting, model)
        if section == "model":
            before = {**getattr(model, key), **changes.get(key, {})} if inner else {}
            changes[key] = {**before, inner[0]: value} if inner else value
    return _changed(model, changes)


def _of_section(section: str, settings: Mapping[str, Any], model: ModelSpec) -> dict[str, Any]:
    places = {place_of(setting, model): value for setting, value in settings.items()}
    return {place[1]: value for place, value in places.items() if place[0] == section}


def read(settings: Iterable[str], spec: RunSpec) -> Settings:
    """The values that a spec has for these settings."""
    values = {}
    for setting in settings:
        value: Any = spec
        for part in place_of(setting, spec.model):
            value = value[part] if isinstance(value, dict) else getattr(value, part)
        values[setting] = value
    return values


def is_whole(setting: str, model: ModelSpec) -> bool:
    """Whether a setting is an integer, so that values of an interval are rounded."""
    section, key, *inner = place_of(setting, model)
    if inner:
        return False
    field = SECTIONS[section].model_fields[key]
    return field.annotation in (int, int | None)


def problems(tune: TuneSpec, models: Mapping[str, ModelSpec], match: str) -> Iterator[Problem]:
    """What is wrong with a space, with the key in the config where it is written."""
    for name in tune.models:
        if name not in models:
            yield Problem(("tune", "models", name), str(unknown("model", name, models)))
    for name, model in models.items():
        if not (space := tune.of_model(name)):
            yield Problem(
                ("tune", "space"), f"there is nothing to tune for {name}: expected settings, as {EXAMPLE_SPACE}"
            )
        for setting, values in space.items():
            where = (
                ("tune", "models", name, setting)
                if setting in tune.models.get(name, {})
                else ("tune", "space", setting)
            )
            try:
                section, key, *inner = place_of(setting, model)
            except ValueError as error:
                yield Problem(where, f"{error} (of {name})")
                continue
            if match == "parameters" and key == "hidden_size":
                yield Problem(where, "match: parameters chooses the hidden sizes: remove one of them")
                continue
            for end in values.ends:
                if (why := _refused(section, key, inner, end, model, is_whole(setting, model))) is not None:
                    yield Problem(where, f"{short(end)}: {why}")


def _refused(section: str, key: str, inner: list[str], end: Any, model: ModelSpec, whole: bool) -> str | None:
    """Why a value is not possible; None if it is."""
    value = round(end) if whole and isinstance(end, float) else end
    if section == "model":
        now = model.model_dump() | {"cell": model.cell}
        content = {**now, key: {**now[key], inner[0]: value} if inner else value}
    else:
        content = {key: value}
    wrong = validated(SECTIONS[section], content)[1]
    return next((problem.message for problem in wrong if problem.key[:1] == (key,)), None)


S = TypeVar("S", bound=Section)


def _changed(section: S, changes: dict[str, Any]) -> S:
    """Validated, unlike `model_copy`."""
    if not changes:
        return section
    now = {name: getattr(section, name) for name in type(section).model_fields}
    return type(section).model_validate({**now, **changes})
