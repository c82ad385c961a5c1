"""Verify the directory of an experiment: its own files, and every run in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gatelab.disk import foreign, within
from gatelab.errors import DataError
from gatelab.experiments import studies
from gatelab.experiments.numbers import UNUSABLE
from gatelab.experiments.record import EXPERIMENT, RESULTS, read_experiment
from gatelab.experiments.results import gather, read_results
from gatelab.experiments.tuning.outcome import is_as_chosen, settled
from gatelab.training import Run
from gatelab.training.run import LOG, PROGRESS
from gatelab.training.verify import Finding, verify


def verify_experiment(directory: Path) -> Iterator[tuple[Path, list[Finding]]]:
    """Yield each directory with the findings on its files."""
    if (directory / studies.STUDIES).is_file():
        try:
            experiments = list(studies.directories(directory).values())
        except (DataError, OSError) as error:
            yield directory, [Finding(studies.STUDIES, str(error), good=False)]
            return
        begun = ", ".join(path.name for path in experiments) or "none"
        yield directory, [Finding(studies.STUDIES, f"{len(studies.names(directory))} studies, begun: {begun}")]
    else:
        experiments = [directory]
    for path in experiments:
        yield from _experiment(path)


def _experiment(directory: Path) -> Iterator[tuple[Path, list[Finding]]]:
    try:
        experiment = read_experiment(directory)
    except (DataError, OSError) as error:
        yield directory, [Finding(EXPERIMENT, str(error), good=False)]
        return
    trials = experiment.get("trials", [])
    contents = f"{len(experiment['models'])} models, {len(experiment['runs'])} runs"
    contents += f", {len(trials)} trials of a search" if trials else ""
    yield directory, [Finding(EXPERIMENT, contents), *_results(directory, experiment)]
    experiment = settled(experiment, directory)
    for planned in (*trials, *experiment["runs"]):
        path = directory / planned["place"]
        try:
            findings = _run(Run(within(directory, path)), planned, experiment) if _has_begun(path) else []
        except DataError as error:
            findings = [Finding(planned["place"], str(error), good=False)]
        yield path, findings or [Finding("the run" if "seed" in planned else "the trial", "not begun yet")]


def _run(run: Run, planned: dict[str, Any], experiment: dict[str, Any]) -> list[Finding]:
    """The findings on the files of a run, and on whether a final run is the planned one of this directory."""
    findings = verify(run)
    if "seed" in planned and all(finding.good for finding in findings):
        manifest, cell = run.manifest(), experiment["cells"][planned["model"]]["equations"]
        same = (
            manifest["spec"]["model"] == experiment["models"][planned["model"]] and manifest["seed"] == planned["seed"]
        )
        same = same and is_as_chosen(run, experiment.get("chosen", {}).get(planned["model"]))
        if not same or run.cell.document()["equations"] != cell:
            findings.append(Finding("the run", f"not of {planned['model']} with seed {planned['seed']}", good=False))
    return findings


def _has_begun(path: Path) -> bool:
    """Whether a run directory holds more than the log and the progress file of its worker."""
    return bool(foreign(path, (LOG, PROGRESS)))


def _results(directory: Path, experiment: dict[str, object]) -> Iterator[Finding]:
    """Whether results.json agrees with the run directories."""
    path = directory / RESULTS
    if not path.exists():
        return
    try:
        same = read_results(directory) == gather(experiment, directory)
    except UNUSABLE as error:
        yield Finding(RESULTS, str(error) or type(error).__name__, good=False)
        return
    differs = f"differs from the runs: write it again with gatelab report {directory}"
    yield Finding(RESULTS, "agrees with the runs" if same else differs, good=same)
