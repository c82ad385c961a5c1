"""The figures of a comparison, in the house style: every line labelled where it ends, every seed a dot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gatelab import style
from gatelab.report.escaping import file_name
from gatelab.report.tables import TITLES, signed
from gatelab.training.objective import SHARES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Results = dict[str, Any]
LONG_NAME = 12  # letters from which on a name does not fit beside its line


def figures(results: Results) -> dict[str, Figure]:
    """All figures by file name."""
    drawn = [name for name, entry in results["models"].items() if entry["curves"]]
    if not drawn:
        return {}
    made = {"training_curves.png": loss_curves(results, drawn), "test_comparison.png": comparison(results, drawn)}
    if results.get("effects"):
        made["effects.png"] = effects(results)
    if results["metric"] == "accuracy":
        made["accuracy_curves.png"] = curves(
            results, drawn, "validation_accuracy", "Validation accuracy over the epochs"
        )
    for name in drawn:
        made[f"curves_{file_name(name)}.png"] = model_curves(results, name)
        if results["models"][name]["confusion"]:
            made[f"confusion_{file_name(name)}.png"] = confusion(results, name)
    return made


def loss_curves(results: Results, models: list[str]) -> Figure:
    with style.house():
        figure = style.new_figure(9, 3.8)
        for axes, part in zip(figure.subplots(1, 2, sharey=True), ("train", "validation"), strict=True):
            _lines(axes, results, models, f"{part}_loss")
            axes.set(title=f"{part} loss", xlabel="epoch", yscale="log")
        figure.axes[0].set_ylabel("loss (log scale)")
        _label_ends(figure)
        figure.supxlabel(_band_note(results, models), size=7.5, color=style.FAINT)
    return figure


def curves(results: Results, models: list[str], metric: str, title: str) -> Figure:
    with style.house():
        figure = style.new_figure(7, 4.2)
        axes = figure.subplots()
        _lines(axes, results, models, metric)
        _zoom(axes, results, models, metric)
        axes.set(title=title, xlabel="epoch", ylabel="accuracy, %")
        _label_ends(figure)
        figure.supxlabel(_band_note(results, models), size=7.5, color=style.FAINT)
    return figure


def model_curves(results: Results, model: str) -> Figure:
    """Training and validation of one model: how far they part."""
    known = results["models"][model]["curves"]
    others = (name for name in ("accuracy", "mse", "mae") if f"train_{name}" in known)
    metrics = ["loss", *(name for name in others if known[f"train_{name}"] != known["train_loss"])][:2]
    with style.house():
        figure = style.new_figure(4.6 * len(metrics), 3.6)
        for axes, metric in zip(np.atleast_1d(figure.subplots(1, len(metrics))), metrics, strict=True):
            for colour, part in zip(style.COLOURS, ("train", "validation"), strict=False):
                _line(axes, known[f"{part}_{metric}"], f"{part}_{metric}", colour, part)
            axes.set(title=f"{model}: {TITLES[metric]}", xlabel="epoch")
        _label_ends(figure)
        figure.supxlabel(_band_note(results, [model]), size=7.5, color=style.FAINT)
    return figure


def comparison(results: Results, models: list[str]) -> Figure:
    """Every seed a dot, the mean and its 95 % interval beside them."""
    metric = results["metric"]
    factor = 100 if metric in SHARES else 1
    with style.house():
        figure = style.new_figure(7, 1.3 + 0.7 * len(models))
        axes = figure.subplots()
        for row, name in enumerate(models):
            summary, colour = results["models"][name]["statistics"][metric], colour_of(results, name)
            values, mean = factor * np.array(summary["values"]), factor * summary["mean"]
            axes.plot(values, np.full(len(values), row - 0.16), "o", markersize=7, alpha=0.55, color=colour, mew=0)
            if summary["low"] is not None:
                ends = [[mean - factor * summary["low"]], [factor * summary["high"] - mean]]
                axes.errorbar(mean, row + 0.14, xerr=ends, color=colour, capsize=4, linewidth=2)
            axes.plot(mean, row + 0.14, "D", color=colour, markersize=6)
            shown = f"{mean:.2f}" if factor > 1 else f"{mean:.4g}"
            axes.annotate(shown, (mean, row + 0.14), xytext=(0, -9), textcoords="offset points", ha="center", va="top",
                          size=8, color=colour, weight="bold")  # fmt: skip
        axes.set_yticks(range(len(models)), models, weight="bold")
        axes.set(ylim=(len(models) - 0.3, -0.6), xlabel=f"test {TITLES[metric]}")
        axes.set_title("Test results: dots are seeds, diamonds means, bars 95 % intervals", weight="normal", size=9)
        axes.grid(axis="x", alpha=0.25)
    return figure


def effects(results: Results) -> Figure:
    """Main effects and interactions with their 95 % intervals."""
    found, metric = results["effects"], results["metric"]
    factor, unit = (100, "points of accuracy") if metric in SHARES else (1, TITLES[metric])
    with style.house():
        figure = style.new_figure(7, 1.2 + 0.45 * len(found))
        axes = figure.subplots()
        axes.axvline(0, color=style.FAINT, linewidth=1)
        for row, effect in enumerate(found):
            value, colour = factor * effect["difference"], style.colour(0 if "×" not in effect["name"] else 1)
            if effect["low"] is not None:
                ends = [[value - factor * effect["low"]], [factor * effect["high"] - value]]
                axes.errorbar(value, row, xerr=ends, color=colour, capsize=4, linewidth=2)
            axes.plot(value, row, "D", color=colour, markersize=6)
            axes.annotate(signed(metric, effect["difference"]), (value, row), xytext=(0, 7), textcoords="offset points",
                          ha="center", size=8, color=colour, weight="bold")  # fmt: skip
        axes.set_yticks(range(len(found)), [effect["name"].replace(" × ", "\n× ") for effect in found])
        axes.set(ylim=(len(found) - 0.4, -0.7), xlabel=f"effect, {unit}")
        axes.set_title("Effects of the factors: diamonds are means over seeds, bars 95 % intervals", weight="normal",
                       size=9)  # fmt: skip
        axes.grid(axis="x", alpha=0.25)
    return figure


def confusion(results: Results, model: str) -> Figure:
    counts = np.array(results["models"][model]["confusion"], float)
    return confusion_matrix(counts, results["classes"], f"{model}: % of each true class, all seeds")


def confusion_matrix(counts: np.ndarray, classes: list[str], title: str) -> Figure:
    """What was taken for what, in % of the true class."""
    shares = 100 * counts / np.maximum(1, counts.sum(1, keepdims=True))
    size = len(counts)
    with style.house():
        figure = style.new_figure(max(3.8, 1.6 + 0.5 * size), 1.4 + 0.42 * size)
        axes = figure.subplots()
        errors = np.where(np.eye(size, dtype=bool), np.nan, shares)
        # The darkest orange is left unused: numbers stay readable on all others.
        axes.imshow(np.nan_to_num(errors), cmap="Oranges", aspect="auto", vmin=0, vmax=2 * max(1.0, np.nanmax(errors)))
        for row in range(size):
            for column in range(size):
                value = shares[row, column]
                if value >= 0.05:
                    weight = "bold" if row == column else "normal"
                    axes.text(column, row, f"{value:.1f}", ha="center", va="center", size=7, weight=weight)
        axes.set_xticks(range(size), classes, rotation=45 if max(map(len, classes)) > 2 else 0)
        axes.set_yticks(range(size), classes)
        axes.set(xlabel="answered", ylabel="true", title=title)
        axes.spines[:].set_visible(False)
    return figure


def colour_of(results: Results, model: str) -> str:
    return style.colour(list(results["models"]).index(model))


def _lines(axes: Axes, results: Results, models: list[str], metric: str) -> None:
    for name in models:
        kind = style.dash(list(results["models"]).index(name))
        _line(axes, results["models"][name]["curves"][metric], metric, colour_of(results, name), name, kind)


def _line(
    axes: Axes, points: list[dict[str, float]], metric: str, colour: str, label: str, kind: str = "solid"
) -> None:
    """The mean with a band from the smallest to the largest."""
    factor = 100 if metric.partition("_")[2] in SHARES else 1
    epochs = [point["epoch"] for point in points]
    mean, low, high = (factor * np.array([point[key] for point in points]) for key in ("mean", "low", "high"))
    axes.fill_between(epochs, low, high, color=colour, alpha=0.15, linewidth=0)
    axes.plot(epochs, mean, color=colour, label=label, linestyle=kind, marker="o" if len(epochs) == 1 else None)
    axes.locator_params(axis="x", integer=True)


def _label_ends(figure: Figure) -> None:
    """Each line's name where it ends, in its colour; names that would lie on each other are moved apart. Names that are
    too long for that stand above.
    """
    from matplotlib.patheffects import withStroke

    named = figure.axes[0].get_legend_handles_labels()
    if max(map(len, named[1]), default=0) > LONG_NAME:
        figure.legend(*named, loc="outside upper center", ncols=2, frameon=False)
        return
    halo = withStroke(linewidth=3, foreground=style.PAPER)  # a name may lie on another line
    for axes in figure.axes:
        lines = [line for line in axes.lines if not str(line.get_label()).startswith("_")]
        left, right = axes.get_xlim()
        axes.set_xlim(left, right + 0.16 * (right - left))
        to_axes = axes.transData + axes.transAxes.inverted()
        ends = [to_axes.transform(np.asarray(line.get_xydata())[-1]) for line in lines]
        height = -1.0
        for place in sorted(range(len(lines)), key=lambda i: ends[i][1]):
            height = max(height + 0.055, float(ends[place][1]))
            axes.annotate(str(lines[place].get_label()), (float(ends[place][0]) + 0.01, height), va="center",
                          xycoords="axes fraction", color=lines[place].get_color(), weight="bold",
                          path_effects=[halo])  # fmt: skip


def _zoom(axes: Axes, results: Results, models: list[str], metric: str) -> None:
    """Leave out the first steep rise where it would press all the rest together."""
    means = np.array([point["mean"] for name in models for point in results["models"][name]["curves"][metric]])
    if len(means) > 30:
        low = float(np.quantile(means, 0.08))
        axes.set_ylim(bottom=100 * max(0.0, low - 0.4 * (means.max() - low)))


def _band_note(results: Results, models: list[str]) -> str:
    runs = sorted({results["models"][name]["counts"].get("done", 0) for name in models})
    seeds = "1 seed" if runs == [1] else f"{' to '.join(map(str, dict.fromkeys((runs[0], runs[-1]))))} seeds"
    return f"line: mean over {seeds}; band: smallest to largest; runs that stopped early are in up to their end"
