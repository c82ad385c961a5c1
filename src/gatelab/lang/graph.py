"""The graph that a cell's equations become: linear maps and pointwise operations, as plain data.

A node is a value inside one step. Its shape is one of three: `input` (the D entries of x), `vector` (the H entries
of a state or gate) or `scalar` (one number). A product is a matrix applied to a node; the matrix is an expression of
its own, since it is the same at every step and is computed once per call, outside the loop over time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional

Shape = Literal["input", "vector", "scalar"]

# What each pointwise operation does to tensors. The keys are the language: tracing, printing and every engine speak
# of operations by these names. (A power is the one operation with a parameter: its exponent is in `Node.value`.)
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
    of: Matrix


@dataclass(frozen=True)
class Sum:
    left: Matrix
    right: Matrix
    sign: Literal[1, -1]


@dataclass(frozen=True)
class Scaled:
    """A number times a matrix: a float, or one of the cell's scalars (its `Node` when traced, its tensor when run)."""

    by: Any
    of: Matrix


Matrix = Weight | Identity | Transpose | Sum | Scaled


# Nodes are compared by identity: the tracer makes each distinct value once, so the same node is the same value.
@dataclass(frozen=True, eq=False)
class Node:
    op: str  # "input", "state", "vector", "scalar", "constant", "product" or a key of POINTWISE
    shape: Shape
    args: tuple[Node, ...] = ()
    name: str = ""  # of an input, state, vector or scalar
    value: float = 0.0  # of a constant; the exponent of a power
    matrix: Matrix | None = None  # of a product


@dataclass(frozen=True)
class Graph:
    """One step of a cell: what it reads, the values it names, and the states it returns."""

    states: tuple[str, ...]
    new_states: tuple[Node, ...]  # in the order of `states`
    gates: dict[str, Node]  # every vector the equations name, in the order they are computed
    numbers: dict[str, Node]  # every expression of scalars alone that they name
    maps: dict[str, Matrix]  # every matrix expression the equations name
    W: tuple[str, ...]  # names of the input maps, in order of first use
    U: tuple[str, ...]  # of the recurrent maps
    b: tuple[str, ...]  # of the vectors
    scalars: tuple[str, ...]  # of the cell's options, learned or fixed

    def nodes(self, *roots: Node) -> Iterator[Node]:
        """Every node once (or those that the roots need), arguments before what uses them."""
        return walk(roots or (*self.gates.values(), *self.new_states))

    def idle(self) -> list[str]:
        """Parameters that no new state depends on."""
        used = list(self.nodes(*self.new_states))
        reached = {f"{w.space}.{w.name}" for node in used if node.matrix for w in weights(node.matrix)}
        reached |= {f"b.{node.name}" for node in used if node.op == "vector"}
        named = [f"{space}.{name}" for space in ("W", "U", "b") for name in getattr(self, space)]
        return [name for name in named if name not in reached]


def walk(
    starts: Iterable[Node],
    given: Collection[Node] = (),
    operands: Callable[[Node], tuple[Node, ...]] = lambda node: node.args,
) -> Iterator[Node]:
    """Every node that the starts need, once, arguments first, not looking behind what is given."""
    seen: set[Node] = set()

    def visit(node: Node) -> Iterator[Node]:
        if node in seen:
            return
        seen.add(node)
        for arg in () if node in given else operands(node):
            yield from visit(arg)
        yield node

    for start in starts:
        yield from visit(start)


def parts(matrix: Matrix) -> Iterator[Matrix]:
    """A matrix expression and all that it is made of."""
    yield matrix
    if isinstance(matrix, Sum):
        yield from parts(matrix.left)
        yield from parts(matrix.right)
    elif isinstance(matrix, (Transpose, Scaled)):
        yield from parts(matrix.of)


def weights(matrix: Matrix) -> Iterator[Weight]:
    """The named matrices in an expression."""
    return (part for part in parts(matrix) if isinstance(part, Weight))


def operands(node: Node) -> tuple[Node, ...]:
    """The values that a node is computed from: its arguments, and the scalars that its matrix is scaled by."""
    if node.matrix is None:
        return node.args
    factors = (part.by for part in parts(node.matrix) if isinstance(part, Scaled) and isinstance(part.by, Node))
    return (*node.args, *factors)


def is_antisymmetric(matrix: Matrix) -> bool:
    """Whether some part of an expression is a matrix minus its transpose."""
    if isinstance(matrix, Sum):
        pair = (matrix.left, matrix.right)
        turned = any(one == Transpose(other) for one, other in (pair, pair[::-1]))
        return (turned and matrix.sign == -1) or any(map(is_antisymmetric, pair))
    return isinstance(matrix, (Transpose, Scaled)) and is_antisymmetric(matrix.of)


def evaluate(node: Node, given: dict[Node, Tensor]) -> Tensor:
    """The value of `node` on numbers. `given` holds the leaves and products it needs, and is filled in on the way."""
    if node not in given:
        if node.op == "constant":
            given[node] = torch.tensor(node.value, dtype=torch.float64)
        elif node.op in POINTWISE:
            args: list[Any] = [evaluate(arg, given) for arg in node.args]
            if node.op == "power":
                args.append(int(node.value))
            given[node] = POINTWISE[node.op](*args)
        else:
            raise KeyError(f"{node.op} {node.name!r} has no value")
    return given[node]
