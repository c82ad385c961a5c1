"""Figures of predictions: test examples, the worst errors, the confusion matrix, predicted against true."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gatelab import style
from gatelab.analysis import Inspection
from gatelab.report.figures import confusion_matrix
from gatelab.report.inspection.examples import draw_example
from gatelab.tasks.images import Images

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def gallery(inspection: Inspection) -> Figure:
    """Test examples: the first ones, or of a series windows that do not overlap, from all of the test part."""
    known, count = min(len(inspection.predictions.targets), inspection.predictions.available), _shown(inspection)
    if inspection.subject.task.forecasts:
        apart = inspection.subject.task.steps
        return _grid(inspection, spread_out(np.arange(known), apart, count))
    return _grid(inspection, np.arange(min(count, known)))


def worst(inspection: Inspection) -> Figure | None:
    """The examples with the worst predictions, the worst first; of a series, windows that do not overlap."""
    task, outcome = inspection.subject.task, inspection.predictions
    ranked = outcome.worst(len(outcome.targets) if task.forecasts else _shown(inspection))
    if task.forecasts:
        ranked = without_overlap(ranked, task.steps, _shown(inspection))
    return _grid(inspection, ranked) if len(ranked) else None


def spread_out(windows: np.ndarray, apart: int, count: int) -> np.ndarray:
    """As many windows as asked for, evenly over all of them; fewer where they would overlap."""
    count = max(1, min(count, -(-len(windows) // apart)))
    return windows[np.linspace(0, len(windows) - 1, count).astype(int)] if len(windows) else windows


def without_overlap(windows: np.ndarray, apart: int, count: int) -> np.ndarray:
    """The first windows of a ranking, leaving out those that overlap one that is taken."""
    taken: list[int] = []
    for window in windows.tolist():
        if all(abs(window - other) >= apart for other in taken):
            taken.append(window)
        if len(taken) == count:
            break
    return np.array(taken, int)


def confusion(inspection: Inspection) -> Figure | None:
    """The confusion matrix of the test set, where targets are classes."""
    counts, classes = inspection.predictions.confusion, inspection.subject.task.classes
    if counts is None or classes is None:
        return None
    return confusion_matrix(counts, list(classes), "Confusion matrix, % of each true class, test set")


def predicted_against_true(inspection: Inspection) -> Figure | None:
    """A scatter plot, where targets are numbers."""
    if inspection.predictions.confusion is not None:
        return None
    outcome = inspection.predictions
    true, predicted = (values[outcome.scored].ravel() for values in (outcome.targets, outcome.predicted))
    few = np.linspace(0, len(true) - 1, min(len(true), 3000)).astype(int)
    with style.house():
        figure = style.new_figure(4.6, 4.2)
        axes = figure.subplots()
        ends = [min(true.min(), predicted.min()), max(true.max(), predicted.max())]
        axes.plot(ends, ends, color=style.FAINT, linewidth=0.8)
        axes.plot(true[few], predicted[few], "o", markersize=3, alpha=0.35, color=style.COLOURS[0], mew=0)
        axes.set(xlabel="true", ylabel="predicted", title="Predicted against true, test set")
    return figure


def _shown(inspection: Inspection) -> int:
    task = inspection.subject.task
    return 16 if isinstance(task, Images) else 8 if task.vocabulary else 6


def _grid(inspection: Inspection, places: np.ndarray) -> Figure:
    task = inspection.subject.task
    if isinstance(task, Images):
        across, width, height = 8, 9.0, 1.55
    elif task.vocabulary:
        across, width, height = 1, 9.0, 0.75 if task.per_step else 0.35
    else:
        across, width, height = 2, 9.0, 1.7
    down = -(-len(places) // across)
    with style.house():
        figure = style.new_figure(width, 0.3 + height * down)
        grid = figure.subplots(down, across, squeeze=False).ravel()
        for axes, place in zip(grid, places, strict=False):
            draw_example(axes, inspection, int(place))
        for axes in grid[len(places) :]:
            axes.axis("off")
        if task.per_step and not task.vocabulary:
            figure.supxlabel("step; dotted: true, coloured: predicted", size=8)
    return figure
