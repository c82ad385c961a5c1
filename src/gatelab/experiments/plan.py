"""The runs of a comparison: every model with every seed, after the trials of a search if there is one."""

from __future__ import annotations

from gatelab.errors import GatelabError
from gatelab.experiments.config import BenchSpec, same
from gatelab.experiments.planned import Planned
from gatelab.experiments.tuning.search import with_search
from gatelab.formatting import file_name
from gatelab.tasks import Task
from gatelab.training.footprint import parameter_count
from gatelab.training.spec import ModelSpec, RunSpec


def plan(bench: BenchSpec) -> list[Planned]:
    """All runs, seed by seed, so that an interrupted experiment has complete pairs. With the same seed every model gets
    the same order of examples and the same batches; the split is that of the task, the same for all seeds.
    """
    models = matched(bench) if bench.match == "parameters" else bench.models
    _refuse_same_directory(list(models))
    first = bench.training.seed
    runs = [
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
    return with_search(runs, bench.tune) if bench.tune else runs


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
