"""Planning a step: which products are done together, what has to wait for what, what is stored on the way.

A program is a graph with outputs. It runs in turns: products of whole rows (phase k computes every `Linear` of level
k), then a pass over units that does all pointwise work of that level. A GRU is one of each; a cell that maps `r * h`
needs r for the whole row before the second product, hence a second level.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache

from gatelab.lang.graph import Graph, Matrix, Node, walk

# Worth keeping rather than computing again; the rest is a few instructions on values that are at hand.
EXPENSIVE = {"sigmoid", "tanh", "softplus", "exp", "sin", "cos", "div", "product"}
LEAVES = {"input", "state", "vector", "scalar", "constant", "adjoint", "gate_adjoint"}


@dataclass(eq=False)
class Linear:
    """A sum of products and bias vectors that is accumulated in one go: the value of `root`, up to its `rest`."""

    root: Node
    products: list[Node]
    vectors: list[Node]
    rest: list[Node]  # further terms of the sum, added in the pass

    def arguments(self) -> tuple[Node, ...]:
        """What its maps of states are applied to."""
        return tuple(p.args[0] for p in self.products if p.args[0].op != "input")

    def input_matrices(self) -> list[Matrix]:
        return [p.matrix for p in self.products if p.args[0].op == "input" and p.matrix]


@dataclass(eq=False)
class Program:
    """A planned step. `given`: nodes whose values are there from the start, such as what the way forwards kept."""

    outputs: list[Node]
    given: set[Node] = field(default_factory=set)
    linears: list[Linear] = field(init=False)
    temporaries: list[Node] = field(init=False)  # computed in one pass and read in a later one

    def __post_init__(self) -> None:
        self.linears = list(self._find_linears())
        self._root = {linear.root: linear for linear in self.linears}
        self.level = cache(self._level)
        # Columns in an order that puts those together which the same products fill: of the input alone, of both, of
        # states alone; within that by level and argument.
        position = {node: i for i, node in enumerate(walk(self.outputs, self.given))}

        def place(linear: Linear) -> tuple[int, ...]:
            args = linear.arguments()
            kind = 2 if not linear.input_matrices() else 1 if args else 0
            order = [position[arg] for arg in args]
            return (self.linear_level(linear), kind, *order, position[linear.root])

        self.linears.sort(key=place)
        self.temporaries = self._find_temporaries()

    @property
    def levels(self) -> int:
        return 1 + max((self.level(node) for node in self.outputs), default=0)

    def linear_of(self, node: Node) -> Linear | None:
        return None if node in self.given else self._root.get(node)

    def linear_level(self, linear: Linear) -> int:
        """The phase in which it is complete: 0 if it needs the input alone, which is there from the start."""
        return max((1 + self.level(arg) for arg in linear.arguments()), default=0)

    def at_level(self, level: int) -> list[Linear]:
        """The linears whose maps of states run in this phase."""
        return [linear for linear in self.linears if linear.arguments() and self.linear_level(linear) == level]

    def stored_arguments(self) -> list[Node]:
        """What maps are applied to and no array holds yet, so that the pass has to write it down."""
        found = dict.fromkeys(arg for linear in self.linears for arg in linear.arguments())
        return [arg for arg in found if arg.op != "state" and arg not in self.given]

    def operands(self, node: Node) -> tuple[Node, ...]:
        """What the value of a node is computed from in a pass; a linear's products are not among them."""
        if node in self.given or node.op in LEAVES:
            return ()
        linear = self.linear_of(node)
        return tuple(linear.rest) if linear else node.args

    def _level(self, node: Node) -> int:
        linear = self.linear_of(node)
        own = self.linear_level(linear) if linear else 0
        return max([own, *(self.level(arg) for arg in self.operands(node))])

    def _find_linears(self) -> Iterator[Linear]:
        nodes = list(walk(self.outputs, self.given))
        uses = Counter(arg for node in nodes if node not in self.given for arg in node.args)
        uses.update(self.outputs)
        absorbed: set[Node] = set()  # inner sums and products that belong to a linear above them

        def flatten(node: Node, inner: list[Node]) -> Iterator[Node]:
            for arg in node.args:
                if arg.op == "add" and uses[arg] == 1 and arg not in self.given:
                    inner.append(arg)
                    yield from flatten(arg, inner)
                else:
                    yield arg

        for node in reversed(nodes):
            if node in absorbed or node in self.given:
                continue
            if node.op == "product":
                yield Linear(node, [node], [], [])
            elif node.op == "add":
                inner: list[Node] = []
                terms = list(flatten(node, inner))
                products = [t for t in terms if t.op == "product" and uses[t] == 1 and t not in self.given]
                if products:
                    absorbed.update(inner, products)
                    vectors = [t for t in terms if t.op == "vector"]
                    yield Linear(node, products, vectors, [t for t in terms if t not in {*products, *vectors}])

    def _find_temporaries(self) -> list[Node]:
        """Expensive values that a later pass needs again."""
        found: dict[Node, None] = {}
        for level in reversed(range(1, self.levels)):
            starts = [node for node in (*self.stored(), *found) if self.level(node) == level]
            for node in walk(starts, self.given, self.operands):
                crosses = self.level(node) < level and node.op in EXPENSIVE and not self.linear_of(node)
                if crosses and node not in self.given and not parameters_only(node):
                    found[node] = None
        return list(found)

    def stored(self) -> list[Node]:
        return list(dict.fromkeys([*self.outputs, *self.stored_arguments()]))


@cache
def parameters_only(node: Node) -> bool:
    """Whether a value depends on vectors and scalars alone, so that once per call is enough."""
    if node.op in ("vector", "scalar", "constant"):
        return True
    return bool(node.args) and node.op != "product" and all(parameters_only(arg) for arg in node.args)


def kept(graph: Graph, backward: Iterable[Node]) -> list[Node]:
    """The values of the forward step that the way back needs and cannot compute again from the others cheaply."""
    forward = set(graph.nodes())
    found = (node for node in walk(backward, forward) if node in forward and node.op not in LEAVES)
    needed = dict.fromkeys(found)
    keep = dict.fromkeys(node for node in needed if node.op in EXPENSIVE and not parameters_only(node))
    at_hand: set[Node] = set()
    for node in graph.nodes():  # arguments first
        cheap = node.op not in EXPENSIVE and all(arg in at_hand for arg in node.args)
        if node in keep or node.op in LEAVES or parameters_only(node) or cheap:
            at_hand.add(node)
        elif node in needed:
            keep[node] = None
            at_hand.add(node)
    return list(keep)
