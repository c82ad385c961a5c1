"""Schedules a time step in phases: which products are computed together, in which order, and what is stored.

A program is a graph with outputs. Phase k computes every `LinearSum` of level k for whole rows, then all pointwise
operations of that level in one pass over the units. In a GRU all recurrent maps are of one level; a cell that maps
`r * h` needs r for the whole row first, hence a second level; so does one that uses the mean of r.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache

from gatelab.lang.graph import Graph, Matrix, Node, walk
from gatelab.lang.operations import REDUCTIONS

# Worth storing rather than recomputing; everything else takes a few instructions on values already loaded.
EXPENSIVE = {"sigmoid", "tanh", "softplus", "exp", "log", "sqrt", "sin", "cos", "div", "product", *REDUCTIONS}
LEAVES = {
    "input",
    "state",
    "vector",
    "full",
    "scalar",
    "constant",
    "size",
    "itself",
    "random",
    "adjoint",
    "gate_adjoint",
}


@dataclass(eq=False)
class LinearSum:
    """A sum of products and bias vectors, accumulated together: the value of `root` without the terms in `rest`."""

    root: Node
    products: list[Node]
    vectors: list[Node]
    rest: list[Node]  # the remaining terms of the sum, added in the pointwise pass

    def arguments(self) -> tuple[Node, ...]:
        """The operands of its recurrent maps."""
        return tuple(p.args[0] for p in self.products if p.args[0].op != "input")

    def input_matrices(self) -> list[Matrix]:
        """The matrices applied to the input x."""
        return [p.matrix for p in self.products if p.args[0].op == "input" and p.matrix]


@dataclass(eq=False)
class Program:
    """A time step, scheduled in phases. `available`: nodes whose values exist beforehand, such as saved activations."""

    outputs: list[Node]
    available: set[Node] = field(default_factory=set)
    linears: list[LinearSum] = field(init=False)
    temporaries: list[Node] = field(init=False)  # computed in one phase and read in a later one
    reductions: list[Node] = field(init=False)  # sums over the units: complete after the phase of their argument

    def __post_init__(self) -> None:
        self.linears = list(self._find_linears())
        self._root = {linear.root: linear for linear in self.linears}
        nodes = walk(self.outputs, self.available)
        self.reductions = [node for node in nodes if node.op in REDUCTIONS and node not in self.available]
        self.level = cache(self._level)
        # Order the columns so that those filled by the same product are adjacent: input only, both, states only; within
        # that by operand.
        position = {node: i for i, node in enumerate(walk(self.outputs, self.available))}

        def column_order(linear: LinearSum) -> tuple[int, ...]:
            args = linear.arguments()
            kind = 2 if not linear.input_matrices() else 1 if args else 0
            operands = [position[arg] for arg in args]
            return (self.linear_level(linear), kind, *operands, position[linear.root])

        self.linears.sort(key=column_order)
        self.temporaries = self._find_temporaries()

    @property
    def levels(self) -> int:
        """The number of phases."""
        return 1 + max((self.level(node) for node in self.outputs), default=0)

    def linear_of(self, node: Node) -> LinearSum | None:
        """The linear that computes this node; None for pointwise nodes, leaves and available values."""
        return None if node in self.available else self._root.get(node)

    def linear_level(self, linear: LinearSum) -> int:
        """The phase that completes it: 0 if it depends on the input only."""
        return max((1 + self.level(arg) for arg in linear.arguments()), default=0)

    def at_level(self, level: int) -> list[LinearSum]:
        """The linears whose recurrent maps are computed in this phase."""
        return [linear for linear in self.linears if linear.arguments() and self.linear_level(linear) == level]

    def stored_arguments(self) -> list[Node]:
        """Operands of maps that no array holds yet, so that the pointwise pass has to store them."""
        operands = dict.fromkeys(arg for linear in self.linears for arg in linear.arguments())
        return [arg for arg in operands if arg.op != "state" and arg not in self.available]

    def operands(self, node: Node) -> tuple[Node, ...]:
        """What a node is computed from in the pointwise pass, without a linear's products."""
        if node in self.available or node.op in LEAVES or node.op in REDUCTIONS:
            return ()
        linear = self.linear_of(node)
        return tuple(linear.rest) if linear else node.args

    def _level(self, node: Node) -> int:
        if node.op in REDUCTIONS and node not in self.available:
            return 1 + self.level(node.args[0])
        linear = self.linear_of(node)
        own = self.linear_level(linear) if linear else 0
        return max([own, *(self.level(arg) for arg in self.operands(node))])

    def _find_linears(self) -> Iterator[LinearSum]:
        nodes = list(walk(self.outputs, self.available))
        uses = Counter(arg for node in nodes if node not in self.available for arg in node.args)
        uses.update(self.outputs)
        absorbed: set[Node] = set()  # inner sums and products that are part of an enclosing linear

        def flatten(node: Node, inner: list[Node]) -> Iterator[Node]:
            for arg in node.args:
                if arg.op == "add" and uses[arg] == 1 and arg not in self.available:
                    inner.append(arg)
                    yield from flatten(arg, inner)
                else:
                    yield arg

        for node in reversed(nodes):
            if node in absorbed or node in self.available:
                continue
            if node.op == "product":
                yield LinearSum(node, [node], [], [])
            elif node.op == "add":
                inner: list[Node] = []
                terms = list(flatten(node, inner))
                products = [t for t in terms if t.op == "product" and uses[t] == 1 and t not in self.available]
                if products:
                    absorbed.update(inner, products)
                    vectors = [t for t in terms if t.op == "vector"]
                    yield LinearSum(node, products, vectors, [t for t in terms if t not in {*products, *vectors}])

    def _find_temporaries(self) -> list[Node]:
        """Expensive values that a later phase reads again."""
        temporaries: dict[Node, None] = {}
        for level in reversed(range(1, self.levels)):
            starts = [node for node in (*self.stored(), *temporaries) if self.level(node) == level]
            for node in walk(starts, self.available, self.operands):
                is_computed = node.op in EXPENSIVE and node.shape == "vector" and not self.linear_of(node)
                crosses = self.level(node) < level and is_computed
                if crosses and node not in self.available and not parameters_only(node):
                    temporaries[node] = None
        return list(temporaries)

    def stored(self) -> list[Node]:
        """All values the passes write to memory, without temporaries."""
        reduced = (node.args[0] for node in self.reductions)
        return list(dict.fromkeys([*self.outputs, *self.stored_arguments(), *reduced]))


@cache
def parameters_only(node: Node) -> bool:
    """Whether a value depends on vectors and scalars only and is thus constant over time."""
    if node.op in ("vector", "full", "scalar", "constant", "size"):
        return True
    is_pointwise = bool(node.args) and node.op not in ("product", "itself", "random", *REDUCTIONS)
    return is_pointwise and all(parameters_only(arg) for arg in node.args)


def saved_activations(graph: Graph, backward: Iterable[Node]) -> list[Node]:
    """Activations to save for the backward pass: those it needs and cannot cheaply recompute from the others."""
    forward = set(graph.nodes())
    needed = dict.fromkeys(node for node in walk(backward, forward) if node in forward and node.op not in LEAVES)
    keep = dict.fromkeys(node for node in needed if node.op in EXPENSIVE and not parameters_only(node))
    recoverable: set[Node] = set()
    for node in graph.nodes():  # arguments first
        cheap = node.op not in EXPENSIVE and all(arg in recoverable for arg in node.args)
        if node in keep or node.op in LEAVES or parameters_only(node) or cheap:
            recoverable.add(node)
        elif node in needed:
            keep[node] = None
            recoverable.add(node)
    return list(keep)
