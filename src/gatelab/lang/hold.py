"""A cell without one of its gates: the same equations with a number in its place, and whatever fed the gate gone.

What is left is a graph again, and a cell like any other, so that every engine, the printing and the names of an
ablation know it without being told.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from gatelab.errors import unknown
from gatelab.lang.cell import Cell
from gatelab.lang.interpret import Interpreter
from gatelab.lang.recorded import Recorded
from gatelab.lang.trace import trace_step


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


class Held(Recorded):
    """A cell that was made of another one."""

    def __init__(self, whole: Cell, gates: dict[str, float]) -> None:
        self.whole, self.held = whole, gates
        left = Interpreter(whole.graph, {whole.graph.gates[gate]: value for gate, value in gates.items()})

        def step(x: Any, states: tuple[Any, ...], spaces: dict[str, Any], options: dict[str, Any]) -> Any:
            return left.named_step(whole.signature.leaves(x, states, options), spaces)

        name = f"{whole.name}({', '.join(f'{gate}={value:g}' for gate, value in gates.items())})"
        said = " and ".join(f"{gate} = {value:g}" for gate, value in gates.items())
        graph = trace_step(step, whole.signature, f"{name!r}")
        super().__init__(name, whole.signature, graph, f"{whole.summary.rstrip('.')}, with {said}.")

    def __reduce__(self) -> Any:
        return hold, (self.whole, self.held)
