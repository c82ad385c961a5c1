"""The search space: which settings are varied, for all models or for one, and over which values.

    tune:
      trials: 12
      space: {learning_rate: {log: [1e-4, 1e-2]}, hidden_size: [64, 128]}
      models: {agru: {epsilon: {log: [0.01, 1.0]}}}        # in addition, or instead of the same key of `space`

A setting is a key of `optimization`, of `model`, or batch_size; or a hyperparameter of the cell, or `gate_bias.GATE`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pydantic import BaseModel, Field, ValidationError, model_serializer, model_validator

from gatelab.errors import GatelabError, expectation, short, unknown
from gatelab.experiments.overlay import hyperparameters_of
from gatelab.numerals import before_validation
from gatelab.training.config import Problem
from gatelab.training.spec import ModelSpec, OptimizationSpec, RunSpec, Section, TrainingSpec

if TYPE_CHECKING:
    from typing_extensions import Self

Settings = dict[str, Any]  # by name, as the space has it

NOT_TUNED = ("cell", "engine", "freeze", "freeze_at", "remove", "options")  # they make another model
OF_TRAINING = ("batch_size",)
SIZES = ("hidden_size", "num_layers", "bidirectional", "embedding_size")  # they decide the number of parameters
NUMBERS = (int, float, int | None, float | None)
MOST_COMBINATIONS = 64
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


def applied(settings: Mapping[str, Any], spec: RunSpec, alone: bool = False) -> RunSpec:
    """A spec with these settings; `alone`, whether or not they fit each other and the rest."""
    changed = {
        "model": of_model(settings, spec.model, alone),
        "optimization": _changed(spec.optimization, _of_section("optimization", settings, spec.model), alone),
        "training": _changed(spec.training, _of_section("training", settings, spec.model), alone),
    }
    return spec.model_copy(update=changed) if alone else _changed(spec, changed)


def of_model(settings: Mapping[str, Any], model: ModelSpec, alone: bool = False) -> ModelSpec:
    """A model with those of the settings that are its own."""
    changes: dict[str, Any] = {}
    for setting, value in settings.items():
        section, key, *inner = place_of(setting, model)
        if section == "model":
            before = {**getattr(model, key), **changes.get(key, {})} if inner else {}
            changes[key] = {**before, inner[0]: value} if inner else value
    return _changed(model, changes, alone)


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
    return _kind(setting, model) in (int, int | None)


def _kind(setting: str, model: ModelSpec) -> Any:
    """The type of a setting; hyperparameters and biases are numbers."""
    section, key, *inner = place_of(setting, model)
    if inner:
        return bool if inner[0].startswith("learnable_") else float
    return SECTIONS[section].model_fields[key].annotation


def problems(tune: TuneSpec, specs: Mapping[str, RunSpec], match: str) -> Iterator[Problem]:
    """What is wrong with a space, with the key in the config where it is written."""
    for name in tune.models:
        if name not in specs:
            yield Problem(("tune", "models", name), str(unknown("model", name, specs)))
    for name, spec in specs.items():
        if not (space := tune.of_model(name)):
            yield Problem(
                ("tune", "space"), f"there is nothing to tune for {name}: expected settings, as {EXAMPLE_SPACE}"
            )
        wrong = []
        for setting, values in space.items():
            is_own = setting in tune.models.get(name, {})
            where = ("tune", "models", name, setting) if is_own else ("tune", "space", setting)
            wrong += [Problem(where, why) for why in _wrong_values(setting, values, spec, name, match)]
        yield from wrong or _wrong_together(space, spec, name)


def _wrong_values(setting: str, values: Range, spec: RunSpec, name: str, match: str) -> Iterator[str]:
    """What is wrong with one setting of a model."""
    try:
        place = place_of(setting, spec.model)
    except ValueError as error:
        yield f"{error} (of {name})"
        return
    if match == "parameters" and place[1] in SIZES:
        yield f"match: parameters chooses sizes, and {setting} changes them: remove one of them"
    elif values.choices is None and _kind(setting, spec.model) not in NUMBERS:
        yield f"an interval is for numbers: expected a list of values of {setting}"
    else:
        for value in _ends(setting, values, spec.model):
            try:
                read_back = read([setting], applied({setting: value}, spec, alone=True))[setting]
            except GatelabError as error:
                yield f"{short(value)}: {error}"
                continue
            if read_back != value:
                yield f"{short(value)}: this means {read_back!r}: write it so"


def _ends(setting: str, values: Range, model: ModelSpec) -> list[Any]:
    """The ends of an interval as they may be sampled, or all values of a list."""
    is_rounded = values.choices is None and is_whole(setting, model)
    return [round(end) if is_rounded else end for end in values.ends]


def _wrong_together(space: dict[str, Range], spec: RunSpec, name: str) -> Iterator[Problem]:
    """Ends of several settings that do not fit each other; of very many combinations, some."""
    ends = [_ends(setting, values, spec.model) for setting, values in space.items()]
    for combination in itertools.islice(itertools.product(*ends), MOST_COMBINATIONS):
        settings = dict(zip(space, combination, strict=True))
        try:
            applied(settings, spec)
        except GatelabError as error:
            shown = ", ".join(f"{setting}: {short(value)}" for setting, value in settings.items())
            yield Problem(("tune", "space"), f"{name} with {shown}: {error}")
            return


S = TypeVar("S", bound=Section)


def _changed(section: S, changes: dict[str, Any], alone: bool = False) -> S:
    """Validated, unlike `model_copy`."""
    if not changes:
        return section
    now = {name: getattr(section, name) for name in type(section).model_fields}
    try:
        return type(section).model_validate({**now, **changes}, context={"conflicts_later": alone})
    except ValidationError as error:
        wrong = error.errors()[0]
        if wrong["type"] == "value_error":
            raise GatelabError(str(wrong["ctx"]["error"])) from None
        raise GatelabError(f"this is {short(wrong['input'])}: {expectation(wrong['msg'])}") from None
