"""Several studies in one directory: the same comparison on several tasks, each a complete experiment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gatelab import sealed
from gatelab.disk import foreign, within
from gatelab.errors import DataError, GatelabError
from gatelab.experiments.bench import Watcher, check_runs, forget_failures, write_plan
from gatelab.experiments.bench import execute as execute_study
from gatelab.experiments.config import NAME, BenchSpec
from gatelab.experiments.executors import Executor
from gatelab.experiments.experiment import EXPERIMENT, planned_family
from gatelab.experiments.planned import Planned
from gatelab.experiments.results import Results
from gatelab.training.process import alone_in, sigterm_interrupts
from gatelab.training.run import FORECASTER, forecaster_in

STUDIES = "studies.json"


def execute(
    specs: dict[str, BenchSpec], directory: Path, executor: Executor, watcher: Watcher | None = None
) -> list[Results]:
    """Execute all studies and gather their results. A single study has an empty name and uses the directory itself."""
    plans = checked_plans(specs, directory, executor.is_local)
    with alone_in(directory), sigterm_interrupts():
        write_plans(specs, plans, directory, executor.threads_for)
        return [execute_study(runs, directory / name, executor, watcher or Watcher()) for name, runs in plans.items()]


def plan_only(
    specs: dict[str, BenchSpec], directory: Path, threads_for: Callable[[int], int]
) -> dict[str, list[Planned]]:
    """Write the plans, for workers that are started by others."""
    plans = checked_plans(specs, directory)
    with alone_in(directory):
        write_plans(specs, plans, directory, threads_for)
    return plans


def submit(specs: dict[str, BenchSpec], directory: Path, executor: Executor) -> dict[str, list[Planned]]:
    """Write the plans, and submit their runs to an executor that is detached. What failed is tried again."""
    plans = plan_only(specs, directory, executor.threads_for)
    for name, runs in plans.items():
        forget_failures(runs, directory / name)
        list(executor.execute(runs, directory / name, lambda: None))
    return plans


def checked_plans(specs: dict[str, BenchSpec], directory: Path, is_local: bool = False) -> dict[str, list[Planned]]:
    """The plans of all studies, if they can be executed in this directory, and if they are local, on this machine.
    Nothing is written.
    """
    plans = {}
    for name, spec in specs.items():
        try:
            plans[name] = check_runs(spec, directory / name, is_local)
        except ValueError as error:
            raise GatelabError(f"in the study {name}: {error}" if name else str(error)) from error
    return plans


def write_plans(
    specs: dict[str, BenchSpec], plans: dict[str, list[Planned]], directory: Path, threads_for: Callable[[int], int]
) -> None:
    """Write checked plans, from which workers on any machine can execute them."""
    if "" not in specs:
        _register(directory, list(specs))
    family = planned_family(specs)
    for name, runs in plans.items():
        write_plan(specs[name], runs, directory / name, threads_for(len(runs)), family)


def directories(directory: Path) -> dict[str, Path]:
    """The directories of the studies that have begun, by name; the name of a single experiment is empty."""
    if (directory / STUDIES).is_file():
        paths = {name: within(directory, directory / name) for name in names(directory)}
        return {name: path for name, path in paths.items() if (path / EXPERIMENT).is_file()}
    if not (directory / EXPERIMENT).is_file():
        held = f"; it holds {forecaster_in(directory)}" if (directory / FORECASTER).is_file() else ""
        raise DataError(f"{directory} holds no experiment: expected {EXPERIMENT} or {STUDIES} in it{held}")
    return {"": directory}


def _register(directory: Path, studies: list[str]) -> None:
    """Record the studies of the directory; studies may be added later, but not removed."""
    path = directory / STUDIES
    if path.is_file():
        if missing := set(before := names(directory)) - set(studies):
            raise GatelabError(
                f"{directory} holds the studies {', '.join(before)}, and the config no longer has "
                f"{', '.join(sorted(missing))}: choose another directory, or restore the config"
            )
    elif foreign(directory, ()):
        raise GatelabError(f"{directory} holds files, and no studies: choose an empty or new directory")
    sealed.write_json(path, {"studies": studies})


def names(directory: Path) -> list[str]:
    """The names of all studies of a directory, begun or not."""
    path = within(directory, directory / STUDIES)
    studies = sealed.read_json(path).get("studies")
    if not isinstance(studies, list) or not all(isinstance(name, str) and NAME.fullmatch(name) for name in studies):
        raise sealed.damaged(path, "expected a list of names of studies")
    return studies
