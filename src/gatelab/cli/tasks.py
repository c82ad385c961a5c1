"""`gatelab tasks`: list tasks, describe one, draw examples."""

from __future__ import annotations

from collections.abc import Container
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from gatelab.errors import GatelabError

if TYPE_CHECKING:
    from gatelab.tasks import Task
    from gatelab.tasks.own.data import OwnData

SHOWN_COLUMNS = 12


def tasks(
    name: Annotated[
        str | None, typer.Argument(help="A task, optionally with options: mnist:order=pixels,limit=1000")
    ] = None,
    show: Annotated[
        Path | None, typer.Option("--show", metavar="FILE", help="Draw a few examples: a .png, .svg or .pdf.")
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", metavar="DIR", help="A folder with one subfolder per data set.")
    ] = None,
) -> None:
    """List all tasks, or describe one. Only --show downloads data that is not available."""
    from gatelab import style
    from gatelab import tasks as library
    from gatelab.tasks.own.data import OwnData

    console = Console(highlight=False, markup=False)
    if name is None:
        if show is not None:
            raise GatelabError("--show needs a task: name it, as in `gatelab tasks digits --show digits.png`")
        console.print(_table(data_dir))
        return
    kind = library.find(library.parse(name)[0])
    if _needs_path(kind) and ":" not in name:
        console.print(f"{kind.name}: {library.summary(kind)}\n")
        console.print(f"  describe your data with `gatelab tasks {kind.name}:path=FILE`\n")
        console.print(_options(kind, {}, kind.model_fields))
        return
    task = library.get(name, **_data_dir(kind, data_dir))
    description = task.describe()
    grid = Table.grid(padding=(0, 2))
    for fact in description.facts():
        grid.add_row(f"  {fact[0]}", fact[1])
    if not task.is_here():
        grid.add_row("  data", "not available yet; downloaded on first use")
    console.print(f"{task.name}: {description.summary}\n")
    console.print(grid)
    if isinstance(task, OwnData):
        _print_columns(console, task)
    console.print()
    if _needs_path(kind):  # most of its options are about other files
        console.print(_options(kind, description.options, library.parse(name)[1]))
        console.print(f"\n  all options: gatelab tasks {kind.name}", soft_wrap=True)
    else:
        console.print(_options(kind, description.options, kind.model_fields))
    if show is not None:
        style.save(task.picture(), show)
        console.print(f"\nThe figure is in {show}", soft_wrap=True)


def _needs_path(kind: type[Task]) -> bool:
    """Whether the task is about files of the user's."""
    return "path" in kind.model_fields


def _print_columns(console: Console, task: OwnData) -> None:
    """Print the columns of the user's own data in numbers."""
    from gatelab.tasks.own import overview

    count, columns = overview.num_columns(task), list(islice(overview.columns(task), SHOWN_COLUMNS))
    if not columns:
        return
    course = "course" if task.forecasts else "mean by step"
    course += " (target: histogram)" if any(column.role == "target" for column in columns) else ""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("  column", max_width=24, overflow="ellipsis", no_wrap=True)
    table.add_column("role")
    for title in ("min", "mean", "max"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column(course, no_wrap=True)
    for column in columns:
        numbers = (f"{value:.4g}" for value in (column.low, column.mean, column.high))
        table.add_row(f"  {column.name}", column.role, *numbers, column.course)
    console.print()
    console.print(table)
    if count > len(columns):
        console.print(f"  … and {count - len(columns):,} more")


def _data_dir(kind: type[Task], folder: Path | None) -> dict[str, Any]:
    """The folder as an option, for tasks that have this option."""
    return {"data_dir": folder} if folder is not None and "data_dir" in kind.model_fields else {}


def _table(data_dir: Path | None) -> Table:
    from gatelab import tasks as library

    table = Table(title="Tasks", title_justify="left", caption_justify="left", box=None, pad_edge=False)
    table.caption = "T steps of D features; training, validation and test examples. `gatelab tasks NAME` describes one."
    table.add_column("task", style="bold", no_wrap=True)
    table.add_column("T", justify="right")
    table.add_column("D", justify="right")
    table.add_column("target")
    table.add_column("examples", justify="right", no_wrap=True)
    table.add_column("data", no_wrap=True)
    for name in library.names():
        kind = library.find(name)
        if _needs_path(kind):
            target = "next character" if kind.per_step else "label or values"
            table.add_row(name, "-", "-", target, "-", "your own")
            continue
        task = library.get(name, **_data_dir(kind, data_dir))
        target = (f"{len(task.classes)} classes" if task.classes else "1 value") + (
            " per step" if task.per_step else ""
        )
        sizes = " / ".join(f"{size:,}" for size in task.sizes)
        data = "synthetic" if kind.synthetic else "available" if task.is_here() else "to download"
        table.add_row(name, str(task.steps), str(task.input_size), target, sizes, data)
    return table


def _options(kind: type[Task], values: dict[str, Any], shown: Container[str]) -> Table:
    grid = Table.grid(padding=(0, 2))
    in_order = sorted(kind.model_fields.items(), key=lambda item: (item[0] == "seed", not item[1].is_required()))
    for name, field in in_order:  # what has to be given comes first, the seed last
        if name not in shown:
            continue
        value = values.get(name, "…" if field.is_required() else field.default)
        text = "+".join(value) if isinstance(value, tuple) else value
        grid.add_row(f"  {name}" if text in (None, "") else f"  {name}={text}", field.description or "")
    return grid
