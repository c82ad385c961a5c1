"""Where runs are executed: this machine, a Ray cluster, or Slurm. Each is one file with one class."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from gatelab.experiments.planned import Planned
from gatelab.experiments.worker import Finished


class Executor(Protocol):
    """Executes runs in the directory of an experiment, which holds its plan."""

    detached: bool  # whether runs are only submitted: `execute` returns before they end
    is_local: bool  # whether runs are executed on this machine

    def threads_for(self, runs: int) -> int:
        """Threads of each of so many runs; results are the same bit for bit only for the same number."""

    def execute(self, runs: list[Planned], directory: Path, tick: Callable[[], None]) -> Iterator[Finished]:
        """Yield each run when it ends, in any order; call `tick` several times per second."""
