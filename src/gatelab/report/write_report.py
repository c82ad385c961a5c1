"""All files of a report, from the results of an experiment."""

from __future__ import annotations

from pathlib import Path

from gatelab import style
from gatelab.disk import within, write_text
from gatelab.experiments.experiment import Experiment, read_experiment
from gatelab.experiments.results import Results, manifests, read_results
from gatelab.experiments.tuning.outcome import settled
from gatelab.report import figures, page, search, sections, studies, tables
from gatelab.report.links import explorers
from gatelab.report.words import settings


def write_reports(directory: Path, places: dict[str, Path]) -> Path:
    """The report of each study, and one of all together. Returns the path of what to open first."""
    pages = {name: write_report(within(directory, place)) for name, place in places.items()}
    if "" in pages:
        return pages[""]
    results = {name: read_results(place) for name, place in places.items()}
    write_text(directory / "results_summary.md", studies.markdown(results))
    drawn = {"studies.png": studies.figure(results)}
    style.save(drawn["studies.png"], directory / "studies.png")
    title, facts = f"{len(results)} studies", "The same comparison on several tasks; each has a page of its own."
    write_text(
        directory / "report.html",
        sections.page(title, facts, studies.sections(results, "studies.png"), drawn, directory),
    )
    return directory / "report.html"


def write_report(directory: Path) -> Path:
    """Tables, figures and the page beside the results they are made of. Returns the page's path."""
    results, experiment = read_results(directory), settled(read_experiment(directory), directory)
    title = _title(results, experiment)
    drawn = {**figures.figures(results), **search.figures(results)}
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
            {name: style.for_page(drawn[name], directory / name) for name in page.PICTURES if name in drawn},
            explorers(experiment, directory),
        ),
    }
    for name, text in files.items():
        write_text(directory / name, text)
    return directory / "report.html"


def _title(results: Results, experiment: Experiment) -> str:
    what, task = ", ".join(results.models), settings.data_set(experiment.spec.task)
    if experiment.spec.ablation:
        what = f"{experiment.base.cell}, {len(results.models)} arms,"
    return f"{what} on {task}"
