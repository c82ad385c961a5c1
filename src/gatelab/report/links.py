"""Links from reports to explorers, where `gatelab explore` has made them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from gatelab.disk import within
from gatelab.report.escaping import address
from gatelab.training.run import EXPLORER


def explorer_of(run: Path, folder: Path) -> str | None:
    """The link from a page in a folder to the explorer of a run: in the same folder, or in that of the run."""
    for place in (folder, run):
        if (place / EXPLORER).is_file():
            relative = os.path.relpath((place / EXPLORER).resolve(), folder.resolve())
            return "/".join(part if part == ".." else address(part) for part in Path(relative).parts)
    return None


def explorers(experiment: dict[str, Any], directory: Path) -> list[tuple[str, str]]:
    """The name and the link of every run of an experiment that has an explorer."""
    found = []
    for planned in experiment["runs"]:
        place = within(directory, directory / planned["place"])
        if (place / EXPLORER).is_file():
            found.append((f"{planned['model']}, seed {planned['seed']}", explorer_of(place, directory) or ""))
    return found
