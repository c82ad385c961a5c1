"""What the runs of an experiment were made with and is another now, as far as it is at hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gatelab.disk import within
from gatelab.experiments.results import UNUSABLE
from gatelab.training import Run
from gatelab.training.identity import changed_cell, changed_data


def changes(experiment: dict[str, Any], directory: Path) -> list[str]:
    """Each change once: the files of cells by model, and the user's own data by the first run that can be read."""
    said: dict[str, None] = {}
    seen: set[str] = set()
    for planned in experiment["runs"]:
        if planned["model"] in seen:
            continue
        try:
            run = Run(within(directory, directory / planned["place"]))
            task = run.spec().task.with_options()
            # Published and synthetic data cannot change: its files are compared with known sums whenever they are read.
            found = [*changed_cell(run), *(changed_data(run, task) if not seen and task.user_path is not None else ())]
        except UNUSABLE:  # which the report says
            continue
        seen.add(planned["model"])
        said |= dict.fromkeys(found)
    return list(said)
