"""Several studies in one directory: the same comparison on several tasks, each a complete experiment."""

from __future__ import annotations

from pathlib import Path

from gatelab import sealed
from gatelab.disk import foreign, within
from gatelab.errors import DataError, GatelabError
from gatelab.experiments.bench import Watcher, bench, checked
from gatelab.experiments.bench import execute as execute_study
from gatelab.experiments.config import NAME, BenchSpec
from gatelab.experiments.executor import Executor
from gatelab.experiments.record import EXPERIMENT, planned_family
from gatelab.experiments.results import Results

STUDIES = "studies.json"


def execute(
    specs: dict[str, BenchSpec], directory: Path, executor: Executor, watcher: Watcher | None = None
) -> list[Results]:
    """Execute all studies and gather their results. A single study has an empty name and uses the directory itself."""
    watcher = watcher or Watcher()
    if "" in specs:
        return [bench(specs[""], directory, executor, watcher)]
    plans = {}
    for name, spec in specs.items():  # check all of them before the first run
        try:
            plans[name] = checked(spec, directory / name)
        except ValueError as error:
            raise GatelabError(f"in the study {name}: {error}") from error
    _claim(directory, list(specs))
    family = planned_family(specs)
    for path in directories(directory).values():  # also of the studies whose turn comes later
        sealed.write_json(
            path / EXPERIMENT, {**sealed.read_json(path / EXPERIMENT), "family": family.model_dump(mode="json")}
        )
    return [
        execute_study(spec, plans[name], directory / name, executor, watcher, family) for name, spec in specs.items()
    ]


def directories(directory: Path) -> dict[str, Path]:
    """The directories of the studies that have begun, by name; the name of a single experiment is empty."""
    if (directory / STUDIES).is_file():
        paths = {name: within(directory, directory / name) for name in names(directory)}
        return {name: path for name, path in paths.items() if (path / EXPERIMENT).is_file()}
    if not (directory / EXPERIMENT).is_file():
        raise DataError(f"{directory} holds no experiment: expected {EXPERIMENT} or {STUDIES} in it")
    return {"": directory}


def _claim(directory: Path, studies: list[str]) -> None:
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
