"""Which engine runs a cell."""

from __future__ import annotations

from torch import Tensor

from gatelab.engine import eager, native
from gatelab.engine.layout import LAYOUTS
from gatelab.engine.parameters import CellParameters
from gatelab.engine.scan import Scan
from gatelab.errors import unknown
from gatelab.lang import Cell

ENGINES = ("auto", "eager", "native")


def check(engine: str, cell: Cell) -> None:
    """Refuse an engine that does not exist or cannot run this cell."""
    if engine not in ENGINES:
        raise unknown("engine", engine, ENGINES)
    if engine == "native" and not native.supports(cell):
        listed = ", ".join(known.name for known in LAYOUTS)
        raise ValueError(f"engine 'native' has no cell {cell.name!r} (torch.nn has: {listed}): use 'auto' or 'eager'")


def choose(engine: str, cell: Cell, watch: bool) -> str:
    """The engine that will run: only eager shows gates, and native is the faster one where torch.nn has the cell."""
    check(engine, cell)  # the attribute may have been set to anything since
    if watch:
        return "eager"
    if engine == "auto":
        return "native" if native.supports(cell) else "eager"
    return engine


def scan(
    engine: str,
    parameters: CellParameters,
    x: Tensor,
    states: tuple[Tensor, ...],
    lengths: Tensor | None = None,
    watch: bool = False,
) -> Scan:
    """Run one layer in one direction on the engine that `choose` named."""
    if engine == "native":
        return native.scan(parameters, x, states, lengths)
    return eager.scan(parameters, x, states, lengths, watch)
