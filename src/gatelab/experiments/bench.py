"""Execute a comparison of models, resume it if it was interrupted, and gather its results."""

from __future__ import annotations

import itertools
import time
from pathlib import Path

from gatelab import sealed
from gatelab.disk import foreign, within
from gatelab.errors import GatelabError
from gatelab.experiments import stats
from gatelab.experiments.config import BenchSpec
from gatelab.experiments.executor import Executor, Finished
from gatelab.experiments.plan import Planned, plan
from gatelab.experiments.probe import refuse_alike
from gatelab.experiments.record import EXPERIMENT, Family, described, planned_family, read_experiment
from gatelab.experiments.results import Results, gather
from gatelab.formatting import counted
from gatelab.training import Run, footprint
from gatelab.training.loop import FINAL
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
    return execute(
        spec, checked(spec, directory), directory, executor, watcher or Watcher(), planned_family({"": spec})
    )


def execute(
    spec: BenchSpec,
    runs: list[Planned],
    directory: Path,
    executor: Executor,
    watcher: Watcher,
    family: Family,
) -> Results:
    """Execute a checked plan and gather its results; `family` has all tests that are corrected together."""
    with alone_in(directory), sigterm_interrupts():
        # Raises for a run of another model or outside the directory, before anything is written.
        ended = [run for run in runs if _has_ended(run, within(directory, directory / run.path))]
        begin, spent = time.time(), _spent(directory)
        experiment = described(spec, runs, spent, family)
        sealed.write_json(directory / EXPERIMENT, experiment)
        watcher.start(runs, ended, directory)
        try:
            remaining = [run for run in runs if run not in ended]
            for finished in executor.execute(remaining, directory, watcher.tick):
                watcher.finished(finished)
        finally:
            watcher.close()
            experiment["seconds"] = round(spent + time.time() - begin, 1)
            sealed.write_json(directory / EXPERIMENT, experiment)
        results = gather(experiment, directory)
        results.write(directory)
    return results


def checked(spec: BenchSpec, directory: Path) -> list[Planned]:
    """The plan, if it can be executed in this directory. Nothing is written."""
    if spec.task.in_memory:
        raise GatelabError(
            "a comparison runs in processes of its own, which do not have arrays of this one: save them, "
            "np.savez('data.npz', X=X, y=y), and use files:path=data.npz"
        )
    runs = plan(spec)
    known = _refuse_another(spec, directory)
    for run in {run.model: run for run in runs}.values():
        footprint.refuse(run.spec, f"the model {run.model!r}: ")
    if spec.models.keys() - known:  # models already in the directory passed this check
        refuse_alike(spec, {run.model: run.spec.model for run in runs})
    return runs


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


def _spent(directory: Path) -> float:
    """Seconds of earlier sessions, without those that were killed."""
    return float(read_experiment(directory).get("seconds") or 0.0) if (directory / EXPERIMENT).is_file() else 0.0


def _refuse_another(spec: BenchSpec, directory: Path) -> set[str]:
    """The models in a directory; an error if it holds another experiment. Seeds and models may be added."""
    if not (directory / EXPERIMENT).is_file():
        if foreign(directory, ()):
            raise GatelabError(f"{directory} holds files, and no experiment: choose an empty or new directory")
        return set()
    now, before = spec.document(), read_experiment(directory)["spec"]
    missing = [f"it also has the model {name}" for name in before["models"] if name not in now["models"]]
    for part in ("models", "design"):
        now[part] = {name: value for name, value in now[part].items() if name in before["models"]}
        before[part] = {name: value for name, value in before[part].items() if name in now["models"]}
    if before["runs"] < spec.runs:
        before["runs"] = spec.runs
    if different := [*missing, *differences(now, before)]:
        raise GatelabError(
            f"{directory} holds another experiment: {'; '.join(different)}. Choose another directory, or "
            "restore the config"
        )
    return set(before["models"])


def _has_ended(run: Planned, path: Path) -> bool:
    return Run(path).exists() and Run(path).checked_against(run.spec)["status"] in FINAL
