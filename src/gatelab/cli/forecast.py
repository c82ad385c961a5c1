"""`gatelab forecast`: forecast the series of a trained run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gatelab.cli.predict import refuse_overwriting, show
from gatelab.cli.settings import WHOLE


def forecast(
    run: Annotated[Path, typer.Argument(help="The directory of a run.", metavar="RUN")],
    steps: Annotated[int, typer.Option(**WHOLE, help="Steps to forecast.")] = 24,
    data: Annotated[Path | None, typer.Option(metavar="NEWER.csv", help="Forecast this series instead.")] = None,
    future: Annotated[
        Path | None,
        typer.Option(metavar="FILE.csv", help="Future values of the exogenous inputs, if the model has any."),
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE.csv", help="Write the forecast there.")] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE.png", help="Plot the forecast: a .png, .svg or .pdf.")
    ] = None,
) -> None:
    """Forecast the series that a run was trained on, from its end, in its original units and with dates."""
    from gatelab import style
    from gatelab.report.forecast import figure
    from gatelab.tasks import timestamps
    from gatelab.use import load
    from gatelab.use.forecasting import forecast as forecast_series

    for output in (out, plot):
        refuse_overwriting(output, data, future)
    if plot is not None:
        style.checked_format(plot)
    result = forecast_series(load(run), steps, data, future)
    times = (
        [str(step + 1) for step in range(steps)]
        if result.stamps is None
        else timestamps.format_times(result.stamps, result.before.stamps)
    )
    title = "step" if result.stamps is None else "time"
    show([title, *result.columns], [[time, *row] for time, row in zip(times, result.values, strict=True)], out)
    if result.before.stamps is not None and result.stamps is None:
        typer.echo("note: irregular timestamps: the steps of the forecast are numbered instead", err=True)
    if plot is not None:
        style.save(figure(result), plot)
        typer.echo(f"The figure is in {plot}")
