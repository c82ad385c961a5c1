"""The runs of a comparison: every model with every seed, each independent of the others."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gatelab.disk import within
from gatelab.errors import GatelabError
from gatelab.experiments.config import BenchSpec, same
from gatelab.formatting import file_name
from gatelab.tasks import Task
from gatelab.training import Run
from gatelab.training.footprint import parameter_count
from gatelab.training.spec import ModelSpec, RunSpec


@dataclass(frozen=True)
class Planned:
    """One run of a plan."""

    model: str
    seed: int
    spec: RunSpec

    @property
    def title(self) -> str:
        """For people."""
        return f"{self.model}, seed {self.seed}"

    @property
    def path(self) -> Path:
        """The run directory, relative to that of the experiment."""
        return run_path(self.model, self.seed)

    def settled(self, directory: Path) -> RunSpec | None:
        """The spec; None as long as it depends on runs of the experiment in this directory that have not ended."""
        return self.spec

    def refuse_another(self, directory: Path) -> None:
        """Raise if the directory of the run leads elsewhere, or holds a run of another spec."""
        path = within(directory, directory / self.path)
        if Run(path).exists() and (spec := self.settled(directory)) is not None:
            Run(path).checked_against(spec)


def run_path(model: str, seed: int) -> Path:
    """The directory of a run, relative to that of the experiment."""
    return Path("runs") / file_name(model) / f"seed-{seed}"


def plan(bench: BenchSpec) -> list[Planned]:
    """All runs, seed by seed, so that an interrupted experiment has complete pairs. With the same seed every model gets
    the same order of examples and the same batches; the split is that of the task, the same for all seeds.
    """
    models = matched(bench) if bench.match == "parameters" else bench.models
    _refuse_same_directory(list(models))
    first = bench.training.seed
    return [
        Planned(
            name,
            seed,
            RunSpec(
                task=bench.task,
                model=model,
                optimization=bench.optimization,
                training=bench.training.model_copy(update={"seed": seed}),
            ),
        )
        for seed in range(first, first + bench.runs)
        for name, model in models.items()
    ]


def _refuse_same_directory(models: list[str]) -> None:
    """Raise if the names of two models give the same directory."""
    by_directory: dict[str, str] = {}
    for name in models:
        other = by_directory.setdefault(file_name(name).lower(), name)
        if other != name:
            raise GatelabError(f"models.{name}: it would have the same directory as {other!r}: choose another name")


def matched(bench: BenchSpec) -> dict[str, ModelSpec]:
    """The models with hidden sizes whose numbers of parameters are nearest to that of the first model."""
    target = parameter_count(next(iter(bench.models.values())), bench.task)
    models = {
        name: model.model_copy(update={"hidden_size": _nearest(model, bench.task, target)})
        for name, model in bench.models.items()
    }
    for name, other in same(models):
        raise GatelabError(
            f"models.{name}: with match: parameters this becomes the same model as {other!r}: remove one of them"
        )
    return models


def _nearest(model: ModelSpec, task: Task, target: int) -> int:
    """The hidden size whose number of parameters is nearest to `target`, by bisection."""

    def count(hidden_size: int) -> int:
        return parameter_count(model.model_copy(update={"hidden_size": hidden_size}), task)

    high = 1
    while count(high) < target:
        high *= 2
    low = high // 2 or 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if count(middle) < target else (low, middle)
    return min((low, high), key=lambda size: abs(count(size) - target))
