"""A forecast drawn: the end of the series, and what is expected to follow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gatelab import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gatelab.use.forecasting import Forecast


def figure(found: Forecast) -> Figure:
    """A panel for each column that is forecast."""
    count = len(found.columns)
    before, after = _places(found)
    with style.house():
        made = style.new_figure(7.0, 0.7 + 2.2 * count)
        panels = np.atleast_1d(made.subplots(count, 1, sharex=True))
        for k, (axes, name) in enumerate(zip(panels, found.columns, strict=True)):
            known = found.before.values[-len(before) :, k]
            axes.plot(before, known, color=style.colour(0), label="series")
            # The line begins at the last known value, so that the two hang together.
            axes.plot([before[-1], *after], [known[-1], *found.values[:, k]], color=style.colour(1), label="forecast")
            axes.axvline(before[-1], color=style.FAINT, linewidth=0.8, linestyle="dotted")
            axes.set_title(name)
        made.legend(*panels[0].get_legend_handles_labels(), loc="outside upper right", ncols=2)
        panels[-1].set_xlabel("time" if found.stamps is not None else "step, 0 is the last known one")
        if found.stamps is not None:
            from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

            locator = AutoDateLocator()  # type: ignore[no-untyped-call]
            panels[-1].xaxis.set_major_locator(locator)
            panels[-1].xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    return made


def _places(found: Forecast) -> tuple[Any, Any]:
    """Where the known and the new values stand: times where all have one, else numbers of steps."""
    times = found.before.stamps
    if found.stamps is not None and times is not None:
        return times, found.stamps
    return np.arange(1 - len(found.before.values), 1), np.arange(1, len(found.values) + 1)
