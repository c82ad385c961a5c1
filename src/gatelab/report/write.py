"""All files of a report, from the results of an experiment."""

from __future__ import annotations

import json
from pathlib import Path

from gatelab import style
from gatelab.disk import write_text
from gatelab.report import figures, page, tables


def write_report(directory: Path) -> Path:
    """Tables, figures and the page beside the results they are made of. Returns the page's path."""
    results = json.loads((directory / "results.json").read_text())
    experiment = json.loads((directory / "experiment.json").read_text())
    title = f"{', '.join(results['models'])} on {experiment['spec']['task']['name']}"
    files = {
        "results_summary.md": tables.markdown(results, title),
        "results.csv": tables.comma_separated(results),
        "results_table.tex": tables.latex(results),
        "report.html": page.page(results, experiment, title),
    }
    for name, text in files.items():
        write_text(directory / name, text)
    for name, figure in figures.figures(results).items():
        style.save(figure, directory / name)
    return directory / "report.html"
