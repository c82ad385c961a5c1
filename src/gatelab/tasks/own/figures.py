"""Figures of the user's own data, with its own names and units."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gatelab import style
from gatelab.tasks import pictures
from gatelab.tasks.own.overview import part_sizes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from gatelab.tasks.own.data import OwnData

PANELS = 6  # columns of a series that are drawn
POINTS = 4000  # of a line: more cannot be seen
TOKENS = 24  # of a sequence


def draw(task: OwnData) -> Figure:
    """Draw a series with its parts, examples of each class, or examples with their targets."""
    if task.content.is_series:
        return _series(task)
    if task.content.vocabulary:
        return _tokens(task)
    return _classes(task) if task.classes is not None else _targets(task)


def _series(task: OwnData) -> Figure:
    content = task.content
    names = content.names[:PANELS]
    has_times = content.stamps is not None and len(content.stamps) == len(content.inputs)
    x: Any = content.stamps if has_times else np.arange(len(content.inputs))
    with style.house():
        figure = style.new_figure(9, 0.9 + 1.7 * max(2, len(names)))
        panels = np.atleast_1d(figure.subplots(len(names), 1, sharex=True))
        for column, (axes, name) in enumerate(zip(panels, names, strict=True)):
            for number, (part, a, b) in enumerate(part_sizes(task)):
                every = max(1, (b - a) // POINTS)
                axes.plot(x[a:b:every], content.inputs[a:b:every, column], linewidth=0.9, color=style.colour(number),
                          label=part)  # fmt: skip
            role = "" if column < content.num_targets else " (exogenous input)"
            axes.set_title(f"{name}{role}")
            axes.margins(x=0.01)
        panels[-1].set_xlabel("time" if has_times else "step")
        if has_times:
            _date_axis(panels[-1])
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper right", ncols=3)
        more = f", {PANELS} of {len(content.names)} columns" if len(content.names) > PANELS else ""
        figure.suptitle(f"{_file(task)}: the series and its split{more}", x=0.01, ha="left", weight="bold")
    return figure


def _date_axis(axes: Axes) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator()  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]


def _file(task: OwnData) -> str:
    return task.name if task.user_path is None else task.user_path.name


def _sequence(task: OwnData, index: int) -> np.ndarray:
    """Return a sequence (T, D) in its own units."""
    content = task.content
    return content.inputs[index, : content.ends[index]]


def _classes(task: OwnData) -> Figure:
    """Draw examples of up to ten classes: three if there is one feature, otherwise one, as lines or a heat map."""
    content = task.content
    assert content.classes is not None
    assert content.targets is not None
    count, size = min(10, len(content.classes)), len(content.names)
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
            targets = content.targets[train]
            members = train[targets == label if targets.ndim == 1 else (targets == label).any(1)]
            axes.set_title(content.classes[label])
            _examples(task, axes, np.sort(members)[: 3 if size == 1 else 1])
        for axes in grid[-1]:
            axes.set_xlabel("step")
        grid[0, 0].set_ylabel(_axis(content.names))
        if 1 < size <= pictures.LINES and (handles := grid[0, 0].get_legend_handles_labels())[0]:
            figure.legend(*handles, loc="outside upper right", ncols=size)
        figure.suptitle(f"{_file(task)}: training examples by class", x=0.01, ha="left", weight="bold")
    return figure


def _examples(task: OwnData, axes: Axes, members: np.ndarray) -> None:
    for number, index in enumerate(members):
        values = _sequence(task, int(index))
        if values.shape[1] > 1:
            _draw(task, axes, values)
            axes.set_ylabel("")
        else:
            axes.plot(values[:, 0], color=style.colour(number), linewidth=1)


def _draw(task: OwnData, axes: Axes, values: np.ndarray) -> None:
    """Draw all features: a few as lines in their units, many as a heat map of scaled values."""
    names = task.content.names
    if len(names) > pictures.LINES:
        values = task.scaling.apply(values)
    labels = [f"feature {name}" if name.isdigit() else name for name in names]
    pictures.draw_sequence(axes, values, labels)
    axes.set_ylabel(_axis(names))


def _axis(names: tuple[str, ...]) -> str:
    if len(names) > pictures.LINES:
        return "feature"
    return "value" if len(names) > 1 or names[0].isdigit() else names[0]


def _targets(task: OwnData) -> Figure:
    """Draw three training examples with the values that belong to them."""
    content = task.content
    assert content.targets is not None
    members = np.sort(task.indices[0])[np.linspace(0, len(task.indices[0]) - 1, 3).astype(int)]
    with style.house():
        figure = style.new_figure(9, 6)
        for axes, index in zip(np.atleast_1d(figure.subplots(3, 1)), members, strict=True):
            values, target = _sequence(task, int(index)), content.targets[index]
            _draw(task, axes, values)
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
    content = task.content
    assert content.targets is not None
    members = np.sort(task.indices[0])[:9]
    with style.house():
        figure = style.new_figure(9, 4.2)
        axes = figure.subplots()
        for row, index in enumerate(members):
            tokens = _sequence(task, int(index))
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
    content = task.content
    assert content.targets is not None
    target = content.targets[index]
    if content.classes is None:
        return f"{np.ravel(target)[0]:.4g}"
    if not content.per_step:
        return content.classes[int(target)]
    return " ".join(content.classes[int(t)] for t in target[: min(4, content.ends[index])]) + " …"
