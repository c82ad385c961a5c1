"""A test example: the input over time, and the prediction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from gatelab import style
from gatelab.analysis import Inspection
from gatelab.analysis.read_example import ReadExample, reading
from gatelab.formatting import visible
from gatelab.tasks import Task, pictures

if TYPE_CHECKING:
    from matplotlib.axes import Axes

READABLE = 100  # tokens that fit side by side
TEXT = 96  # letters that fit in a line


def named(task: Task, value: np.ndarray) -> str:
    """A target or prediction: a class by its name, numbers as they are."""
    if task.classes is not None:
        return task.classes[int(value)]
    return ", ".join(f"{number:.3g}" for number in np.atleast_1d(value))


def verdict(inspection: Inspection, place: int) -> str:
    """Target and prediction; where there is a target at every step, how many are right or how large the error is."""
    task, outcome = inspection.subject.task, inspection.predictions
    if place >= len(outcome.targets):
        return f"test example {place}"
    if not task.per_step:
        return f"true {named(task, outcome.targets[place])}, predicted {named(task, outcome.predicted[place])}"
    if task.classes is not None:
        return f"{100 * (1 - outcome.error[place]):.0f} % of its targets predicted"
    return f"mean absolute error {outcome.error[place]:.3g}"


def draw_reading(axes: Axes, read: ReadExample) -> None:
    """The input along the steps: words, lines, or a picture with a column for each step."""
    steps, size = read.x.shape
    axes.set_xlim(-0.5, steps - 0.5)
    axes.locator_params(axis="x", integer=True)
    if read.words is not None and steps <= READABLE:
        small = max(map(len, read.words)) > 2
        for step, word in enumerate(read.words):
            axes.text(step, 0.5, word, ha="center", va="center", size=7.5 if small else 8.5,
                      rotation=35 if small and steps > 12 else 0)  # fmt: skip
        axes.set(ylim=(0, 1), yticks=[])
        axes.spines[:].set_visible(False)
        axes.tick_params(bottom=False)
    else:
        pictures.draw_sequence(axes, read.x, of_image=read.image is not None)
        if 1 < size <= pictures.LINES:
            axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize=7, handlelength=1)


def draw_example(axes: Axes, inspection: Inspection, place: int) -> None:
    """One example with target and prediction; errors in colour."""
    task = inspection.subject.task
    read = reading(task, place)
    if read.image is not None:
        pictures.draw_image(axes, read.image)
        axes.axis("off")
    elif read.words is not None:
        _text(axes, inspection, place, read.words)
        return
    elif task.per_step:
        _predictions_by_step(axes, inspection, place, len(read.x))
    else:
        draw_reading(axes, read)
    wrong = task.classes is not None and inspection.predictions.error[place] > 0
    where: Literal["center", "left"] = "center" if read.image is not None else "left"
    colour = style.COLOURS[1] if wrong else style.INK
    axes.set_title(_title(inspection, place), loc=where, weight="normal", size=8, color=colour)


def _title(inspection: Inspection, place: int) -> str:
    task, outcome = inspection.subject.task, inspection.predictions
    if task.per_step or task.classes is None:
        return f"example {place}: {verdict(inspection, place)}"
    if outcome.error[place] == 0:
        return named(task, outcome.predicted[place])
    true, predicted = named(task, outcome.targets[place]), named(task, outcome.predicted[place])
    return f"predicted {predicted} (p = {outcome.confidence[place]:.2f})\ntrue {true}"


def _predictions_by_step(axes: Axes, inspection: Inspection, place: int, steps: int) -> None:
    outcome = inspection.predictions
    both = outcome.predicted[place, :steps], outcome.targets[place, :steps]
    predicted, targets = (values[:, None] if values.ndim == 1 else values for values in both)
    for column in range(min(3, targets.shape[1])):
        axes.plot(targets[:, column], ":", color=style.INK, linewidth=1.2)
        axes.plot(predicted[:, column], color=style.colour(column), linewidth=1.1)
    axes.locator_params(axis="x", integer=True)


def _text(axes: Axes, inspection: Inspection, place: int, words: tuple[str, ...]) -> None:
    """Words in a line and the prediction after them; with targets at every step, lines of input, true and predicted."""
    task, outcome = inspection.subject.task, inspection.predictions
    axes.axis("off")
    axes.set(xlim=(0, 1), ylim=(0, 1))
    wrong = outcome.error[place] > 0
    colour = style.COLOURS[1] if wrong else style.INK
    if not task.per_step:
        truth = f" (p = {outcome.confidence[place]:.2f}), true {named(task, outcome.targets[place])}" if wrong else ""
        text = cut(" ".join(words))
        axes.text(0, 0.5, text, size=8, va="center", family="monospace")
        after = (4.82 * (len(text) + 2), 0)  # the width of a letter in points
        axes.annotate(f"→ {named(task, outcome.predicted[place])}{truth}", (0, 0.5), xytext=after,
                      textcoords="offset points",
                      size=8.5, va="center", color=colour, weight="bold")  # fmt: skip
        return
    assert task.classes is not None
    is_text = task.bits_metric is not None
    shown, between = slice(-min(len(words), 120 if is_text else 60), None), "" if is_text else " "
    names = [visible(name) for name in task.classes]
    lines = {"input": words, "true": tuple(names[int(i)] for i in outcome.targets[place][: len(words)])}
    lines["predicted"] = tuple(names[int(i)] for i in outcome.predicted[place][: len(words)])
    for row, (name, line) in enumerate(lines.items()):
        ink = colour if name == "predicted" else style.INK
        axes.text(0, 0.85 - 0.32 * row, name, size=8, va="center", color=style.FAINT)
        text = between.join(line[shown]).replace("␣", " ")
        axes.text(0.1, 0.85 - 0.32 * row, text, size=8, va="center", family="monospace", color=ink)


def cut(text: str, length: int = TEXT) -> str:
    """A long text without its middle."""
    half = (length - 3) // 2
    return text if len(text) <= length else f"{text[:half]} … {text[-half:]}"
