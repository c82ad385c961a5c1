"""Execute a comparison of models, resume it if it was interrupted, and gather its results."""

from __future__ import annotations

import itertools
import time
from contextlib import closing
from pathlib import Path

from gatelab.disk import foreign
from gatelab.errors import GatelabError
from gatelab.experiments import stats
from gatelab.experiments.claims import Claims
from gatelab.experiments.config import BenchSpec
from gatelab.experiments.executors import Executor
from gatelab.experiments.experiment import (
    EXPERIMENT,
    Comparison,
    FamilyOfTests,
    experiment_of,
    planned,
    planned_family,
    read_experiment,
)
from gatelab.experiments.plan import plan
from gatelab.experiments.planned import Planned, has_ended
from gatelab.experiments.probe import refuse_alike
from gatelab.experiments.results import Results, gather
from gatelab.experiments.tuning import search
from gatelab.experiments.worker import Finished, Worker
from gatelab.formatting import counted
from gatelab.training import devices, footprint
from gatelab.training.process import alone_in, sigterm_interrupts
from gatelab.training.run import differences

LARGE = 3  # standard deviations: warn if only larger differences are detectable


class Watcher:
    """Callbacks of an experiment, for progress displays. This one is silent."""

    def start(self, runs: list[Planned], ended: list[Planned], directory: Path) -> None:
        """Called before the first run; `ended` are those of an earlier session."""

    def tick(self) -> None:
        """Called several times per second."""

    def finished(self, finished: Finished) -> None:
        """Called after each run."""

    def close(self) -> None:
        """Called at the end, also after an error."""


def bench(spec: BenchSpec, directory: Path, executor: Executor, watcher: Watcher | None = None) -> Results:
    """Execute all runs that have not ended, and gather the results. The same call resumes an interrupted experiment."""
    runs, family = check_runs(spec, directory, executor.is_local), planned_family({"": spec})
    with alone_in(directory), sigterm_interrupts():
        write_plan(spec, runs, directory, executor.threads_for(len(runs)), family)
        return execute(runs, directory, executor, watcher or Watcher())


def write_plan(spec: BenchSpec, runs: list[Planned], directory: Path, threads: int, family: FamilyOfTests) -> None:
    """Write a checked plan, from which workers on any machine can execute it; `family` has all tests that are corrected
    together. The number of threads per run stays that of the first plan: results depend on it, in the last bit.
    """
    for run in runs:  # raises for a run of another model or outside the directory, before anything is written
        run.refuse_another(directory)
    seconds = 0.0
    if (directory / EXPERIMENT).is_file():
        before = read_experiment(directory)
        seconds, threads = before.seconds, before.threads
    experiment_of(spec, runs, seconds, threads, family).write(directory)


def execute(runs: list[Planned], directory: Path, executor: Executor, watcher: Watcher) -> Results:
    """Execute the runs of a written plan that have not ended, and gather the results. What failed is tried again."""
    begin = time.time()
    ended = [run for run in runs if has_ended(run.path, directory) is not None]
    remaining = [run for run in runs if run not in ended]
    forget_failures(remaining, directory)
    watcher.start(runs, ended, directory)
    try:
        for finished in executor.execute(remaining, directory, watcher.tick):
            watcher.finished(finished)
    finally:
        watcher.close()
        before = read_experiment(directory)
        experiment = before.replaced(seconds=round(before.seconds + time.time() - begin, 1))
        experiment.write(directory)
    results = gather(experiment, directory)
    results.write(directory)
    return results


def forget_failures(runs: list[Planned], directory: Path) -> None:
    """Let workers try failed runs again, except those that others have gone on without."""
    claims = Claims(directory)
    for run in runs:
        if run.may_retry(directory):
            claims.forget_failures(run.path)


def take_part(
    directory: Path, jobs: int, most: int | None = None, watcher: Watcher | None = None, task: str | None = None
) -> list[str]:
    """Execute runs of a written plan beside other workers, at most `most` of them. Returns how these ended. A `task` of
    the user's own code is named, FILE.py:NAME.
    """
    experiment, watcher = read_experiment(directory), watcher or Watcher()
    runs = planned(experiment, task)
    if experiment.spec.tune:
        search.optuna()  # raises if it is missing here
    refuse_devices(runs, directory)
    ended = [run for run in runs if has_ended(run.path, directory) is not None]
    statuses = []
    with sigterm_interrupts():
        watcher.start(runs, ended, directory)
        worker = Worker([run for run in runs if run not in ended], directory, jobs, experiment.threads, most)
        try:
            with closing(worker.work(watcher.tick)) as work:  # its processes have saved when an interrupt passes here
                for finished in work:
                    watcher.finished(finished)
                    statuses += [] if finished.elsewhere else [finished.status]
        finally:
            watcher.close()
    return statuses


def check_runs(spec: BenchSpec, directory: Path, is_local: bool = False) -> list[Planned]:
    """The plan, if it can be executed in this directory, and if it is local, on this machine. Nothing is written."""
    if spec.task.in_memory:
        raise GatelabError(
            "a comparison runs in processes of its own, which do not have arrays of this one: save them, "
            "np.savez('data.npz', X=X, y=y), and use files:path=data.npz"
        )
    if spec.tune:
        search.optuna()  # raises if it is missing
    runs = plan(spec)
    if is_local:
        refuse_devices(runs, directory)
    known = _refuse_another(spec, directory)
    for run in {run.model: run for run in runs}.values():
        footprint.refuse(run.spec, f"the model {run.model!r}: ")
    if spec.models.keys() - known:  # models already in the directory passed this check
        refuse_alike(spec, {run.model: run.spec.model for run in runs})
    return runs


def refuse_devices(runs: list[Planned], directory: Path) -> None:
    """Raise if a run that has not ended names a device that is not here; otherwise each of them would fail."""
    for run in runs:
        if has_ended(run.path, directory) is None:
            devices.resolved(run.spec)


def remarks(spec: BenchSpec, tests: int) -> list[str]:
    """Warnings about the design before the first run; `tests` is the size of the family."""
    notes = []
    if tests and spec.runs < stats.FEWEST:
        notes.append(
            f"with {counted(spec.runs, 'seed')} nothing is tested: use at least {stats.FEWEST} (--runs {stats.FEWEST})"
        )
    elif tests and (size := stats.detectable(spec.runs, tests)) > LARGE:
        more = next(n for n in itertools.count(spec.runs) if stats.detectable(n, tests) <= LARGE)
        notes.append(
            f"with {spec.runs} seeds and {counted(tests, 'test')} a difference must be {size:.1f} standard deviations "
            f"of the paired differences to be detected with 50 % power; {more} seeds bring that below {LARGE} "
            f"(--runs {more})"
        )
    for name, model in spec.models.items():
        cell = model.cell.cell
        for gate, value in model.remove.items():
            if blocked := cell.shut_out(gate, value) if gate in cell.neutral else []:
                notes.append(f"{name} holds {gate} at {value:g}, which blocks {' and '.join(blocked)}")
    return notes


def gather_again(directory: Path) -> None:
    """Write results.json again, from the run directories alone."""
    gather(read_experiment(directory), directory).write(directory)


def _refuse_another(spec: BenchSpec, directory: Path) -> set[str]:
    """The models in a directory; an error if it holds another experiment. Seeds and models may be added."""
    if not (directory / EXPERIMENT).is_file():
        if foreign(directory, ()):
            raise GatelabError(f"{directory} holds files, and no experiment: choose an empty or new directory")
        return set()
    now, before = Comparison.of(spec).document(), read_experiment(directory).spec.document()
    missing = [f"it also has the model {name}" for name in before["models"] if name not in now["models"]]
    for part in ("models", "design"):
        now[part] = {name: value for name, value in now[part].items() if name in before["models"]}
        before[part] = {name: value for name, value in before[part].items() if name in now["models"]}
    for known in (now, before):
        if known["tune"]:
            known["tune"]["models"] = {n: v for n, v in known["tune"]["models"].items() if n in before["models"]}
    if before["runs"] < spec.runs:
        before["runs"] = spec.runs
    if different := [*missing, *differences(now, before)]:
        raise GatelabError(
            f"{directory} holds another experiment: {'; '.join(different)}. Choose another directory, or "
            "restore the config"
        )
    return set(before["models"])
