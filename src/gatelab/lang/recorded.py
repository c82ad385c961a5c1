"""Cells that are graphs from the start: read from a file, or made of other cells. They have no function."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from gatelab.lang.cell import Cell
from gatelab.lang.graph import Graph
from gatelab.lang.interpret import Interpreter
from gatelab.lang.signature import Signature


class Recorded(Cell):
    """A cell whose steps are computed from its graph."""

    def __init__(self, name: str, signature: Signature, graph: Graph, doc: str) -> None:
        self.name, self.signature, self.graph, self.doc = name, signature, graph, doc
        self.interpreter = Interpreter(graph)
        self._warn_of_idle_parameters()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        given = dict(zip(self.signature.order, args, strict=True))
        states = tuple(given[name] for name in self.signature.states)
        options = {name: kwargs.get(name, option.value) for name, option in self.options.items()}
        returned = self.step(given[self.signature.input], states, given, options)
        return returned if len(returned) > 1 else returned[0]

    def __reduce__(self) -> Any:
        from gatelab.lang.document import from_document, to_document

        return from_document, (to_document(self),)

    def step(
        self, x: Any, states: tuple[Any, ...], spaces: Mapping[str, Any], options: Mapping[str, Any]
    ) -> tuple[Tensor, ...]:
        return self.interpreter.step(self.signature.leaves(x, states, options), spaces)

    def watched_step(
        self, x: Any, states: tuple[Any, ...], spaces: Mapping[str, Any], options: Mapping[str, Any]
    ) -> tuple[tuple[Tensor, ...], dict[str, Tensor]]:
        return self.interpreter.watched_step(self.signature.leaves(x, states, options), spaces)
