"""Cells without a Python function: read from a file, or derived from other cells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from gatelab.errors import CellError
from gatelab.lang.cell import Cell
from gatelab.lang.graph import Graph
from gatelab.lang.signature import Signature


class InterpretedCell(Cell):
    """A cell that is defined by its graph and interpreted."""

    def __init__(
        self,
        name: str,
        signature: Signature,
        graph: Graph,
        doc: str,
        given: Mapping[str, Any] | None = None,
        start: Mapping[str, Any] | None = None,
    ) -> None:
        self.name, self.signature, self.graph, self.doc = name, signature, graph, doc
        self._complete(given, start)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the cell like a function, on tensors."""
        if self.graph.needs_sequence:
            raise CellError(f"cell {self.name!r} refers to other steps: run it as a layer, Recurrent({self.name}, …)")
        by_name = dict(zip(self.signature.order, args, strict=True))
        states = tuple(by_name[name] for name in self.states)
        options = {name: kwargs.get(name, option.value) for name, option in self.options.items()}
        returned = self.step(by_name[self.signature.input], states, by_name, options)
        return returned if len(returned) > 1 else returned[0]

    def __reduce__(self) -> Any:
        from gatelab.lang.document import from_document, to_document

        return from_document, (to_document(self),)

    def step(
        self, x: Any, states: tuple[Any, ...], spaces: Mapping[str, Any], leaves: Mapping[str, Any]
    ) -> tuple[Tensor, ...]:
        """The new states after one step, computed from the graph."""
        return self.interpreter.step(self._leaves(x, states, leaves), spaces)
