"""`gatelab predict`: answers of a trained run for new data."""

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

if TYPE_CHECKING:
    from gatelab.use.files import Predictions
    from gatelab.use.trained import Trained

SHOWN = 20  # rows on a terminal


def predict(
    run: Annotated[Path, typer.Argument(help="The directory of a run.", metavar="RUN")],
    data: Annotated[Path, typer.Argument(help="A table, an .npy or .npz, or a folder of sequences.", metavar="DATA")],
    out: Annotated[Path | None, typer.Option(metavar="FILE.csv", help="Write all predictions there.")] = None,
    proba: Annotated[bool, typer.Option("--proba", help="The probability of every class.")] = False,
    accept_changes: AcceptChanges = False,
) -> None:
    """Predict for new data, in its own units. Data with labels is scored as well."""
    from gatelab.use import load
    from gatelab.use.files import predict as answers

    refuse_overwriting(out, data)
    trained = load(run)
    note = _same_file(trained, data, accept_changes)
    found = answers(trained, data, proba)
    show(found.titles, found.rows, out)
    say_scores(found)
    for said in filter(None, (note, found.note)):
        typer.echo(f"note: {said}", err=True)


def _same_file(trained: Trained, data: Path, accept_changes: bool) -> str:
    """What is to be said if this is what the model was trained on; an error if that is another now."""
    from gatelab.training.identity import changed_cell, changed_data, refuse

    task = trained.run.spec().task.with_options()
    if task.own_path is None or not data.exists() or task.own_path.resolve() != data.resolve():
        return ""
    if not accept_changes:
        changed = [*changed_cell(trained.run), *changed_data(trained.run, task)]
        refuse(trained.run.path, changed, "to predict for the data as it is now, by the equations of the run")
    return "this file includes the training data: these are not test scores"


def refuse_overwriting(out: Path | None, *read: Path | None) -> None:
    """What is read is not to be replaced."""
    for path in read:
        if out is not None and path is not None and out.resolve() == path.resolve():
            raise ValueError(f"{out} would replace a file that is read: choose another name")


def show(titles: list[str], rows: list[list[Any]], out: Path | None) -> None:
    """Into a file; or on a terminal the first rows, and into a pipe all of them."""
    from gatelab.disk import write_text

    if out is not None:
        write_text(out, comma_separated(titles, rows))
        typer.echo(f"{len(rows):,} rows are in {out}")
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
            typer.echo(f"… {len(rows):,} rows in all; --out FILE.csv writes them")


def comma_separated(titles: list[str], rows: list[list[Any]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([titles, *rows])
    return text.getvalue()


def say_scores(found: Predictions) -> None:
    from gatelab.formatting import named

    if found.scores:
        scores = ", ".join(named(name, value) for name, value in found.scores.items())
        typer.echo(f"{len(found.rows):,} predictions: {scores}", err=True)
