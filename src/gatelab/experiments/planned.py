"""One run of an experiment: its name, its place, its spec."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from gatelab.disk import within
from gatelab.formatting import file_name
from gatelab.training import Run
from gatelab.training.recorder import FINAL
from gatelab.training.spec import RunSpec


@dataclass(frozen=True)
class RunName:
    """Which run of an experiment."""

    model: str
    seed: int

    @property
    def title(self) -> str:
        """For people."""
        return f"{self.model}, seed {self.seed}"

    @property
    def path(self) -> Path:
        """The run directory, relative to that of the experiment."""
        return run_path(self.model, self.seed)


@dataclass(frozen=True)
class Planned(RunName):
    """One run of a plan, with what it takes to execute it."""

    spec: RunSpec

    def settled(self, directory: Path) -> RunSpec | None:
        """The spec; None as long as it depends on runs of the experiment in this directory that have not ended."""
        return self.spec

    def rivals(self, directory: Path) -> list[list[float]] | None:
        """The validation scores, epoch by epoch, of runs that this one is measured by: it stops if it is hopeless."""
        return None

    def may_retry(self, directory: Path) -> bool:
        """Whether a failure may be forgotten: no other run depends on it yet."""
        return True

    def refuse_another(self, directory: Path) -> None:
        """Raise if the directory of the run leads elsewhere, or holds a run of another spec."""
        path = within(directory, directory / self.path)
        if Run(path).exists() and (spec := self.settled(directory)) is not None:
            Run(path).checked_against(spec)


def run_path(model: str, seed: int) -> Path:
    """The directory of a run, relative to that of the experiment."""
    return Path("runs") / file_name(model) / f"seed-{seed}"


def has_ended(path: Path, directory: Path) -> str | None:
    """The status of a run in the directory of an experiment that has ended; None if there is something left to do."""
    run = Run(within(directory, directory / path))
    try:
        written = run.manifest_path.stat().st_mtime_ns
    except FileNotFoundError:
        return None
    status = _status(run.path, written)
    return status if status in FINAL else None


@lru_cache(10_000)  # workers ask again and again
def _status(path: Path, written: int) -> str:
    return Run(path).manifest().status
