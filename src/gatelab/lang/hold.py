"""A cell without one of its gates: the same equations with a number in its place, and whatever fed the gate gone.

The equations that are left are written out as a function again and made a cell like any other, so that every engine,
the printing and the names of an ablation know it without being told.
"""

from __future__ import annotations

import linecache
import math
from collections.abc import Mapping
from typing import Any

from gatelab.errors import unknown
from gatelab.lang import ops, printing
from gatelab.lang.cell import Cell
from gatelab.lang.maps import I


def hold(cell: Cell, gates: Mapping[str, float]) -> Cell:
    """The cell with each of these gates a constant: `hold(gru, {"r": 1.0})` never resets."""
    for name, value in gates.items():
        if name not in cell.gates:
            raise unknown(f"gate of cell {cell.name!r}:", name, cell.gates)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise ValueError(
                f"gate {name!r} of cell {cell.name!r} is to be held at {value!r}: expected a finite number"
            )
        if name in cell.neutral and not 0 <= value <= 1:
            raise ValueError(f"gate {name!r} of cell {cell.name!r} is to be held at {value:g}: it lies between 0 and 1")
    if not gates:
        return cell
    values = {name: float(gates[name]) for name in sorted(gates)}
    return Held(cell, values)


class Held(Cell):
    """A cell that was made of another one."""

    def __init__(self, whole: Cell, gates: dict[str, float]) -> None:
        self.whole, self.held = whole, gates
        name = f"{whole.name}({', '.join(f'{gate}={value:g}' for gate, value in gates.items())})"
        super().__init__(_function(whole, gates, name))

    def __reduce__(self) -> Any:
        return hold, (self.whole, self.held)


def _function(cell: Cell, gates: dict[str, float], name: str) -> Any:
    held = {cell.graph.gates[gate]: value for gate, value in gates.items()}
    lines = printing.python(cell.graph, held)
    defaults = {f"_{option}": value for option, value in cell.options.items()}
    options = "".join(f", {option}=_{option}" for option in cell.options)
    start = f"def held({', '.join(cell.signature.order)}{', *' + options if options else ''}):"
    text = "\n    ".join([start, *lines]) + "\n"
    file = f"<{name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)  # so that errors can quote their line
    scope: dict[str, Any] = {**{f"_{op}": getattr(ops, op) for op in printing.CALLED}, "_I": I, **defaults}
    exec(compile(text, file, "exec"), scope)
    function = scope["held"]
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{cell.summary.rstrip('.')}, with {' and '.join(f'{g} = {v:g}' for g, v in gates.items())}."
    return function
