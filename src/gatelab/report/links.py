"""Links from reports to explorers, where `gatelab explore` has made them."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from gatelab.disk import resolved, within, write_text
from gatelab.errors import GatelabError
from gatelab.experiments.experiment import EXPERIMENT, Experiment, read_experiment
from gatelab.report.escaping import address
from gatelab.report.markup import filled
from gatelab.training.run import EXPLORER, INSPECTION

Links = list[tuple[str, str]]  # what is explored, and the address
BEGIN, END = "<!-- explorers -->", "<!-- end of explorers -->"  # around the links in a page
INSPECTION_PAGE, REPORT_PAGE = "inspect.html", "report.html"


def explorer_of(run: Path, folder: Path) -> Links:
    """The link from a page in a folder to the explorer of a run: in the same folder, or in that of the run."""
    for place in (folder, run):
        if (place / EXPLORER).is_file():
            relative = os.path.relpath((place / EXPLORER).resolve(), folder.resolve())
            return [("this run", "/".join(part if part == ".." else address(part) for part in Path(relative).parts))]
    return []


def explorers(experiment: Experiment, directory: Path) -> Links:
    """The link of every run of an experiment that has an explorer."""
    found = []
    for planned in experiment.runs:
        place = within(directory, directory / planned.path)
        if (place / EXPLORER).is_file():
            ((_, link),) = explorer_of(place, directory)
            found.append((planned.title, link))
    return found


def link_reports(run: Path) -> None:
    """Write the links anew in the reports on a run that were written before its explorer."""
    inspection = run / INSPECTION
    _relink(inspection / INSPECTION_PAGE, explorer_of(run, inspection))
    for directory in resolved(run).parents:
        if (directory / EXPERIMENT).is_file():
            with suppress(GatelabError):  # the explorer is made, even if an experiment around it cannot be read
                experiment = read_experiment(directory)
                if any(directory / planned.path == resolved(run) for planned in experiment.runs):
                    _relink(directory / REPORT_PAGE, explorers(experiment, directory))
            return


def _relink(page: Path, links: Links) -> None:
    if not page.is_file():
        return
    before, begin, rest = page.read_text("utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if begin and end:
        write_text(page, f"{before}{filled('explorers.html', explorers=links)}{after}")
