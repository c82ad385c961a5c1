"""`gatelab inspect`: gates, memory, gradients and predictions of a trained run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gatelab.cli.settings import WHOLE, AcceptChanges


def inspect(
    run: Annotated[Path, typer.Argument(help="Run directory.", metavar="RUN")],
    sample: Annotated[int, typer.Option(**WHOLE, help="Test example to show step by step, counted from 0.")] = 0,
    layer: Annotated[
        int | None, typer.Option(**WHOLE, help="Layer to inspect, counted from 0; by default the last.")
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Output directory; by default RUN/inspect.")] = None,
    accept_changes: AcceptChanges = False,
) -> None:
    """Inspect a trained run: gates over time, memory, gradients and predictions, on one HTML page."""
    from gatelab.analysis import inspect as inspect_run
    from gatelab.report.inspection.write_inspection import write_inspection
    from gatelab.training.run import INSPECTION

    inspection = inspect_run(run, sample, layer, accept_changes=accept_changes)
    if inspection.subject.note:
        typer.echo(f"note: {inspection.subject.note}", err=True)
    typer.echo(f"The page is {write_inspection(inspection, out or inspection.subject.run.file(INSPECTION))}")
