"""`gatelab fit`: a file becomes a trained model and a report."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gatelab.cli.settings import WHOLE, assignments, settings
from gatelab.cli.train import DIVERGED, INTERRUPTED
from gatelab.errors import GatelabError

if TYPE_CHECKING:
    from gatelab.tasks.own.files import Files


def fit(
    file: Annotated[Path, typer.Argument(help="A .csv, .parquet, .ts or .npz file, or a folder.", metavar="FILE")],
    output_dir: Annotated[Path, typer.Option(metavar="RUN", help="Directory for the model and report.html.")],
    target: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column to predict, or to forecast; several as a+b.")
    ] = None,
    horizon: Annotated[
        int | None, typer.Option(**WHOLE, help="Steps to forecast, for a series; by default one season, or 12.")
    ] = None,
    cell: Annotated[str | None, typer.Option(help="Cell, or FILE.py:NAME for your own; by default gru.")] = None,
    epochs: Annotated[int | None, typer.Option(**WHOLE, help="Number of epochs; by default by the size.")] = None,
    seed: Annotated[int, typer.Option(**WHOLE, help="Random seed (initialization, order, dropout).")] = 0,
    threads: Annotated[int | None, typer.Option(**WHOLE, help="Number of CPU threads.")] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="How the file is read, as id=patient or fill=previous (docs/tasks.md)."),
    ] = None,
    change: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Override a setting: model.stem=none, or of a forecaster window=24."
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print errors only.")] = False,
) -> None:
    """Train a model on a file of yours, with defaults that need no tuning, and write a report of it.

    What the file holds is recognised, and said: a series is forecast, sequences get their labels or numbers predicted.
    """
    from gatelab.fitting import file_task

    task = file_task.read(file, target, assignments(option or [], "--option", "id=patient"))
    options = {"cell": cell, "epochs": epochs, "seed": seed, "threads": threads, "changes": settings(change or [])}
    try:
        if not task.forecasts:
            if horizon is not None:
                raise GatelabError(f"{file} has sequences with targets, and --horizon is for a series: leave it out")
            _fit_sequences(task, output_dir, quiet, **options)
            return
        _fit_series(task, output_dir, quiet, horizon=horizon, **options)
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None


def _fit_sequences(task: Files, path: Path, quiet: bool, **options: Any) -> None:
    from gatelab.estimators import restarting
    from gatelab.fitting import assumptions, page, sequence_fit, words
    from gatelab.report.progress import reporter
    from gatelab.training import Run
    from gatelab.training.run import REPORT

    spec = sequence_fit.spec_of(task, **options)
    _say(assumptions.of_sequences(task, spec), assumptions.cautions(task), quiet)
    try:
        found = restarting.train_or_restart(spec, path, reporter(quiet))
    except KeyboardInterrupt:
        if Run(path).exists() and not quiet:
            typer.echo("The same `gatelab fit` command goes on with it, and writes the report.")
        raise
    if found.outcome.status != "done":
        raise typer.Exit(DIVERGED)
    judged = sequence_fit.judge(found)
    page.write_sequences(judged, path, path)
    if not quiet:
        typer.echo(f"\n{words.sequence_summary(judged)}")
        for sentence in words.sequence_verdict(judged):
            typer.echo(sentence)
        typer.echo(f"The report is {path / REPORT}")


def _fit_series(task: Files, path: Path, quiet: bool, **options: Any) -> None:
    from gatelab.disk import clear_folders, refuse_place
    from gatelab.estimators.forecasting import progress
    from gatelab.fitting import assumptions, forecasts, page, series_fit, words
    from gatelab.formatting import counted, duration
    from gatelab.report.progress import ForecasterProgress
    from gatelab.training.run import BACKTEST, REPORT

    plan = series_fit.plan(task, **options)
    clear_folders(path)
    if forecasts.is_done(plan, path):
        _note(f"{path} holds the forecaster of this fit already\nThe report is {path / REPORT}", quiet)
        return
    refuse_place(path, [BACKTEST])  # of a fit that was interrupted
    _say(assumptions.of_series(plan), assumptions.cautions(task), quiet)
    begin = time.perf_counter()
    with progress.heard_by(None if quiet else ForecasterProgress(typer.echo)):
        _note(f"backtest: fitting on the first {counted(plan.train, 'step')} …", quiet)
        tested = series_fit.run_backtest(plan)
        path.mkdir(parents=True, exist_ok=True)
        series_fit.save_backtest(tested, path)
        _note("\n".join(["", words.series_summary(tested), *words.series_verdict(tested), ""]), quiet)
        took = duration((time.perf_counter() - begin) * len(plan.values) / plan.train)
        _note(f"fitting on all {counted(len(plan.values), 'step')}, which takes at most about {took} …", quiet)
        try:
            fitted = series_fit.fit_whole(tested)
        except KeyboardInterrupt:
            _note(f"The backtest is in {path / BACKTEST}. The same command begins again.", quiet)
            raise
    forecasts.save(fitted, path, lambda made: page.write_series(fitted, made, path))
    _note(f"The forecaster is in {path}\nThe report is {path / REPORT}", quiet)


def _say(facts: dict[str, str], cautions: list[str], quiet: bool) -> None:
    """Print what was assumed, and apart from it what may be misleading."""
    if quiet:
        return
    from rich.console import Console
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    for name, fact in facts.items():
        grid.add_row(f"  {name}", fact)
    console = Console(highlight=False, markup=False)
    console.print("What was assumed:")
    console.print(grid)
    console.print()
    for caution in cautions:
        console.print(f"Caution: {caution}.\n", soft_wrap=True)


def _note(text: str, quiet: bool) -> None:
    if not quiet:
        typer.echo(text)
