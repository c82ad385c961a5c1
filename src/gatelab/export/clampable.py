"""A cell whose gates and states can be clamped: unit by unit, each is replaced by a given value.

The result is a graph, so that its gradient follows as that of every cell: none passes through a clamped unit.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace

from gatelab.lang import Cell
from gatelab.lang.graph import Graph, Node

HALF = Node("constant", "scalar", value=0.5)


@dataclass(frozen=True)
class Clamp:
    """The clamp of a gate or state. Its leaves are like states, since they may change from step to step."""

    on: Node  # above 0.5 in the units that are clamped
    to: Node  # their values

    @classmethod
    def of(cls, name: str) -> Clamp:
        """The leaves have names with a space, which no value of a cell can have."""
        return cls(Node("state", "vector", name=f"clamp {name}"), Node("state", "vector", name=f"to {name}"))

    def applied(self, value: Node) -> Node:
        """The value, or what it is clamped to."""
        return Node("where", "vector", (Node("greater", "vector", (self.on, HALF)), self.to, value))


@dataclass(frozen=True)
class Clampable:
    """One step of a cell in use, with clamps. Masks are their probabilities; surrogates are kept for the gradient."""

    graph: Graph
    clamps: Mapping[str, Clamp]  # by the name of the gate or state, gates first
    free: Mapping[str, Node]  # the values without their own clamps


@functools.cache
def clampable(cell: Cell) -> Clampable:
    """The cell with a clamp on every gate, and on every state as it leaves the step.

    A clamped gate is seen by all that depends on it. A clamped state is seen by the output and by the next step; what
    the same step computes from its new value, such as the h of an LSTM from its c, is not clamped with it.
    """
    lowered = cell.lowered
    clamps = {name: Clamp.of(name) for name in (*lowered.gates, *lowered.states)}
    free: dict[str, Node] = {}

    def replacement(node: Node, args: tuple[Node, ...]) -> Node | None:
        value = node if args == node.args else replace(node, args=args)
        if node.op == "random":
            value = Node("stop_gradient", "vector", args)
        for name, gate in lowered.gates.items():
            if gate is node:
                free[name] = value
                value = clamps[name].applied(value)
        return value

    graph = lowered.replaced(replacement)
    new = dict(zip(graph.states, graph.new_states, strict=True))
    free |= new
    return Clampable(replace(graph, new_states=tuple(clamps[s].applied(new[s]) for s in new)), clamps, free)
