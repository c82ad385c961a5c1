"""`gatelab worker`: execute the runs of a planned experiment that nobody has."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from gatelab.cli.settings import WHOLE
from gatelab.errors import GatelabError


def worker(
    directory: Annotated[Path, typer.Argument(help="Directory of an experiment.", metavar="DIR")],
    jobs: Annotated[
        int | None, typer.Option("--jobs", **WHOLE, help="Number of parallel processes; by default one per core.")
    ] = None,
    most: Annotated[
        int | None,
        typer.Option("--runs", **WHOLE, help="Stop after this number of runs; by default if none is left."),
    ] = None,
    task: Annotated[
        str | None, typer.Option("--task", help="FILE.py:NAME, for an experiment on a task class of your own.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print errors only.")] = False,
) -> None:
    """Take the next run that nobody has, until none is left.

    Any number of workers, on any number of machines that see the directory, can be started and stopped at any time.
    The runs of one that died are resumed by the others. Under Slurm, SIGUSR1 saves and requeues the job.
    """
    if most is not None and most < 1:
        raise GatelabError(f"--runs is {most}: expected at least one run")
    received = []

    def stop(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # a second signal must not interrupt the saving
        received.append(number)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, stop)  # before the imports, which take seconds
    try:
        statuses = _take_part(directory, jobs, most, task, quiet)
    except KeyboardInterrupt:
        if received:
            _requeue(directory)
            raise typer.Exit(0) from None
        typer.echo(f"interrupted; resume with: gatelab worker {shlex.quote(str(directory))}", err=True)
        raise typer.Exit(130) from None
    finally:
        signal.signal(signal.SIGUSR1, before)
    if not quiet:
        typer.echo(f"Write the report: gatelab report {shlex.quote(str(directory))}")
    raise typer.Exit(1 if "failed" in statuses else 0)


def _take_part(directory: Path, jobs: int | None, most: int | None, task: str | None, quiet: bool) -> list[str]:
    """Execute runs of all studies. Returns how they ended."""
    from gatelab.cli.terminal.experiment import watcher
    from gatelab.experiments.bench import take_part
    from gatelab.experiments.executors.local import LocalExecutor
    from gatelab.experiments.studies import directories

    executor, statuses = LocalExecutor(jobs), list[str]()
    for path in directories(directory).values():
        left = None if most is None else most - len(statuses)
        if left != 0:
            statuses += take_part(path, executor.jobs, left, watcher(quiet), task)
    return statuses


def _requeue(directory: Path) -> None:
    """Ask Slurm to start this job again: its time is nearly over, and what it did is saved."""
    array, element = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
    job = f"{array}_{element}" if array else os.environ.get("SLURM_JOB_ID")
    if job is None:
        typer.echo("saved after SIGUSR1; not a job of Slurm, so nothing is requeued", err=True)
        return
    typer.echo(f"saved after SIGUSR1; requeueing the job {job}", err=True)
    done = subprocess.run(["scontrol", "requeue", job], capture_output=True, text=True, check=False)
    if done.returncode:
        raise GatelabError(
            f"Slurm did not requeue the job {job} ({done.stderr.strip()}): what it did is saved; submit the experiment "
            f"again, or resume it with: gatelab worker {shlex.quote(str(directory))}"
        )
