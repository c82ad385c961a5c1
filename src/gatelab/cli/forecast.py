"""`gatelab forecast`: the series of a trained run, continued."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gatelab.cli.predict import refuse_overwriting, show


def forecast(
    run: Annotated[Path, typer.Argument(help="The directory of a run.", metavar="RUN")],
    steps: Annotated[int, typer.Option(help="Steps to forecast.")] = 24,
    data: Annotated[Path | None, typer.Option(metavar="NEWER.csv", help="Continue this series instead.")] = None,
    future: Annotated[
        Path | None,
        typer.Option(metavar="FILE.csv", help="Future values of the exogenous inputs, if the model has any."),
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE.csv", help="Write the forecast there.")] = None,
    plot: Annotated[Path | None, typer.Option(metavar="FILE.png", help="Draw it: a .png, .svg or .pdf.")] = None,
) -> None:
    """Continue the series that a run was trained on, from its end, in its own units and with its dates."""
    from gatelab import style
    from gatelab.report.forecast import figure
    from gatelab.tasks import stamps
    from gatelab.use import load
    from gatelab.use.forecasting import continuation

    for written in (out, plot):
        refuse_overwriting(written, data, future)
    if plot is not None:
        style.checked_format(plot)
    found = continuation(load(run), steps, data, future)
    times = [str(step + 1) for step in range(steps)] if found.stamps is None else stamps.shown(found.stamps)
    title = "step" if found.stamps is None else "time"
    show([title, *found.columns], [[time, *row] for time, row in zip(times, found.values, strict=True)], out)
    if found.before.stamps is not None and found.stamps is None:
        typer.echo("note: irregular time stamps: the steps of the forecast are numbered instead", err=True)
    if plot is not None:
        style.save(figure(found), plot)
        typer.echo(f"The picture is in {plot}")
