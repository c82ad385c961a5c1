"""The command line: one module per command."""

from __future__ import annotations

import shlex
import sys
import traceback
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import gatelab
from gatelab import memory
from gatelab.cli import (
    ablate,
    bench,
    cells,
    config,
    doctor,
    explore,
    export,
    fit,
    forecast,
    inspect,
    predict,
    report,
    sample,
    status,
    tasks,
    train,
    verify,
    worker,
)
from gatelab.cli.compile import compile_ahead
from gatelab.errors import GatelabError, bug_report

HINTS = {
    ("tune", "tuning", "search", "sweep"): "Tuning is a part of a comparison: the section `tune` in the config of "
    "`gatelab bench` (docs/tuning.md)",
    ("compare", "benchmark"): "`gatelab bench` compares models",
    ("resume", "continue"): "`gatelab train --resume RUN` resumes a run, and the same `gatelab bench` an experiment",
    ("evaluate", "eval", "test", "score"): "`gatelab predict RUN FILE` also scores predictions if FILE has targets",
    ("new", "init"): "`gatelab config` prints a config with every key",
}


class Commands(TyperGroup):
    """The commands, with a hint for words that people expect to be one."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command; of a known word the error says where it is."""
        try:
            return super().resolve_command(ctx, args)
        except Exception as error:  # UsageError, which is click's or typer's own, depending on its version
            message = getattr(error, "message", "")
            hint = next((hint for words, hint in HINTS.items() if args and args[0].lower() in words), None)
            if hint is not None and message.startswith("No such command"):
                vars(error)["message"] = f"{message} {hint}."
            raise


app = typer.Typer(cls=Commands, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
app.command("cells")(cells.cells)
app.command("tasks")(tasks.tasks)
app.command("fit")(fit.fit)
app.command("train")(train.train)
app.command("bench")(bench.bench)
app.command("ablate")(ablate.ablate)
app.command("worker")(worker.worker)
app.command("status")(status.status)
app.command("report")(report.report)
app.command("inspect")(inspect.inspect)
app.command("explore")(explore.explore)
app.command("predict")(predict.predict)
app.command("export")(export.export)
app.command("forecast")(forecast.forecast)
app.command("sample")(sample.sample)
app.command("verify")(verify.verify)
app.command("config")(config.config)
app.command("compile")(compile_ahead)
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
    """The entry point. What is wrong with the input or the disk is a message and exit code 2; anything else is a bug,
    which shows its traceback and ends with 70 (EX_SOFTWARE).
    """
    try:
        app()
    except (GatelabError, OSError) as error:
        typer.echo(f"gatelab: {error}", err=True)
        sys.exit(2)
    except Exception as error:
        if memory.is_exhausted(error):  # sizes are estimated beforehand; other processes may have taken memory since
            typer.echo(
                f"gatelab: the memory of this machine was not enough ({error}): make the sizes smaller", err=True
            )
            sys.exit(2)
        traceback.print_exc()
        command = f"gatelab {shlex.join(sys.argv[1:])}"
        typer.echo(f"gatelab: {bug_report(error, gatelab.__version__, command)}", err=True)
        sys.exit(70)
