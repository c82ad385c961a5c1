"""The state of every run of an experiment, from its files alone: at any time, on any machine that sees them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gatelab.disk import within
from gatelab.experiments import studies
from gatelab.experiments.claims import Claims
from gatelab.experiments.experiment import read_experiment
from gatelab.record import UNUSABLE
from gatelab.training import Run
from gatelab.training.recorder import FINAL
from gatelab.training.run import PROGRESS


@dataclass(frozen=True)
class RunStatus:
    """A run, how far it is, and who has it."""

    model: str
    name: str  # of the run, beside its model: seed 42
    status: str  # done, diverged, running, failed, interrupted, waiting or damaged
    reason: str = ""  # of a failure
    host: str = ""  # of the process that has it
    epochs_done: float = 0.0
    epochs: int = 0
    best: float | None = None  # validation score; errors are negative
    seconds_left: float | None = None


class RunWatch:
    """Looks at the runs of a directory again and again; those that have ended are not read a second time."""

    def __init__(self, directory: Path) -> None:
        experiments = studies.directories(directory)
        self.claims = {name: Claims(path) for name, path in experiments.items()}
        self.runs = [(study, path, *run) for study, path in experiments.items() for run in _planned(path)]
        self.ended: dict[Path, RunStatus] = {}

    def look(self) -> list[RunStatus]:
        """All runs as they are now."""
        found = []
        for study, directory, model, name, place in self.runs:
            path = within(directory, directory / place)
            if (status := self.ended.get(path)) is None:
                label = f"{study}: {model}" if study else model
                status = self._status(label, name, path, place, self.claims[study])
                if status.status in FINAL:
                    self.ended[path] = status
            found.append(status)
        return found

    def _status(self, model: str, name: str, path: Path, place: Path, claims: Claims) -> RunStatus:
        try:
            manifest = Run(path).manifest() if Run(path).exists() else None
            claim, holder = claims.state(place), claims.holder(place)
        except UNUSABLE as error:
            return RunStatus(model, name, "damaged", str(error))
        status, reason, host = "waiting", "", ""
        if manifest is not None:
            status, reason = manifest.status, manifest.error
        if status not in FINAL and holder is not None:
            status = {"held": "running", "failed": "failed"}.get(claim, "interrupted")
            reason, host = holder.reason, holder.host if claim == "held" else ""
        elif status == "running":  # and nobody has it
            status = "interrupted"
        progress = read_progress(path)
        return RunStatus(
            model, name, status, reason, host,
            epochs_done=float((manifest and manifest.epochs) or progress.get("epochs_done") or 0.0),
            epochs=int(progress.get("epochs") or 0),
            best=progress.get("best"),
            seconds_left=progress.get("seconds_left") if status == "running" else None,
        )  # fmt: skip


def _planned(directory: Path) -> list[tuple[str, str, Path]]:
    """The model, the name and the place of every trial and run."""
    experiment = read_experiment(directory)
    trials = [(trial.model, f"trial {trial.number + 1}", trial.path) for trial in experiment.trials]
    return [*trials, *((run.model, f"seed {run.seed}", run.path) for run in experiment.runs)]


def read_progress(path: Path) -> dict[str, Any]:
    """What a run process last wrote about its progress; empty if there is nothing."""
    try:
        content = json.loads(within(path, path / PROGRESS).read_text())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
