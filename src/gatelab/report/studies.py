"""Several studies side by side: the result of each arm on each task."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gatelab import style
from gatelab.experiments.results import Results
from gatelab.formatting import TITLES
from gatelab.report import escaping, tables
from gatelab.report.figures import SEEDS_NOTE, draw_seeds
from gatelab.report.sections import PageSection
from gatelab.report.words.findings import family_sentence, findings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Studies = dict[str, Results]
NOTE = "Mean ± standard deviation over seeds, on the test set, with the weights of the best validation epoch."


def table(studies: Studies) -> tables.Rows:
    """Studies and models, below a row of titles."""
    models = _models(studies)
    rows = [["study", "metric", *models]]
    for name, results in studies.items():
        metric = results.metric or ""
        known = (results.models.get(model) for model in models)
        cells = [tables.cell(model, metric) if model else tables.MISSING for model in known]
        rows.append([name, TITLES.get(metric, tables.MISSING), *cells])
    return rows


def markdown(studies: Studies) -> str:
    """The table, then the findings of each study."""
    head, *rows = table(studies)
    lines = ["# All studies", "", tables.row(head), tables.rule(head)]
    for name, *cells in rows:
        lines.append(f"| [{escaping.markdown(name)}]({escaping.address(name)}/report.html) {tables.row(cells)}")
    lines += ["", NOTE, escaping.markdown(family_sentence(next(iter(studies.values())))), ""]
    for name, results in studies.items():
        lines += [f"## {escaping.markdown(name)}", "", *tables.bullets(findings(results))]
    return "\n".join(lines)


def sections(studies: Studies, picture: str) -> list[PageSection]:
    """The same as sections of a page."""
    note = f"{NOTE} {family_sentence(next(iter(studies.values())))}"
    first = PageSection(
        "All studies", [], {picture: "Every study: seeds, means and confidence intervals"}, table(studies), note
    )
    return [first, *(PageSection(name, findings(results), {}, study=name) for name, results in studies.items())]


def figure(studies: Studies) -> Figure:
    """A panel for each study: every seed a dot, means and intervals below them."""
    columns = min(3, len(studies))
    rows = -(-len(studies) // columns)
    models = _models(studies)
    with style.house():
        drawing = style.new_figure(2.2 + 3.0 * columns, 0.9 + rows * (0.7 + 0.38 * len(models)))
        panels = np.atleast_1d(drawing.subplots(rows, columns, sharey=True)).ravel()
        for axes, (name, results) in zip(panels, studies.items(), strict=False):
            draw_seeds(axes, results, models, dot=4.5)
            axes.set_yticks(range(len(models)), models)
            axes.set(title=name, xlabel=TITLES.get(results.metric or "", ""))
        for axes in panels[len(studies) :]:
            axes.set_visible(False)
        drawing.supxlabel(SEEDS_NOTE, size=8, color=style.FAINT)
    return drawing


def _models(studies: Studies) -> list[str]:
    return list(dict.fromkeys(model for results in studies.values() for model in results.models))
