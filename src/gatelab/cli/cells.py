"""`gatelab cells`: list the cells, or print their equations."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from gatelab.cli.settings import WHOLE
from gatelab.errors import GatelabError, unknown

if TYPE_CHECKING:
    from gatelab.lang import Cell

D, H = 28, 128  # sizes of row-by-row MNIST
WIDE = 100  # columns of a terminal that need no short names
SHORT = {"linear elementwise": "lin. elem.", "elementwise": "elem.", "linear": "linear", "dense": "dense"}
GAP = 2  # between columns
NARROWEST = 12  # columns for the gates, even if the terminal has fewer


def cells(
    name: Annotated[str | None, typer.Argument(help="Cell, or FILE.py:NAME for your own.")] = None,
    family: Annotated[
        str | None, typer.Option("--family", metavar="TEXT", help="List the families whose name contains this.")
    ] = None,
    recurrence: Annotated[
        str | None,
        typer.Option(
            "--recurrence",
            metavar="CLASS",
            help="List cells of one class: dense, elementwise, linear, 'linear elementwise'.",
        ),
    ] = None,
    input_size: Annotated[int, typer.Option("--input-size", **WHOLE, help="D, for the parameters.")] = D,
    hidden_size: Annotated[int, typer.Option("--hidden-size", **WHOLE, help="H, for the parameters.")] = H,
    latex: Annotated[bool, typer.Option("--latex", help="Print the equations as LaTeX.")] = False,
    python: Annotated[bool, typer.Option("--python", help="Print the equations as a Python function.")] = False,
    cpp: Annotated[bool, typer.Option("--cpp", help="Print the C++ source of the fused engine.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print docs/cells.md: the page of all cells.")] = False,
) -> None:
    """List all cells, or print the equations of one."""
    from gatelab import cells as library  # imports torch, which `gatelab --help` does not need
    from gatelab.engine import checks

    checks.sizes(**{"--input-size": input_size, "--hidden-size": hidden_size})
    if markdown:
        if name is not None or family is not None or recurrence is not None:
            raise GatelabError("--markdown prints the page of all cells: leave out NAME, --family and --recurrence")
        from gatelab.report import cells_page

        typer.echo(cells_page.markdown(), nl=False)
        return
    if name is None:
        if latex or python or cpp:
            raise GatelabError("--latex, --python and --cpp need a cell: name it, as in `gatelab cells gru --latex`")
        _print_list(_selected(family, recurrence), input_size, hidden_size)
        return
    if family is not None or recurrence is not None:
        raise GatelabError("--family and --recurrence select from the list of cells: leave out NAME")
    cell = library.get(name)
    if cpp:
        from gatelab.engine.fused.kernel_source import KernelSource

        typer.echo(KernelSource(cell).text)
        return
    if latex or python:
        typer.echo(cell.latex() if latex else cell.python().rstrip())
        return
    _print_one(cell, input_size, hidden_size)


def _print_one(cell: Cell, input_size: int, hidden_size: int) -> None:
    from gatelab.report.words import cells as words

    typer.echo(f"{cell.name}: {cell.summary}" if cell.summary else cell.name)
    typer.echo("\n" + "\n".join(f"  {line}" for line in cell.text().splitlines()) + "\n")
    count = f"{words.parameter_count(cell, input_size, hidden_size):,}"
    size = hidden_size if cell.graph.uses_input_itself else input_size
    why = " (the cell uses the input itself: D = H)" if cell.graph.uses_input_itself else ""
    (earlier, index), (of_input, of_units) = words.earlier_and_index(cell), words.products(cell)
    facts = {
        "family": words.family(cell),
        "year": words.year(cell),
        "convention": cell.convention,
        "recurrence": f"{cell.recurrence}: {words.RECURRENCES[cell.recurrence]}",
        "states": ", ".join(cell.graph.states)
        + (f"; for values of earlier steps {', '.join(earlier)}" if earlier else "")
        + (f"; for the index of the step {', '.join(index)}" if index else ""),
        "gates": words.listed(words.gates(cell)),
        "hyperparameters": ", ".join(words.hyperparameters(cell)),
        "maps": ", ".join([*(f"W.{n}" for n in cell.graph.W), *(f"U.{n}" for n in cell.graph.U)]),
        "vectors": ", ".join(f"b.{n}" for n in cell.graph.b),
        "fixed values": "; ".join(words.recipes(cell.given)),
        "initial values": "; ".join(words.recipes(cell.start)),
        "parameters": f"{words.parameter_formula(cell)} = {count} for D={size}, H={hidden_size}{why}",
        "products": f"{of_input + of_units} per step: {of_input} of H × D, {of_units} of H × H",
        "reference": cell.reference,
        "deviation": cell.deviation,
    }
    grid = Table.grid(padding=(0, 2))
    for fact, value in facts.items():
        if value:
            grid.add_row(f"  {fact}", value)
    Console(highlight=False, markup=False).print(grid)


def _selected(family: str | None, recurrence: str | None) -> dict[str, list[Cell]]:
    """The cells of some families and of one class, by family."""
    from gatelab import cells as library
    from gatelab.report.words.cells import RECURRENCES

    families = [name for name in library.FAMILIES if family is None or family.lower() in name.lower()]
    if not families:
        raise unknown("family", family, library.FAMILIES)
    if recurrence is not None and recurrence not in RECURRENCES:
        raise unknown("recurrence", recurrence, RECURRENCES)
    found = {name: [c for c in library.FAMILIES[name] if recurrence in (None, c.recurrence)] for name in families}
    return {name: members for name, members in found.items() if members}


def _print_list(families: dict[str, list[Cell]], input_size: int, hidden_size: int) -> None:
    """One table per family, and what its signs mean."""
    from gatelab.report.words import cells as words

    console = Console(highlight=False, markup=False)
    for family, members in families.items():
        console.print(_table(family, members, (input_size, hidden_size), console.width))
        console.print()
    if not families:
        console.print("No cell of the library is of this class in these families.")
        return
    every = [cell for members in families.values() for cell in members]
    console.print(f"Parameters of one layer for D={input_size}, H={hidden_size}.")
    if any(cell.graph.uses_input_itself for cell in every):
        console.print(f"*: the cell uses the input itself, so D = H = {hidden_size}.")
    if any(map(words.further_states, every)):
        console.print("+n: further states, for values of earlier steps and for the index of the step.")
    if console.width < WIDE and any(SHORT[cell.recurrence] != cell.recurrence for cell in every):
        console.print("elem.: elementwise; lin.: linear.")
    console.print("`gatelab cells NAME` prints the equations.")


def _table(family: str, members: list[Cell], sizes: tuple[int, int], width: int) -> Table:
    """The columns have the widths that their rows need; that of the gates has the rest, and is folded."""
    from gatelab.report.words import cells as words

    is_narrow = width < WIDE
    titles = ("cell", "year", "recurrence", "states", "params " if is_narrow else "parameters ", "gates")
    rows = []
    for cell in members:
        count = f"{words.parameter_count(cell, *sizes):,}" + ("*" if cell.graph.uses_input_itself else " ")
        further = len(words.further_states(cell))
        states = " ".join(cell.graph.states) + (f" +{further}" if further else "")
        recurrence = SHORT[cell.recurrence] if is_narrow else cell.recurrence
        rows.append((cell.name, words.year(cell), recurrence, states, count))
    widths = [max(map(len, column)) for column in zip(titles, *rows, strict=False)]
    rest = max(width - sum(widths) - GAP * len(widths), NARROWEST)
    table = Table(title=family, title_justify="left", box=None, pad_edge=False, padding=(0, GAP, 0, 0))
    for title in titles:
        table.add_column(title, no_wrap=True, justify="right" if title.startswith("param") else "left")
    table.columns[0].style = "bold"
    for cell, row in zip(members, rows, strict=True):
        table.add_row(*row, _folded(words.gates(cell), rest))
    return table


def _folded(words: list[str], width: int) -> str:
    """Words in lines of this width; a gate and its verb are not separated."""
    unbroken = " ".join(word.replace(" ", "\N{NO-BREAK SPACE}") for word in words) or "-"
    return textwrap.fill(unbroken, width, break_long_words=False).replace("\N{NO-BREAK SPACE}", " ")
