"""The command line: one module per command."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

import gatelab
from gatelab.cli import ablate, bench, cells, config, doctor, forecast, inspect, predict, report, tasks, train, verify

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
app.command("cells")(cells.cells)
app.command("tasks")(tasks.tasks)
app.command("train")(train.train)
app.command("bench")(bench.bench)
app.command("ablate")(ablate.ablate)
app.command("report")(report.report)
app.command("inspect")(inspect.inspect)
app.command("predict")(predict.predict)
app.command("forecast")(forecast.forecast)
app.command("verify")(verify.verify)
app.command("config")(config.config)
app.command("doctor")(doctor.doctor)


def _version(requested: bool) -> None:
    if requested:
        typer.echo(f"gatelab {gatelab.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """A lab bench for gated recurrent networks. A cell is defined by its equations; everything else is derived."""


def main() -> None:
    """The entry point: errors of the user are one line and exit code 2, without a traceback."""
    try:
        app()
    except (ValueError, OSError) as error:
        typer.echo(f"gatelab: {error}", err=True)
        sys.exit(2)
