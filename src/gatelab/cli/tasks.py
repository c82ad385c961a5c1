"""`gatelab tasks`: what there is to learn, one task described, and a picture of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from gatelab.tasks import Task


def tasks(
    name: Annotated[
        str | None, typer.Argument(help="A task, with options if you like: mnist:order=pixels,limit=1000")
    ] = None,
    show: Annotated[
        Path | None, typer.Option("--show", metavar="FILE", help="Draw a few examples: a .png, .svg or .pdf.")
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", metavar="DIR", help="A folder with one folder per data set.")
    ] = None,
) -> None:
    """List all tasks, or describe one. Describing downloads nothing; drawing does if the data is not here."""
    from gatelab import style
    from gatelab import tasks as library

    console = Console(highlight=False, markup=False)
    if name is None:
        if show is not None:
            raise ValueError("--show is for one task: name it, as in `gatelab tasks digits --show digits.png`")
        console.print(_table(data_dir))
        return
    kind = library.find(library.parse(name)[0])
    if kind.name == "files" and ":" not in name:
        console.print(f"files: {library.summary(kind)}\n")
        console.print("  describe yours with `gatelab tasks files:path=FILE`\n")
        console.print(_options(kind, {}))
        return
    task = library.get(name, **_data_dir(kind, data_dir))
    description = task.describe()
    grid = Table.grid(padding=(0, 2))
    for fact in description.facts():
        grid.add_row(f"  {fact[0]}", fact[1])
    if not task.is_here():
        grid.add_row("  data", "not here; it is downloaded when it is first used")
    console.print(f"{task.name}: {description.what}\n")
    console.print(grid)
    console.print()
    console.print(_options(kind, description.options))
    if show is not None:
        style.save(task.picture(), show)
        console.print(f"\nThe picture is in {show}", soft_wrap=True)


def _data_dir(kind: type[Task], folder: Path | None) -> dict[str, Any]:
    """The folder as an option, for tasks that have a use for it."""
    return {"data_dir": folder} if folder is not None and "data_dir" in kind.model_fields else {}


def _table(data_dir: Path | None) -> Table:
    from gatelab import tasks as library

    table = Table(title="Tasks", title_justify="left", caption_justify="left", box=None, pad_edge=False)
    table.caption = "T steps of D numbers; examples to train, validate, test. `gatelab tasks NAME` describes one."
    table.add_column("task", style="bold", no_wrap=True)
    table.add_column("T", justify="right")
    table.add_column("D", justify="right")
    table.add_column("answer")
    table.add_column("examples", justify="right", no_wrap=True)
    table.add_column("data", no_wrap=True)
    for name in library.names():
        kind = library.find(name)
        if name == "files":
            table.add_row(name, "-", "-", "a class or numbers", "-", "your own")
            continue
        task = library.get(name, **_data_dir(kind, data_dir))
        answer = f"{len(task.classes)} classes" if task.classes else "a number"
        sizes = " / ".join(f"{size:,}" for size in task.sizes)
        here = "made here" if "made up" in kind.source else "here" if task.is_here() else "to download"
        table.add_row(
            name, str(task.steps), str(task.input_size), answer + (", every step" if task.per_step else ""), sizes, here
        )
    return table


def _options(kind: type[Task], values: dict[str, Any]) -> Table:
    grid = Table.grid(padding=(0, 2))
    for name, field in sorted(kind.model_fields.items(), key=lambda item: item[0] == "seed"):  # its own come first
        value = values.get(name, "…" if field.is_required() else field.default)
        shown = "+".join(value) if isinstance(value, tuple) else value
        grid.add_row(f"  {name}" if shown in (None, "") else f"  {name}={shown}", field.description or "")
    return grid
