"""The computation graph of a cell: linear maps and pointwise operations, as plain data.

A node is a value within one step. Its shape is `input` (D features of x), `vector` (H units of a state or gate) or
`scalar`. A product is a matrix applied to a node; the matrix is a separate expression, since it is constant over time
and computed once per call.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional

Shape = Literal["input", "vector", "scalar"]

# The pointwise operations and their implementation on tensors. Tracing, printing and all engines use these names. (A
# power has its exponent in `Node.value`.)
POINTWISE: dict[str, Callable[..., Tensor]] = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "neg": torch.neg,
    "power": torch.pow,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "relu": torch.relu,
    "softplus": functional.softplus,
    "exp": torch.exp,
    "sin": torch.sin,
    "cos": torch.cos,
}


@dataclass(frozen=True)
class Weight:
    """A named matrix: `W.name` (H × D) or `U.name` (H × H)."""

    space: str
    name: str


@dataclass(frozen=True)
class Identity:
    """The H × H identity."""


@dataclass(frozen=True)
class Transpose:
    """The transpose of a square matrix expression."""

    of: Matrix


@dataclass(frozen=True)
class Sum:
    """left + sign · right."""

    left: Matrix
    right: Matrix
    sign: Literal[1, -1]


@dataclass(frozen=True)
class Scaled:
    """A scalar times a matrix. The factor is a float, a scalar's `Node` (traced) or its tensor (on tensors)."""

    by: Any
    of: Matrix


Matrix = Weight | Identity | Transpose | Sum | Scaled


# Nodes are compared by identity: the tracer creates each distinct value once.
@dataclass(frozen=True, eq=False)
class Node:
    """One value of the graph: an operation and its arguments, or a leaf."""

    op: str  # "input", "state", "vector", "scalar", "constant", "product" or a key of POINTWISE
    shape: Shape
    args: tuple[Node, ...] = ()
    name: str = ""  # of an input, state, vector or scalar
    value: float = 0.0  # of a constant; the exponent of a power
    matrix: Matrix | None = None  # of a product


@dataclass(frozen=True)
class Graph:
    """One step of a cell: its parameters, its named values, and its new states."""

    states: tuple[str, ...]
    new_states: tuple[Node, ...]  # in the order of `states`
    gates: dict[str, Node]  # every named vector, in order of computation
    numbers: dict[str, Node]  # every named expression of scalars only
    maps: dict[str, Matrix]  # every named matrix expression
    W: tuple[str, ...]  # names of the input maps, in order of first use
    U: tuple[str, ...]  # of the recurrent maps
    b: tuple[str, ...]  # of the vectors
    scalars: tuple[str, ...]  # of the cell's hyperparameters, learned or fixed

    def nodes(self, *roots: Node) -> Iterator[Node]:
        """All nodes (or those that the roots depend on) in topological order."""
        return walk(roots or (*self.gates.values(), *self.new_states))

    def unused(self) -> list[str]:
        """Parameters that no new state depends on."""
        nodes = list(self.nodes(*self.new_states))
        used = {f"{w.space}.{w.name}" for node in nodes if node.matrix for w in weights(node.matrix)}
        used |= {f"b.{node.name}" for node in nodes if node.op == "vector"}
        parameters = [f"{space}.{name}" for space in ("W", "U", "b") for name in getattr(self, space)]
        return [name for name in parameters if name not in used]


def walk(
    starts: Iterable[Node],
    boundary: Collection[Node] = (),
    operands: Callable[[Node], tuple[Node, ...]] = lambda node: node.args,
) -> Iterator[Node]:
    """All nodes that `starts` depend on, in topological order; does not descend below nodes in `boundary`."""
    seen: set[Node] = set()

    def visit(node: Node) -> Iterator[Node]:
        if node in seen:
            return
        seen.add(node)
        for arg in () if node in boundary else operands(node):
            yield from visit(arg)
        yield node

    for start in starts:
        yield from visit(start)


def subexpressions(matrix: Matrix) -> Iterator[Matrix]:
    """A matrix expression and all its subexpressions."""
    yield matrix
    if isinstance(matrix, Sum):
        yield from subexpressions(matrix.left)
        yield from subexpressions(matrix.right)
    elif isinstance(matrix, (Transpose, Scaled)):
        yield from subexpressions(matrix.of)


def weights(matrix: Matrix) -> Iterator[Weight]:
    """All weights in a matrix expression."""
    return (m for m in subexpressions(matrix) if isinstance(m, Weight))


def operands(node: Node) -> tuple[Node, ...]:
    """The nodes that a node depends on directly: its arguments, and the scalars in its matrix expression."""
    if node.matrix is None:
        return node.args
    scaled = (m for m in subexpressions(node.matrix) if isinstance(m, Scaled))
    factors = (m.by for m in scaled if isinstance(m.by, Node))
    return (*node.args, *factors)


def is_antisymmetric(matrix: Matrix) -> bool:
    """Whether an expression contains a matrix minus its transpose."""
    if isinstance(matrix, Sum):
        pair = (matrix.left, matrix.right)
        transposed = any(one == Transpose(other) for one, other in (pair, pair[::-1]))
        return (transposed and matrix.sign == -1) or any(map(is_antisymmetric, pair))
    return isinstance(matrix, (Transpose, Scaled)) and is_antisymmetric(matrix.of)


def evaluate(node: Node, values: dict[Node, Tensor]) -> Tensor:
    """Evaluate a node. `values` holds the leaves and products it depends on; intermediate results are added."""
    if node not in values:
        if node.op == "constant":
            values[node] = torch.tensor(node.value, dtype=torch.float64)
        elif node.op in POINTWISE:
            args: list[Any] = [evaluate(arg, values) for arg in node.args]
            if node.op == "power":
                args.append(int(node.value))
            values[node] = POINTWISE[node.op](*args)
        else:
            raise KeyError(f"{node.op} {node.name!r} has no value")
    return values[node]
