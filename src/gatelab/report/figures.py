"""The figures of a comparison, in the house style: every line labelled where it ends, every seed a dot."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from gatelab import style
from gatelab.experiments.results import ModelResult, Results
from gatelab.experiments.stats import Summary
from gatelab.formatting import PERCENT, TITLES, counted, file_name, number, scale, signed, visible
from gatelab.report.words.findings import change_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CLASSES = 30  # of a confusion matrix, at most
LONG_NAME = 12  # letters from which on a name does not fit beside its line
ORDERS = 5.0  # the ratio from which on losses are drawn on a logarithmic scale
LETTER = 0.085  # inches of a bold letter beside a line
SEEDS_NOTE = "dots: seeds; diamonds: means; bars: 95 % confidence intervals of the means"
EFFECTS_TITLE = "Effects of the factors: means over seeds, simultaneous 95 % confidence intervals"
CURVES_NOTE = "thin: single seeds; thick: their mean, as long as all of them train"

Size = tuple[float, float]  # inches


def figures(results: Results) -> dict[str, Figure]:
    """All figures by file name."""
    drawn = [name for name, model in results.models.items() if model.curves]
    if not drawn:
        return {}
    by_file = {"training_curves.png": loss_curves(results, drawn), "test_comparison.png": comparison(results, drawn)}
    if results.effects:
        by_file["effects.png"] = effects(results)
    if results.metric == "accuracy":
        by_file["accuracy_curves.png"] = accuracy_curves(results, drawn)
    for name in drawn:
        by_file[f"curves_{file_name(name)}.png"] = model_curves(results, name)
        if results.models[name].confusion:
            by_file[f"confusion_{file_name(name)}.png"] = confusion(results, name)
    return by_file


def loss_curves(results: Results, models: list[str], size: Size = (9, 3.8), note: str = CURVES_NOTE) -> Figure:
    """Training and validation loss side by side."""
    with style.house():
        figure = style.new_figure(*size)
        for axes, part in zip(figure.subplots(1, 2, sharey=True), ("train", "validation"), strict=True):
            _models(axes, results, models, f"{part}_loss")
            axes.set(title=f"{'training' if part == 'train' else part} loss", xlabel="epoch")
        figure.axes[0].set_ylabel(_loss_scale(figure))
        name_lines(figure)
        figure.supxlabel(note, size=7.5, color=style.FAINT)
    return figure


def accuracy_curves(
    results: Results,
    models: list[str],
    size: Size = (7, 4.2),
    title: str = "Validation accuracy",
    note: str = CURVES_NOTE,
) -> Figure:
    """Validation accuracy by epoch."""
    with style.house():
        figure = style.new_figure(*size)
        axes = figure.subplots()
        _models(axes, results, models, "validation_accuracy")
        _zoom(axes, results, models, "validation_accuracy")
        axes.set(title=title, xlabel="epoch", ylabel="accuracy, %")
        name_lines(figure)
        figure.supxlabel(note, size=7.5, color=style.FAINT)
    return figure


def model_curves(results: Results, name: str) -> Figure:
    """Training and validation of one model: how far they part."""
    model = results.models[name]
    others = (metric for metric in ("accuracy", "mse", "mae") if f"train_{metric}" in model.curves)
    metrics = ["loss", *(m for m in others if model.curves[f"train_{m}"] != model.curves["train_loss"])][:2]
    with style.house():
        figure = style.new_figure(4.6 * len(metrics), 3.6)
        for axes, metric in zip(np.atleast_1d(figure.subplots(1, len(metrics))), metrics, strict=True):
            for number_, part in enumerate(("train", "validation")):
                label = "training" if part == "train" else part
                _curves(axes, model, f"{part}_{metric}", style.colour(number_), label)
            axes.set(title=f"{name}: {TITLES[metric]}", xlabel="epoch")
        name_lines(figure)
        figure.supxlabel(f"{counted(len(model.done), 'seed')}; {CURVES_NOTE}", size=7.5, color=style.FAINT)
    return figure


def comparison(
    results: Results, models: list[str], size: Size | None = None, title: str = f"Test set; {SEEDS_NOTE}"
) -> Figure:
    """Every seed a dot, the mean and its confidence interval below them."""
    assert results.metric is not None
    with style.house():
        figure = style.new_figure(*(size or (7, 1.3 + 0.7 * len(models))))
        axes = figure.subplots()
        draw_seeds(axes, results, models, numbers=True)
        axes.set_yticks(range(len(models)), models, weight="bold")
        axes.set(xlabel=f"test {TITLES[results.metric]}")
        axes.set_title(title, weight="normal", size=9)
    return figure


def draw_seeds(axes: Axes, results: Results, models: list[str], numbers: bool = False, dot: float = 7.0) -> None:
    """The dot-and-diamond plot: a row for each model, in the order of `models`; those without a result stay empty."""
    metric, means = results.metric or "", results.means
    factor = scale(metric)
    everything = [
        v for n in models if n in means for v in (*means[n].values, means[n].low, means[n].high) if v is not None
    ]
    span = factor * (max(everything) - min(everything)) if everything else 1.0
    for row, name in enumerate(models):
        if name not in means:
            continue
        summary, colour = means[name], colour_of(results, name)
        values, mean = factor * np.array(summary.values), factor * summary.mean
        heights = row - 0.12 - stacked(values, 0.02 * span)
        axes.plot(values, heights, "o", markersize=dot, alpha=0.55, color=colour, mew=0, clip_on=False, label="_seeds")
        draw_interval(axes, summary, row + 0.16, factor, colour, dot)
        if numbers:
            axes.annotate(number(metric, summary.mean), (mean, row + 0.16), xytext=(0, -8), textcoords="offset points",
                          ha="center", va="top", size=8, color=colour, weight="bold")  # fmt: skip
    axes.set(ylim=(len(models) - 0.3, -0.62))
    axes.grid(axis="x", alpha=0.25)
    if metric in PERCENT:
        axes.set_xlim(right=min(axes.get_xlim()[1], 100 + 0.01 * span))  # there is no accuracy above 100 %


def stacked(values: np.ndarray, width: float, room: float = 0.36) -> np.ndarray:
    """How far each of several dots moves up so that those at the same place lie above each other, not on each other."""
    order = np.argsort(values, kind="stable")
    levels = np.zeros(len(values), int)
    for place, index in enumerate(order):
        taken = {levels[other] for other in order[:place] if values[index] - values[other] <= width}
        levels[index] = next(level for level in range(len(values)) if level not in taken)
    offsets: np.ndarray = levels * min(0.14, room / max(1, levels.max()))
    return offsets


def draw_interval(axes: Axes, summary: Summary, row: float, factor: float, colour: str, dot: float) -> None:
    """A diamond at the mean, and a bar for its confidence interval."""
    mean = factor * summary.mean
    if summary.low is not None and summary.high is not None:
        below, above = mean - factor * summary.low, factor * summary.high - mean
        axes.errorbar(mean, row, xerr=[[below], [above]], color=colour, capsize=4, linewidth=0.28 * dot)
    axes.plot(mean, row, "D", color=colour, markersize=0.85 * dot, clip_on=False, label="_mean")


def effects(results: Results, size: Size | None = None, title: str = EFFECTS_TITLE) -> Figure:
    """Main effects and interactions with their simultaneous confidence intervals."""
    metric = results.metric or ""
    factor, unit = scale(metric), "points of accuracy" if metric in PERCENT else TITLES.get(metric, metric)
    with style.house():
        figure = style.new_figure(*(size or (7, 1.2 + 0.5 * len(results.effects))))
        axes = figure.subplots()
        axes.axvline(0, color=style.FAINT, linewidth=1)
        for row, effect in enumerate(results.effects):
            estimate, colour = effect.difference, style.colour(1 if effect.interaction else 0)
            bar = Summary((), estimate.mean, estimate.sd, estimate.low, estimate.high)
            draw_interval(axes, bar, row, factor, colour, 7.0)
            axes.annotate(signed(metric, estimate.mean), (factor * estimate.mean, row), xytext=(0, 7), ha="center",
                          textcoords="offset points", color=colour, weight="bold", size=8,
                          path_effects=[_halo()])  # fmt: skip
        names = [change_names(effect.changes).replace(" × ", "\n× ") for effect in results.effects]
        axes.set_yticks(range(len(names)), names)
        axes.set(ylim=(len(names) - 0.4, -0.7), xlabel=f"effect, {unit}")
        axes.set_title(title, weight="normal", size=9)
        axes.grid(axis="x", alpha=0.25)
    return figure


def confusion(results: Results, name: str) -> Figure:
    """The confusion matrix of one model over all its seeds."""
    counts = np.array(results.models[name].confusion, float)
    return confusion_matrix(counts, list(results.classes), f"{name}: confusion matrix, % of each true class, all seeds")


def confusion_matrix(counts: np.ndarray, classes: list[str], title: str) -> Figure:
    """Predicted by true class, each row in % of the true class; of many classes the most frequent ones."""
    shares = 100 * counts / np.maximum(1, counts.sum(1, keepdims=True))
    if len(counts) > CLASSES:
        frequent = np.sort(np.argsort(-counts.sum(1), kind="stable")[:CLASSES])
        shares, title = shares[np.ix_(frequent, frequent)], f"{title}: the {CLASSES} most frequent of {len(counts)}"
        classes = [classes[i] for i in frequent]
    classes = [visible(name) for name in classes]
    size = len(shares)
    with style.house():
        figure = style.new_figure(max(4.8, 1.6 + 0.5 * size), 1.4 + 0.42 * size)
        axes = figure.subplots()
        errors = np.where(np.eye(size, dtype=bool), np.nan, shares)
        # The darkest orange is left unused: numbers stay readable on all others.
        axes.imshow(np.nan_to_num(errors), cmap="Oranges", aspect="auto", vmin=0, vmax=2 * max(1.0, np.nanmax(errors)))
        for row in range(size):
            for column in range(size):
                value = shares[row, column]
                if value >= 0.05:
                    weight = "bold" if row == column else "normal"
                    axes.text(column, row, f"{value:.1f}", ha="center", va="center", size=7, weight=weight,
                              gid=style.ON_PICTURE)  # fmt: skip
        axes.set_xticks(range(size), classes, rotation=45 if max(map(len, classes)) > 2 else 0)
        axes.set_yticks(range(size), classes)
        axes.set(xlabel="predicted", ylabel="true")
        axes.set_title(title, size=9)
        axes.spines[:].set_visible(False)
    return figure


def colour_of(results: Results, name: str) -> str:
    """The colour of a model, the same in all figures."""
    return style.colour(list(results.models).index(name))


def _models(axes: Axes, results: Results, models: list[str], metric: str) -> None:
    for name in models:
        dash = style.dash(list(results.models).index(name))
        _curves(axes, results.models[name], metric, colour_of(results, name), name, dash)


def _curves(axes: Axes, model: ModelResult, metric: str, colour: str, label: str, dash: str = "solid") -> None:
    """A thin line for each seed, and a thick one for their mean as long as all of them train."""
    factor = scale(metric.partition("_")[2])
    mean = factor * np.array(model.mean_curve(metric))
    for curve in model.curves[metric] if len(model.curves[metric]) > 1 else ():
        epochs = np.arange(1, len(curve) + 1)
        axes.plot(epochs, factor * np.array(curve), color=colour, linewidth=0.7, alpha=0.4, label="_seed")
    marker = "o" if len(mean) == 1 else None
    axes.plot(
        np.arange(1, len(mean) + 1), mean, color=colour, label=label, linestyle=dash, marker=marker, linewidth=1.8
    )
    axes.locator_params(axis="x", integer=True)


def name_lines(figure: Figure) -> None:
    """Each line's name where it ends, in its colour, moved apart where names would overlap. In a legend above where
    names are long, or where they would reach into the next panel.
    """
    names = figure.axes[0].get_legend_handles_labels()
    longest = max(map(len, names[1]), default=0)
    if longest > LONG_NAME or len(figure.axes) > 1:
        columns = int(figure.get_figwidth() / (LETTER * longest + 0.6))  # a line of the legend has a handle before it
        figure.legend(*names, loc="outside upper center", ncols=max(1, min(4, columns)), frameon=False)
        return
    (axes,) = figure.axes
    lines = [line for line in axes.lines if not str(line.get_label()).startswith("_")]
    left, right = axes.get_xlim()
    room = LETTER * (longest + 1) / (0.85 * figure.get_figwidth())
    axes.set_xlim(left, right + room / (1 - room) * (right - left))
    to_axes = axes.transData + axes.transAxes.inverted()
    ends = [to_axes.transform(np.asarray(line.get_xydata())[-1]) for line in lines]
    height = -1.0
    for place in sorted(range(len(lines)), key=lambda i: ends[i][1]):
        height = max(height + 0.055, float(ends[place][1]))
        axes.annotate(str(lines[place].get_label()), (float(ends[place][0]) + 0.01, height), va="center",
                      xycoords="axes fraction", color=lines[place].get_color(), weight="bold",
                      path_effects=[_halo()])  # fmt: skip


def _halo() -> Callable[..., None]:
    """A rim in the colour of the paper, for text that may lie on a line."""
    from matplotlib.patheffects import withStroke

    return withStroke(linewidth=3, foreground=style.PAPER)  # type: ignore[return-value]


def _loss_scale(figure: Figure) -> str:
    """A logarithmic axis where losses differ by orders of magnitude; returns its label."""
    values = np.concatenate([np.asarray(line.get_ydata(), float) for axes in figure.axes for line in axes.lines])
    if not (values > 0).all() or values.max() < ORDERS * values.min():
        return "loss"
    figure.axes[0].set_yscale("log")
    return "loss (log scale)"


def _zoom(axes: Axes, results: Results, models: list[str], metric: str) -> None:
    """Leave out the first steep rise where it would press all the rest together."""
    means = np.array([value for name in models for value in results.models[name].mean_curve(metric)])
    if len(means) > 30:
        low = float(np.quantile(means, 0.08))
        axes.set_ylim(bottom=100 * max(0.0, low - 0.4 * (means.max() - low)))
    axes.set_ylim(top=min(axes.get_ylim()[1], 100.5))
