"""What came out of a search: the chosen settings, and what the search says about the models."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Literal

import numpy as np

from gatelab.experiments.experiment import Experiment
from gatelab.experiments.tuning import space
from gatelab.experiments.tuning.search import EndedTrial, best, ended_trial, trial_path
from gatelab.experiments.tuning.space import TuneSpec
from gatelab.formatting import listed
from gatelab.record import UNUSABLE, Record
from gatelab.training import Run

MIN_FREE = 3  # degrees of freedom, below which a fit says nothing
TIE = 1e-9  # relative difference
RESAMPLES = 2000  # of the bootstrap
LEVEL = 0.95


class TrialResult(Record):
    """One trial."""

    number: int
    place: str
    status: Literal["done", "diverged", "failed", "damaged"]
    settings: dict[str, Any]
    score: float | None  # best validation score; errors are negative, so that larger is better
    epochs: int
    pruned: bool


class ExpectedBest(Record):
    """The best score that a number of trials is expected to find, with its interval."""

    trials: int
    mean: float
    low: float | None = None
    high: float | None = None


class ModelSearch(Record):
    """The search of one model."""

    trials: tuple[TrialResult, ...]
    chosen: int | None  # the number of the best trial
    expected: tuple[ExpectedBest, ...] = ()
    explained: dict[str, float | None]  # share of the variance of scores, by setting
    spread: float | None = None  # the best score minus the median one: what an arbitrary setting costs


class SearchResult(Record):
    """The search of all models."""

    metric: Literal["accuracy", "loss"]
    sampler: Literal["random", "tpe"]
    pruner: Literal["median", "none"]
    trials: int  # per model
    space: dict[str, Any]  # by model, as the config has it
    models: dict[str, ModelSearch]
    leaders: tuple[str, ...] = ()  # the model with the largest expected best score, by number of trials
    confidence: tuple[float, ...] = ()  # the share of bootstrap samples that have the same leader


def search_result(experiment: Experiment, directory: Path) -> SearchResult | None:
    """The result of a search as far as it has come; None if there is none."""
    if (tune := experiment.spec.tune) is None:
        return None
    trials = {name: ended(tune, name, directory) for name in experiment.models}
    values = {name: _scores(found, trials) for name, found in trials.items()}
    complete = all(len(found) == tune.trials for found in trials.values()) and all(v.size for v in values.values())
    leaders, confidence = _leaders(values, tune) if complete else ((), ())
    task, monitor = experiment.task, experiment.spec.training.monitor
    by_accuracy = task.preparation.classes is not None and not task.in_bits
    return SearchResult(
        metric=monitor if monitor != "auto" else "accuracy" if by_accuracy else "loss",
        sampler=tune.sampler,
        pruner=tune.pruner,
        trials=tune.trials,
        space={name: {key: values.model_dump() for key, values in tune.of_model(name).items()} for name in trials},
        models={name: _model(found, values[name], tune, name) for name, found in trials.items()},
        leaders=leaders,
        confidence=confidence,
    )


def ended(tune: TuneSpec, model: str, directory: Path) -> list[EndedTrial]:
    """The trials of a model that have ended."""
    trials = []
    for number in range(tune.trials):
        try:
            trials.append(ended_trial(tune, model, number, directory))
        except UNUSABLE:  # damage is an outcome like others
            trials.append(EndedTrial(number, "damaged", {}, []))
    return [trial for trial in trials if trial is not None]


class Settled(Experiment):
    """An experiment whose models have the settings that were chosen for them, as their final runs do."""

    chosen: dict[str, dict[str, Any]]  # all of these settings, by model


def settled(experiment: Experiment, directory: Path) -> Settled:
    """The experiment with the settings that its search has chosen so far."""
    models, chosen = dict(experiment.models), dict[str, dict[str, Any]]()
    for name, model in models.items():
        if (tune := experiment.spec.tune) is None:
            break
        trials = ended(tune, name, directory)
        if len(trials) == tune.trials and any(trial.score is not None for trial in trials):
            chosen[name] = best(trials, name).settings
            models[name] = space.of_model(chosen[name], model)
    return Settled(**{**experiment.fields(), "models": models, "chosen": chosen})


def is_as_chosen(run: Run, chosen: dict[str, Any] | None) -> bool:
    """Whether a final run has the settings that were chosen for its model."""
    return not chosen or space.read(chosen, run.spec()) == chosen


def _scores(trials: list[EndedTrial], of_all: dict[str, list[EndedTrial]]) -> np.ndarray:
    """One score for each trial. One that diverged counts as the worst score of any model."""
    known = [trial.score for found in of_all.values() for trial in found if trial.score is not None]
    if not known:
        return np.empty(0)
    return np.array([min(known) if trial.score is None else trial.score for trial in trials])


def _model(trials: list[EndedTrial], scores: np.ndarray, tune: TuneSpec, name: str) -> ModelSearch:
    finished = any(trial.score is not None for trial in trials)
    return ModelSearch(
        trials=tuple(
            TrialResult(
                number=trial.number,
                place=str(trial_path(name, trial.number)),
                status=trial.status,
                settings=trial.settings,
                score=trial.score,
                epochs=len(trial.scores),
                pruned=trial.pruned,
            )
            for trial in trials
        ),
        chosen=best(trials, name).number if finished else None,
        expected=tuple(_expected(scores, tune)) if finished else (),
        explained={
            setting: explained(trials, scores, setting, values) if finished else None
            for setting, values in tune.of_model(name).items()
        },
        spread=float(scores.max() - np.median(scores)) if finished else None,
    )


def _expected(scores: np.ndarray, tune: TuneSpec) -> list[ExpectedBest]:
    """By number of trials. Trials of TPE depend on each other: then it is what this search had found by then."""
    if tune.sampler == "tpe":
        found = np.maximum.accumulate(scores)
        return [ExpectedBest(trials=n, mean=float(found[n - 1])) for n in range(1, len(scores) + 1)]
    weights = best_of_weights(len(scores))
    means = weights @ np.sort(scores)
    samples = np.sort(_resampled(scores, len(scores)), axis=1) @ weights.T
    low, high = np.quantile(samples, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    # The best of nearly all trials is the best one or nearly so, which resampling cannot exceed: too short an interval.
    ends = [(float(low[i]), float(high[i])) if 2 * (i + 1) <= len(scores) else (None, None) for i in range(len(scores))]
    return [ExpectedBest(trials=i + 1, mean=float(means[i]), low=a, high=b) for i, (a, b) in enumerate(ends)]


def best_of_weights(count: int) -> np.ndarray:
    """(n − 1, i): the probability that the i-th smallest of `count` values is the largest of n that are drawn without
    replacement. The mean with these weights is the unbiased estimate of the expected best of n.
    """
    total = [math.comb(count, n) for n in range(1, count + 1)]
    return np.array([[math.comb(i, n - 1) / total[n - 1] for i in range(count)] for n in range(1, count + 1)])


def _leaders(values: dict[str, np.ndarray], tune: TuneSpec) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """The model with the largest expected best score by number of trials, and how often resampled trials agree."""
    if tune.sampler == "tpe":
        return _first(list(values), np.array([np.maximum.accumulate(found) for found in values.values()])), ()
    weights = best_of_weights(tune.trials)
    means = np.array([weights @ np.sort(found) for found in values.values()])
    samples = np.stack([np.sort(_resampled(found, tune.trials), axis=1) @ weights.T for found in values.values()])
    leads = np.isclose(means, means.max(0), rtol=TIE)  # (models, n)
    wins = np.isclose(samples, samples.max(0), rtol=TIE)  # (models, samples, n); ties are shared
    agree = ((wins & leads[:, None]).sum(0) / wins.sum(0)).mean(0)
    return _first(list(values), means), tuple(float(share) for share in agree)


def _first(names: list[str], means: np.ndarray) -> tuple[str, ...]:
    """The models with the largest value of each column; several if they tie."""
    leads = np.isclose(means, means.max(0), rtol=TIE)
    return tuple(listed([name for name, first in zip(names, column, strict=True) if first]) for column in leads.T)


def _resampled(scores: np.ndarray, count: int) -> np.ndarray:
    """(RESAMPLES, count). The same trials of every model are drawn, since they share their random numbers."""
    drawn = np.random.RandomState(0).randint(0, len(scores), (RESAMPLES, count))
    resampled: np.ndarray = scores[drawn]
    return resampled


def explained(trials: list[EndedTrial], scores: np.ndarray, name: str, values: space.Range) -> float | None:
    """The share of the variance of scores that a setting explains by itself: the adjusted R² of a quadratic curve (in
    the logarithm of a setting that is sampled so), or of the means of a list's values. None with too few trials.
    """
    kept = [i for i, trial in enumerate(trials) if name in trial.settings]
    if not kept or not (variance := float(scores[kept].var())):
        return None
    if values.choices is not None:
        columns = [[float(trials[i].settings[name] == choice) for choice in values.choices] for i in kept]
    else:
        columns = [[1.0, at, at * at] for at in (values.position(trials[i].settings[name]) for i in kept)]
    design = np.array(columns)
    free = len(kept) - int(np.linalg.matrix_rank(design))
    if free < MIN_FREE:
        return None
    residual = scores[kept] - design @ np.linalg.lstsq(design, scores[kept], rcond=None)[0]
    return max(0.0, 1 - float(residual @ residual) / free / (variance * len(kept) / (len(kept) - 1)))
