"""A whole comparison: planned, executed, interrupted, resumed, and gathered."""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import Any

from gatelab import sealed
from gatelab.disk import foreign, within
from gatelab.experiments import stats
from gatelab.experiments.config import BenchSpec
from gatelab.experiments.executor import Executor, Finished
from gatelab.experiments.plan import Planned, plan
from gatelab.experiments.probe import refuse_alike
from gatelab.experiments.record import EXPERIMENT, described, family, read_experiment
from gatelab.experiments.results import Results, gather
from gatelab.formatting import counted
from gatelab.training import Run
from gatelab.training.loop import FINAL
from gatelab.training.process import alone_in, sigterm_interrupts
from gatelab.training.run import differences

LARGE = 3  # standard deviations: a design that detects less is worth a warning


class Watcher:
    """What a comparison tells while it runs. This one says nothing."""

    def start(self, runs: list[Planned], over: list[Planned], directory: Path) -> None:
        """Before the first run; some may be over from before."""

    def tick(self) -> None:
        """Every now and then."""

    def finished(self, finished: Finished) -> None:
        """After each run."""

    def close(self) -> None:
        """When nothing more will come."""


def bench(spec: BenchSpec, directory: Path, executor: Executor, watcher: Watcher | None = None) -> Results:
    """Execute what is not done yet, and gather the results. The same command resumes an interrupted experiment."""
    return carried_out(spec, checked(spec, directory), directory, executor, watcher or Watcher(), family({"": spec}))


def carried_out(
    spec: BenchSpec,
    runs: list[Planned],
    directory: Path,
    executor: Executor,
    watcher: Watcher,
    tests: dict[str, Any],
) -> Results:
    """The results of a plan that was checked; `tests` is the family that its tests belong to."""
    with alone_in(directory), sigterm_interrupts():
        # Or of another model, or elsewhere: nothing is written.
        over = [run for run in runs if _is_over(run, within(directory, directory / run.place))]
        begun, spent = time.time(), _spent(directory)
        experiment = described(spec, runs, spent, tests)
        sealed.write_json(directory / EXPERIMENT, experiment)
        watcher.start(runs, over, directory)
        try:
            left = [run for run in runs if run not in over]
            for finished in executor.execute(left, directory, watcher.tick):
                watcher.finished(finished)
        finally:
            watcher.close()
            experiment["seconds"] = round(spent + time.time() - begun, 1)
            sealed.write_json(directory / EXPERIMENT, experiment)
        results = gather(experiment, directory)
        results.write(directory)
    return results


def checked(spec: BenchSpec, directory: Path) -> list[Planned]:
    """The plan, if it can be carried out in this directory; nothing is made there before that is certain."""
    runs = plan(spec)
    known = _refuse_another(spec, directory)
    if spec.models.keys() - known:  # what was begun has been found to differ
        refuse_alike(spec, {run.model: run.spec.model for run in runs})
    return runs


def remarks(spec: BenchSpec, tests: int) -> list[str]:
    """What should be known before hours are spent; `tests` is the size of the family."""
    notes = []
    if tests and spec.runs < stats.FEWEST:
        notes.append(
            f"with {counted(spec.runs, 'seed')} nothing is tested: use {stats.FEWEST} at least (--runs {stats.FEWEST})"
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
            if what := cell.shut_out(gate, value) if gate in cell.neutral else []:
                notes.append(f"{name} holds {gate} at {value:g}, which shuts out {' and '.join(what)}")
    return notes


def gather_again(directory: Path) -> None:
    """The results anew, from the run directories alone."""
    gather(read_experiment(directory), directory).write(directory)


def _spent(directory: Path) -> float:
    """Seconds of earlier sessions, but for those that were killed."""
    return float(read_experiment(directory).get("seconds", 0.0)) if (directory / EXPERIMENT).is_file() else 0.0


def _refuse_another(spec: BenchSpec, directory: Path) -> set[str]:
    """The models that a directory has already; an error if it holds something else. Seeds and models may be added."""
    if not (directory / EXPERIMENT).is_file():
        if foreign(directory, ()):
            raise ValueError(f"{directory} holds something else than an experiment: choose an empty or new directory")
        return set()
    now, there = spec.document(), read_experiment(directory)["spec"]
    lost = [f"it has the model {name} as well" for name in there["models"] if name not in now["models"]]
    for part in ("models", "design"):
        now[part] = {name: value for name, value in now[part].items() if name in there["models"]}
        there[part] = {name: value for name, value in there[part].items() if name in now["models"]}
    if there["runs"] < spec.runs:
        there["runs"] = spec.runs
    if different := [*lost, *differences(now, there)]:
        raise ValueError(
            f"{directory} holds another experiment: {'; '.join(different)}. Choose another directory, or put the "
            "config back as it was"
        )
    return set(there["models"])


def _is_over(run: Planned, path: Path) -> bool:
    return Run(path).exists() and Run(path).checked_against(run.spec)["status"] in FINAL
