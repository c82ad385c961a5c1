"""All files of a report, from the results of an experiment."""

from __future__ import annotations

import json
from pathlib import Path

from gatelab.disk import whole_file
from gatelab.report import tables


def write_report(directory: Path) -> Path:
    """Tables beside the results they are made of. Returns the summary's path."""
    results = json.loads((directory / "results.json").read_text())
    spec = json.loads((directory / "experiment.json").read_text())["spec"]
    title = f"{', '.join(results['models'])} on {spec['task']['name']}"
    files = {
        "results_summary.md": tables.markdown(results, title),
        "results.csv": tables.comma_separated(results),
        "results_table.tex": tables.latex(results),
    }
    for name, text in files.items():
        with whole_file(directory / name) as file:
            file.write(text.encode())
    return directory / "results_summary.md"
