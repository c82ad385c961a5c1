"""A whole comparison: planned, executed, stopped, gone on with, and gathered."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from gatelab.disk import write_json
from gatelab.errors import DataError
from gatelab.experiments.config import BenchSpec, parse
from gatelab.experiments.executor import Executor, Finished
from gatelab.experiments.plan import Planned, plan
from gatelab.experiments.results import gather
from gatelab.training import Run
from gatelab.training.loop import FINAL
from gatelab.training.process import alone_in, politely_ended
from gatelab.training.run import differences, versions

SCHEMA = 1
EXPERIMENT = "experiment.json"


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


def bench(spec: BenchSpec, directory: Path, executor: Executor, watcher: Watcher | None = None) -> dict[str, Any]:
    """Execute what is not done yet, and gather the results. The same command goes on where it was stopped."""
    runs, watcher = plan(spec), watcher or Watcher()
    _refuse_another(spec, directory)  # before anything is made there
    with alone_in(directory), politely_ended():
        begun = time.time()
        if not (directory / EXPERIMENT).is_file():
            write_json(directory / EXPERIMENT, {"schema": SCHEMA, "spec": spec.document(), "versions": versions()})
        over = [run for run in runs if _is_over(run, directory / run.place)]
        watcher.start(runs, over, directory)
        try:
            left = [run for run in runs if run not in over]
            for finished in executor.execute(left, directory, watcher.tick):
                watcher.finished(finished)
        finally:
            watcher.close()
        results = gather(runs, directory) | {"wall_clock_seconds": _spent(directory) + round(time.time() - begun, 1)}
        write_json(directory / "results.json", results)
    return results


def gather_again(directory: Path) -> None:
    """The results anew, from the run directories alone."""
    path = directory / "results.json"
    before = json.loads(path.read_text()) if path.is_file() else {}
    results = gather(plan(read_experiment(directory)), directory)
    write_json(path, results | {"wall_clock_seconds": before.get("wall_clock_seconds")})


def read_experiment(directory: Path) -> BenchSpec:
    """The comparison that a directory holds."""
    path = directory / EXPERIMENT
    if not path.is_file():
        raise DataError(f"{directory} does not hold an experiment: it has no {EXPERIMENT}")
    content = json.loads(path.read_text())
    if content.get("schema", 0) > SCHEMA:
        raise DataError(f"{directory} was written by a newer gatelab, with schema {content['schema']}")
    return parse(content["spec"], str(path))


def _spent(directory: Path) -> float:
    """Seconds of earlier sessions that came to an end."""
    path = directory / "results.json"
    return float(json.loads(path.read_text()).get("wall_clock_seconds") or 0.0) if path.is_file() else 0.0


def _refuse_another(spec: BenchSpec, directory: Path) -> None:
    if (directory / EXPERIMENT).is_file():
        before = json.loads((directory / EXPERIMENT).read_text())["spec"]
        if different := differences(spec.document(), before):
            raise ValueError(
                f"{directory} holds another experiment: {'; '.join(different)}. Choose another directory, or put the "
                "config back as it was"
            )
    elif directory.is_dir() and any(entry.name != ".lock" for entry in directory.iterdir()):
        raise ValueError(f"{directory} holds something else than an experiment: choose an empty or new directory")


def _is_over(run: Planned, path: Path) -> bool:
    return Run(path).exists() and Run(path).checked_against(run.spec)["status"] in FINAL
