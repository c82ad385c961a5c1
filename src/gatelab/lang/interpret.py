"""Interprets a cell's graph: on tensors it computes one step, on symbols it is traced again.

A cell that was read from a file has no Python function; it is never executed as code.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from gatelab.lang import ops
from gatelab.lang.graph import (
    Elementwise,
    Exponential,
    Graph,
    IdentityMatrix,
    Matrix,
    Node,
    Scaled,
    Transpose,
    Weight,
    mask_name,
    operands,
    subexpressions,
    walk,
)
from gatelab.lang.maps import I
from gatelab.lang.operations import POINTWISE, REDUCTIONS
from gatelab.lang.symbols import active

OPERATORS: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "neg": operator.neg,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "abs": operator.abs,
}
OPERATORS |= {name: getattr(ops, name) for name in (*POINTWISE, *REDUCTIONS) if name not in (*OPERATORS, "power")}


class Interpreter:
    """Evaluates a graph in topological order; the nodes in `held` are replaced by constants, or by vectors of them."""

    def __init__(self, graph: Graph, held: Mapping[Node, float] | None = None, as_vectors: bool = False) -> None:
        self.graph, self.held, self.as_vectors = graph, dict(held or {}), as_vectors
        self.needed = self._order(graph.new_states)
        self.watched = self._order((*graph.gates.values(), *graph.new_states))

    def _order(self, targets: Iterable[Node]) -> list[Node]:
        return [node for node in walk(targets, self.held, operands) if node not in self.held]

    def step(self, leaves: Mapping[str, Any], spaces: Mapping[str, Any]) -> tuple[Any, ...]:
        """The new states. `leaves` holds the input, the states, the index of the step, the hyperparameters and the
        masks drawn for this step (by default their mean) by name, `spaces` W, U and b.
        """
        values = self._values(self.needed, leaves, spaces)
        return tuple(values[node] for node in self.graph.new_states)

    def watched_step(
        self, leaves: Mapping[str, Any], spaces: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The new states, and the gates by name."""
        values = self._values(self.watched, leaves, spaces)
        gates = {name: values[node] for name, node in self.graph.gates.items()}
        return tuple(values[node] for node in self.graph.new_states), gates

    def named_step(
        self, leaves: Mapping[str, Any], spaces: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The new states, and all named values they depend on: the counterpart of a function's local variables."""
        values = self._values(self.needed, leaves, spaces)
        named = {**self.graph.gates, **self.graph.numbers}
        in_use = {name: values[node] for name, node in named.items() if node in values and node not in self.held}
        used = {matrix for node in self.needed if node.matrix is not None for matrix in subexpressions(node.matrix)}
        maps = {name: _map(m, values, spaces) for name, m in self.graph.maps.items() if m in used}
        return tuple(values[node] for node in self.graph.new_states), {**in_use, **maps}

    def _values(self, order: list[Node], leaves: Mapping[str, Any], spaces: Mapping[str, Any]) -> dict[Node, Any]:
        values: dict[Node, Any] = {n: ops.full(v) if self.as_vectors else v for n, v in self.held.items()}
        for node in order:
            values[node] = self._full(node, leaves) if node.op == "full" else _value(node, values, leaves, spaces)
        return values

    def _full(self, node: Node, leaves: Mapping[str, Any]) -> Any:
        return ops.full(node.value) if active.get() else torch.full_like(leaves[self.graph.states[0]], node.value)


def _value(node: Node, values: dict[Node, Any], leaves: Mapping[str, Any], spaces: Mapping[str, Any]) -> Any:
    if node.op in ("input", "state", "scalar", "index"):
        return leaves[node.name]
    if node.op == "vector":
        return getattr(spaces["b"], node.name)
    if node.op == "constant":
        return node.value
    if node.op == "product":
        assert node.matrix is not None
        return _map(node.matrix, values, spaces)(values[node.args[0]])
    arguments = [values[arg] for arg in node.args]
    if node.op == "itself":
        return arguments[0]
    if node.op == "prev":
        return ops.prev(arguments[0], int(node.value))
    if node.op == "random":
        return ops.bernoulli(arguments[0]) if active.get() else leaves.get(mask_name(node), arguments[0])
    return arguments[0] ** int(node.value) if node.op == "power" else OPERATORS[node.op](*arguments)


def _map(matrix: Matrix, values: Mapping[Node, Any], spaces: Mapping[str, Any]) -> Any:
    """A matrix expression built from `spaces`, which may hold tensors or symbols."""
    if isinstance(matrix, Weight):
        return getattr(spaces[matrix.space], matrix.name)
    if isinstance(matrix, IdentityMatrix):
        return I
    if isinstance(matrix, Transpose):
        return _map(matrix.of, values, spaces).T
    if isinstance(matrix, Scaled):
        by = values[matrix.by] if isinstance(matrix.by, Node) else matrix.by
        return by * _map(matrix.of, values, spaces)
    if isinstance(matrix, Exponential):
        return ops.expm(_map(matrix.of, values, spaces))
    if isinstance(matrix, Elementwise):
        return OPERATORS[matrix.function](*(_map(of, values, spaces) for of in matrix.of))
    left, right = (_map(side, values, spaces) for side in (matrix.left, matrix.right))
    return left + right if matrix.sign == 1 else left - right
