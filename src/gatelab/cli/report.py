"""`gatelab report`: the report of an experiment, made again from its run directories."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    directory: Annotated[Path, typer.Argument(help="The directory of an experiment.", metavar="DIR")],
) -> None:
    """Make tables, figures and the page again from the run directories alone."""
    from gatelab.experiments.bench import gather_again
    from gatelab.experiments.studies import places
    from gatelab.report.write import write_reports

    for place in (studies := places(directory)).values():
        gather_again(place)
    typer.echo(f"The report is in {write_reports(directory, studies)}")
