"""Whether the directory of an experiment is whole: its own files, and every run in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gatelab.disk import foreign, within
from gatelab.errors import DataError
from gatelab.experiments import studies
from gatelab.experiments.record import EXPERIMENT, RESULTS, read_experiment
from gatelab.experiments.results import UNUSABLE, gather, read_results
from gatelab.training import Run
from gatelab.training.run import LOG, PROGRESS
from gatelab.training.verify import Finding, verify


def verify_experiment(directory: Path) -> Iterator[tuple[Path, list[Finding]]]:
    """Folder by folder, what there is to say of its files."""
    if (directory / studies.STUDIES).is_file():
        try:
            places = list(studies.places(directory).values())
        except (DataError, OSError) as error:
            yield directory, [Finding(studies.STUDIES, str(error), good=False)]
            return
        begun = ", ".join(place.name for place in places) or "none"
        yield directory, [Finding(studies.STUDIES, f"{len(studies.names(directory))} studies, begun: {begun}")]
    else:
        places = [directory]
    for place in places:
        yield from _experiment(place)


def _experiment(directory: Path) -> Iterator[tuple[Path, list[Finding]]]:
    try:
        experiment = read_experiment(directory)
    except (DataError, OSError) as error:
        yield directory, [Finding(EXPERIMENT, str(error), good=False)]
        return
    said = f"{len(experiment['models'])} models, {len(experiment['runs'])} runs"
    yield directory, [Finding(EXPERIMENT, said), *_results(directory, experiment)]
    for run in experiment["runs"]:
        path = directory / run["place"]
        try:
            found = _run(Run(within(directory, path)), run, experiment) if _is_begun(path) else []
        except DataError as error:
            found = [Finding(run["place"], str(error), good=False)]
        yield path, found or [Finding("the run", "not begun yet")]


def _run(run: Run, planned: dict[str, Any], experiment: dict[str, Any]) -> list[Finding]:
    """The files of a run, and whether it is the run that the experiment has in this place."""
    found = verify(run)
    if all(finding.good for finding in found):
        manifest, cell = run.manifest(), experiment["cells"][planned["model"]]["equations"]
        same = (
            manifest["spec"]["model"] == experiment["models"][planned["model"]] and manifest["seed"] == planned["seed"]
        )
        if not same or run.cell.document()["equations"] != cell:
            found.append(Finding("the run", f"not of {planned['model']} with seed {planned['seed']}", good=False))
    return found


def _is_begun(path: Path) -> bool:
    """Whether there is anything of a run, beside what its worker leaves before it begins."""
    return bool(foreign(path, (LOG, PROGRESS)))


def _results(directory: Path, experiment: dict[str, object]) -> Iterator[Finding]:
    """Whether the results are those of the runs."""
    path = directory / RESULTS
    if not path.exists():
        return
    try:
        same = read_results(directory) == gather(experiment, directory)
    except UNUSABLE as error:
        yield Finding(RESULTS, str(error) or type(error).__name__, good=False)
        return
    again = f"not those of the runs: make them again with gatelab report {directory}"
    yield Finding(RESULTS, "those of the runs" if same else again, good=same)
