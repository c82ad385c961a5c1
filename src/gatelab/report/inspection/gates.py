"""Gates and states over time: heat maps below the input, single units as lines, distributions of values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gatelab import style
from gatelab.analysis import Inspection
from gatelab.analysis.gates import most_variable
from gatelab.report.inspection.examples import draw_reading, verdict

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

CHOSEN = 3  # units of each kind whose lines are drawn


def heat_maps(inspection: Inspection) -> Figure:
    """The input, and below it every gate and state: units by steps, the slowest units at the top."""
    traces, order = inspection.example, unit_order(inspection)
    with style.house():
        figure = style.new_figure(9, 1.3 + 1.35 * len(traces.all))
        heights = [0.3 if inspection.reading.words else 0.8, *[1.0] * len(traces.all)]
        grid = figure.add_gridspec(len(heights), 2, width_ratios=[60, 1], height_ratios=heights)
        top = figure.add_subplot(grid[0, 0])
        draw_reading(top, inspection.reading)
        top.set_title(f"input: test example {inspection.sample}, {verdict(inspection, inspection.sample)}")
        for row, (name, values) in enumerate(traces.all.items(), 1):
            axes = figure.add_subplot(grid[row, 0], sharex=top)
            picture = _heat_map(
                axes, inspection, name, values[0, : len(inspection.reading.x), order].reshape(len(order), -1)
            )
            figure.colorbar(picture, cax=figure.add_subplot(grid[row, 1]))
            axes.tick_params(labelbottom=row == len(traces.all))
        top.tick_params(labelbottom=False)
        axes.set_xlabel("step")
    return figure


def _heat_map(axes: Axes, inspection: Inspection, name: str, values: np.ndarray) -> AxesImage:
    """(units, steps); light is 0."""
    cell = inspection.subject.cell
    if name in cell.neutral:
        scale = {"cmap": "Blues", "vmin": 0.0, "vmax": 1.0}
    else:
        largest = max(1e-9, float(np.nanmax(np.abs(values))))
        scale = {"cmap": "RdBu_r", "vmin": -largest, "vmax": largest}
    role = f", {ROLES[cell.roles[name]]}" if name in cell.roles else ""
    kind = "gate" if name in inspection.example.gates else "state"
    axes.set_title(f"{kind} {name}{role}")
    axes.set_ylabel("unit")
    axes.set_yticks([])
    return axes.imshow(values, aspect="auto", interpolation="nearest", **scale)  # type: ignore[arg-type]


ROLES = {"keep": "keeps at 1", "write": "overwrites at 1", "add": "adds at 1"}


def unit_order(inspection: Inspection) -> np.ndarray:
    """The units from slow to fast: by implied time constant, else by how little the state varies."""
    if inspection.constants:
        return (-next(iter(inspection.constants.values()))).argsort(kind="stable")
    first = next(iter(inspection.probe.states.values()))
    spread: np.ndarray = np.nanmean(np.nanstd(first, axis=1), axis=0)
    return spread.argsort(kind="stable")


def unit_lines(inspection: Inspection) -> Figure:
    """Single units: those that vary most on this example, and the slowest."""
    lively = most_variable(inspection.example, 0, CHOSEN)
    slow = [unit for unit in unit_order(inspection) if unit not in lively][:CHOSEN]
    chosen = [(unit, "varies most") for unit in lively] + [(unit, "slow") for unit in slow]
    heights = [0.3 if inspection.reading.words else 0.7, *[1.0] * len(chosen)]
    thick = 2 if len(inspection.reading.x) <= 200 else 1.2
    with style.house():
        figure = style.new_figure(9, 1.6 + 1.15 * len(chosen))
        grid = figure.subplots(len(heights), 1, height_ratios=heights, sharex=True, squeeze=False)
        draw_reading(grid[0, 0], inspection.reading)
        for axes, (unit, why) in zip(grid[1:, 0], chosen, strict=True):
            axes.axhline(0, color=style.FAINT, linewidth=0.5)
            for number, (name, values) in enumerate(inspection.example.gates.items()):
                axes.plot(values[0, :, unit], color=style.colour(number), linewidth=1, label=f"gate {name}")
            for name, dashes in zip(inspection.example.states, ("-", "--", ":", "-."), strict=False):
                states = inspection.example.states[name]
                axes.plot(states[0, :, unit], dashes, color=style.INK, linewidth=thick, label=f"state {name}")
            axes.set_title(f"unit {unit}{_constant(inspection, unit)}: {why}", size=9)
        grid[-1, 0].set_xlabel("step")
        handles, labels = grid[1, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=6)
    return figure


def _constant(inspection: Inspection, unit: int) -> str:
    values = next(iter(inspection.constants.values()), None)
    return "" if values is None else f", time constant {values[unit]:.1f} steps"


def values(inspection: Inspection) -> Figure | None:
    """Histograms of each gate over all units, steps and examples."""
    seen = inspection.probe
    if not seen.gates:
        return None
    with style.house():
        figure = style.new_figure(9, 2.6)
        grid = figure.subplots(1, len(seen.gates), squeeze=False)[0]
        for number, (axes, gate) in enumerate(zip(grid, inspection.gates, strict=True)):
            present = seen.gates[gate.name][seen.inside].ravel()
            low = 0.0 if gate.saturated is not None else min(-1.0, float(present.min()))
            axes.hist(present, bins=50, range=(low, max(1.0, float(present.max()))), color=style.colour(number),
                      weights=np.full(len(present), 100 / len(present)))  # fmt: skip
            axes.axvline(gate.mean, color=style.INK, linewidth=1)
            saturated = "" if gate.saturated is None else f"\nsaturated {100 * gate.saturated:.0f} %"
            axes.set_title(f"{gate.name}: mean {gate.mean:.2f}{saturated}", size=9)
            axes.set_xlabel("value")
        figure.axes[0].set_ylabel("% of all values")
    return figure
