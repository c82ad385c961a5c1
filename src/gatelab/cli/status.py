"""`gatelab status`: the runs of an experiment, as they are now."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

EVERY = 1.0  # seconds between two looks


def status(
    directory: Annotated[Path, typer.Argument(help="Directory of an experiment.", metavar="DIR")],
    watch: Annotated[bool, typer.Option("--watch", help="Update the table until all runs have ended.")] = False,
) -> None:
    """Show every run of an experiment: its status, its progress, and where it is going on."""
    from rich.console import Console
    from rich.live import Live

    from gatelab.cli.terminal.experiment import ENDED, table
    from gatelab.experiments.status import RunWatch

    console, runs = Console(highlight=False), RunWatch(directory)
    now = runs.look()
    if not (watch and console.is_terminal):
        while watch and any(run.status not in ENDED for run in now):
            time.sleep(EVERY)
            now = runs.look()
        console.print(table(now))
    else:
        with Live(table(now), console=console, auto_refresh=False) as live:
            try:
                while any(run.status not in ENDED for run in now):
                    time.sleep(EVERY)
                    now = runs.look()
                    live.update(table(now), refresh=True)
            except KeyboardInterrupt:
                raise typer.Exit(130) from None
    for run in now:
        if run.reason:
            console.print(f"{run.model}, {run.name}: {run.status} ({run.reason})", markup=False, soft_wrap=True)
