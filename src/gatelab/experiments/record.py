"""experiment.json: the description of an experiment, from which its directory can be read on any machine.

It is validated strictly, since it may come from anybody: names that become paths are checked, and equations are data.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gatelab import cells, sealed, tasks
from gatelab.disk import within
from gatelab.errors import DataError, GatelabError, first_problem
from gatelab.experiments import facts
from gatelab.experiments.config import NAME, BenchSpec
from gatelab.experiments.planned import Planned, run_path
from gatelab.experiments.stats import count_tests
from gatelab.experiments.tuning.search import Trial, trial_path, with_search
from gatelab.experiments.tuning.space import TuneSpec
from gatelab.training.manifest import BaselineFacts, versions
from gatelab.training.spec import ModelSpec, OptimizationSpec, RunSpec, TrainingSpec, made, name_and_options
from gatelab.user_code import parse

SCHEMA = 4  # 1 had no equations as data, 2 no family of tests, 3 no number of threads
READABLE = (3, SCHEMA)
EXPERIMENT, RESULTS = "experiment.json", "results.json"
TASK = re.compile(r"\w+|[^\x00-\x1f]{1,400}\.py:\w+")  # a task of the library, or FILE.py:NAME


class Strict(BaseModel):
    """A part of the file; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class TaskFacts(Strict):
    """The task in numbers."""

    what: str
    steps: int
    input_size: int
    per_step: bool
    scaled_targets: bool
    differenced: bool
    sizes: list[int] = Field(min_length=3, max_length=3)
    split: str
    source: str
    baseline: BaselineFacts | None
    vocabulary_size: int = 0  # of tokens
    in_bits: bool = False  # whether models are compared by the cross-entropy in bits, as for text
    default_bptt: int | None = None  # steps of truncated back-propagation unless the config says otherwise


class Spec(Strict):
    """A comparison as `BenchSpec.document` writes it; `_models` validates the models."""

    task: dict[str, Any]
    models: dict[str, dict[str, Any]]
    optimization: OptimizationSpec
    training: TrainingSpec
    runs: int
    match: Literal["none", "parameters"]
    base: str | None
    design: dict[str, dict[str, str]]
    ablation: bool
    tune: TuneSpec | None = None


class PlannedRun(Strict):
    """A planned run and its directory."""

    model: str
    seed: int
    place: str


class PlannedTrial(Strict):
    """A planned trial of a search and its directory."""

    model: str
    number: int
    place: str


class Family(Strict, frozen=True):
    """The tests that are corrected for together."""

    tests: int = Field(ge=0)
    studies: tuple[str, ...] = ()  # empty for an experiment that is one study


class Experiment(Strict):
    """The whole file."""

    schema_: Literal[3, 4] = Field(alias="schema")
    command: Literal["bench", "ablate"]
    spec: Spec
    classes: list[str]
    task: TaskFacts
    cells: dict[str, dict[str, Any]]
    models: dict[str, dict[str, Any]]
    runs: list[PlannedRun]
    trials: list[PlannedTrial] = []
    versions: dict[str, str]
    family: Family
    threads: int = Field(1, ge=1, le=1024)  # per run
    seconds: float | None


def planned_family(studies: dict[str, BenchSpec]) -> Family:
    """The family of tests over all studies of an experiment. It depends on the plan only, not on the outcome."""
    tests = sum(count_tests(list(spec.models), spec.base, spec.design) for spec in studies.values())
    return Family(tests=tests, studies=tuple(name for name in studies if name))


def described(spec: BenchSpec, runs: list[Planned], seconds: float, threads: int, family: Family) -> dict[str, Any]:
    """The content of experiment.json. It has equations instead of the user's code, so that a directory can be read
    on a machine without it.
    """
    models = {run.model: run.spec.model for run in runs}
    return {
        "schema": SCHEMA,
        "command": "ablate" if spec.ablation else "bench",
        "spec": spec.document(),
        "classes": list(spec.task.classes or []),
        "task": facts.of_task(spec.task),
        "cells": {name: model.cell.document() for name, model in models.items()},
        "models": {name: model.document() for name, model in models.items()},
        "runs": [
            {"model": run.model, "seed": run.seed, "place": str(run.path)} for run in runs if not isinstance(run, Trial)
        ],
        "trials": [
            {"model": run.model, "number": run.number, "place": str(run.path)} for run in runs if isinstance(run, Trial)
        ],
        "versions": versions(),
        "family": family.model_dump(mode="json"),
        "threads": threads,
        "seconds": seconds,
    }


def read_experiment(directory: Path) -> dict[str, Any]:
    """The experiment in a directory, with the equations and hyperparameters of its cells."""
    path = within(directory, directory / EXPERIMENT)
    if not path.is_file():
        raise DataError(f"{directory} does not hold an experiment: expected {EXPERIMENT} in it")
    content = sealed.read_json(path)
    if content.get("schema") not in READABLE:
        age = "a newer" if isinstance(content.get("schema"), int) and content["schema"] > SCHEMA else "another"
        raise DataError(
            f"{path} was written by {age} gatelab, with schema {content.get('schema')!r}: expected {SCHEMA}"
        )
    try:
        Experiment.model_validate(content)
        models = _models(content)
        _check_names(content)
    except ValidationError as error:
        raise DataError(f"{path} cannot be read: {first_problem(error)}") from None
    except ValueError as error:
        raise DataError(f"{path} cannot be read: {error}") from None
    return content | {"equations": facts.of_cells(models), "hyperparameters": facts.of_hyperparameters(models)}


def planned(experiment: dict[str, Any], named: str | None = None) -> list[Planned]:
    """The runs of an experiment as they were planned, for a worker that has nothing but its directory. A task of the
    user's own code is named again, since nothing that a directory holds is executed.
    """
    name, options = name_and_options(experiment["spec"]["task"])
    is_code = parse(name) is not None
    if is_code and named is None:
        raise GatelabError(
            f"the task of this experiment is {name}, Python code, which is executed only where it is named: add "
            f"--task {name}"
        )
    if named is not None and (not is_code or named.rpartition(":")[2] != name.rpartition(":")[2]):
        raise GatelabError(f"--task is {named}, and the task of this experiment is {name}: leave it out, or name that")
    task = tasks.get(named or name, **options)
    if task.user_path is not None and not task.is_here():
        raise DataError(
            f"the data of this experiment is in {task.user_path}, which is not on this machine: put it there, or plan "
            "the experiment again with a path that all machines have"
        )
    models = _models(experiment)
    shared = {part: experiment["spec"][part] for part in ("optimization", "training")}
    runs = [
        Planned(
            run["model"],
            run["seed"],
            made(
                RunSpec,
                {
                    "task": task,
                    "model": models[run["model"]],
                    "optimization": shared["optimization"],
                    "training": {**shared["training"], "seed": run["seed"]},
                },
                f"the run {run['place']} of {EXPERIMENT}",
            ),
        )
        for run in experiment["runs"]
    ]
    tune = experiment["spec"].get("tune")
    return with_search(runs, TuneSpec.model_validate(tune)) if tune else runs


def _models(content: dict[str, Any]) -> dict[str, ModelSpec]:
    if not content["models"].keys() == content["cells"].keys() or not content["models"]:
        raise GatelabError("expected a cell for each model, and at least one model")
    return {
        name: ModelSpec.model_validate({**model, "cell": cells.choose(content["cells"][name])})
        for name, model in content["models"].items()
    }


def _check_names(content: dict[str, Any]) -> None:
    """Names become paths: the same rules apply as in a config."""
    spec = content["spec"]
    for name in (*content["models"], *spec["models"], *spec["design"], *([spec["base"]] if spec["base"] else [])):
        if not NAME.fullmatch(name):
            raise GatelabError(f"a model has the name {name!r}: expected a letter or digit, then also . + - _ = ,")
    if not isinstance(spec["task"].get("name"), str) or not TASK.fullmatch(spec["task"]["name"]):
        raise GatelabError(f"the task is {spec['task'].get('name')!r}: expected its name")
    if (spec["base"] is not None and spec["base"] not in content["models"]) or spec["design"].keys() - content[
        "models"
    ]:
        raise GatelabError("base or design: unknown model")
    tests, own = content["family"]["tests"], count_tests(list(spec["models"]), spec["base"], spec["design"])
    if tests < own or (tests > own and not content["family"]["studies"]):
        raise GatelabError(f"family: {tests} tests, expected {own}")
    if content["command"] == "ablate" and spec["base"] is None:
        raise GatelabError("base: expected the base model of an ablation")
    if len({tuple(levels) for levels in spec["design"].values()}) > 1:
        raise GatelabError("design: expected the same factors for every model")
    for run in content["runs"]:
        if run["model"] not in content["models"] or run["place"] != str(run_path(run["model"], run["seed"])):
            raise GatelabError(f"the run {run} has an unknown model or an unexpected directory")
    for trial in content.get("trials", ()):
        if trial["model"] not in content["models"] or trial["place"] != str(
            trial_path(trial["model"], trial["number"])
        ):
            raise GatelabError(f"the trial {trial} has an unknown model or an unexpected directory")
