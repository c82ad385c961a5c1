"""The figure of a forecast: the end of the series, and its continuation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gatelab import style
from gatelab.formatting import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from gatelab.use.forecasting import Forecast


def figure(forecast: Forecast) -> Figure:
    """A panel for each column that is forecast."""
    count = len(forecast.columns)
    before, after = _positions(forecast)
    with style.house():
        drawing = style.new_figure(7.0, 0.7 + 2.2 * count)
        panels = np.atleast_1d(drawing.subplots(count, 1, sharex=True))
        for k, (axes, name) in enumerate(zip(panels, forecast.columns, strict=True)):
            known = forecast.before.values[-len(before) :, k]
            axes.plot(before, known, color=style.colour(0), label="series")
            # The line begins at the last known value, so that the two are connected.
            continued = [known[-1], *forecast.values[:, k]]
            axes.plot([before[-1], *after], continued, color=style.colour(1), label="forecast")
            _interval(axes, forecast, k, after)
            axes.axvline(before[-1], color=style.FAINT, linewidth=0.8, linestyle="dotted")
            axes.set_title(name)
        drawing.legend(*panels[0].get_legend_handles_labels(), loc="outside upper right", ncols=3)
        panels[-1].set_xlabel("time" if forecast.stamps is not None else "step, 0 is the last known one")
        if forecast.stamps is not None:
            from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

            locator = AutoDateLocator()  # type: ignore[no-untyped-call]
            panels[-1].xaxis.set_major_locator(locator)
            panels[-1].xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    return drawing


def _interval(axes: Axes, forecast: Forecast, column: int, after: Any) -> None:
    """The prediction interval around the forecast; where it is infinite there is nothing to draw."""
    if forecast.lower is None or forecast.upper is None or forecast.coverage is None:
        return
    low, high = forecast.lower[:, column], forecast.upper[:, column]
    known = np.isfinite(high - low)
    if not known.any():
        return
    label = f"{percent(forecast.coverage)} prediction interval"
    axes.fill_between(np.asarray(after)[known], low[known], high[known], color=style.colour(1), alpha=0.2, linewidth=0,
                      label=label)  # fmt: skip
    if known.sum() == 1:
        axes.errorbar(np.asarray(after)[known], (low + high)[known] / 2, (high - low)[known] / 2, color=style.colour(1),
                      alpha=0.4)  # fmt: skip


def _positions(forecast: Forecast) -> tuple[Any, Any]:
    """The x positions of the known and of the forecast values: times where all are known, else steps."""
    times = forecast.before.stamps
    if forecast.stamps is not None and times is not None:
        return times, forecast.stamps
    return np.arange(1 - len(forecast.before.values), 1), np.arange(1, len(forecast.values) + 1)
