"""`gatelab predict`: predictions of a trained run for new data."""

from __future__ import annotations

import csv
import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from gatelab.cli.settings import AcceptChanges
from gatelab.errors import GatelabError

if TYPE_CHECKING:
    from gatelab.use.file_predictions import PredictionTable
    from gatelab.use.trained_model import TrainedModel

SHOWN = 20  # rows on a terminal


def predict(
    run: Annotated[Path, typer.Argument(help="The directory of a run.", metavar="RUN")],
    data: Annotated[
        Path, typer.Argument(help="A table, an .npy or .npz file, or a folder of sequences.", metavar="DATA")
    ],
    out: Annotated[Path | None, typer.Option(metavar="FILE.csv", help="Write all predictions to this file.")] = None,
    proba: Annotated[bool, typer.Option("--proba", help="Add the probability of every class.")] = False,
    accept_changes: AcceptChanges = False,
) -> None:
    """Predict for new data, in its original units. Data with targets is scored as well."""
    from gatelab.use import load
    from gatelab.use.file_predictions import predict as predict_file

    refuse_overwriting(out, data)
    trained = load(run)
    note = _same_file(trained, data, accept_changes)
    predictions = predict_file(trained, data, proba)
    show(predictions.titles, predictions.rows, out)
    print_scores(predictions)
    for text in filter(None, (note, predictions.note)):
        typer.echo(f"note: {text}", err=True)


def _same_file(trained: TrainedModel, data: Path, accept_changes: bool) -> str:
    """A note if this is the training data; raise an error if that data has changed."""
    from gatelab.disk import resolved
    from gatelab.training.identity import changed_cell, changed_data, refuse

    task = trained.run.spec().task.with_options()
    if task.user_path is None or resolved(task.user_path) != resolved(data):
        return ""
    if not accept_changes:
        changed = [*changed_cell(trained.run), *changed_data(trained.run, task)]
        refuse(trained.run.path, changed, "to predict for the data as it is now, by the equations of the run")
    return "this file includes the training data: these are not test scores"


def refuse_overwriting(out: Path | None, *sources: Path | None) -> None:
    """Raise an error if the output would overwrite an input file."""
    from gatelab.disk import resolved

    for path in sources:
        if out is not None and path is not None and resolved(out) == resolved(path):
            raise GatelabError(f"{out} would overwrite an input file: choose another name")


def show(titles: list[str], rows: list[list[Any]], out: Path | None) -> None:
    """Write all rows to a file or a pipe, or print the first ones on a terminal."""
    from gatelab.disk import write_text

    if out is not None:
        write_text(out, comma_separated(titles, rows))
        typer.echo(f"{len(rows):,} rows written to {out}")
    elif not sys.stdout.isatty():
        typer.echo(comma_separated(titles, rows), nl=False)
    else:
        table = Table(box=None, pad_edge=False)
        for title in titles:
            table.add_column(title)
        for row in rows[:SHOWN]:
            table.add_row(*(f"{value:.6g}" if isinstance(value, float) else str(value) for value in row))
        Console(highlight=False, markup=False).print(table)
        if len(rows) > SHOWN:
            typer.echo(f"… {len(rows):,} rows in total; write them with --out FILE.csv")


def comma_separated(titles: list[str], rows: list[list[Any]]) -> str:
    """Format rows as CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([titles, *rows])
    return text.getvalue()


def print_scores(predictions: PredictionTable) -> None:
    """Print the metrics on stderr."""
    from gatelab.formatting import named

    if predictions.scores:
        scores = ", ".join(named(name, value) for name, value in predictions.scores.items())
        typer.echo(f"{len(predictions.rows):,} predictions: {scores}", err=True)
