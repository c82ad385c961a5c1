"""`gatelab forecast`: forecast the series of a trained run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from gatelab.cli.predict import refuse_overwriting, show
from gatelab.cli.settings import WHOLE
from gatelab.errors import GatelabError

if TYPE_CHECKING:
    from gatelab.use.forecasting import Forecast

STEPS = 24  # of a run of `gatelab train`, by default


def forecast(
    run: Annotated[Path, typer.Argument(help="The directory of a run, or of a forecaster.", metavar="RUN")],
    steps: Annotated[
        int | None, typer.Option(**WHOLE, help="Steps to forecast; by default 24, of a forecaster its horizon.")
    ] = None,
    coverage: Annotated[
        float | None, typer.Option(help="Probability of the prediction intervals of a forecaster; by default 0.9.")
    ] = None,
    lower: Annotated[
        float | None, typer.Option(help="Value that the series of a forecaster cannot go below: cuts intervals off.")
    ] = None,
    upper: Annotated[float | None, typer.Option(help="Value that it cannot go above.")] = None,
    data: Annotated[Path | None, typer.Option(metavar="NEWER.csv", help="Forecast from newer values.")] = None,
    future: Annotated[
        Path | None,
        typer.Option(metavar="FILE.csv", help="Future values of the exogenous inputs, if the model has any."),
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE.csv", help="Write the forecast there.")] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE.png", help="Plot the forecast: a .png, .svg or .pdf.")
    ] = None,
) -> None:
    """Forecast the series that a run was trained on, from its end, in its original units and with dates.

    A forecaster, as `gatelab fit` makes it, also gives prediction intervals.
    """
    from gatelab import style
    from gatelab.data import timestamps
    from gatelab.report.forecast import figure

    for output in (out, plot):
        refuse_overwriting(output, data, future)
    if plot is not None:
        style.checked_format(plot)
    result = _forecast(run, steps, {"coverage": coverage, "lower": lower, "upper": upper}, data, future)
    times = (
        [str(step + 1) for step in range(len(result.values))]
        if result.stamps is None
        else timestamps.format_times(result.stamps, result.before.stamps)
    )
    title = "step" if result.stamps is None else "time"
    show([title, *_titles(result)], [[time, *row] for time, row in zip(times, _cells(result), strict=True)], out)
    for note in _notes(result):
        typer.echo(f"note: {note}", err=True)
    if plot is not None:
        style.save(figure(result), plot)
        typer.echo(f"The figure is in {plot}")


def _forecast(
    run: Path, steps: int | None, intervals: dict[str, float | None], data: Path | None, future: Path | None
) -> Forecast:
    """Forecast by a forecaster, or by a run of `gatelab train`, which has no intervals."""
    from gatelab.training.run import FORECASTER

    if (run / FORECASTER).is_file():
        from gatelab.fitting import forecasts

        return forecasts.forecast(run, steps, data, future, **intervals)
    from gatelab.use import load
    from gatelab.use.forecasting import forecast as forecast_series

    trained = load(run)
    if given := next((f"--{name} {value:g}" for name, value in intervals.items() if value is not None), None):
        raise GatelabError(
            f"{given}: {run} is a run of `gatelab train`, which has no prediction intervals: leave it "
            "out, or make a forecaster with `gatelab fit`"
        )
    return forecast_series(trained, STEPS if steps is None else steps, data, future)


def _titles(result: Forecast) -> list[str]:
    if result.lower is None:
        return list(result.columns)
    return [text for name in result.columns for text in (name, f"{name} lower", f"{name} upper")]


def _cells(result: Forecast) -> list[list[Any]]:
    """The numbers of each row; where there is no interval, its cells are empty."""
    if result.lower is None or result.upper is None:
        return [list(row) for row in result.values]
    rows = zip(result.values, result.lower, result.upper, strict=True)
    return [
        ["" if value != value else value for each in zip(*row, strict=True) for value in each] for row in rows
    ]  # NaN is not equal to itself


def _notes(result: Forecast) -> Iterator[str]:
    if result.before.stamps is not None and result.stamps is None:
        yield "irregular timestamps: the steps of the forecast are numbered instead"
    if result.lower is None or result.upper is None:
        return
    if (beyond := int(np.isnan(result.lower[:, 0]).sum())) > 0:
        known = len(result.lower) - beyond
        yield (
            f"intervals are calibrated for {known} steps ahead; there are none beyond: `gatelab fit --horizon "
            f"{len(result.lower)}` makes them"
        )
    if np.isinf(result.upper - result.lower).any():
        yield "some intervals are infinite, for want of held-out errors: a lower --coverage makes them finite"
    if result.advice:
        yield result.advice
