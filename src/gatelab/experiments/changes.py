"""Changes of cell files and data since the runs of an experiment, as far as these files are available."""

from __future__ import annotations

from pathlib import Path

from gatelab.disk import within
from gatelab.experiments.experiment import Experiment
from gatelab.record import UNUSABLE
from gatelab.training import Run
from gatelab.training.identity import changed_cell, changed_data


def changes(experiment: Experiment, directory: Path) -> list[str]:
    """Each change once: cell files for every model, the user's own data for the first readable run."""
    unique: dict[str, None] = {}
    checked: set[str] = set()
    for planned in experiment.runs:
        if planned.model in checked:
            continue
        try:
            run = Run(within(directory, directory / planned.path))
            task = run.spec().task.with_options()
            # Published and synthetic data cannot change: checksums of its files are verified on every read.
            has_own_data = task.user_path is not None and not checked
            changed = [*changed_cell(run), *(changed_data(run, task) if has_own_data else ())]
        except UNUSABLE:  # the report lists it as damaged
            continue
        checked.add(planned.model)
        unique |= dict.fromkeys(changed)
    return list(unique)
