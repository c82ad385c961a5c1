"""Processes on this machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from gatelab.errors import GatelabError
from gatelab.experiments.experiment import EXPERIMENT, read_experiment
from gatelab.experiments.planned import Planned
from gatelab.experiments.worker import Finished, Worker


class LocalExecutor:
    """Executes `jobs` processes at a time; by default one per core. Other workers may help."""

    detached = False
    is_local = True

    def __init__(self, jobs: int | None = None) -> None:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        limit = os.environ.get("OMP_NUM_THREADS", "")  # as in torch
        if jobs is not None and jobs < 1:
            raise GatelabError(f"jobs is {jobs}: expected at least one process")
        self.jobs, self.cores = jobs or cores, min(cores, int(limit)) if limit.isdecimal() else cores

    def threads_for(self, runs: int) -> int:
        """With at least as many runs as cores, one thread per process is fastest: threads need no synchronization.
        Fewer runs share the cores.
        """
        return max(1, self.cores // max(1, min(self.jobs, runs)))

    def execute(self, runs: list[Planned], directory: Path, tick: Callable[[], None]) -> Iterator[Finished]:
        """Yield each run when it ends. If the caller stops, SIGTERM makes the others save and exit."""
        planned = read_experiment(directory).threads if (directory / EXPERIMENT).is_file() else None
        return Worker(runs, directory, self.jobs, planned or self.threads_for(len(runs))).work(tick)
