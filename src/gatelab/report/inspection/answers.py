"""What the model says, drawn: test examples with their answers, the worst mistakes, what was taken for what."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gatelab import style
from gatelab.analysis import Inspection
from gatelab.report.figures import confusion_matrix
from gatelab.report.inspection.examples import draw_example
from gatelab.tasks.images import Images
from gatelab.tasks.synthetic import Tokens

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def gallery(found: Inspection) -> Figure:
    """The first test examples."""
    return _grid(found, np.arange(min(_shown(found), len(found.answers.right), found.answers.at_hand)))


def mistakes(found: Inspection) -> Figure | None:
    """The examples with the worst answers, the worst first."""
    worst = found.answers.mistakes(_shown(found))
    return _grid(found, worst) if len(worst) else None


def confusion(found: Inspection) -> Figure | None:
    counts, classes = found.answers.confusion, found.subject.task.classes
    if counts is None or classes is None:
        return None
    return confusion_matrix(counts, list(classes), "% of each true class, test set")


def agreement_of_numbers(found: Inspection) -> Figure | None:
    """Where answers are numbers: answered against true."""
    if found.answers.confusion is not None:
        return None
    counted = found.answers.counted
    right, said = found.answers.right[counted].ravel(), found.answers.said[counted].ravel()
    few = np.linspace(0, len(right) - 1, min(len(right), 3000)).astype(int)
    with style.house():
        figure = style.new_figure(4.6, 4.2)
        axes = figure.subplots()
        ends = [min(right.min(), said.min()), max(right.max(), said.max())]
        axes.plot(ends, ends, color=style.FAINT, linewidth=0.8)
        axes.plot(right[few], said[few], "o", markersize=3, alpha=0.35, color=style.COLOURS[0], mew=0)
        axes.set(xlabel="true", ylabel="answered", title="Answered against true, test set")
    return figure


def _shown(found: Inspection) -> int:
    return 16 if isinstance(found.subject.task, Images) else 8 if isinstance(found.subject.task, Tokens) else 6


def _grid(found: Inspection, places: np.ndarray) -> Figure:
    task = found.subject.task
    if isinstance(task, Images):
        across, width, height = 8, 9.0, 1.55
    elif isinstance(task, Tokens):
        across, width, height = 1, 9.0, 0.75 if task.per_step else 0.35
    else:
        across, width, height = 2, 9.0, 1.7
    down = -(-len(places) // across)
    with style.house():
        figure = style.new_figure(width, 0.3 + height * down)
        grid = figure.subplots(down, across, squeeze=False).ravel()
        for axes, place in zip(grid, places, strict=False):
            draw_example(axes, found, int(place))
        for axes in grid[len(places) :]:
            axes.axis("off")
        if task.per_step and not isinstance(task, Tokens):
            figure.supxlabel("step; dotted: true, in colour: answered", size=8)
    return figure
