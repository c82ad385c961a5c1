"""The results of an experiment: typed numbers, gathered from the run directories, for every renderer.

results.json holds these; sentences are made of them in `report/words`.
"""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field

from gatelab import sealed
from gatelab.disk import within
from gatelab.errors import DataError
from gatelab.experiments import stats
from gatelab.experiments.claims import Claims
from gatelab.experiments.experiment import RESULTS, Experiment, FamilyOfTests
from gatelab.experiments.failures import Failures, failures
from gatelab.experiments.planned import RunName
from gatelab.experiments.stats import BySeed, Design, Effect, PairedComparison, Summary
from gatelab.experiments.tuning.outcome import SearchResult, Settled, is_as_chosen, search_result, settled
from gatelab.formatting import BITS, PERCENT, SMALLER_IS_BETTER
from gatelab.record import UNUSABLE, Record
from gatelab.tasks import Baseline
from gatelab.training import Run
from gatelab.training.manifest import Identity, Manifest
from gatelab.training.process import is_busy

FINEST = 1e-3  # of a metric: no difference below this is called a large one


class RunResult(Record):
    """The outcome of one run."""

    seed: int
    place: str  # the directory, inside that of the experiment
    status: Literal["done", "running", "failed", "diverged", "interrupted", "missing", "damaged"] = "missing"
    reason: str = ""  # of a failure
    epochs: int = 0
    identity: Identity | None = None
    metrics: dict[str, float] = Field(
        default_factory=dict
    )  # on the test set, and what else there is one number of; empty unless done


class ModelResult(Record):
    """All runs of one model."""

    spec: dict[str, Any]
    runs: tuple[RunResult, ...]
    # metric → one curve per finished run, a value per epoch
    curves: dict[str, tuple[tuple[float, ...], ...]] = Field(default_factory=dict)
    confusion: tuple[tuple[int, ...], ...] | None = None  # true by predicted, summed over the finished runs
    summaries: dict[str, Summary] = Field(default_factory=dict)  # by metric, over the finished runs

    @property
    def done(self) -> list[RunResult]:
        """The runs that finished: all numbers are of these."""
        return [run for run in self.runs if run.status == "done"]

    @property
    def counts(self) -> dict[str, int]:
        """How many runs ended in which way."""
        return dict(Counter(run.status for run in self.runs))

    def mean_curve(self, metric: str) -> list[float]:
        """The mean over the runs, epoch by epoch, as long as all of them were training.

        Where runs stop early the mean of those that are left would be that of another set of seeds, and jump.
        """
        curves = self.curves.get(metric, ())
        shortest = min(map(len, curves), default=0)
        return [sum(curve[epoch] for curve in curves) / len(curves) for epoch in range(shortest)]


class Results(Record):
    """What came out of an experiment."""

    schema_: Literal[3] = Field(3, alias="schema")
    metric: str | None  # the one that models are compared by; None if no run has finished
    seconds: float | None  # wall clock
    classes: tuple[str, ...]
    baseline: Baseline | None
    base: str | None
    design: Design
    family: FamilyOfTests
    models: dict[str, ModelResult]
    comparisons: tuple[PairedComparison, ...]
    effects: tuple[Effect, ...]
    failures: dict[str, Failures] = Field(default_factory=dict)  # by model, where there are enough runs
    search: SearchResult | None = None

    @property
    def means(self) -> dict[str, Summary]:
        """The summary of the metric by model, for those with a finished run."""
        return {n: m.summaries[self.metric] for n, m in self.models.items() if self.metric and m.summaries}

    def write(self, directory: Path) -> None:
        """Into results.json."""
        sealed.write_json(directory / RESULTS, self.document())


def read_results(directory: Path) -> Results:
    """From results.json; what does not fit its schema is an error that says where."""
    path = within(directory, directory / RESULTS)
    content = sealed.read_json(path)
    try:
        return Results.read(content, path)
    except DataError as error:
        raise DataError(f"{error}; make it again with gatelab report") from None


def gather(experiment: Experiment, directory: Path) -> Results:
    """The results of all runs, their statistics, and the comparisons between models."""
    outcomes: dict[str, list[_Outcome]] = {name: [] for name in experiment.models}
    as_chosen = settled(experiment, directory)
    for run in experiment.runs:
        outcomes[run.model].append(_outcome(run, as_chosen, directory))
    spec, family = experiment.spec, experiment.family
    models = {name: _model(as_chosen.models[name].document(), runs) for name, runs in outcomes.items()}
    metric = next((main_metric(r.metrics, spec.training.loss) for m in models.values() for r in m.done), None)
    values = by_seed(models, metric) if metric else {}
    larger_is_better = metric not in SMALLER_IS_BETTER
    return Results(
        metric=metric,
        seconds=experiment.seconds,
        classes=experiment.task.preparation.classes or (),
        baseline=experiment.task.baseline,
        base=spec.base,
        design=spec.design,
        family=family,
        models=models,
        comparisons=tuple(stats.compare(values, family.tests, larger_is_better, spec.base)) if metric else (),
        effects=tuple(stats.effects(values, spec.design, family.tests)) if metric else (),
        failures=failures_of(models, metric) if metric else {},
        search=search_result(experiment, directory),
    )


def manifests(experiment: Experiment, directory: Path) -> list[Manifest]:
    """The manifests of the runs that can be read."""
    readable = []
    for planned in experiment.runs:
        with contextlib.suppress(*UNUSABLE):  # the results name them as damaged
            if (run := Run(within(directory, directory / planned.path))).exists() and run.spec():
                readable.append(run.manifest())
    return readable


@dataclass(frozen=True)
class _Outcome:
    """A run as it was read: its result, its epochs, and its confusion matrix."""

    result: RunResult
    history: list[dict[str, Any]] = field(default_factory=list)
    confusion: np.ndarray | None = None


def _model(spec: dict[str, Any], outcomes: list[_Outcome]) -> ModelResult:
    outcomes = _consistent(outcomes)
    done = [outcome for outcome in outcomes if outcome.result.status == "done"]
    matrices = [outcome.confusion for outcome in done if outcome.confusion is not None]  # of all of them, or of none
    names = done[0].result.metrics if done else ()
    return ModelResult(
        spec=spec,
        runs=tuple(outcome.result for outcome in outcomes),
        curves=curves([outcome.history for outcome in done]),
        confusion=tuple(map(tuple, np.sum(matrices, 0).tolist())) if matrices else None,
        summaries={
            name: stats.summarise([o.result.metrics[name] for o in done], 1 if name in PERCENT else math.inf)
            for name in names
        },
    )


def _consistent(outcomes: list[_Outcome]) -> list[_Outcome]:
    """Runs of one model have the same metrics and classes; one that differs from the first is damaged."""

    def kind(outcome: _Outcome) -> tuple[Any, ...]:
        matrix = None if outcome.confusion is None else outcome.confusion.shape
        return outcome.result.metrics.keys(), outcome.history[0].keys(), matrix

    first = next((outcome for outcome in outcomes if outcome.result.status == "done"), None)
    checked = []
    for outcome in outcomes:
        if first is not None and outcome.result.status == "done" and kind(outcome) != kind(first):
            reason = "its metrics or classes are not those of the other runs of this model"
            seed, place = outcome.result.seed, outcome.result.place
            outcome = _Outcome(RunResult(seed=seed, place=place, status="damaged", reason=reason))
        checked.append(outcome)
    return checked


def _outcome(planned: RunName, experiment: Settled, directory: Path) -> _Outcome:
    """What became of a run. Damage is an outcome like others."""
    seed, place, model = planned.seed, str(planned.path), planned.model
    try:
        run = Run(within(directory, directory / place))
        if not run.exists():
            reason = run.last_log_line() if not _is_held(run, planned, directory) else ""  # before it was a run
            status: Any = "failed" if reason else "missing"
            return _Outcome(result=RunResult(seed=seed, place=place, status=status, reason=reason))
        manifest, history = run.manifest(), run.metrics()
        if manifest.spec.model != experiment.models[model].document() or manifest.seed != seed:
            raise DataError(f"it is a run of another model or seed than {model}, {seed}")
        if not is_as_chosen(run, experiment.chosen.get(model)):
            raise DataError(f"it is a run with other settings than those of the best trial of {model}")
        result = _result(run, planned, manifest, history, directory)
        return _Outcome(result=result, history=history, confusion=_confusion(run) if result.status == "done" else None)
    except UNUSABLE as error:
        reason = str(error) or type(error).__name__
        return _Outcome(result=RunResult(seed=seed, place=place, status="damaged", reason=reason))


def _result(
    run: Run, planned: RunName, manifest: Manifest, history: list[dict[str, Any]], directory: Path
) -> RunResult:
    if manifest.status == "running" and not _is_held(run, planned, directory):
        manifest = run.manifest()  # it may have ended since it was read
    status, reason = manifest.status, manifest.divergence.what if manifest.divergence else manifest.error
    if status == "running" and not _is_held(run, planned, directory):
        holder = Claims(directory).holder(planned.path)
        status, reason = "failed", (holder and holder.reason) or "its process ended without a message"
    metrics = {}
    if status == "done":
        _check_test(manifest)
        metrics = {
            **manifest.test,
            "best_epoch": float(manifest.best_epoch or 0),
            "seconds_per_epoch": sum(line["seconds"] for line in history) / len(history),
            "parameters": float(manifest.parameters),
        }
    return RunResult(
        seed=planned.seed,
        place=str(planned.path),
        status=status,
        reason=reason,
        epochs=len(history),
        identity=manifest.identity,
        metrics=metrics,
    )


def _is_held(run: Run, planned: RunName, directory: Path) -> bool:
    """Whether a process has the run: on this machine, or on another that holds a claim."""
    return is_busy(run.path) or Claims(directory).state(planned.path) == "held"


def _check_test(manifest: Manifest) -> None:
    """Whether the test metrics are possible."""
    test, best = manifest.test, manifest.best_epoch
    shares = [test[name] for name in PERCENT if name in test]
    if not {"accuracy", "mse", "mae"} & test.keys() or not all(0 <= share <= 1 for share in shares) or not best:
        raise DataError(f"manifest.json: the test metrics {test} of epoch {best} make no sense")


def curves(histories: list[list[dict[str, Any]]]) -> dict[str, tuple[tuple[float, ...], ...]]:
    """For each metric one curve per run."""
    names = [n for n in (histories[0][0] if histories else {}) if n.startswith(("train_", "validation_"))]
    return {
        name: tuple(tuple(line[name] for line in history) for history in histories)
        for name in names
        if name != "validation_seconds"
    }


def _confusion(run: Run) -> np.ndarray | None:
    """The confusion matrix of a run; None unless there is one label per sequence."""
    saved = run.predictions()
    targets, scores = saved["answers"], saved["predictions"]
    if targets.ndim != 1 or targets.dtype.kind != "i":
        return None
    from sklearn.metrics import confusion_matrix

    matrix: np.ndarray = confusion_matrix(targets, scores.argmax(1), labels=np.arange(scores.shape[1]))
    return matrix


def main_metric(metrics: dict[str, float], loss: str) -> str | None:
    """What models are compared by: bits for text, accuracy for classes, else the squared or the absolute error."""
    return next((name for name in (*BITS, "accuracy", "mae" if loss == "mae" else "mse") if name in metrics), None)


def failures_of(models: dict[str, ModelResult], metric: str) -> dict[str, Failures]:
    """How often each model fails, for those with enough runs."""
    known = {}
    for name, values in by_seed(models, metric).items():
        diverged = [run.seed for run in models[name].runs if run.status == "diverged"]
        larger_is_better, finest = metric not in SMALLER_IS_BETTER, _finest(models[name], metric, list(values.values()))
        if (found := failures(values, diverged, larger_is_better, finest)) is not None:
            known[name] = found
    return known


def _finest(model: ModelResult, metric: str, values: list[float]) -> float:
    """The difference between two runs that is certainly none: that of one test example, and at least a thousandth."""
    if metric not in PERCENT:
        return FINEST * float(np.median(values)) if values else 0.0
    return max(FINEST, len(model.done) / sum(map(sum, model.confusion))) if model.confusion else FINEST


def by_seed(models: dict[str, ModelResult], metric: str) -> dict[str, BySeed]:
    """One number for each finished run."""
    return {name: {run.seed: run.metrics[metric] for run in model.done} for name, model in models.items()}
