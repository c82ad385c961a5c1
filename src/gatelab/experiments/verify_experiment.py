"""Verify the directory of an experiment: its own files, and every run in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gatelab.disk import foreign, within
from gatelab.errors import DataError
from gatelab.experiments import studies
from gatelab.experiments.experiment import EXPERIMENT, RESULTS, Experiment, read_experiment
from gatelab.experiments.planned import RunName
from gatelab.experiments.results import gather, read_results
from gatelab.experiments.tuning.outcome import Settled, is_as_chosen, settled
from gatelab.experiments.tuning.search import TrialName
from gatelab.lang.document import digest
from gatelab.record import UNUSABLE
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
    contents = f"{len(experiment.models)} models, {len(experiment.runs)} runs"
    contents += f", {len(experiment.trials)} trials of a search" if experiment.trials else ""
    yield directory, [Finding(EXPERIMENT, contents), *_results(directory, experiment)]
    as_chosen = settled(experiment, directory)
    for planned in experiment.names:
        path = directory / planned.path
        try:
            findings = _run(Run(within(directory, path)), planned, as_chosen) if _has_begun(path) else []
        except DataError as error:
            findings = [Finding(str(planned.path), str(error), good=False)]
        what = "the run" if isinstance(planned, RunName) else "the trial"
        yield path, findings or [Finding(what, "not begun yet")]


def _run(run: Run, planned: RunName | TrialName, experiment: Settled) -> list[Finding]:
    """The findings on the files of a run, and on whether a final run is the planned one of this directory."""
    findings = verify(run)
    if isinstance(planned, RunName) and all(finding.good for finding in findings):
        manifest, model = run.manifest(), experiment.models[planned.model]
        same = manifest.spec.model == model.document() and manifest.seed == planned.seed
        same = same and is_as_chosen(run, experiment.chosen.get(planned.model))
        if not same or digest(run.cell.cell) != digest(model.cell.cell):
            findings.append(Finding("the run", f"not of {planned.model} with seed {planned.seed}", good=False))
    return findings


def _has_begun(path: Path) -> bool:
    """Whether a run directory holds more than the log and the progress file of its worker."""
    return bool(foreign(path, (LOG, PROGRESS)))


def _results(directory: Path, experiment: Experiment) -> Iterator[Finding]:
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
