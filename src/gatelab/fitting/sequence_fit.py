"""A fit to sequences with targets: a normal run on the task `files`, with the network of the estimators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from gatelab.analysis.predictions import Predictions, predictions_of
from gatelab.analysis.subject import Subject
from gatelab.errors import GatelabError
from gatelab.estimators import defaults, specs
from gatelab.estimators.classifier import RecurrentClassifier
from gatelab.estimators.regressor import RecurrentRegressor
from gatelab.estimators.restarting import EndedRun
from gatelab.fitting import gap
from gatelab.fitting.comparison import MethodComparison, compare
from gatelab.fitting.gap import Gap
from gatelab.models import Model
from gatelab.tasks.own.files import Files
from gatelab.training import Run, RunSpec, config
from gatelab.training.config import Key
from gatelab.training.evaluation import evaluate
from gatelab.training.objective import Objective


@dataclass(frozen=True)
class SequenceFit:
    """A finished run, its predictions for the test set, and simple methods beside it."""

    task: Files
    spec: RunSpec
    run: Run
    predictions: Predictions
    comparison: MethodComparison
    gap: Gap | None = None  # between validation and test, if it is no chance
    restarted: str = ""  # why it is the second run
    stuck: str = ""  # that nothing was learned


def spec_of(
    task: Files,
    *,
    cell: str | None,
    epochs: int | None,
    seed: int,
    threads: int | None,
    changes: Mapping[Key, Any],
) -> RunSpec:
    """The spec with the estimators' defaults, as far as they make sense for the data; `changes` override it."""
    kind = RecurrentRegressor if task.classes is None else RecurrentClassifier
    chosen: dict[str, Any] = {"cell": cell or defaults.CELL, "max_epochs": epochs}
    if task.per_step:
        chosen |= {"pool": "last", "stem": "none"}  # every step has its own answer
    elif task.vocabulary:
        chosen |= {"stem": "none"}  # tokens are no signal: a stride would skip words
    # A checkpoint every minute: epochs of small data take less time than writing one.
    keep = "best" if task.sizes[1] else "last"
    spec = specs.run_spec(
        kind(**chosen), task, "", {"num_epochs": "--epochs"}, seed=seed, threads=threads, keep=keep, checkpoint="end"
    )
    if not changes:
        return spec
    if wrong := [key for key in changes if key[0] == "task"]:
        raise GatelabError(f"--set {'.'.join(map(str, wrong[0]))} is an option of the data: use --option instead")
    changed = config.parse(config.changed(spec.document(), changes), "--set", changes=changes)
    return changed.model_copy(update={"task": task})  # with the data that is read


def judge(found: EndedRun) -> SequenceFit:
    """The fit of a finished run."""
    task, run = cast(Files, found.spec.task), found.outcome.run
    model = cast(Model, run.model())
    ours = predictions_of(Subject(run, task, model, 0))
    worse = None
    if task.sizes[1] and not task.per_step:
        answers = evaluate(model, task.validation, Objective(task, found.spec.training))[1].numpy()
        predicted = answers if task.classes is None else answers.argmax(-1)
        worse = gap.found((predicted, task.validation.targets.numpy()), (ours.predicted, ours.targets))
    return SequenceFit(task, found.spec, run, ours, compare(task, ours), worse, found.restarted, found.stuck)
