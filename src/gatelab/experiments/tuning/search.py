"""The runs of a search. Trials come first, in rounds; the final runs of a model take the settings of its best trial.

A trial knows the results of all earlier rounds of its model, and of nothing else, whenever and wherever it is executed.
So the search is a function of the config: the same on one core, on a cluster, and after any number of interruptions.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from gatelab.disk import within
from gatelab.errors import GatelabError, HopelessError
from gatelab.experiments.claims import Claims
from gatelab.experiments.planned import Planned, has_ended, run_path
from gatelab.experiments.tuning import space
from gatelab.experiments.tuning.space import Settings, TuneSpec
from gatelab.formatting import file_name
from gatelab.training import Run
from gatelab.training.objective import Objective
from gatelab.training.reporter import Pruner
from gatelab.training.spec import RunSpec

FIRST_SEED = 1000  # of trials, beyond training.seed: final runs have fewer seeds, so that none is used twice
STARTUP = 4  # trials before a sampler or pruner looks at earlier ones


@dataclass(frozen=True)
class EndedTrial:
    """A trial that has ended."""

    number: int
    status: Literal["done", "diverged", "failed", "damaged"]
    settings: Settings
    scores: list[float]  # validation score by epoch; errors are negative, so that larger is better
    pruned: bool = False

    @property
    def score(self) -> float | None:
        """The best of its scores; None if it diverged or failed."""
        return max(self.scores) if self.status == "done" and self.scores else None


@dataclass(frozen=True)
class TrialName:
    """Which trial of a search."""

    model: str
    number: int

    @property
    def title(self) -> str:
        """For people."""
        return f"{self.model}, trial {self.number + 1}"

    @property
    def path(self) -> Path:
        """The run directory, relative to that of the experiment."""
        return trial_path(self.model, self.number)


@dataclass(frozen=True)
class Trial(Planned):
    """A run with settings of its own; `spec` has all but these. It is never tested."""

    tune: TuneSpec
    number: int

    @property
    def title(self) -> str:
        """For people."""
        return TrialName(self.model, self.number).title

    @property
    def path(self) -> Path:
        """The run directory, relative to that of the experiment."""
        return TrialName(self.model, self.number).path

    def settled(self, directory: Path) -> RunSpec | None:
        """The spec with sampled settings; None as long as earlier rounds go on."""
        if (earlier := self._earlier(directory)) is None:
            return None
        settings = suggest(self, earlier)
        try:
            return space.applied(settings, self.spec)
        except GatelabError as error:
            raise HopelessError(f"the sampled settings {settings} do not fit each other: {error}") from error

    def rivals(self, directory: Path) -> list[list[float]] | None:
        """The scores of earlier rounds."""
        earlier = self._earlier(directory)
        return [trial.scores for trial in earlier or []] if self.tune.pruner != "none" else None

    def may_retry(self, directory: Path) -> bool:
        """Whether neither a trial of a later round nor a final run of the model has begun."""
        later = range(self.tune.round_start(self.number) + self.tune.round_size, self.tune.trials)
        dependent = [directory / trial_path(self.model, number) for number in later]
        dependent += (directory / run_path(self.model, 0)).parent.glob("seed-*")
        return not any(Run(path).exists() for path in dependent)

    def _earlier(self, directory: Path) -> list[EndedTrial] | None:
        start = self.tune.round_start(self.number)
        independent = self.tune.sampler == "random" and self.tune.pruner == "none"
        return [] if independent or not start else ended_trials(self.tune, self.model, start, directory)


@dataclass(frozen=True)
class Tuned(Planned):
    """A final run, with the settings of the best trial of its model; `spec` has all but these."""

    tune: TuneSpec

    def settled(self, directory: Path) -> RunSpec | None:
        """The spec with the chosen settings; None as long as trials go on."""
        trials = ended_trials(self.tune, self.model, self.tune.trials, directory)
        return None if trials is None else space.applied(best(trials, self.model).settings, self.spec)


def trial_path(model: str, number: int) -> Path:
    """The directory of a trial, relative to that of the experiment."""
    return Path("tuning") / file_name(model) / f"trial-{number + 1:02}"


def with_search(runs: list[Planned], tune: TuneSpec) -> list[Planned]:
    """A plan with its trials, model by model in turn, before the final runs, which depend on them."""
    models = {run.model: run.spec for run in runs}
    first = min((run.seed for run in runs), default=0)
    trials = [
        Trial(name, first + FIRST_SEED + number, _of_trial(spec, tune, first + FIRST_SEED + number), tune, number)
        for number in range(tune.trials)
        for name, spec in models.items()
    ]
    return [*trials, *(Tuned(run.model, run.seed, run.spec, tune) for run in runs)]


def _of_trial(spec: RunSpec, tune: TuneSpec, seed: int) -> RunSpec:
    changes: dict[str, Any] = {"seed": seed, "test": False}
    if tune.num_epochs is not None:
        changes["num_epochs"] = tune.num_epochs
    return spec.model_copy(update={"training": spec.training.model_copy(update=changes)})


def ended_trials(tune: TuneSpec, model: str, count: int, directory: Path) -> list[EndedTrial] | None:
    """The first trials of a model; None if one of them has not ended."""
    trials = []
    for number in range(count):
        if (trial := ended_trial(tune, model, number, directory)) is None:
            return None
        trials.append(trial)
    return trials


def ended_trial(tune: TuneSpec, model: str, number: int, directory: Path) -> EndedTrial | None:
    """A trial that has ended or failed, from its run directory; None if it has not."""
    place = trial_path(model, number)
    if has_ended(place, directory) is not None:
        path = within(directory, directory / place)
        return _read_trial(path, number, tuple(tune.of_model(model)), Run(path).manifest_path.stat().st_mtime_ns)
    return EndedTrial(number, "failed", {}, []) if Claims(directory).state(place) == "failed" else None


@lru_cache(10_000)  # workers ask again and again
def _read_trial(path: Path, number: int, settings: tuple[str, ...], written: int) -> EndedTrial:
    run = Run(path)
    manifest, spec = run.manifest(), run.spec()
    objective = Objective(spec.task, spec.training)
    scores = objective.scores(run.metrics())
    status: Literal["done", "diverged"] = "diverged" if manifest.status == "diverged" else "done"
    return EndedTrial(number, status, space.read(settings, spec), scores, manifest.pruned)


def best(trials: list[EndedTrial], model: str) -> EndedTrial:
    """The trial with the best score, the first of equals."""
    scored = [trial for trial in trials if trial.score is not None]
    if not scored:
        raise HopelessError(
            f"none of the {len(trials)} trials of {model} has finished: there are no best settings. See the logs in "
            "tuning/, or make the space smaller"
        )
    return max(scored, key=lambda trial: (trial.score, -trial.number))


def suggest(trial: Trial, earlier: list[EndedTrial]) -> Settings:
    """The settings of a trial, sampled by Optuna. Trials of one number have the same random numbers: with the random
    sampler, models try the same values of the settings that they share.
    """
    library, ranges = optuna(), trial.tune.of_model(trial.model)
    seed = int.from_bytes(hashlib.sha256(f"trial {trial.seed}".encode()).digest()[:4], "big")
    if trial.tune.sampler == "random":
        sampler = library.samplers.RandomSampler(seed=seed)
    else:
        sampler = library.samplers.TPESampler(seed=seed, n_startup_trials=STARTUP)
    study = library.create_study(direction="maximize", sampler=sampler)
    distributions = {name: _distribution(name, values, trial.spec) for name, values in ranges.items()}
    study.add_trials([_as_optuna(ended, distributions) for ended in earlier])
    return dict(study.ask(distributions).params)


def pruner_of(rivals: list[list[float]] | None) -> Pruner | None:
    """What gives a trial up that is worse than these; None without any."""
    return (lambda scores: bool(scores) and is_hopeless(scores, rivals)) if rivals else None


def is_hopeless(scores: list[float], rivals: list[list[float]]) -> bool:
    """Whether a trial is worse than the median of earlier ones at the same epoch. The first quarter is not judged."""
    library = optuna()
    longest = max(map(len, rivals), default=0)
    pruner = library.pruners.MedianPruner(n_startup_trials=STARTUP, n_warmup_steps=longest // 4)
    study = library.create_study(direction="maximize", pruner=pruner)
    ended = [EndedTrial(number, "done", {}, rival) for number, rival in enumerate(rivals)]
    study.add_trials([_as_optuna(trial, {}) for trial in ended])
    current = study.ask()
    for epoch, score in enumerate(scores):
        current.report(score, epoch)
    return bool(current.should_prune())


def _as_optuna(trial: EndedTrial, distributions: dict[str, Any]) -> Any:
    """A trial as Optuna has them: one without a score is a failure, which its samplers leave out."""
    library = optuna()
    state, settings = library.trial.TrialState, {n: v for n, v in trial.settings.items() if n in distributions}
    known = trial.score is not None and settings.keys() == distributions.keys()
    return library.create_trial(
        params=settings if known else {},
        distributions=distributions if known else {},
        value=trial.score if known else None,
        state=state.COMPLETE if known else state.FAIL,
        intermediate_values=dict(enumerate(trial.scores)) if known else {},
    )


def _distribution(name: str, values: space.Range, spec: RunSpec) -> Any:
    kinds = optuna().distributions
    if values.choices is not None:
        return kinds.CategoricalDistribution(values.choices)
    low, high = values.ends
    if space.is_whole(name, spec.model):
        return kinds.IntDistribution(round(low), round(high), log=values.log is not None)
    return kinds.FloatDistribution(low, high, log=values.log is not None)


def optuna() -> Any:
    """The package; an error that says how to install it if it is missing."""
    try:
        import optuna as library
    except ImportError:
        raise GatelabError("a search needs the package optuna: pip install 'gatelab[tune]'") from None
    library.logging.set_verbosity(library.logging.WARNING)
    return library
