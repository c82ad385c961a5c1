"""Several studies in one directory: the same comparison on other tasks, one after the other, each whole in itself."""

from __future__ import annotations

from pathlib import Path

from gatelab import sealed
from gatelab.disk import foreign, within
from gatelab.errors import DataError
from gatelab.experiments.bench import Watcher, bench, carried_out, checked
from gatelab.experiments.config import NAME, BenchSpec
from gatelab.experiments.executor import Executor
from gatelab.experiments.record import EXPERIMENT, family
from gatelab.experiments.results import Results

STUDIES = "studies.json"


def run(
    specs: dict[str, BenchSpec], directory: Path, executor: Executor, watcher: Watcher | None = None
) -> list[Results]:
    """The results of all studies. A study without a name is the only one, and has the directory for itself."""
    watcher = watcher or Watcher()
    if "" in specs:
        return [bench(specs[""], directory, executor, watcher)]
    plans = {}
    for name, spec in specs.items():  # all of them before the first run of any
        try:
            plans[name] = checked(spec, directory / name)
        except ValueError as error:
            raise ValueError(f"in the study {name}: {error}") from error
    _claim(directory, list(specs))
    tests = family(specs)
    return [carried_out(spec, plans[name], directory / name, executor, watcher, tests) for name, spec in specs.items()]


def places(directory: Path) -> dict[str, Path]:
    """Where the studies of a directory are that were begun, by name; the empty name is that of one experiment alone."""
    if (directory / STUDIES).is_file():
        found = {name: within(directory, directory / name) for name in names(directory)}
        return {name: path for name, path in found.items() if (path / EXPERIMENT).is_file()}
    if not (directory / EXPERIMENT).is_file():
        raise DataError(f"{directory} holds no experiment: it has neither {EXPERIMENT} nor {STUDIES}")
    return {"": directory}


def _claim(directory: Path, wanted: list[str]) -> None:
    """Make the directory one of these studies; others may be added, but none left out or put in its place."""
    path = directory / STUDIES
    if path.is_file():
        if lost := set(before := names(directory)) - set(wanted):
            raise ValueError(
                f"{directory} holds the studies {', '.join(before)}, and the config no longer has "
                f"{', '.join(sorted(lost))}: choose another directory, or put it back"
            )
    elif foreign(directory, ()):
        raise ValueError(f"{directory} holds something else than studies: choose an empty or new directory")
    sealed.write_json(path, {"studies": wanted})


def names(directory: Path) -> list[str]:
    """All studies of a directory, begun or not."""
    path = within(directory, directory / STUDIES)
    found = sealed.read_json(path).get("studies")
    if not isinstance(found, list) or not all(isinstance(name, str) and NAME.fullmatch(name) for name in found):
        raise sealed.damaged(path, "expected the names of studies")
    return found
