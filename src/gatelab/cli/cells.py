"""`gatelab cells`: list the cells, or print their equations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from gatelab.errors import GatelabError

if TYPE_CHECKING:
    from gatelab.lang import Cell

D, H = 28, 128  # sizes of row-by-row MNIST, for which parameters are counted
VERBS = {"keep": "keeps", "write": "writes", "add": "adds"}


def cells(
    name: Annotated[str | None, typer.Argument(help="Cell, or FILE.py:NAME for your own.")] = None,
    latex: Annotated[bool, typer.Option("--latex", help="Print the equations as LaTeX.")] = False,
    python: Annotated[bool, typer.Option("--python", help="Print the equations as a Python function.")] = False,
    cpp: Annotated[bool, typer.Option("--cpp", help="Print the C++ source of the fused engine.")] = False,
) -> None:
    """List all cells, or print the equations of one."""
    from gatelab import cells as library  # imports torch, which `gatelab --help` does not need

    if name is None:
        if latex or python or cpp:
            raise GatelabError("--latex, --python and --cpp need a cell: name it, as in `gatelab cells gru --latex`")
        Console().print(_table())
        return
    cell = library.get(name)
    if cpp:
        from gatelab.engine.fused.source import Source

        typer.echo(Source(cell).text)
        return
    if latex or python:
        typer.echo(cell.latex() if latex else cell.python().rstrip())
        return
    typer.echo(f"{cell.name}: {cell.summary}" if cell.summary else cell.name)
    typer.echo("\n" + "\n".join(f"  {line}" for line in cell.text().splitlines()) + "\n")
    facts = {
        "convention": cell.convention,
        "states": ", ".join(cell.states),
        "gates": _gates(cell) or "none",
        "hyperparameters": _hyperparameters(cell),
        "maps": ", ".join([*(f"W.{n}" for n in cell.graph.W), *(f"U.{n}" for n in cell.graph.U)]),
        "vectors": ", ".join(f"b.{n}" for n in cell.graph.b),
        "parameters": f"{cell.parameter_count(D, H):,} for D={D}, H={H}",
        "reference": cell.reference,
    }
    grid = Table.grid(padding=(0, 2))
    for fact, value in facts.items():
        if value:
            grid.add_row(f"  {fact}", value)
    Console(highlight=False).print(grid)


def _table() -> Table:
    from gatelab import cells as library

    table = Table(title="Cells", title_justify="left", caption_justify="left", box=None, pad_edge=False)
    table.caption = f"Parameters of one layer with D={D}, H={H}. `gatelab cells NAME` prints the equations."
    table.add_column("cell", style="bold", no_wrap=True)
    table.add_column("states")
    table.add_column("gates")
    table.add_column("parameters", justify="right")
    table.add_column("reference")
    for name in library.names():
        cell = library.get(name)
        count = f"{cell.parameter_count(D, H):,}"
        table.add_row(name, ", ".join(cell.states), _gates(cell) or "-", count, cell.reference)
    return table


def _gates(cell: Cell) -> str:
    """The gates, with their roles where they have one: `r, z (keeps), n`."""
    return ", ".join(f"{g} ({VERBS[cell.roles[g]]})" if g in cell.roles else g for g in cell.gates)


def _hyperparameters(cell: Cell) -> str:
    return ", ".join(f"{n} = {o.value:g} ({'learned' if o.learned else 'fixed'})" for n, o in cell.options.items())
