"""Several studies in one directory: the same comparison on other tasks, one after the other, each whole in itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gatelab.disk import write_json
from gatelab.errors import DataError
from gatelab.experiments.bench import EXPERIMENT, Watcher, bench
from gatelab.experiments.config import BenchSpec
from gatelab.experiments.executor import Executor

STUDIES = "studies.json"


def run(
    specs: dict[str, BenchSpec], directory: Path, executor: Executor, watcher: Watcher | None = None
) -> list[dict[str, Any]]:
    """The results of all studies. A study without a name is the only one, and has the directory for itself."""
    if "" not in specs:
        _claim(directory, list(specs))
    return [bench(spec, directory / name, executor, watcher) for name, spec in specs.items()]


def places(directory: Path) -> dict[str, Path]:
    """Where the studies of a directory are, by name; the empty name is that of a directory with one experiment."""
    if (directory / STUDIES).is_file():
        names = json.loads((directory / STUDIES).read_text())["studies"]
        return {name: directory / name for name in names}
    if not (directory / EXPERIMENT).is_file():
        raise DataError(f"{directory} holds no experiment: it has neither {EXPERIMENT} nor {STUDIES}")
    return {"": directory}


def _claim(directory: Path, names: list[str]) -> None:
    """Make the directory one of these studies; refuse one that is something else."""
    path = directory / STUDIES
    if path.is_file():
        if (before := json.loads(path.read_text())["studies"]) != names:
            raise ValueError(f"{directory} holds other studies ({', '.join(before)}): choose another directory")
    elif directory.is_dir() and any(directory.iterdir()):
        raise ValueError(f"{directory} holds something else than studies: choose an empty or new directory")
    write_json(path, {"studies": names})
