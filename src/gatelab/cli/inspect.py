"""`gatelab inspect`: gates, memory, gradients and answers of a trained run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gatelab.cli.settings import AcceptChanges


def inspect(
    run: Annotated[Path, typer.Argument(help="The directory of a run.", metavar="RUN")],
    sample: Annotated[int, typer.Option(help="The test example that is shown step by step, from 0.")] = 0,
    layer: Annotated[int | None, typer.Option(help="The layer that is looked at, from 0; without it the last.")] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where pictures and page go; without it RUN/inspect.")
    ] = None,
    accept_changes: AcceptChanges = False,
) -> None:
    """Look inside a trained run: every gate over time, how far it remembers, and what it says, on one page."""
    from gatelab.analysis import inspect as look
    from gatelab.report.inspection.write import write_inspection
    from gatelab.training.run import INSPECTION

    found = look(run, sample, layer, accept_changes=accept_changes)
    if found.subject.note:
        typer.echo(f"note: {found.subject.note}", err=True)
    typer.echo(f"The page is {write_inspection(found, out or found.subject.run.file(INSPECTION))}")
