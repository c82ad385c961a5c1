"""Figures of tasks: a few training examples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import torch

from gatelab import style
from gatelab.formatting import counted, visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from torch import Tensor

    from gatelab.tasks.adding import Adding
    from gatelab.tasks.agreement import Agreement
    from gatelab.tasks.images import Images
    from gatelab.tasks.task import Task
    from gatelab.tasks.text import Text

LINES = 4  # up to this number of features per step are drawn as lines, more as a heat map


def images(task: Images) -> Figure:
    """Draw images with their labels, and the first one as the sequence that the network reads."""
    columns, rows = 8, 3
    plain = task.with_options(order="pixels", noise_pad=0)
    examples = plain.train.stored[: columns * rows].reshape(-1, task.side, task.side, task.channels).numpy()
    with style.house():
        figure = style.new_figure(9, 6.4)
        top, bottom = cast(np.ndarray, figure.subfigures(2, 1, height_ratios=[3, 1.5]))
        top.suptitle(f"{task.name}: the first {len(examples)} training examples", x=0.01, ha="left", weight="bold")
        grid = top.subplots(rows, columns)
        for axes in grid.flat:
            axes.axis("off")
        for axes, image, label in zip(grid.flat, examples, plain.train.targets, strict=False):
            draw_image(axes, image[..., 0] if task.channels == 1 else image)
            axes.set_title(task.classes[int(label)], loc="center", weight="normal", size=9)
        axes = bottom.subplots()
        x = task.train.first(1).x[0].numpy()  # (T, D)
        axes.set_title(f"the first one as a sequence: {counted(len(x), 'step')} of {counted(x.shape[1], 'feature')}")
        draw_sequence(axes, x, of_image=True)
        if task.noise_pad:
            start = len(x) - task.noise_pad - 0.5
            axes.axvline(start, color=style.COLOURS[1])
            axes.annotate("noise", (start, 1), xycoords=("data", "axes fraction"), xytext=(4, -4),
                          textcoords="offset points", color=style.COLOURS[1], va="top", weight="bold",
                          bbox={"facecolor": style.PAPER, "edgecolor": "none", "pad": 1})  # fmt: skip
        axes.set_xlabel("step")
        axes.margins(x=0.01)
    return figure


def windows(task: Task, names: tuple[str, ...]) -> Figure:
    """Draw three training examples with their targets: windows of a series, or sequences for regression."""
    x, y, lengths = task.train.batch(spread_indices(task))
    heat_map = task.input_size > LINES and not task.per_step
    with style.house():
        figure = style.new_figure(9, 6)
        for row, axes in enumerate(np.atleast_1d(figure.subplots(len(x), 1))):
            end = x.shape[1] if lengths is None else int(lengths[row])
            inputs, target = x[row, :end].numpy(), y[row]
            draw_sequence(axes, inputs, [f"{name} (input)" for name in names], heat_map=heat_map)
            axes.set_ylabel("feature" if heat_map else "scaled value")
            if task.forecasts:
                for column in range(target.shape[1]):
                    axes.plot(np.arange(1, end + 1), target[:end, column], "o", markersize=3, fillstyle="none",
                              color=style.colour(column), label="target (next value)")  # fmt: skip
            elif task.per_step:
                for column in range(target.shape[1]):
                    colour = style.COLOURS[-1 - column % 7]
                    axes.plot(target[:end, column], ":", color=colour, label=f"target {column + 1}")
            else:
                axes.set_title(f"target: {', '.join(f'{value:.3g}' for value in target)}")
        figure.axes[-1].set_xlabel("step in the window" if task.forecasts else "step")
        handles, labels = figure.axes[0].get_legend_handles_labels()
        legend = dict(zip(labels, handles, strict=True))
        if legend:
            names_, lines = list(legend)[:8], list(legend.values())[:8]
            figure.legend(lines, names_, loc="outside lower right", ncols=min(4, len(legend)))
        figure.suptitle(f"{task.name}: three training examples", x=0.01, ha="left", weight="bold")
    return figure


def spread_indices(task: Task) -> Tensor:
    """Three examples spread over the training set.

    Windows of a series do not overlap: the validation part has room for a window, and the training part is more than
    four times as long.
    """
    return torch.linspace(0, len(task.train) - 1, 3).long()


def draw_sequence(
    axes: Axes,
    x: np.ndarray,
    names: Sequence[str] = (),
    *,
    of_image: bool = False,
    heat_map: bool | None = None,
) -> None:
    """Draw a sequence (T, D): a few features as lines, many as a heat map.

    The first feature is at the bottom, as in a spectrogram; the first pixel of an image's row is at the top.
    """
    if x.shape[1] > LINES if heat_map is None else heat_map:
        origin: Literal["upper", "lower"] = "upper" if of_image else "lower"
        axes.imshow(x.T, aspect="auto", cmap="gray", interpolation="nearest", origin=origin)
        axes.set_ylabel("feature")
        return
    for column in range(x.shape[1]):
        name = names[column] if column < len(names) else f"input {column + 1}"
        axes.plot(x[:, column], color=style.colour(column), linewidth=0.9, label=name)
    axes.set_ylabel("input")


def draw_image(axes: Axes, image: np.ndarray) -> None:
    """Draw an image, grey (H, W) or in colour (H, W, 3)."""
    axes.imshow(image, cmap="gray" if image.ndim == 2 else None, interpolation="nearest")


def signals(task: Task) -> Figure:
    """Draw training examples of each class: a few as lines, or one as a heat map if there are many features."""
    assert task.classes is not None
    classes = min(10, len(task.classes))
    columns = min(5, classes)
    rows = -(-classes // columns)
    with style.house():
        figure = style.new_figure(9, 1.0 + 1.9 * rows)
        grid = figure.subplots(rows, columns, sharex=task.input_size <= LINES, sharey=True, squeeze=False)
        for label, axes in enumerate(grid.flat):
            if label >= classes:
                axes.axis("off")
                continue
            _class_examples(task, label, axes)
        for axes in grid[-1]:
            axes.set_xlabel("step")
        for axes in grid[:, 0]:
            axes.set_ylabel(_signal_label(task.input_size))
        figure.suptitle(f"{task.name}: training examples of each class", x=0.01, ha="left", weight="bold")
    return figure


def _signal_label(features: int) -> str:
    if features > LINES:
        return "feature"
    return "scaled value" if features == 1 else f"first of {features} features"


def _class_examples(task: Task, label: int, axes: Axes) -> None:
    assert task.classes is not None
    targets = task.train.targets
    members = targets == label if targets.ndim == 1 else (targets == label).any(1)
    heat_map = task.input_size > LINES
    axes.set_title(task.classes[label])
    index = members.nonzero().flatten()[: 1 if heat_map else 3]
    if not len(index):
        return
    x, _, lengths = task.train.batch(index)
    for row, inputs in enumerate(x.numpy()):
        end = len(inputs) if lengths is None else int(lengths[row])
        if heat_map:
            draw_sequence(axes, inputs[:end])
            axes.set_ylabel("")  # the outer axes have one
        else:
            axes.plot(inputs[:end, 0], color=style.COLOURS[row], linewidth=1)


def adding(task: Adding) -> Figure:
    """Draw the numbers as stems, the marked ones in colour, and their sum."""
    x, y, _ = task.train.first(3)
    with style.house():
        figure = style.new_figure(9, 5.6)
        for axes, numbers, total in zip(figure.subplots(3, 1, sharex=True), x.numpy(), y.numpy(), strict=True):
            marked = np.flatnonzero(numbers[:, 1])
            axes.vlines(np.arange(len(numbers)), 0, numbers[:, 0], color=style.FAINT, linewidth=0.8)
            axes.vlines(marked, 0, numbers[marked, 0], color=style.COLOURS[1], linewidth=2)
            axes.plot(marked, numbers[marked, 0], "o", color=style.COLOURS[1])
            for step in marked:
                axes.annotate(f"{numbers[step, 0]:.2f}", (step, numbers[step, 0]), xytext=(0, 5), ha="center",
                              textcoords="offset points", color=style.COLOURS[1], weight="bold")  # fmt: skip
            axes.set(ylim=(0, 1.25), ylabel="number")
            axes.set_title(f"target: {total[0]:.2f}", weight="normal")
        figure.axes[-1].set_xlabel("step")
        figure.suptitle(f"{task.name}: add the two marked numbers", x=0.01, ha="left", weight="bold")
    return figure


def strips(task: Task) -> Figure:
    """Draw tokens as letters, one row for input and one for target; the middle of long sequences is left out."""
    assert task.classes is not None
    count, head, tail = 4, 14, 14
    stored, targets = task.train.stored[:count], task.train.targets[:count]
    steps: list[int | None] = list(range(stored.shape[1]))
    if len(steps) > head + tail + 1:
        steps = [*steps[:head], None, *steps[-tail:]]
    with style.house():
        figure = style.new_figure(9, 5.6)
        for axes, row, target in zip(figure.subplots(count, 1), stored, targets, strict=True):
            _cells(axes, 1, [task.vocabulary[int(row[t])] if t is not None else "…" for t in steps])
            labels = [""] * (len(steps) - 1) + [task.classes[int(target)]] if target.ndim == 0 else [
                task.classes[int(target[t])] if t is not None else "…" for t in steps
            ]  # fmt: skip
            _cells(axes, 0, labels)
            axes.set(xlim=(-0.5, len(steps) - 0.5), ylim=(-0.5, 1.5), yticks=[0, 1], yticklabels=["target", "input"])
            axes.set_xticks(range(len(steps)), ["" if t is None else str(t) for t in steps], size=7)
            axes.spines[:].set_visible(False)
            axes.tick_params(length=0)
        figure.axes[-1].set_xlabel("step")
        omitted = stored.shape[1] - head - tail if None in steps else 0
        title = f"{task.name}: training examples" + (f" (… marks {omitted:,} omitted steps)" if omitted else "")
        figure.suptitle(title, x=0.01, ha="left", weight="bold")
    return figure


def _cells(axes: Axes, y: float, texts: list[str]) -> None:
    from matplotlib.patches import Rectangle

    for x, text in enumerate(texts):
        if not text:
            continue
        colour = style.PAPER if text in "·…" else _letter_colour(text)
        axes.add_patch(
            Rectangle((x - 0.46, y - 0.4), 0.92, 0.8, facecolor=colour, edgecolor=style.FAINT, linewidth=0.5)
        )
        axes.text(x, y, text, ha="center", va="center_baseline", size=9)


def _letter_colour(text: str) -> Any:
    """A light colour: blue for capitals, grey for small letters, orange for the cue."""
    if text == "?":
        return "#f6c48a"
    if text.isupper():
        return "#b9d8f0"
    return "#e4e8ec"


def text(task: Text) -> Figure:
    """Draw a few lines of the training text, and how often each character occurs."""
    shown, lines = 40, 9
    start = task.train.stored[:lines].numpy()  # (lines, T)
    words = ["".join(" " if i == " " else visible(i) for i in map(task.vocabulary.__getitem__, row)) for row in start]
    counts = np.bincount(task.train.stored.numpy().ravel(), minlength=task.input_size)
    order = np.argsort(-counts, kind="stable")[:shown]
    with style.house():
        figure = style.new_figure(9, 4.6)
        top, bottom = cast(np.ndarray, figure.subfigures(2, 1, height_ratios=[2.2, 2]))
        top.suptitle(f"{task.name}: the first {lines} training examples", x=0.01, ha="left", weight="bold")
        axes = top.subplots()
        axes.axis("off")
        for row, line in enumerate(words):
            axes.text(0, 1 - (row + 0.5) / lines, line, transform=axes.transAxes, va="center",
                      family="monospace", size=7.5)  # fmt: skip
        axes = bottom.subplots()
        axes.bar(np.arange(len(order)), 100 * counts[order] / counts.sum(), color=style.COLOURS[0])
        axes.set_xticks(np.arange(len(order)), [visible(task.vocabulary[i]) for i in order], size=8)
        axes.set(ylabel=f"% of {task.unit}", xlim=(-0.7, len(order) - 0.3))
        of = f", the {len(order)} most frequent of {task.input_size}" if len(order) < task.input_size else ""
        axes.set_title(f"{task.unit} of the training text{of}")
    return figure


def sentences(task: Agreement) -> Figure:
    """Draw sentences; subject and target verb have the colour of their number."""
    rows = 9
    tokens, targets = task.train.stored[:rows], task.train.targets[:rows]
    assert task.train.lengths is not None
    with style.house():
        figure = style.new_figure(9, 4.2)
        axes = figure.subplots()
        for i, (row, target) in enumerate(zip(tokens, targets, strict=True)):
            words = task.words(row, int(task.train.lengths[i]))
            colour = style.COLOURS[int(target)]
            for step, word in enumerate(words):
                font: dict[str, Any] = {"color": colour, "weight": "bold"} if step == 1 else {"color": style.INK}
                axes.text(step, i, word, ha="center", va="center", size=7.5, **font)
            axes.text(
                len(words),
                i,
                f"→ {task.classes[int(target)]}",
                ha="center",
                va="center",
                size=7.5,
                color=colour,
                weight="bold",
            )
        axes.set(xlim=(-0.6, task.steps + 0.8), ylim=(rows - 0.4, -0.6), yticks=[], xlabel="step")
        axes.spines["left"].set_visible(False)
        figure.suptitle(f"{task.name}: was or were? The subject determines the verb", x=0.01, ha="left", weight="bold")
    return figure
