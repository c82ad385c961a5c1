"""experiment.json: an experiment as it was planned, from which its directory can be read on any machine.

It is read strictly, since it may come from anybody: names that become paths are checked, and equations are data.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, model_validator

from gatelab import sealed, tasks
from gatelab.disk import within
from gatelab.errors import DataError, GatelabError
from gatelab.experiments import facts
from gatelab.experiments.config import NAME, BenchSpec
from gatelab.experiments.planned import Planned, RunName
from gatelab.experiments.stats import count_tests
from gatelab.experiments.tuning.search import Trial, TrialName, with_search
from gatelab.experiments.tuning.space import TuneSpec
from gatelab.record import Record
from gatelab.training.manifest import versions
from gatelab.training.spec import ModelSpec, OptimizationSpec, RunSpec, TrainingSpec, made, name_and_options
from gatelab.user_code import parse

if TYPE_CHECKING:
    from typing_extensions import Self

SCHEMA = 5
EXPERIMENT, RESULTS = "experiment.json", "results.json"
TASK = re.compile(r"\w+|[^\x00-\x1f]{1,400}\.py:\w+")  # a task of the library, or FILE.py:NAME


def _with_equations(value: Any) -> Any:
    """A model of a file has the equations of its cell; a name could be that of a Python file, which would be run."""
    if not isinstance(value, ModelSpec) and not (isinstance(value, dict) and isinstance(value.get("cell"), dict)):
        raise ValueError("expected a model with the equations of its cell")
    return value


BuiltModel = Annotated[ModelSpec, BeforeValidator(_with_equations), PlainSerializer(ModelSpec.self_contained)]


class Comparison(Record):
    """A comparison as its config has it."""

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

    @classmethod
    def of(cls, spec: BenchSpec) -> Comparison:
        """That of a config."""
        return cls.read(spec.document(), "the config")


class FamilyOfTests(Record):
    """The tests that are corrected for together."""

    tests: int = Field(ge=0)
    studies: tuple[str, ...] = ()  # empty for an experiment that is one study


class Experiment(Record):
    """What was planned, and how long it has taken so far."""

    schema_: Literal[5] = Field(5, alias="schema")
    spec: Comparison
    task: facts.TaskFacts
    models: dict[str, BuiltModel] = Field(min_length=1)  # as they are built: sizes may be matched
    runs: tuple[RunName, ...]
    trials: tuple[TrialName, ...] = ()
    versions: dict[str, str]
    family: FamilyOfTests
    threads: int = Field(ge=1, le=1024)  # per run
    seconds: float

    @model_validator(mode="after")
    def _fits(self) -> Self:
        for problem in _problems(self):
            raise ValueError(problem)
        return self

    @property
    def command(self) -> Literal["bench", "ablate"]:
        """The command that makes such experiments."""
        return "ablate" if self.spec.ablation else "bench"

    @property
    def base(self) -> ModelSpec:
        """The base model of an ablation."""
        assert self.spec.base is not None
        return self.models[self.spec.base]

    @property
    def names(self) -> tuple[RunName | TrialName, ...]:
        """The trials of its search, then its runs."""
        return (*self.trials, *self.runs)

    @cached_property
    def equations(self) -> dict[str, facts.Equations]:
        """The equations of every model, with removed gates replaced."""
        return {name: facts.equations(model) for name, model in self.models.items()}

    def write(self, directory: Path) -> None:
        """Into experiment.json."""
        sealed.write_json(directory / EXPERIMENT, self.document())


def planned_family(studies: dict[str, BenchSpec]) -> FamilyOfTests:
    """The family of tests over all studies of an experiment. It depends on the plan only, not on the outcome."""
    tests = sum(count_tests(list(spec.models), spec.base, spec.design) for spec in studies.values())
    return FamilyOfTests(tests=tests, studies=tuple(name for name in studies if name))


def experiment_of(
    spec: BenchSpec, runs: list[Planned], seconds: float, threads: int, family: FamilyOfTests
) -> Experiment:
    """The experiment of a plan. It has equations instead of the user's code, so that a directory can be read on a
    machine without it.
    """
    return Experiment(
        spec=Comparison.of(spec),
        task=facts.of_task(spec.task),
        models={run.model: run.spec.model for run in runs},
        runs=tuple(RunName(run.model, run.seed) for run in runs if not isinstance(run, Trial)),
        trials=tuple(TrialName(run.model, run.number) for run in runs if isinstance(run, Trial)),
        versions=versions(),
        family=family,
        threads=threads,
        seconds=seconds,
    )


def read_experiment(directory: Path) -> Experiment:
    """The experiment in a directory."""
    path = within(directory, directory / EXPERIMENT)
    if not path.is_file():
        raise DataError(f"{directory} does not hold an experiment: expected {EXPERIMENT} in it")
    content = sealed.read_json(path)
    if content.get("schema") != SCHEMA:
        age = "a newer" if isinstance(content.get("schema"), int) and content["schema"] > SCHEMA else "another"
        raise DataError(
            f"{path} was written by {age} gatelab, with schema {content.get('schema')!r}: expected {SCHEMA}"
        )
    return Experiment.read(content, path)


def planned(experiment: Experiment, named: str | None = None) -> list[Planned]:
    """The runs of an experiment as they were planned, for a worker that has nothing but its directory. A task of the
    user's own code is named again, since nothing that a directory holds is executed.
    """
    name, options = name_and_options(experiment.spec.task)
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
    spec = experiment.spec
    runs = [
        Planned(
            run.model,
            run.seed,
            made(
                RunSpec,
                {
                    "task": task,
                    "model": experiment.models[run.model],
                    "optimization": spec.optimization,
                    "training": spec.training.model_copy(update={"seed": run.seed}),
                },
                f"the run {run.path} of {EXPERIMENT}",
            ),
        )
        for run in experiment.runs
    ]
    return with_search(runs, spec.tune) if spec.tune else runs


def _problems(experiment: Experiment) -> Iterator[str]:
    """What does not fit together. Names become paths: the same rules apply as in a config."""
    spec, models, family = experiment.spec, experiment.models, experiment.family
    for name in (*models, *spec.models, *spec.design, *([spec.base] if spec.base else [])):
        if not NAME.fullmatch(name):
            yield f"a model has the name {name!r}: expected a letter or digit, then also . + - _ = ,"
    task = spec.task.get("name")
    if not isinstance(task, str) or not TASK.fullmatch(task):
        yield f"the task is {task!r}: expected its name"
    if (spec.base is not None and spec.base not in models) or spec.design.keys() - models.keys():
        yield "base or design: unknown model"
    if spec.ablation and spec.base is None:
        yield "base: expected the base model of an ablation"
    if len({tuple(levels) for levels in spec.design.values()}) > 1:
        yield "design: expected the same factors for every model"
    expected = count_tests(list(spec.models), spec.base, spec.design)
    if family.tests < expected or (family.tests > expected and not family.studies):
        yield f"family: {family.tests} tests, expected {expected}"
    for run in experiment.names:
        if run.model not in models:
            yield f"{run.title}: unknown model"
