"""Several studies side by side: what each arm reached on each task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gatelab import style
from gatelab.report import escaping, tables
from gatelab.report.sections import Section
from gatelab.report.tables import TITLES, cell
from gatelab.training.objective import SHARES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Studies = dict[str, dict[str, Any]]
NOTE = "Mean ± standard deviation over seeds, on the test set of the best validation epoch."


def table(studies: Studies) -> list[list[str]]:
    """Studies and models as rows of text, with a row of titles."""
    models = _models(studies)
    rows = [["study", "metric", *models]]
    for name, results in studies.items():
        metric = results["metric"]
        entries = (results["models"].get(model, {}).get("statistics", {}).get(metric) for model in models)
        rows.append([name, TITLES.get(metric, "–"), *(cell(metric, entry) if entry else "–" for entry in entries)])
    return rows


def markdown(studies: Studies) -> str:
    """The table, then what can be said about each study."""
    head, *rows = table(studies)
    lines = ["# All studies", "", tables.row(head), tables.rule(head)]
    for name, *cells in rows:
        lines.append(f"| [{escaping.markdown(name)}]({escaping.address(name)}/report.html) {tables.row(cells)}")
    lines += ["", NOTE, ""]
    for name, results in studies.items():
        lines += [f"## {escaping.markdown(name)}", "", *tables.bullets(results["sentences"])]
    return "\n".join(lines)


def sections(studies: Studies, picture: str) -> list[Section]:
    """The same as a page has it."""
    first = Section("All studies", [], {picture: "Every study: seeds, means and intervals"}, table(studies), NOTE)
    return [first, *(Section(name, results["sentences"], {}, study=name) for name, results in studies.items())]


def figure(studies: Studies) -> Figure:
    """A panel for each study: every seed a dot, means and intervals beside them."""
    columns = min(3, len(studies))
    rows = -(-len(studies) // columns)
    models = _models(studies)
    with style.house():
        made = style.new_figure(2.2 + 3.0 * columns, 0.9 + rows * (0.7 + 0.34 * len(models)))
        panels = np.atleast_1d(made.subplots(rows, columns, sharey=True)).ravel()
        for axes, (name, results) in zip(panels, studies.items(), strict=False):
            _panel(axes, name, results, models)
        for axes in panels[len(studies) :]:
            axes.set_visible(False)
        made.supxlabel("dots are seeds, diamonds means, bars 95 % intervals", size=8, color=style.FAINT)
    return made


def _panel(axes: Axes, name: str, results: dict[str, Any], models: list[str]) -> None:
    metric = results["metric"]
    factor = 100 if metric in SHARES else 1
    for row, model in enumerate(models):
        summary = results["models"].get(model, {}).get("statistics", {}).get(metric)
        if not summary:
            continue
        colour, mean = style.colour(row), factor * summary["mean"]
        values = factor * np.array(summary["values"])
        axes.plot(values, np.full(len(values), row - 0.15), "o", markersize=4.5, alpha=0.5, color=colour, mew=0)
        if summary["low"] is not None:
            ends = [[mean - factor * summary["low"]], [factor * summary["high"] - mean]]
            axes.errorbar(mean, row + 0.15, xerr=ends, color=colour, capsize=3, linewidth=1.5)
        axes.plot(mean, row + 0.15, "D", color=colour, markersize=4.5)
    axes.set_yticks(range(len(models)), models)
    if factor == 100:
        axes.set_xlim(right=min(axes.get_xlim()[1], 101))  # there is no more than all
    axes.set(ylim=(len(models) - 0.4, -0.6), title=name, xlabel=TITLES.get(metric, ""))
    axes.grid(axis="x", alpha=0.25)


def _models(studies: Studies) -> list[str]:
    return list(dict.fromkeys(model for results in studies.values() for model in results["models"]))
