"""`gatelab report`: the report of an experiment, made again from its run directories."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gatelab.cli.settings import AcceptChanges


def report(
    directory: Annotated[Path, typer.Argument(help="The directory of an experiment.", metavar="DIR")],
    pdf: Annotated[bool, typer.Option("--pdf", help="Write paper.pdf too: a short paper, set by Typst.")] = False,
    accept_changes: AcceptChanges = False,
) -> None:
    """Make tables, figures and the page again from the run directories alone."""
    from gatelab.experiments.bench import gather_again
    from gatelab.experiments.changes import changes
    from gatelab.experiments.record import read_experiment
    from gatelab.experiments.studies import places
    from gatelab.report.paper.write import typesetter, write_paper
    from gatelab.report.write import write_reports
    from gatelab.training.identity import refuse

    if pdf:
        typesetter()  # an error now rather than after all the rest
    studies, broken = _readable(places(directory))
    changed = {change: None for place in studies.values() for change in changes(read_experiment(place), place)}
    if not accept_changes:
        refuse(directory, list(changed), "to report the runs as they were")
    for change in changed:
        typer.echo(f"note: {change}", err=True)
    for place in studies.values():
        gather_again(place)
    typer.echo(f"The report is in {write_reports(directory, studies)}")
    for place in studies.values() if pdf else ():
        typer.echo(f"The paper is in {write_paper(place)}")
    if broken:
        raise typer.Exit(1)


def _readable(studies: dict[str, Path]) -> tuple[dict[str, Path], bool]:
    """The studies that can be reported; those that cannot are named, and an error if that is all of them."""
    from gatelab.errors import DataError
    from gatelab.experiments.record import read_experiment

    found = {}
    for name, place in studies.items():
        try:
            read_experiment(place)
            found[name] = place
        except DataError as error:
            if len(studies) == 1:
                raise
            typer.echo(f"note: the study {name} is left out: {error}", err=True)
    if not found:
        raise DataError("none of the studies can be read")
    return found, len(found) < len(studies)
