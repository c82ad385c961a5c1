"""`gatelab report`: the report of an experiment, made again from its run directories."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    directory: Annotated[Path, typer.Argument(help="The directory of an experiment.", metavar="DIR")],
    pdf: Annotated[bool, typer.Option("--pdf", help="Write paper.pdf too: a short paper, set by Typst.")] = False,
) -> None:
    """Make tables, figures and the page again from the run directories alone."""
    from gatelab.experiments.bench import gather_again
    from gatelab.experiments.studies import places
    from gatelab.report.paper.write import typesetter, write_paper
    from gatelab.report.write import write_reports

    if pdf:
        typesetter()  # an error now rather than after all the rest
    for place in (studies := places(directory)).values():
        gather_again(place)
    typer.echo(f"The report is in {write_reports(directory, studies)}")
    for place in studies.values() if pdf else ():
        typer.echo(f"The paper is in {write_paper(place)}")
