"""The figures of a fit, in the units of the data."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gatelab import style
from gatelab.data.index import Index
from gatelab.estimators.forecasting.backtest import OURS as FORECASTER
from gatelab.fitting.comparison import OURS
from gatelab.fitting.sequence_fit import SequenceFit
from gatelab.fitting.series_fit import SeriesFit
from gatelab.formatting import percent, visible
from gatelab.report.figures import confusion_matrix
from gatelab.report.forecast import figure as forecast_figure
from gatelab.tasks.own.figures import POINTS, date_axis, draw_values, label_strip, sequence, shortened
from gatelab.use.forecasting import Forecast

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WORST = 6  # sequences that are drawn
LETTERS = 90  # of tokens in a line
NAME = 40  # letters of a class


def training_curve(history: list[dict[str, Any]], best: int | None) -> Figure:
    """Loss and accuracy of training and validation by epoch; a line marks the epoch whose weights are kept."""
    metrics = ["loss", *(["accuracy"] if "train_accuracy" in history[0] else [])]
    epochs = [line["epoch"] for line in history]
    with style.house():
        figure = style.new_figure(4.5 * len(metrics), 3.2)
        for axes, metric in zip(np.atleast_1d(figure.subplots(1, len(metrics))), metrics, strict=True):
            factor = 100 if metric == "accuracy" else 1
            for number, part in enumerate(("train", "validation")):
                if f"{part}_{metric}" not in history[0]:
                    continue
                values = [factor * line[f"{part}_{metric}"] for line in history]
                label = "training" if part == "train" else part
                marker = "o" if len(values) == 1 else None
                axes.plot(epochs, values, color=style.colour(number), label=label, marker=marker, linewidth=1.2)
            if best is not None:
                axes.axvline(best, color=style.FAINT, linewidth=1, linestyle="dotted", label="kept weights")
            axes.set(xlabel="epoch", title="loss" if metric == "loss" else "accuracy, %")
            axes.locator_params(axis="x", integer=True)
        losses = [line[name] for line in history for name in ("train_loss", "validation_loss") if name in line]
        if 0 < 5 * min(losses) < max(losses):
            figure.axes[0].set_yscale("log")
            figure.axes[0].set_title("loss (log scale)")
        figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside upper right", ncols=3)
    return figure


def confusion(fit: SequenceFit) -> Figure:
    """The confusion matrix of the test set."""
    assert fit.predictions.confusion is not None
    classes = [shortened(name, NAME) for name in fit.task.classes or ()]
    return confusion_matrix(fit.predictions.confusion, classes, "Confusion matrix, % of each true class, test set")


def predicted_against_true(fit: SequenceFit) -> Figure:
    """A panel for each target value."""
    true, predicted = fit.comparison.true, fit.comparison.predicted[OURS]
    names = fit.task.target_names[:4]
    few = np.linspace(0, len(true) - 1, min(len(true), 3000)).astype(int)
    with style.house():
        figure = style.new_figure(max(4.6, min(9.0, 3.4 * len(names))), 4.0 if len(names) == 1 else 3.4)
        for column, (axes, name) in enumerate(zip(np.atleast_1d(figure.subplots(1, len(names))), names, strict=True)):
            both = true[:, column], predicted[:, column]
            ends = [min(map(np.min, both)), max(map(np.max, both))]
            axes.plot(ends, ends, color=style.FAINT, linewidth=0.8)
            axes.plot(both[0][few], both[1][few], "o", markersize=4, alpha=0.5, color=style.COLOURS[0], mew=0)
            axes.set(xlabel="true", title=name)
        figure.axes[0].set_ylabel("predicted")
        figure.suptitle("Predicted against true, test set", x=0.01, ha="left", weight="bold")
    return figure


def worst_sequences(fit: SequenceFit) -> Figure | None:
    """The test sequences with the worst predictions: most confident in a wrong class, or farthest off."""
    places = fit.predictions.worst(WORST // 2 if fit.task.per_step and not fit.task.vocabulary else WORST)
    if not len(places):
        return None
    is_tokens = bool(fit.task.vocabulary)
    across = 1 if is_tokens or fit.task.per_step else 2
    down = -(-len(places) // across)
    with style.house():
        figure = style.new_figure(9, 0.3 + down * (0.75 if is_tokens else 2.0))
        grid = figure.subplots(down, across, squeeze=False).ravel()
        for axes, place in zip(grid, places.tolist(), strict=False):
            _draw_worst(axes, fit, place)
        for axes in grid[len(places) :]:
            axes.axis("off")
        if not is_tokens:
            figure.supxlabel("step", size=9)
        handles = [] if is_tokens else grid[0].get_legend_handles_labels()
        if handles and 1 < len(handles[0]) <= 8:
            figure.legend(*handles, loc="outside lower right", ncols=min(4, len(handles[0])))
    return figure


def _draw_worst(axes: Axes, fit: SequenceFit, place: int) -> None:
    task, outcome = fit.task, fit.predictions
    index = int(task.indices[2][place])
    values = sequence(task, index)
    where = f"sequence {index + 1} of the file: "
    if task.vocabulary:
        words = " ".join(visible(task.vocabulary[token]) for token in values)
        axes.axis("off")
        axes.text(0, 0.8, shortened(words, LETTERS), size=8, family="monospace", va="center", transform=axes.transAxes)
    else:
        draw_values(task, axes, values)
        axes.locator_params(axis="x", integer=True)
    title = where + _what_was_wrong(fit, place)
    if task.per_step and not task.vocabulary:
        _draw_steps(axes, fit, place, len(values))
    pad = 30 if task.per_step and task.classes is not None and not task.vocabulary else 4
    axes.set_title(title, weight="normal", size=8, color=style.COLOURS[1], pad=pad)
    if outcome.confusion is None and task.per_step:
        axes.set_title(title, weight="normal", size=8)


def _what_was_wrong(fit: SequenceFit, place: int) -> str:
    task, outcome = fit.task, fit.predictions
    if task.per_step:
        if task.classes is not None:
            return f"{100 * outcome.error[place]:.0f} % of its targets are predicted wrong"
        return (
            "the largest mean error over its steps"
            if task.output_size > 1
            else (f"mean absolute error {outcome.error[place] * _deviation(fit)[0]:.4g}")
        )
    if task.classes is not None:
        predicted, true = (task.classes[int(v[place])] for v in (outcome.predicted, outcome.targets))
        return (
            f"predicted {shortened(visible(predicted), NAME)} (p = {outcome.confidence[place]:.2f}),\ntrue "
            f"{shortened(visible(true), NAME)}"
        )
    predicted, true = (values[place] for values in (fit.comparison.predicted[OURS], fit.comparison.true))
    texts = [", ".join(f"{value:.4g}" for value in values) for values in (predicted, true)]
    return f"predicted {texts[0]},\ntrue {texts[1]}"


def _deviation(fit: SequenceFit) -> np.ndarray:
    scaling = fit.task.target_scaling
    assert scaling is not None
    return scaling.deviation


def _draw_steps(axes: Axes, fit: SequenceFit, place: int, steps: int) -> None:
    """Targets and predictions at every step: strips of classes, or dotted and solid lines."""
    task, outcome = fit.task, fit.predictions
    true, predicted = outcome.targets[place, :steps], outcome.predicted[place, :steps]
    axes.set_xlim(-0.5, steps - 0.5)
    if task.classes is not None:
        for bottom, labels, name in ((1.16, true, "true"), (1.02, predicted, "predicted")):
            label_strip(axes, labels, task.classes, bottom)
            axes.text(-0.01, bottom + 0.05, name, size=7, ha="right", va="center", transform=axes.transAxes)
        return
    scaling = task.target_scaling
    assert scaling is not None
    for column, name in enumerate(task.target_names[:3]):
        both = (scaling.undo(values)[:, column] for values in (true, predicted))
        for values, dash, what in zip(both, (":", "-"), ("true", "predicted"), strict=True):
            axes.plot(values, dash, color=style.COLOURS[1 + column], label=f"{name}, {what}")


def series_with_split(fit: SeriesFit) -> Figure:
    """The series, and the part that the backtest forecasts."""
    plan = fit.plan
    x: Any = np.arange(len(plan.values)) if plan.stamps is None else plan.stamps
    names = (*plan.names, *plan.covariates)[:6]
    with style.house():
        figure = style.new_figure(9, 0.9 + 1.7 * max(1.4, len(names)))
        panels = np.atleast_1d(figure.subplots(len(names), 1, sharex=True))
        for column, (axes, name) in enumerate(zip(panels, names, strict=True)):
            for number, (part, a, b) in enumerate((("training", 0, plan.train), ("test", plan.train, len(x)))):
                every = max(1, (b - a) // POINTS)
                axes.plot(x[a:b:every], plan.series.values[a:b:every, column], linewidth=1,
                          color=style.colour(number), label=part)  # fmt: skip
            axes.set_title(f"{name}{' (covariate)' if column >= len(plan.names) else ''}")
            axes.margins(x=0.01)
        panels[-1].set_xlabel("step" if plan.stamps is None else "time")
        if plan.stamps is not None:
            date_axis(panels[-1])
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper right", ncols=2)
    return figure


def forecast(fit: SeriesFit, found: Forecast) -> Figure:
    """The end of the series and its forecast, with intervals."""
    plan = fit.plan
    ending = plan.y.last(max(4 * plan.horizon, 2 * plan.season, 24))
    ending = ending if found.stamps is not None else replace(ending, index=Index.at(None, len(ending.values)))
    return forecast_figure(
        Forecast(found.columns, ending, found.values, found.stamps, found.lower, found.upper, found.coverage)
    )


def worst_origin(fit: SeriesFit) -> tuple[Figure, int]:
    """The origin of the backtest with the largest error, and where it is in the series."""
    plan, outcome = fit.plan, fit.backtest
    errors = np.abs(outcome.errors(FORECASTER)) / outcome.scale  # (N, F, K)
    known = ~np.isnan(errors).any((1, 2))
    mean = np.where(known if known.any() else True, np.nanmean(errors, (1, 2)), -1.0)
    place = int(mean.argmax())
    origin, K = outcome.train - 1 + place, len(plan.names)
    before = np.arange(max(0, origin + 1 - max(2 * plan.horizon, plan.season, 12)), origin + 1)
    after = origin + outcome.steps
    inside = after < len(plan.values)
    x: Any = np.arange(len(plan.values)) if plan.stamps is None else plan.stamps
    others = [name for name in outcome.forecasts if name != FORECASTER]
    with style.house():
        figure = style.new_figure(9, 0.9 + 2.3 * K)
        panels = np.atleast_1d(figure.subplots(K, 1, sharex=True))
        for k, (axes, name) in enumerate(zip(panels, plan.names, strict=True)):
            both = np.concatenate([before, after[inside]])
            axes.plot(x[both], plan.values[both, k], color=style.INK, label="series")
            ahead = x[after[inside]]
            axes.plot(ahead, outcome.forecasts[FORECASTER][place, inside, k], color=style.colour(1), label="forecast",
                      marker="o" if inside.sum() == 1 else None)  # fmt: skip
            low, high = outcome.lower[place, inside, k], outcome.upper[place, inside, k]
            finite = np.isfinite(high - low)
            if finite.any():
                band, label = (ahead[finite], low[finite], high[finite]), f"{percent(outcome.coverage)} interval"
                axes.fill_between(*band, color=style.colour(1), alpha=0.2, linewidth=0, label=label)
            for number, method in enumerate(others):
                axes.plot(ahead, outcome.forecasts[method][place, inside, k], linestyle="dashed", linewidth=1,
                          color=style.COLOURS[(0, 2, 3)[number % 3]], label=method)  # fmt: skip
            axes.axvline(x[origin], color=style.FAINT, linewidth=0.8, linestyle="dotted")
            axes.set_title(name)
        panels[-1].set_xlabel("step" if plan.stamps is None else "time")
        if plan.stamps is not None:
            date_axis(panels[-1])
        handles = panels[0].get_legend_handles_labels()
        figure.legend(*handles, loc="outside upper right", ncols=len(handles[0]))
    return figure, origin
