"""State sensitivity, time constants, eigenvalues of the one-step Jacobian, gradient norms by step and epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gatelab import style
from gatelab.analysis import Inspection
from gatelab.training.gradients import Gradients

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FLOOR = 1e-12  # smaller values are drawn as zero
LEVELS = {"1/e": 1 / np.e, "1 %": 0.01}


def decay(inspection: Inspection) -> Figure:
    """State sensitivity by lag; beside it the time constants that the gates imply."""
    with style.house():
        figure = style.new_figure(9, 3.6)
        left, right = figure.subplots(1, 2, width_ratios=[3, 2])
        _decay(left, inspection)
        _constants(right, inspection)
    return figure


def _decay(axes: Axes, inspection: Inspection) -> None:
    memory = inspection.memory
    median, low, high = (_above_the_floor(memory.quantile(share)) for share in (0.5, 0.1, 0.9))
    last = int(np.flatnonzero(np.isfinite(high))[-1])  # from there on nothing is left
    axes.fill_between(memory.lags, low, high, color=style.COLOURS[0], alpha=0.2, linewidth=0)
    axes.plot(memory.lags, median, color=style.COLOURS[0])
    bottom = max(FLOOR, min(1e-3, 0.5 * float(np.nanmin(low))))
    for name, level in LEVELS.items():
        axes.axhline(level, color=style.FAINT, linewidth=0.8, linestyle=":")
        axes.annotate(name, (1, level), xycoords=("axes fraction", "data"), xytext=(-2, 2), ha="right",
                      textcoords="offset points", color=style.FAINT, size=8)  # fmt: skip
    axes.set(yscale="log", xlabel="lag k, steps back from the end", ylabel="‖∂s(T)/∂s(T−k)‖ / √n")
    axes.set(ylim=(bottom, 3 * max(1.0, float(np.nanmax(high)))), xlim=(0, min(memory.lags[-1], last + 2)))
    axes.locator_params(axis="x", integer=True)
    axes.set_title("State sensitivity: median, 10–90 % of examples", size=9)


def _above_the_floor(values: np.ndarray) -> np.ndarray:
    """The values above the floor, for a logarithmic scale; NaN for the others."""
    return np.where(values > FLOOR, values, np.nan)


def _constants(axes: Axes, inspection: Inspection) -> None:
    if not inspection.constants:
        axes.axis("off")
        axes.text(0.5, 0.5, "no single gate of this cell decides\nwhat is retained: no time constants",
                  ha="center", va="center", color=style.FAINT)  # fmt: skip
        return
    for number, (name, values) in enumerate(inspection.constants.items()):
        finite = np.sort(np.clip(values, 0.05, 1e6))[::-1]
        axes.plot(np.arange(1, len(finite) + 1), finite, "o", markersize=3, color=style.colour(number + 2), label=name)
    longest = inspection.subject.task.steps
    axes.axhline(longest, color=style.FAINT, linewidth=0.8, linestyle=":")
    axes.annotate("T", (1, longest), xycoords=("axes fraction", "data"), xytext=(-2, -3), ha="right",
                  va="top", textcoords="offset points", color=style.FAINT, size=8)  # fmt: skip
    axes.set(yscale="log", xlabel="unit, slowest first", ylabel="steps")
    axes.locator_params(axis="x", integer=True)
    axes.set_title(f"Time constants implied by gate {', '.join(inspection.constants)}", size=9)


def eigenvalues(inspection: Inspection) -> Figure:
    """The eigenvalues of one step at several steps, with the unit circle; as rates, with the imaginary axis."""
    spectrum = inspection.spectrum
    with style.house():
        figure = style.new_figure(9 if spectrum.rates is not None else 5.2, 4)
        grid = figure.subplots(1, 2 if spectrum.rates is not None else 1, squeeze=False)[0]
        turn = np.linspace(0, 2 * np.pi, 200)
        grid[0].plot(np.cos(turn), np.sin(turn), color=style.FAINT, linewidth=0.8)
        _cloud(grid[0], spectrum.values, spectrum.steps)
        grid[0].set_title("Eigenvalues of ∂s(t)/∂s(t−1), and the unit circle", size=9)
        grid[0].set_aspect("equal", adjustable="datalim")
        if spectrum.rates is not None:
            grid[1].axvline(0, color=style.FAINT, linewidth=0.8)
            _cloud(grid[1], spectrum.rates, spectrum.steps)
            grid[1].set_title(f"(λ − 1) / ε with ε = {spectrum.epsilon:.3g}, and the imaginary axis", size=9)
            grid[1].set_aspect("equal", adjustable="datalim")
        handles, labels = grid[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3)
    return figure


def _cloud(axes: Axes, values: np.ndarray, steps: np.ndarray) -> None:
    for number, (row, step) in enumerate(zip(values, steps, strict=True)):
        axes.plot(row.real, row.imag, "o", markersize=3.5, alpha=0.6, color=style.colour(number), mew=0,
                  label=f"step {step}")  # fmt: skip
    axes.set(xlabel="real part", ylabel="imaginary part")


def gradients(inspection: Inspection) -> Figure:
    """‖∂L/∂s_t‖: epoch by step where it was recorded, else one line for the current weights."""
    states, layer = inspection.subject.cell.states, inspection.subject.layer
    # Sequences of unequal length are aligned at their ends: the last step is 0, the one before it −1.
    from_end = inspection.subject.task.validation.lengths is not None
    first = 1 - inspection.gradient.by_step.shape[-1] if from_end else 0
    with style.house():
        figure = style.new_figure(9, 0.8 + 2.6 * len(states))
        for state, axes in enumerate(figure.subplots(len(states), 1, squeeze=False)[:, 0]):
            if inspection.recorded is None:
                norms = inspection.gradient.by_step[layer, state]
                axes.semilogy(first + np.arange(len(norms)), _above_the_floor(norms), color=style.COLOURS[0])
                axes.set_ylabel("norm")
                axes.margins(x=0.01)
            else:
                _record(axes, inspection.recorded, layer, state, from_end)
            axes.set_title(f"‖∂L/∂{states[state]}(t)‖, mean over validation examples")
            axes.set_xlabel("step, counted from the end of each sequence" if from_end else "step t")
            axes.locator_params(axis="x", integer=True)
    return figure


def _record(axes: Axes, recorded: Gradients, layer: int, state: int, from_end: bool) -> None:
    from matplotlib.colors import LogNorm

    norms = recorded.norms[:, layer, state]  # (E, T)
    there = norms[np.isfinite(norms) & (norms > FLOOR)]
    high = float(there.max()) if len(there) else 1.0
    low = max(float(there.min()) if len(there) else 0.1, 1e-8 * high)
    shown = np.where(norms > 0, np.maximum(norms, low), np.nan)  # zero has no colour
    edges = np.arange(norms.shape[1] + 1) - 0.5 + (1 - norms.shape[1] if from_end else 0)
    rows = np.arange(len(norms) + 1) - 0.5
    scale = LogNorm(low, high if high > low else 10 * low)
    picture = axes.pcolormesh(edges, rows, shown, norm=scale, cmap="viridis")
    marks = np.arange(0, len(norms), -(-len(norms) // 10))  # evenly
    axes.set_yticks(marks, [str(epoch) for epoch in recorded.epochs[marks]])
    axes.set_ylabel("epochs done")
    assert axes.figure is not None
    axes.figure.colorbar(picture, ax=axes, pad=0.01, aspect=14)
