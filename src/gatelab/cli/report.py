"""`gatelab report`: write the report of an experiment again, from its run directories."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gatelab.cli.settings import AcceptChanges


def report(
    directory: Annotated[Path, typer.Argument(help="Directory of an experiment.", metavar="DIR")],
    pdf: Annotated[bool, typer.Option("--pdf", help="Also write paper.pdf, a short paper (requires Typst).")] = False,
    accept_changes: AcceptChanges = False,
) -> None:
    """Write tables, figures and the HTML page again, from the run directories alone."""
    from gatelab.experiments.bench import gather_again
    from gatelab.experiments.changes import changes
    from gatelab.experiments.experiment import read_experiment
    from gatelab.experiments.studies import directories
    from gatelab.report.paper.write_paper import typesetter, write_paper
    from gatelab.report.write_report import write_reports
    from gatelab.training.identity import refuse

    if pdf:
        typesetter()  # fail early if it is missing
    studies, broken = _readable(directories(directory))
    changed = {change: None for path in studies.values() for change in changes(read_experiment(path), path)}
    if not accept_changes:
        refuse(directory, list(changed), "to report the runs as they were")
    for change in changed:
        typer.echo(f"note: {change}", err=True)
    for path in studies.values():
        gather_again(path)
    typer.echo(f"The report is in {write_reports(directory, studies)}")
    for path in studies.values() if pdf else ():
        typer.echo(f"The paper is in {write_paper(path)}")
    if broken:
        raise typer.Exit(1)


def _readable(studies: dict[str, Path]) -> tuple[dict[str, Path], bool]:
    """The studies that can be read, and whether there are others, which are printed; an error if none can be read."""
    from gatelab.errors import DataError
    from gatelab.experiments.experiment import read_experiment

    readable = {}
    for name, path in studies.items():
        try:
            read_experiment(path)
            readable[name] = path
        except DataError as error:
            if len(studies) == 1:
                raise
            typer.echo(f"note: the study {name} is excluded: {error}", err=True)
    if not readable:
        raise DataError("none of the studies can be read: see the notes above")
    return readable, len(readable) < len(studies)
