"""All files of a report, from the results of an experiment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gatelab import sealed, style
from gatelab.disk import within, write_text
from gatelab.experiments.record import RESULTS, read_experiment
from gatelab.experiments.results import manifests
from gatelab.report import figures, page, sections, tables, together


def write_reports(directory: Path, studies: dict[str, Path]) -> Path:
    """The report of each study, and what they say together. Returns the path of what to open first."""
    pages = {name: write_report(within(directory, place)) for name, place in studies.items()}
    if "" in pages:
        return pages[""]
    results = {name: sealed.read_json(place / RESULTS) for name, place in studies.items()}
    write_text(directory / "results_summary.md", together.markdown(results))
    style.save(together.figure(results), directory / "studies.png")
    title, facts = f"{len(results)} studies", "The same comparison on several tasks; each has a page of its own."
    made = sections.page(title, facts, together.sections(results, "studies.png"), directory)
    write_text(directory / "report.html", made)
    return directory / "report.html"


def write_report(directory: Path) -> Path:
    """Tables, figures and the page beside the results they are made of. Returns the page's path."""
    results, experiment = sealed.read_json(directory / RESULTS), read_experiment(directory)
    title = _title(results, experiment)
    drawn = figures.figures(results)
    for name, figure in drawn.items():
        style.save(figure, directory / name)
    files = {
        "results_summary.md": tables.markdown(results, experiment, title),
        "results.csv": tables.comma_separated(results),
        "results_table.tex": tables.latex(results),
        "report.html": page.page(
            results,
            experiment,
            manifests(experiment, directory),
            title,
            (directory / "effects.png").read_bytes() if "effects.png" in drawn else None,
        ),
    }
    for name, text in files.items():
        write_text(directory / name, text)
    return directory / "report.html"


def _title(results: dict[str, Any], experiment: dict[str, Any]) -> str:
    what, task = ", ".join(results["models"]), experiment["spec"]["task"]["name"]
    if experiment["command"] == "ablate":
        what = f"{experiment['models'][experiment['spec']['base']]['cell']}, {len(results['models'])} arms,"
    return f"{what} on {task}"
