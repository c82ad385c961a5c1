"""The computation graph of a cell: linear maps and pointwise operations, as plain data.

A node is a value within one step. Its shape is `input` (D features of x), `vector` (H units of a state or gate), `row`
(one number per sequence, such as the mean over the units) or `scalar` (one number for all). A product is a matrix
applied to a node; the matrix is a separate expression, since it is constant over time and computed once per call.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import torch
from torch import Tensor

from gatelab.lang.operations import POINTWISE, REDUCTIONS

Shape = Literal["input", "vector", "row", "scalar"]


@dataclass(frozen=True)
class Weight:
    """A named matrix: `W.name` (H × D) or `U.name` (H × H)."""

    space: str
    name: str


@dataclass(frozen=True)
class IdentityMatrix:
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
class Elementwise:
    """A function of the entries of square matrices: relu(U), or the product U ⊙ V for "mul"."""

    function: str  # "mul" or a key of POINTWISE with one argument
    of: tuple[Matrix, ...]


@dataclass(frozen=True)
class Exponential:
    """The matrix exponential of a square matrix expression."""

    of: Matrix


@dataclass(frozen=True)
class Scaled:
    """A scalar times a matrix. The factor is a float, a scalar's `Node` (traced) or its tensor (on tensors)."""

    by: Any
    of: Matrix


Matrix = Weight | IdentityMatrix | Transpose | Sum | Scaled | Elementwise | Exponential


# What a step cannot compute from its input and states alone: earlier values, the index, masks, vectors of any size.
NEEDS_SEQUENCE = ("prev", "index", "random", "full")


# Nodes are compared by identity: the tracer creates each distinct value once.
@dataclass(frozen=True, eq=False)
class Node:
    """One value of the graph: an operation and its arguments, or a leaf."""

    # A key of POINTWISE or REDUCTIONS, "product", or one of these:
    # - leaves: "input", "state", "vector", "scalar", "constant", and "full", a vector of one constant
    # - "itself": the input as a vector, where D = H
    # - "prev": a value of an earlier step; "index": the number of the step
    # - "random": 1 with the probability of its argument, otherwise 0
    op: str
    shape: Shape
    args: tuple[Node, ...] = ()
    name: str = ""  # of an input, state, vector, scalar or index
    value: float = 0.0  # of a constant or full vector; exponent of a power; delay of a prev; number of a random
    matrix: Matrix | None = None  # of a product


@dataclass(frozen=True)
class Graph:
    """One step of a cell: its parameters, its named values, and its new states."""

    states: tuple[str, ...]
    new_states: tuple[Node, ...]  # in the order of `states`
    gates: dict[str, Node]  # every named vector, in order of computation
    numbers: dict[str, Node]  # every named row and every named expression of scalars only
    maps: dict[str, Matrix]  # every named matrix expression
    W: tuple[str, ...]  # names of the input maps, in order of first use
    U: tuple[str, ...]  # of the recurrent maps
    b: tuple[str, ...]  # of the vectors
    scalars: tuple[str, ...]  # of the cell's hyperparameters, learned or fixed
    needs_sequence: bool  # whether NEEDS_SEQUENCE was used, even to no effect

    def nodes(self, *roots: Node) -> Iterator[Node]:
        """All nodes (or those that the roots depend on) in topological order."""
        return walk(roots or (*self.gates.values(), *self.new_states))

    def replaced(self, replacement: Callable[[Node, tuple[Node, ...]], Node | None]) -> Graph:
        """The graph with each node replaced by `replacement(node, new arguments)`, or kept where that is None."""
        new: dict[Node, Node] = {}
        for node in walk((*self.gates.values(), *self.numbers.values(), *self.new_states)):
            args = tuple(new[arg] for arg in node.args)
            kept = node if args == node.args else replace(node, args=args)
            new[node] = replacement(node, args) or kept
        return replace(
            self,
            new_states=tuple(new[node] for node in self.new_states),
            gates={name: new[node] for name, node in self.gates.items()},
            numbers={name: new[node] for name, node in self.numbers.items()},
        )

    @cached_property
    def parameters(self) -> list[str]:
        """The names of all maps and vectors: W.z, U.z, b.z."""
        return [f"{space}.{name}" for space in ("W", "U", "b") for name in getattr(self, space)]

    @cached_property
    def biases(self) -> set[str]:
        """The vectors that are only ever added: b.z, not the b.tau of h / b.tau."""
        uses = [(arg.name, node.op) for node in self.nodes() for arg in node.args if arg.op == "vector"]
        return {name for name, _ in uses} - {name for name, op in uses if op not in ("add", "sub")}

    @cached_property
    def randoms(self) -> list[Node]:
        """The masks that are drawn while training."""
        return [node for node in self.nodes() if node.op == "random"]

    @cached_property
    def matrices(self) -> list[Matrix]:
        """All matrix expressions that are applied to something, in order of first use."""
        return list(dict.fromkeys(node.matrix for node in self.nodes() if node.matrix is not None))

    @cached_property
    def uses_input_itself(self) -> bool:
        """Whether the input appears without a map, so that it needs as many features as there are units."""
        return any(node.op == "itself" for node in self.nodes())

    def unused(self) -> list[str]:
        """Parameters that no new state depends on."""
        nodes = list(self.nodes(*self.new_states))
        used = {f"{w.space}.{w.name}" for node in nodes if node.matrix for w in weights(node.matrix)}
        used |= {f"b.{node.name}" for node in nodes if node.op == "vector"}
        return [name for name in self.parameters if name not in used]


def mask_name(node: Node) -> str:
    """The key of a mask among the leaves of a step; not an identifier, so that no value of the cell can have it."""
    return f"random {node.value:.0f}"


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
    elif isinstance(matrix, Elementwise):
        for each in matrix.of:
            yield from subexpressions(each)
    elif isinstance(matrix, (Transpose, Scaled, Exponential)):
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
        if node.op in ("constant", "full"):
            values[node] = torch.tensor(node.value, dtype=torch.float64)
        elif node.op in POINTWISE:
            args: list[Any] = [evaluate(arg, values) for arg in node.args]
            if node.op == "power":
                args.append(int(node.value))
            values[node] = POINTWISE[node.op].compute(*args)
        elif node.op in REDUCTIONS:
            values[node] = REDUCTIONS[node.op](evaluate(node.args[0], values), dim=-1, keepdim=True)
        else:
            raise KeyError(f"{node.op} {node.name!r} has no value")
    return values[node]
