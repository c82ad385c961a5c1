"""Pictures of tasks: a few examples, as a person can read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch

from gatelab import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from gatelab.tasks.adding import Adding
    from gatelab.tasks.agreement import Agreement
    from gatelab.tasks.images import Images
    from gatelab.tasks.synthetic import Tokens
    from gatelab.tasks.task import Task


def images(task: Images) -> Figure:
    """A batch of images with their labels, and below it the first one as the network reads it."""
    across, down = 8, 3
    plain = task.with_options(order="pixels", noise_pad=0)
    examples = plain.train.stored[: across * down].reshape(-1, task.side, task.side, task.channels).numpy()
    with style.house():
        figure = style.new_figure(9, 6.4)
        top, bottom = cast(np.ndarray, figure.subfigures(2, 1, height_ratios=[3, 1.5]))
        top.suptitle(f"{task.name}: the first {len(examples)} training examples", x=0.01, ha="left", weight="bold")
        grid = top.subplots(down, across)
        for axes in grid.flat:
            axes.axis("off")
        for axes, image, label in zip(grid.flat, examples, plain.train.targets, strict=False):
            grey = task.channels == 1
            axes.imshow(image[..., 0] if grey else image, cmap="gray" if grey else None, interpolation="nearest")
            axes.set_title(task.classes[int(label)], loc="center", weight="normal", size=9)
        axes = bottom.subplots()
        x = task.train.first(1).x[0].numpy()  # (T, D)
        axes.set_title(f"what the network reads of the first one: {len(x):,} steps of {x.shape[1]}")
        if x.shape[1] == 1:
            axes.plot(x[:, 0], linewidth=0.8)
            axes.set_ylabel("input")
        else:
            axes.imshow(x.T, aspect="auto", cmap="gray", interpolation="nearest")
            axes.set_ylabel("number in the step")
        if task.noise_pad:
            begin = len(x) - task.noise_pad - 0.5
            axes.axvline(begin, color=style.COLOURS[1])
            axes.annotate("noise", (begin, 1), xycoords=("data", "axes fraction"), xytext=(4, -4),
                          textcoords="offset points", color=style.COLOURS[1], va="top", weight="bold",
                          bbox={"facecolor": style.PAPER, "edgecolor": "none", "pad": 1})  # fmt: skip
        axes.set_xlabel("step")
        axes.margins(x=0.01)
    return figure


def windows(task: Task, names: tuple[str, ...]) -> Figure:
    """Three windows: what is read, and what is asked for at each step."""
    x, y, lengths = task.train.batch(torch.linspace(0, len(task.train) - 1, 3).long())
    with style.house():
        figure = style.new_figure(9, 6)
        for axes, seen, answer, row in zip(np.atleast_1d(figure.subplots(len(x), 1)), x, y, range(len(x)), strict=True):
            end = len(seen) if lengths is None else int(lengths[row])
            for column in range(seen.shape[1]):
                name = names[column] if column < len(names) else str(column + 1)
                axes.plot(seen[:end, column], color=style.colour(column), label=f"{name} (read)")
            if task.forecasts:
                for column in range(answer.shape[1]):
                    axes.plot(np.arange(1, end + 1), answer[:end, column], "o", markersize=3, fillstyle="none",
                              color=style.colour(column), label="what comes next (asked for)")  # fmt: skip
            elif task.per_step:
                for column in range(answer.shape[1]):
                    axes.plot(
                        answer[:end, column], ":", color=style.COLOURS[-1 - column % 7], label=f"answer {column + 1}"
                    )
            else:
                axes.set_title(f"answer: {', '.join(f'{value:.3g}' for value in answer)}")
            axes.set_ylabel("scaled value")
        figure.axes[-1].set_xlabel("step in the window")
        handles, labels = figure.axes[0].get_legend_handles_labels()
        shown = dict(zip(labels, handles, strict=True))
        figure.legend(list(shown.values())[:8], list(shown)[:8], loc="outside lower right", ncols=min(4, len(shown)))
        figure.suptitle(f"{task.name}: three examples from the training part", x=0.01, ha="left", weight="bold")
    return figure


def signals(task: Task) -> Figure:
    """For each class a few sequences on top of each other."""
    assert task.classes is not None
    shown = min(10, len(task.classes))
    across = min(5, shown)
    with style.house():
        figure = style.new_figure(9, 1.0 + 1.9 * -(-shown // across))
        grid = figure.subplots(-(-shown // across), across, sharex=True, sharey=True, squeeze=False)
        for number, axes in enumerate(grid.flat):
            if number >= shown:
                axes.axis("off")
                continue
            _class_signals(task, number, axes)
        for axes in grid[-1]:
            axes.set_xlabel("step")
        for axes in grid[:, 0]:
            axes.set_ylabel("scaled value" if task.input_size == 1 else f"the first of {task.input_size} numbers")
        figure.suptitle(f"{task.name}: training examples of each class", x=0.01, ha="left", weight="bold")
    return figure


def _class_signals(task: Task, number: int, axes: Axes) -> None:
    assert task.classes is not None
    targets = task.train.targets
    here = targets == number if targets.ndim == 1 else (targets == number).any(1)
    index = here.nonzero().flatten()[:3]
    x, _, lengths = task.train.batch(index)
    for row, seen in enumerate(x):
        end = len(seen) if lengths is None else int(lengths[row])
        axes.plot(seen[:end, 0], color=style.COLOURS[row], linewidth=1)
    axes.set_title(task.classes[number])


def adding(task: Adding) -> Figure:
    """The numbers as stems, the marked ones in colour, and their sum."""
    x, y, _ = task.train.first(3)
    with style.house():
        figure = style.new_figure(9, 5.6)
        for axes, numbers, total in zip(figure.subplots(3, 1, sharex=True), x.numpy(), y.numpy(), strict=True):
            marked = np.flatnonzero(numbers[:, 1])
            axes.vlines(np.arange(len(numbers)), 0, numbers[:, 0], color=style.FAINT, linewidth=0.8)
            axes.vlines(marked, 0, numbers[marked, 0], color=style.COLOURS[1], linewidth=2)
            axes.plot(marked, numbers[marked, 0], "o", color=style.COLOURS[1])
            for place in marked:
                axes.annotate(f"{numbers[place, 0]:.2f}", (place, numbers[place, 0]), xytext=(0, 5), ha="center",
                              textcoords="offset points", color=style.COLOURS[1], weight="bold")  # fmt: skip
            axes.set(ylim=(0, 1.25), ylabel="number")
            axes.set_title(f"answer at the end: {total[0]:.2f}", weight="normal")
        figure.axes[-1].set_xlabel("step")
        figure.suptitle(f"{task.name}: add the two marked numbers", x=0.01, ha="left", weight="bold")
    return figure


def strips(task: Tokens) -> Figure:
    """Tokens as letters in cells, a line for what is read and one for what is asked for; a long middle is cut out."""
    assert task.classes is not None
    count, head, tail = 4, 14, 14
    stored, answers = task.train.stored[:count], task.train.targets[:count]
    places: list[int | None] = list(range(stored.shape[1]))
    if len(places) > head + tail + 1:
        places = [*places[:head], None, *places[-tail:]]
    with style.house():
        figure = style.new_figure(9, 5.6)
        for axes, row, answer in zip(figure.subplots(count, 1), stored, answers, strict=True):
            _cells(axes, 1, [task.vocabulary[int(row[p])] if p is not None else "…" for p in places])
            asked = [""] * (len(places) - 1) + [task.classes[int(answer)]] if answer.ndim == 0 else [
                task.classes[int(answer[p])] if p is not None else "…" for p in places
            ]  # fmt: skip
            _cells(axes, 0, asked)
            axes.set(xlim=(-0.5, len(places) - 0.5), ylim=(-0.5, 1.5), yticks=[0, 1], yticklabels=["answer", "input"])
            axes.set_xticks(range(len(places)), ["" if p is None else str(p) for p in places], size=7)
            axes.spines[:].set_visible(False)
            axes.tick_params(length=0)
        figure.axes[-1].set_xlabel("step")
        left_out = stored.shape[1] - head - tail if None in places else 0
        title = f"{task.name}: training examples" + (f"; … stands for {left_out:,} steps" if left_out else "")
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
    """Light colours: capitals in blues, small letters in greys, signs in orange."""
    if text == "?":
        return "#f6c48a"
    if text.isupper():
        return "#b9d8f0"
    return "#e4e8ec"


def sentences(task: Agreement) -> Figure:
    """Sentences as they are read; the subject in the colour of its number, and the verb that it asks for."""
    rows = 9
    tokens, answers = task.train.stored[:rows], task.train.targets[:rows]
    assert task.train.lengths is not None
    with style.house():
        figure = style.new_figure(9, 4.2)
        axes = figure.subplots()
        for i, (row, answer) in enumerate(zip(tokens, answers, strict=True)):
            words = task.words(row, int(task.train.lengths[i]))
            colour = style.COLOURS[int(answer)]
            for step, word in enumerate(words):
                loud: dict[str, Any] = {"color": colour, "weight": "bold"} if step == 1 else {"color": style.INK}
                axes.text(step, i, word, ha="center", va="center", size=7.5, **loud)
            axes.text(
                len(words),
                i,
                f"→ {task.classes[int(answer)]}",
                ha="center",
                va="center",
                size=7.5,
                color=colour,
                weight="bold",
            )
        axes.set(xlim=(-0.6, task.steps + 0.8), ylim=(rows - 0.4, -0.6), yticks=[], xlabel="step")
        axes.spines["left"].set_visible(False)
        figure.suptitle(f"{task.name}: was or were? The subject, far back, decides", x=0.01, ha="left", weight="bold")
    return figure
