"""The search of an experiment as a table and as figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gatelab import style
from gatelab.experiments.results import Results
from gatelab.experiments.tuning.outcome import ModelSearch, SearchResult
from gatelab.experiments.tuning.space import Range
from gatelab.formatting import PERCENT, TITLES, number, scale
from gatelab.report.figures import colour_of, name_lines
from gatelab.report.words.search import chosen, setting_name, setting_value

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MISSING = "–"
LOWEST = 0.2  # the quantile of scores at which the axis of a figure begins, if the worst are far below


def chosen_settings(search: SearchResult) -> list[list[str]]:
    """The best trial of each model, and how sensitive it is to each setting, below a row of titles."""
    settings = _settings(search)
    title = TITLES[search.metric]
    head = ["model", "trials", f"best validation {title}", *map(setting_name, settings), "best − median"]
    rows = [[*head, *(f"R² of {setting_name(key)}" for key in settings)]]
    for name, model in search.models.items():
        own = chosen(model)
        score = next((trial.score for trial in model.trials if trial.number == model.chosen), None)
        shown = MISSING if score is None else number(search.metric, abs(score))
        spread = MISSING if model.spread is None else number(search.metric, model.spread)
        explained = [_share(model.explained.get(key)) for key in settings]
        values = [setting_value(own[key]) if key in own else MISSING for key in settings]
        rows.append([name, _counts(model, search), shown, *values, spread, *explained])
    return rows


def _settings(search: SearchResult) -> list[str]:
    """The settings of all models, each once."""
    return list(dict.fromkeys(key for space in search.space.values() for key in space))


def _factor(search: SearchResult) -> int:
    """What scores are multiplied by where they are drawn: errors are kept as negative numbers."""
    return -scale(search.metric) if search.metric == "loss" else scale(search.metric)


def columns_note(search: SearchResult) -> str:
    """What the columns of the table mean."""
    unit = "points" if search.metric in PERCENT else "loss"
    return (
        f"best − median, in {unit}: what the median trial loses against the best one. R²: the share of the variance of "
        "the scores that one setting explains by itself (adjusted; a quadratic curve, or the means of a list)."
    )


def _counts(model: ModelSearch, search: SearchResult) -> str:
    counts = {
        "pruned": sum(trial.pruned for trial in model.trials),
        "diverged": sum(trial.status == "diverged" for trial in model.trials),
        "failed": sum(trial.status == "failed" for trial in model.trials),
    }
    shown = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    return f"{len(model.trials)} of {search.trials}" + (f" ({shown})" if shown else "")


def _share(share: float | None) -> str:
    return MISSING if share is None else f"{share:.2f}"


def figures(results: Results) -> dict[str, Figure]:
    """The figures of a search by file name; none before it has begun to have results."""
    if results.search is None or not any(model.expected for model in results.search.models.values()):
        return {}
    return {"expected_best.png": expected_best(results), "search.png": trials(results)}


def expected_best(results: Results) -> Figure:
    """The expected best validation score against the number of trials, with its interval."""
    search = results.search
    assert search is not None
    factor = _factor(search)
    with style.house():
        figure = style.new_figure(7, 4.0)
        axes = figure.subplots()
        for i, (name, model) in enumerate(search.models.items()):
            if not model.expected:
                continue
            budget = [point.trials for point in model.expected]
            colour, dash = colour_of(results, name), style.dash(i)
            means = [factor * point.mean for point in model.expected]
            axes.plot(budget, means, color=colour, label=name, linestyle=dash, marker="o", markersize=3.5)
            ends = [(p.trials, p.low, p.high) for p in model.expected if p.low is not None]
            if ends:
                at, low, high = np.array(ends, float).T
                axes.fill_between(at, factor * low, factor * high, color=colour, alpha=0.13, linewidth=0)
        _begin_at_typical(figure, [p.mean for m in search.models.values() for p in m.expected], factor)
        what = "Best so far" if search.sampler == "tpe" else "Expected best"
        axes.set(xlabel="trials", ylabel=f"validation {TITLES[search.metric]}")
        axes.set_title(f"{what} validation {search.metric} by number of trials")
        axes.locator_params(axis="x", integer=True)
        name_lines(figure)
        if search.sampler == "random":
            figure.supxlabel("bands: 95 % bootstrap intervals, up to half of the trials", size=7.5, color=style.FAINT)
    return figure


def trials(results: Results) -> Figure:
    """Every trial, by the value of each setting."""
    from matplotlib.ticker import LogLocator, NullLocator

    search = results.search
    assert search is not None
    settings = _settings(search)
    factor = _factor(search)
    with style.house():
        figure = style.new_figure(max(6.0, 4.2 * len(settings)), 4.0)
        panels = np.atleast_1d(figure.subplots(1, len(settings), sharey=True))
        for axes, key in zip(panels, settings, strict=True):
            for name, model in search.models.items():
                if key in search.space[name]:
                    _trials(axes, model, key, name, colour_of(results, name), factor)
            values = next(Range.model_validate(space[key]) for space in search.space.values() if key in space)
            if values.log is not None:
                axes.set_xscale("log")
                axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
                axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
                axes.xaxis.set_minor_locator(NullLocator())
            axes.set(xlabel=setting_name(key))
            axes.grid(alpha=0.2)
        scores = [trial.score for model in search.models.values() for trial in model.trials if trial.score is not None]
        _begin_at_typical(figure, scores, factor)
        panels[0].set_ylabel(f"best validation {TITLES[search.metric]}")
        handles = {
            label: handle for axes in panels for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=6, frameon=False)
        legend = "filled: finished; hollow: stopped early; ring: chosen; arrows: below the axis"
        figure.supxlabel(legend, size=7.5, color=style.FAINT)
    return figure


def _trials(axes: Axes, model: ModelSearch, key: str, name: str, colour: str, factor: float) -> None:
    scored = [trial for trial in model.trials if trial.score is not None and key in trial.settings]
    for is_pruned in (False, True):
        some = [trial for trial in scored if trial.pruned is is_pruned]
        x, y = [t.settings[key] for t in some], [factor * (t.score or 0.0) for t in some]
        face = "none" if is_pruned else colour
        label = name if not is_pruned else "_pruned"
        axes.plot(x, y, "o", color=colour, markerfacecolor=face, alpha=0.75, markersize=5.5, label=label)
    for trial in scored:
        if trial.number == model.chosen:
            axes.plot(trial.settings[key], factor * (trial.score or 0.0), "o", markerfacecolor="none", markersize=12,
                      markeredgecolor=colour, markeredgewidth=1.4, label="_chosen")  # fmt: skip


def _begin_at_typical(figure: Figure, scores: list[float], factor: float) -> None:
    """Leave out the worst where they would press all the rest together; arrows show that they are there."""
    axes, values = figure.axes[0], factor * np.array(scores)
    worse_is_up = factor < 0
    cut = float(np.quantile(values, 1 - LOWEST if worse_is_up else LOWEST))
    best = float(values.min() if worse_is_up else values.max())
    if abs(values.max() - values.min()) <= 2.5 * abs(best - cut) or best == cut:
        return
    margin = 0.25 * abs(best - cut)
    end = cut + margin if worse_is_up else cut - margin
    if worse_is_up:
        axes.set_ylim(top=end)
    else:
        axes.set_ylim(bottom=end)
    for panel in figure.axes:
        for line in [line for line in panel.lines if line.get_linestyle() == "None" and line.get_label() != "_chosen"]:
            for x, y in np.asarray(line.get_xydata(), float):
                if (y > end) == worse_is_up and y != end:
                    panel.plot(x, end, "^" if worse_is_up else "v", color=line.get_color(), markersize=5, clip_on=False,
                               label="_outside")  # fmt: skip
