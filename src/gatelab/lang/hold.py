"""Replaces gates of a cell by constants, and removes what only those gates depended on.

The result is an ordinary cell with a graph of its own, so engines, printing and ablations need no special case.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gatelab.errors import CellError, GatelabError, unknown
from gatelab.lang.cell import Cell
from gatelab.lang.graph import Graph
from gatelab.lang.interpret import Interpreter
from gatelab.lang.interpreted import InterpretedCell
from gatelab.lang.signature import INDEX
from gatelab.lang.trace import trace_step
from gatelab.numerals import fits_float32


def hold(cell: Cell, gates: Mapping[str, float]) -> Cell:
    """The cell with these gates replaced by constants: `hold(gru, {"r": 1.0})` never resets."""
    for name, value in gates.items():
        if name not in cell.gates:
            raise unknown(f"gate of cell {cell.name!r}:", name, cell.gates)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not fits_float32(value):
            raise GatelabError(
                f"gate {name!r} of cell {cell.name!r} cannot be held at {value!r}: expected a finite number"
            )
        if name in cell.neutral and not 0 <= value <= 1:
            raise GatelabError(f"gate {name!r} of cell {cell.name!r} cannot be held at {value:g}: expected 0 to 1")
    if not gates:
        return cell
    values = {name: float(gates[name]) for name in sorted(gates)}
    return Held(cell, values)


class Held(InterpretedCell):
    """A cell derived from another one by replacing gates with constants."""

    def __init__(self, original: Cell, gates: dict[str, float]) -> None:
        self.original, self.held = original, gates
        name = f"{original.name}({', '.join(f'{gate}={value:g}' for gate, value in gates.items())})"
        constants = " and ".join(f"{gate} = {value:g}" for gate, value in gates.items())
        try:
            graph = _held_graph(original, gates, name)
        except CellError:  # equations that need a vector: U.n(r), mean(r), prev(r), where(r > 0, r, 1)
            graph = _held_graph(original, gates, name, as_vectors=True)
        given, start = (
            {key: values for key, values in each.items() if key in graph.parameters}
            for each in (original.given, original.start)
        )
        doc = f"{original.summary.rstrip('.')}, with {constants}."
        super().__init__(name, original.signature, graph, doc, given, start)

    def __reduce__(self) -> Any:
        return hold, (self.original, self.held)


def _held_graph(original: Cell, gates: dict[str, float], name: str, as_vectors: bool = False) -> Graph:
    held = {original.graph.gates[gate]: value for gate, value in gates.items()}
    interpreter, signature = Interpreter(original.graph, held, as_vectors), original.signature

    def step(x: Any, states: tuple[Any, ...], t: Any, spaces: dict[str, Any], options: dict[str, Any]) -> Any:
        leaves = {INDEX: t, **dict(zip(signature.states, states, strict=True)), **options, signature.input: x}
        return interpreter.named_step(leaves, spaces)

    return trace_step(step, signature, f"{name!r}")
