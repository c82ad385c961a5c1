"""Figures of the user's own data, with its own names and units."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

from gatelab import style
from gatelab.tasks import pictures
from gatelab.tasks.own.overview import part_sizes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from gatelab.data.series import Series
    from gatelab.tasks.own.data import OwnData

PANELS = 6  # columns of a series that are drawn
POINTS = 4000  # of a line: more cannot be seen
TOKENS = 24  # of a sequence
MOST_CLASSES = 10  # that are drawn
ROWS = 16  # of a heat map that are named


def draw(task: OwnData) -> Figure:
    """Draw a series with its parts, examples of each class, or examples with their targets."""
    if task.series is not None:
        return _series(task, task.series)
    content = task.sequences
    if content.vocabulary:
        return _tokens(task)
    if content.classes is None:
        return _targets(task)
    return _labels_by_step(task) if content.per_step else _classes(task)


def _series(task: OwnData, series: Series) -> Figure:
    names = series.columns[:PANELS]
    has_times = series.stamps is not None and len(series.stamps) == len(series.values)
    x: Any = series.stamps if has_times else np.arange(len(series.values))
    with style.house():
        figure = style.new_figure(9, 0.9 + 1.7 * max(2, len(names)))
        panels = np.atleast_1d(figure.subplots(len(names), 1, sharex=True))
        for column, (axes, name) in enumerate(zip(panels, names, strict=True)):
            for number, (part, a, b) in enumerate(part_sizes(task)):
                every = max(1, (b - a) // POINTS)
                axes.plot(x[a:b:every], series.values[a:b:every, column], linewidth=0.9, color=style.colour(number),
                          label=part)  # fmt: skip
            role = "" if column < series.num_targets else " (exogenous input)"
            axes.set_title(f"{name}{role}")
            axes.margins(x=0.01)
        panels[-1].set_xlabel("time" if has_times else "step")
        if has_times:
            date_axis(panels[-1])
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper right", ncols=3)
        more = f", {PANELS} of {len(series.columns)} columns" if len(series.columns) > PANELS else ""
        figure.suptitle(f"{_file(task)}: the series and its split{more}", x=0.01, ha="left", weight="bold")
    return figure


def date_axis(axes: Axes) -> None:
    """Put dates at the x axis."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator()  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]


def _file(task: OwnData) -> str:
    return task.name if task.user_path is None else task.user_path.name


def sequence(task: OwnData, index: int) -> np.ndarray:
    """A sequence (T, D) in its own units."""
    content = task.sequences
    return content.values[index, : content.ends[index]]


def _classes(task: OwnData) -> Figure:
    """Draw examples of up to ten classes: three if there is one feature, otherwise one, as lines or a heat map."""
    content = task.sequences
    assert content.classes is not None
    assert content.targets is not None
    count, size = min(MOST_CLASSES, len(content.classes)), len(content.columns)
    width = min(5, count)
    rows = -(-count // width)
    train = task.indices[0]
    with style.house():
        figure = style.new_figure(9, 1.2 + 1.9 * rows)
        grid = figure.subplots(rows, width, sharex=size <= pictures.LINES, sharey=True, squeeze=False)
        for label, axes in enumerate(grid.flat):
            if label >= count:
                axes.axis("off")
                continue
            members = train[content.targets[train] == label]
            axes.set_title(_wrapped(content.classes[label], (100 if size <= pictures.LINES else 80) // width))
            _examples(task, axes, np.sort(members)[: 3 if size == 1 else 1])
        for axes in grid[-1]:
            axes.set_xlabel("step")
        grid[0, 0].set_ylabel(_axis(content.columns))
        if size > pictures.LINES:
            for axes in grid[:, 0]:
                _name_rows(axes, content.columns)
        if 1 < size <= pictures.LINES and (handles := grid[0, 0].get_legend_handles_labels())[0]:
            figure.legend(*handles, loc="outside upper right", ncols=size)
        more = f", {count} of {len(content.classes)} classes" if count < len(content.classes) else ""
        figure.suptitle(f"{_file(task)}: training examples by class{more}", x=0.01, ha="left", weight="bold")
    return figure


def _examples(task: OwnData, axes: Axes, members: np.ndarray) -> None:
    for number, index in enumerate(members):
        values = sequence(task, int(index))
        if values.shape[1] > 1:
            draw_values(task, axes, values)
            axes.set_ylabel("")
        else:
            axes.plot(values[:, 0], color=style.colour(number), linewidth=1)


def draw_values(task: OwnData, axes: Axes, values: np.ndarray) -> None:
    """Draw all features: a few as lines in their units, many as a heat map of scaled values."""
    names = task.sequences.columns
    if len(names) > pictures.LINES:
        values = task.scaling.apply(values)
    labels = [f"feature {name}" if name.isdigit() else name for name in names]
    pictures.draw_sequence(axes, values, labels)
    axes.set_ylabel(_axis(names))
    if len(names) > pictures.LINES:
        _name_rows(axes, names)


def _name_rows(axes: Axes, names: tuple[str, ...]) -> None:
    """Name the rows of a heat map, or some of many."""
    shown = range(0, len(names), -(-len(names) // ROWS))
    short = [shortened(names[row], 22) for row in shown]
    if len(set(short)) < len(short):  # the difference is in the middle
        short = [shortened(names[row], 44) for row in shown]
    axes.set_yticks(list(shown), short, size=7)


def shortened(text: str, longest: int) -> str:
    """A name without its middle: names of one kind differ at their end."""
    half = (longest - 1) // 2
    if half < 1 < len(text):
        return "…"
    return text if len(text) <= longest else f"{text[: longest - half - 1]}…{text[-half:]}"


def _wrapped(text: str, width: int) -> str:
    """A name in at most two lines."""
    return "\n".join(textwrap.wrap(shortened(text, 2 * width - 4), width))


def _axis(names: tuple[str, ...]) -> str:
    if len(names) > pictures.LINES:
        return "feature" if all(name.isdigit() for name in names) else ""
    return "value" if len(names) > 1 or names[0].isdigit() else names[0]


def _labels_by_step(task: OwnData) -> Figure:
    """Draw three training examples, and above each the classes of its steps."""
    content = task.sequences
    assert content.classes is not None
    assert content.targets is not None
    members = np.sort(task.indices[0])[np.linspace(0, len(task.indices[0]) - 1, 3).astype(int)]
    with style.house():
        figure = style.new_figure(9, 6.6)
        for axes, index in zip(figure.subplots(3, 1), members, strict=True):
            values = sequence(task, int(index))
            draw_values(task, axes, values)
            axes.set_xlim(-0.5, len(values) - 0.5)
            labels = content.targets[index, : len(values)]
            label_strip(axes, labels, content.classes)
        figure.axes[-1].set_xlabel("step")
        if len((handles := figure.axes[0].get_legend_handles_labels())[0]) > 1:
            figure.legend(*handles, loc="outside lower right", ncols=len(handles[0]))
        title = f"{_file(task)}: three training examples, the label of each step above them"
        figure.suptitle(title, x=0.01, ha="left", weight="bold")
    return figure


def label_strip(axes: Axes, labels: np.ndarray, classes: tuple[str, ...], bottom: float = 1.02) -> None:
    """Draw the classes of the steps as a strip above the axes."""
    starts = np.flatnonzero(np.diff(labels, prepend=-1))
    for start, end in zip(starts, [*starts[1:], len(labels)], strict=True):
        name = shortened(classes[labels[start]], max(1, 120 * (end - start) // len(labels)))
        axes.axvspan(start - 0.5, end - 0.5, bottom, bottom + 0.11, color=style.colour(labels[start]), clip_on=False)
        axes.text((start + end - 1) / 2, bottom + 0.05, name, size=7, color="white", ha="center", va="center",
                  transform=axes.get_xaxis_transform())  # fmt: skip


def _targets(task: OwnData) -> Figure:
    """Draw three training examples with the values that belong to them."""
    content = task.sequences
    assert content.targets is not None
    members = np.sort(task.indices[0])[np.linspace(0, len(task.indices[0]) - 1, 3).astype(int)]
    with style.house():
        figure = style.new_figure(9, 6)
        for axes, index in zip(np.atleast_1d(figure.subplots(3, 1)), members, strict=True):
            values, target = sequence(task, int(index)), content.targets[index]
            draw_values(task, axes, values)
            if content.per_step:
                for column, name in enumerate(task.target_names):
                    axes.plot(target[: len(values), column], ":", color=style.COLOURS[-1 - column % 7], label=name)
            else:
                axes.set_title(f"target: {', '.join(f'{value:.4g}' for value in target)}")
        figure.axes[-1].set_xlabel("step")
        if (handles := figure.axes[0].get_legend_handles_labels())[0]:
            figure.legend(handles[0][:8], handles[1][:8], loc="outside lower right", ncols=min(4, len(handles[0])))
        figure.suptitle(f"{_file(task)}: three training examples", x=0.01, ha="left", weight="bold")
    return figure


def _tokens(task: OwnData) -> Figure:
    """Draw the first tokens of some training examples, with their targets."""
    content = task.sequences
    assert content.targets is not None
    members = np.sort(task.indices[0])[:9]
    with style.house():
        figure = style.new_figure(9, 4.2)
        axes = figure.subplots()
        for row, index in enumerate(members):
            tokens = sequence(task, int(index))
            for step, token in enumerate(tokens[:TOKENS]):
                axes.text(step, row, content.vocabulary[token][:8], ha="center", va="center", size=7.5)
            end = min(len(tokens), TOKENS)
            axes.text(end, row, f"{'… ' if len(tokens) > TOKENS else ''}→ {_target_text(task, int(index))}", ha="left",
                      va="center", size=7.5, weight="bold", color=style.COLOURS[0])  # fmt: skip
        longest = min(TOKENS, int(content.ends[members].max()))
        axes.set(xlim=(-0.6, 1.15 * longest + 1), ylim=(len(members) - 0.4, -0.6), yticks=[], xlabel="step")
        axes.set_xticks(range(0, longest, 1 + longest // 16))
        axes.spines["left"].set_visible(False)
        figure.suptitle(f"{_file(task)}: training examples", x=0.01, ha="left", weight="bold")
    return figure


def _target_text(task: OwnData, index: int) -> str:
    content = task.sequences
    assert content.targets is not None
    target = content.targets[index]
    if content.classes is None:
        return f"{np.ravel(target)[0]:.4g}"
    if not content.per_step:
        return content.classes[int(target)]
    return " ".join(content.classes[int(t)] for t in target[: min(4, content.ends[index])]) + " …"
