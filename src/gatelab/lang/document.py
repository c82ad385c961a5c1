"""Serialization of a cell: its traced graph as plain data, without loss, and a strict reader that executes nothing.

    {"name": "leaky", "doc": "…", "parameters": ["x", "h", "W", "U", "b"],
     "options": {"rate": {"value": 0.1, "learned": true}}, "W": ["n"], "U": ["n"], "b": ["n"],
     "nodes": [["input", "x"], ["product", ["W", "n"], 0], …, ["tanh", 6], …],
     "gates": {"n": 7}, "numbers": {}, "maps": {}, "returns": [10]}

A node is its operation and the indices of earlier nodes; a matrix is ["W" or "U", name], ["I"], ["T", matrix],
["+" or "-", matrix, matrix], ["*", factor, matrix], whose factor is a number or {"node": index}, ["expm", matrix], or
["each", function, matrix, …]. A cell with given or initial values also has "given" or "start", such as
{"b.f": ["constant", 1.0]}.
"""

from __future__ import annotations

import functools
import hashlib
import json
import keyword
import re
from collections.abc import Callable
from typing import Any, NoReturn

from gatelab.errors import DataError, GatelabError
from gatelab.lang.cell import Cell
from gatelab.lang.graph import (
    NEEDS_SEQUENCE,
    Elementwise,
    Exponential,
    Graph,
    IdentityMatrix,
    Matrix,
    Node,
    Scaled,
    Shape,
    Sum,
    Transpose,
    Weight,
    operands,
    subexpressions,
    walk,
)  # fmt: skip
from gatelab.lang.interpreted import InterpretedCell
from gatelab.lang.operations import CONDITIONS, ENTRYWISE, POINTWISE, REDUCTIONS
from gatelab.lang.signature import INDEX, SPACES, Option, Signature
from gatelab.lang.symbols import MAX_DELAY, widest
from gatelab.lang.values import Values
from gatelab.numerals import fits_float32

KEYS = ("name", "doc", "parameters", "options", "W", "U", "b", "nodes", "gates", "numbers", "maps", "returns")
BESIDE = ("given", "start")  # only where the cell has such values
LEAVES = {"input": "input", "state": "vector", "vector": "vector", "scalar": "scalar", "index": "vector"}  # and shapes
NAME = re.compile(r"\w+(\([\w=., +-]*\))?")  # a function name, possibly with gates that are held: gru(r=1)
# Limits against malicious documents, far beyond any real cell.
MAX_STATES = 1_000  # for values of earlier steps
MAX_NODES, MAX_DEPTH, MAX_DOC, MAX_POWER = 3_000, 300, 20_000, 10**6


def to_document(cell: Cell) -> dict[str, Any]:
    """The cell as JSON-compatible lists, numbers and strings."""
    graph = cell.graph
    roots = (*graph.gates.values(), *graph.numbers.values(), *graph.new_states)
    factors = (scaled.by for m in graph.maps.values() for scaled in _scaled(m))
    nodes = list(walk((*roots, *factors), operands=operands))
    indices = {node: index for index, node in enumerate(nodes)}
    return {
        "name": cell.name,
        "doc": cell.doc,
        "parameters": list(cell.signature.order),
        "options": {n: {"value": o.value, "learned": o.learned} for n, o in cell.options.items()},
        **{space: list(getattr(graph, space)) for space in SPACES},
        "nodes": [_node(node, indices) for node in nodes],
        "gates": {name: indices[node] for name, node in graph.gates.items()},
        "numbers": {name: indices[node] for name, node in graph.numbers.items()},
        "maps": {name: _matrix(matrix, indices) for name, matrix in graph.maps.items()},
        "returns": [indices[node] for node in graph.new_states],
        **{
            key: {n: [v.kind, *v.arguments] for n, v in getattr(cell, key).items()}
            for key in BESIDE
            if getattr(cell, key)
        },
    }


def digest(cell: Cell) -> str:
    """SHA-256 of the equations, with every digit of their numbers; name and docstring are excluded."""
    document = {key: value for key, value in to_document(cell).items() if key not in ("name", "doc")}
    return hashlib.sha256(_text(document).encode()).hexdigest()


def from_document(document: Any) -> Cell:
    """Read a cell; raises `DataError`. Equal documents give the same object, so that its kernel is loaded once."""
    try:
        return _read_once(_text(document))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise DataError(f"the equations cannot be read: {error}") from None


def _text(document: Any) -> str:
    return json.dumps(document, separators=(",", ":"), allow_nan=False)  # key order is significant


@functools.lru_cache(maxsize=256)
def _read_once(text: str) -> Cell:
    return _Reader(json.loads(text)).cell()


def _scaled(matrix: Matrix) -> list[Scaled]:
    return [m for m in subexpressions(matrix) if isinstance(m, Scaled) and isinstance(m.by, Node)]


def _node(node: Node, indices: dict[Node, int]) -> list[Any]:
    arguments = [indices[arg] for arg in node.args]
    if node.op in LEAVES:
        return [node.op, node.name]
    if node.op in ("constant", "full"):
        return [node.op, node.value]
    if node.op == "product":
        assert node.matrix is not None
        return [node.op, _matrix(node.matrix, indices), *arguments]
    return [node.op, *arguments, int(node.value)] if node.op in ("power", "prev", "random") else [node.op, *arguments]


def _matrix(matrix: Matrix, indices: dict[Node, int]) -> list[Any]:
    if isinstance(matrix, Weight):
        return [matrix.space, matrix.name]
    if isinstance(matrix, IdentityMatrix):
        return ["I"]
    if isinstance(matrix, Transpose):
        return ["T", _matrix(matrix.of, indices)]
    if isinstance(matrix, Sum):
        return ["+" if matrix.sign == 1 else "-", _matrix(matrix.left, indices), _matrix(matrix.right, indices)]
    if isinstance(matrix, Exponential):
        return ["expm", _matrix(matrix.of, indices)]
    if isinstance(matrix, Elementwise):
        return ["each", matrix.function, *(_matrix(of, indices) for of in matrix.of)]
    by = {"node": indices[matrix.by]} if isinstance(matrix.by, Node) else matrix.by
    return ["*", by, _matrix(matrix.of, indices)]


class _Reader:
    """Parses a document. Anything that `to_document` would not write is refused."""

    def __init__(self, document: Any) -> None:
        if not isinstance(document, dict) or document.keys() - set(BESIDE) != set(KEYS):
            self.refuse(f"expected an object with the keys {', '.join(KEYS)}")
        self.document = document
        self.nodes: list[Node] = []
        self.depths: dict[Node, int] = {}

    def refuse(self, why: str) -> NoReturn:
        raise GatelabError(why)

    def cell(self) -> Cell:
        document, signature = self.document, self.signature()
        if not isinstance(document["name"], str) or not NAME.fullmatch(document["name"]) or len(document["name"]) > 200:
            self.refuse(f"the name of a cell is {document['name']!r}: expected a function name")
        if not isinstance(document["doc"], str) or len(document["doc"]) > MAX_DOC:
            self.refuse(f"doc: expected a string of at most {MAX_DOC:,} characters")
        self.spaces = {space: self.names(document[space], space) for space in SPACES}
        self.leaves = {"input": (signature.input,), "state": signature.states, "scalar": tuple(signature.options)}
        self.leaves["vector"] = self.spaces["b"]
        self.leaves["index"] = (INDEX,) if signature.has_index else ()
        if not isinstance(document["nodes"], list) or len(document["nodes"]) > MAX_NODES:
            self.refuse(f"nodes: expected a list of at most {MAX_NODES:,}")
        for entry in document["nodes"]:
            self.nodes.append(self.node(entry))
        graph = Graph(
            states=signature.states,
            new_states=self.returned(signature),
            gates=self.named("gates", "vector"),
            numbers=self.named("numbers", "scalar", "row"),
            maps={self.name(name, "maps"): self.matrix(m) for name, m in self.mapping("maps").items()},
            scalars=tuple(signature.options),
            needs_sequence=any(node.op in NEEDS_SEQUENCE for node in self.nodes),
            W=self.spaces["W"],
            U=self.spaces["U"],
            b=self.spaces["b"],
        )
        if sum(node.value for node in self.nodes if node.op == "prev") > MAX_STATES:
            self.refuse(f"the equations refer to more than {MAX_STATES} earlier values")
        given, start = (self.values(key) if key in document else None for key in BESIDE)
        return InterpretedCell(document["name"], signature, graph, document["doc"], given, start)

    def values(self, key: str) -> dict[str, Values]:
        recipes = {}
        for name, entry in self.mapping(key).items():
            if not isinstance(entry, list) or not entry or not isinstance(entry[0], str):
                self.refuse(f"{key} of {name!r} is {entry!r}: expected a list that starts with a name")
            recipes[name] = Values(entry[0], tuple(self.number(argument) for argument in entry[1:]))
        return recipes

    def signature(self) -> Signature:
        order = self.names(self.document["parameters"], "parameters")
        # Before there was a step index, t could be the name of a state.
        nodes = self.document["nodes"]
        reserved = SPACES if isinstance(nodes, list) and ["state", INDEX] in nodes else (*SPACES, INDEX)
        states = tuple(name for name in order[1:] if name not in reserved)
        if not order or order[0] in SPACES or not states:
            self.refuse(f"parameters are {', '.join(order)}: expected the input, at least one state, then W, U, b")
        options = {}
        for name, option in self.mapping("options").items():
            if not isinstance(option, dict) or option.keys() != {"value", "learned"}:
                self.refuse(f"the option {name!r} is {option!r}: expected value and learned")
            if self.name(name, "options") in (*order, *SPACES):
                self.refuse(f"the option {name!r} has the name of another parameter")
            if not isinstance(option["learned"], bool):
                self.refuse(f"learned of the option {name!r} is {option['learned']!r}: expected true or false")
            options[name] = Option(self.number(option["value"]), option["learned"])
        return Signature(order, order[0], states, options)

    def node(self, entry: Any) -> Node:
        if not isinstance(entry, list) or not entry or not isinstance(entry[0], str):
            self.refuse(f"a node is {entry!r}: expected a list that starts with an operation")
        op, *rest = entry
        if op in LEAVES:
            if len(rest) != 1 or rest[0] not in self.leaves[op]:
                self.refuse(f"the node {entry!r} refers to an unknown {op} of this cell")
            return self.new_node(op, LEAVES[op], name=rest[0])  # type: ignore[arg-type]
        if op in POINTWISE and op != "power" and len(rest) == POINTWISE[op].arguments:
            return self.pointwise(op, rest)
        if op in REDUCTIONS and len(rest) == 1:
            return self.new_node(op, "row", (self.vector(rest[0]),))
        readers: dict[tuple[str, int], Callable[..., Node | None]] = {
            ("constant", 1): lambda value: self.new_node(op, "scalar", value=self.number(value)),
            ("full", 1): lambda value: self.new_node(op, "vector", value=self.number(value)),
            ("product", 2): lambda matrix, argument: self.product(self.matrix(matrix), self.earlier(argument)),
            ("power", 2): self.power,
            ("itself", 1): self.itself,
            ("random", 2): self.random,
            ("prev", 2): self.prev,
        }
        read = readers.get((op, len(rest)))
        node = None if read is None else read(*rest)
        return self.refuse(f"the node {entry!r} is not an operation of the language") if node is None else node

    def power(self, base: Any, exponent: Any) -> Node | None:
        if type(exponent) is not int or abs(exponent) > MAX_POWER:
            return None
        return self.pointwise("power", [base], value=float(exponent))

    def itself(self, index: Any) -> Node | None:
        node = self.earlier(index)
        return self.new_node("itself", "vector", (node,)) if node.op == "input" else None

    def random(self, index: Any, number: Any) -> Node | None:
        rate = self.earlier(index)
        if type(number) is not int or not 0 <= number < MAX_NODES or rate.shape != "scalar":
            return None
        if any(node.op == "random" and node.value == number for node in self.nodes):
            self.refuse(f"the mask number {number} is there twice")
        return self.new_node("random", "vector", (rate,), value=float(number))

    def prev(self, index: Any, delay: Any) -> Node | None:
        if type(delay) is not int or not 1 <= delay <= MAX_DELAY:
            return None
        return self.new_node("prev", "vector", (self.vector(index),), value=float(delay))

    def new_node(self, op: str, shape: Shape, args: tuple[Node, ...] = (), **detail: Any) -> Node:
        node = Node(op, shape, args, **detail)
        self.depths[node] = 1 + max((self.depths[arg] for arg in operands(node)), default=0)
        if self.depths[node] > MAX_DEPTH:
            self.refuse(f"equations are nested more than {MAX_DEPTH} deep")
        return node

    def pointwise(self, op: str, indices: list[Any], **detail: Any) -> Node:
        args = tuple(self.earlier(index) for index in indices)
        if any(arg.shape == "input" for arg in args):
            self.refuse(f"the operation {op} is applied to the input: expected a product with it")
        conditions = [arg.op in CONDITIONS for arg in args]
        if any(conditions) and (op != "where" or conditions != [True, False, False]):
            self.refuse(f"a comparison is an argument of {op}: expected it as the condition of where")
        if op == "where" and not conditions[0]:
            self.refuse("the condition of where is not a comparison")
        if op == "where" and widest(args[1:]) == "scalar":
            self.refuse("where chooses between two numbers: expected a vector")
        if op == "clamp" and any(arg.op != "constant" for arg in args[1:]):
            self.refuse("the bounds of clamp are not numbers")
        if op == "clamp" and args[1].value > args[2].value:
            self.refuse("the lower bound of clamp is above the upper one")
        return self.new_node(op, widest(args), args, **detail)

    def vector(self, index: Any) -> Node:
        node = self.earlier(index)
        if node.shape != "vector" or node.op in CONDITIONS:
            self.refuse(f"node {index!r} is not a vector")
        return node

    def product(self, matrix: Matrix, argument: Node) -> Node:
        of_input = isinstance(matrix, Weight) and matrix.space == "W"
        if argument.shape != ("input" if of_input else "vector"):
            space, expected = ("W", "the input") if of_input else ("U", "a vector")
            self.refuse(f"{space} is applied to the wrong argument: expected {expected}")
        return self.new_node("product", "vector", (argument,), matrix=matrix)

    def matrix(self, entry: Any, depth: int = 0) -> Matrix:
        if not isinstance(entry, list) or not entry or depth > MAX_DEPTH // 10:
            self.refuse(f"a matrix is {str(entry)[:80]}: expected a list, not nested too deeply")
        kind, *rest = entry

        def inner(item: Any) -> Matrix:
            return self.matrix(item, depth + 1)

        readers: dict[tuple[Any, int], Callable[..., Matrix]] = {
            ("W", 1): lambda name: self.weight("W", name, depth),
            ("U", 1): lambda name: self.weight("U", name, depth),
            ("expm", 1): lambda item: Exponential(inner(item)),
            ("T", 1): lambda item: Transpose(inner(item)),
            ("+", 2): lambda left, right: Sum(inner(left), inner(right), 1),
            ("-", 2): lambda left, right: Sum(inner(left), inner(right), -1),
            ("*", 2): lambda factor, item: Scaled(self.factor(factor), inner(item)),
            **({("I", 0): IdentityMatrix} if depth else {}),
        }
        if kind == "each":
            return self.elementwise(rest, depth)
        read = readers.get((kind, len(rest))) if isinstance(kind, str) else None
        if read is None:
            self.refuse(f"the matrix {str(entry)[:80]} is not a matrix expression of the language")
        return read(*rest)

    def weight(self, space: str, name: Any, depth: int) -> Matrix:
        if name not in self.spaces[space] or (space == "W" and depth):
            self.refuse(f"the matrix {space}.{name} is unknown, or a W inside a matrix expression")
        return Weight(space, name)

    def elementwise(self, rest: list[Any], depth: int) -> Matrix:
        function, *items = rest or [None]
        if function not in ("mul", *ENTRYWISE) or len(items) != (2 if function == "mul" else 1):
            self.refuse(f"the matrix {str(['each', *rest])[:80]} is not a function of matrices in the language")
        return Elementwise(function, tuple(self.matrix(item, depth + 1) for item in items))

    def factor(self, entry: Any) -> Node | float:
        if not isinstance(entry, dict):
            return self.number(entry)
        node = self.earlier(entry.get("node")) if entry.keys() == {"node"} else None
        if node is None or node.shape != "scalar":
            self.refuse(f"a matrix is scaled by {entry!r}: expected a number, or the index of a scalar node")
        return node

    def returned(self, signature: Signature) -> tuple[Node, ...]:
        indices = self.document["returns"]
        if not isinstance(indices, list) or len(indices) != len(signature.states):
            self.refuse(
                f"returns is {indices!r}: expected one node for each of the states {', '.join(signature.states)}"
            )
        nodes = tuple(map(self.earlier, indices))
        if any(node.shape != "vector" or node.op in CONDITIONS for node in nodes):
            self.refuse("a new state is not a vector")
        return nodes

    def named(self, key: str, *shapes: Shape) -> dict[str, Node]:
        nodes = {self.name(name, key): self.earlier(index) for name, index in self.mapping(key).items()}
        if any(node.shape not in shapes or node.op in CONDITIONS for node in nodes.values()):
            self.refuse(f"{key}: expected {' and '.join(shapes)} nodes only")
        return nodes

    def mapping(self, key: str) -> dict[Any, Any]:
        mapping = self.document[key]
        if not isinstance(mapping, dict):
            self.refuse(f"{key} is {mapping!r}: expected an object")
        return mapping

    def earlier(self, index: Any) -> Node:
        if type(index) is not int or not 0 <= index < len(self.nodes):
            self.refuse(f"a node refers to {index!r}: expected the index of an earlier one")
        return self.nodes[index]

    def names(self, names: Any, key: str) -> tuple[str, ...]:
        if not isinstance(names, list) or len(set(map(str, names))) != len(names):
            self.refuse(f"{key} is {names!r}: expected a list of distinct names")
        return tuple(self.name(name, key) for name in names)

    def name(self, name: Any, key: str) -> str:
        if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name) or len(name) > 100:
            self.refuse(f"{key} has the name {name!r}: expected a Python identifier")
        return name

    def number(self, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not fits_float32(value):
            self.refuse(f"a number is {value!r}: expected a finite one in the range of float32")
        return float(value)
