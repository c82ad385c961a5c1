"""A cell as plain data: its traced graph, every digit of it, and a strict reader. Reading executes nothing.

    {"name": "leaky", "doc": "…", "parameters": ["x", "h", "W", "U", "b"],
     "options": {"rate": {"value": 0.1, "learned": true}}, "W": ["n"], "U": ["n"], "b": ["n"],
     "nodes": [["input", "x"], ["product", ["W", "n"], 0], …, ["tanh", 6], …],
     "gates": {"n": 7}, "numbers": {}, "maps": {}, "returns": [10]}

A node names its operation and then the numbers of earlier nodes; a matrix is ["W" or "U", name], ["I"], ["T", matrix],
["+" or "-", matrix, matrix] or ["*", factor, matrix], whose factor is a number or {"node": its place}.
"""

from __future__ import annotations

import functools
import hashlib
import json
import keyword
import math
import re
from typing import Any, NoReturn

from gatelab.errors import DataError
from gatelab.lang.cell import Cell
from gatelab.lang.graph import (
    POINTWISE,
    Graph,
    Identity,
    Matrix,
    Node,
    Scaled,
    Shape,
    Sum,
    Transpose,
    Weight,
    operands,
    parts,
    walk,
)  # fmt: skip
from gatelab.lang.recorded import Recorded
from gatelab.lang.signature import SPACES, Option, Signature

KEYS = ("name", "doc", "parameters", "options", "W", "U", "b", "nodes", "gates", "numbers", "maps", "returns")
LEAVES = {"input": "input", "state": "vector", "vector": "vector", "scalar": "scalar"}  # and their shapes
BINARY = ("add", "sub", "mul", "div")
NAME = re.compile(r"\w+(\([\w=., +-]*\))?")  # a function's, and what is held: gru(r=1)
MOST_WRITTEN = 1_000_000  # operations, where each use of a value is written out again
MOST_NODES, DEEPEST, LONGEST = 3_000, 300, 20_000  # beyond these it is no cell that anybody wrote


def to_document(cell: Cell) -> dict[str, Any]:
    """All that a cell is, in lists, numbers and texts."""
    graph = cell.graph
    roots = (*graph.gates.values(), *graph.numbers.values(), *graph.new_states)
    scaled = (part.by for m in graph.maps.values() for part in _scaled(m))
    nodes = list(walk((*roots, *scaled), operands=operands))
    places = {node: place for place, node in enumerate(nodes)}
    return {
        "name": cell.name,
        "doc": cell.doc,
        "parameters": list(cell.signature.order),
        "options": {n: {"value": o.value, "learned": o.learned} for n, o in cell.options.items()},
        **{space: list(getattr(graph, space)) for space in SPACES},
        "nodes": [_node(node, places) for node in nodes],
        "gates": {name: places[node] for name, node in graph.gates.items()},
        "numbers": {name: places[node] for name, node in graph.numbers.items()},
        "maps": {name: _matrix(matrix, places) for name, matrix in graph.maps.items()},
        "returns": [places[node] for node in graph.new_states],
    }


def digest(cell: Cell) -> str:
    """What tells equations apart, to the last digit of every number; words about them do not count."""
    document = {key: value for key, value in to_document(cell).items() if key not in ("name", "doc")}
    return hashlib.sha256(_text(document).encode()).hexdigest()


def from_document(document: Any) -> Cell:
    """The cell, or an error in words. The same document gives the same cell, so that its kernel is loaded once."""
    try:
        return _read_once(_text(document))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise DataError(f"the equations cannot be read: {error}") from None


def _text(document: Any) -> str:
    return json.dumps(document, separators=(",", ":"), allow_nan=False)  # in its own order, which means something


@functools.lru_cache(maxsize=256)
def _read_once(text: str) -> Cell:
    return _Reader(json.loads(text)).cell()


def _scaled(matrix: Matrix) -> list[Scaled]:
    return [part for part in parts(matrix) if isinstance(part, Scaled) and isinstance(part.by, Node)]


def _node(node: Node, places: dict[Node, int]) -> list[Any]:
    arguments = [places[arg] for arg in node.args]
    if node.op in LEAVES:
        return [node.op, node.name]
    if node.op == "constant":
        return [node.op, node.value]
    if node.op == "product":
        assert node.matrix is not None
        return [node.op, _matrix(node.matrix, places), *arguments]
    return [node.op, *arguments, int(node.value)] if node.op == "power" else [node.op, *arguments]


def _matrix(matrix: Matrix, places: dict[Node, int]) -> list[Any]:
    if isinstance(matrix, Weight):
        return [matrix.space, matrix.name]
    if isinstance(matrix, Identity):
        return ["I"]
    if isinstance(matrix, Transpose):
        return ["T", _matrix(matrix.of, places)]
    if isinstance(matrix, Sum):
        return ["+" if matrix.sign == 1 else "-", _matrix(matrix.left, places), _matrix(matrix.right, places)]
    by = {"node": places[matrix.by]} if isinstance(matrix.by, Node) else matrix.by
    return ["*", by, _matrix(matrix.of, places)]


class _Reader:
    """Takes a document apart. Whatever is not exactly as `to_document` writes it is refused."""

    def __init__(self, document: Any) -> None:
        if not isinstance(document, dict) or document.keys() != set(KEYS):
            self.refuse(f"expected an object with the keys {', '.join(KEYS)}")
        self.document = document
        self.nodes: list[Node] = []
        self.depths: dict[Node, int] = {}
        self.lengths: dict[Node, int] = {}

    def refuse(self, why: str) -> NoReturn:
        raise ValueError(why)

    def cell(self) -> Cell:
        given, signature = self.document, self.signature()
        if not isinstance(given["name"], str) or not NAME.fullmatch(given["name"]) or len(given["name"]) > 200:
            self.refuse(f"the name of a cell is {given['name']!r}: expected that of a function")
        if not isinstance(given["doc"], str) or len(given["doc"]) > LONGEST:
            self.refuse("doc is no text, or a very long one")
        self.spaces = {space: self.names(given[space], space) for space in SPACES}
        self.leaves = {"input": (signature.input,), "state": signature.states, "scalar": tuple(signature.options)}
        self.leaves["vector"] = self.spaces["b"]
        if not isinstance(given["nodes"], list) or len(given["nodes"]) > MOST_NODES:
            self.refuse(f"nodes: expected a list of {MOST_NODES:,} at most")
        for written in given["nodes"]:
            self.nodes.append(self.node(written))
        graph = Graph(
            states=signature.states,
            new_states=self.returned(signature),
            gates=self.named("gates", "vector"),
            numbers=self.named("numbers", "scalar"),
            maps={self.name(name, "maps"): self.matrix(m) for name, m in self.mapping("maps").items()},
            scalars=tuple(signature.options),
            **self.spaces,
        )
        return Recorded(given["name"], signature, graph, given["doc"])

    def signature(self) -> Signature:
        order = self.names(self.document["parameters"], "parameters")
        states = tuple(name for name in order[1:] if name not in SPACES)
        if not order or order[0] in SPACES or not states:
            self.refuse(f"parameters are {', '.join(order)}: expected the input, a state at least, then W, U, b")
        options = {}
        for name, option in self.mapping("options").items():
            if not isinstance(option, dict) or option.keys() != {"value", "learned"}:
                self.refuse(f"the option {name!r} is {option!r}: expected value and learned")
            if self.name(name, "options") in (*order, *SPACES):
                self.refuse(f"the option {name!r} has the name of something else")
            if not isinstance(option["learned"], bool):
                self.refuse(f"learned of the option {name!r} is {option['learned']!r}: expected true or false")
            options[name] = Option(self.number(option["value"]), option["learned"])
        return Signature(order, order[0], states, options)

    def node(self, written: Any) -> Node:
        if not isinstance(written, list) or not written or not isinstance(written[0], str):
            self.refuse(f"a node is {written!r}: expected a list that begins with an operation")
        op, *rest = written
        if op in LEAVES:
            if len(rest) != 1 or rest[0] not in self.leaves[op]:
                self.refuse(f"the node {written!r} names no {op} of this cell")
            return self.made(op, LEAVES[op], name=rest[0])  # type: ignore[arg-type]
        if op == "constant" and len(rest) == 1:
            return self.made(op, "scalar", value=self.number(rest[0]))
        if op == "product" and len(rest) == 2:
            return self.product(self.matrix(rest[0]), self.earlier(rest[1]))
        if op == "power" and len(rest) == 2 and type(rest[1]) is int and abs(rest[1]) <= 10**6:
            return self.pointwise(op, [rest[0]], value=float(rest[1]))
        if op in POINTWISE and op != "power" and len(rest) == (2 if op in BINARY else 1):
            return self.pointwise(op, rest)
        return self.refuse(f"the node {written!r} is no operation of the language")

    def made(self, op: str, shape: Shape, args: tuple[Node, ...] = (), **detail: Any) -> Node:
        node = Node(op, shape, args, **detail)
        self.depths[node] = 1 + max((self.depths[arg] for arg in operands(node)), default=0)
        if self.depths[node] > DEEPEST:
            self.refuse(f"equations are nested more than {DEEPEST} deep")
        self.lengths[node] = 1 + sum(self.lengths[arg] for arg in operands(node))
        if self.lengths[node] > MOST_WRITTEN:
            self.refuse("written out, the equations would have no end")
        return node

    def pointwise(self, op: str, places: list[Any], **detail: Any) -> Node:
        args = tuple(self.earlier(place) for place in places)
        if any(arg.shape == "input" for arg in args):
            self.refuse(f"the operation {op} on the input itself: expected a map of it")
        shape: Shape = "vector" if any(arg.shape == "vector" for arg in args) else "scalar"
        return self.made(op, shape, args, **detail)

    def product(self, matrix: Matrix, argument: Node) -> Node:
        of_input = isinstance(matrix, Weight) and matrix.space == "W"
        if argument.shape != ("input" if of_input else "vector"):
            self.refuse(f"a map of {'the input' if of_input else 'states'} is applied to something else")
        return self.made("product", "vector", (argument,), matrix=matrix)

    def matrix(self, written: Any, depth: int = 0) -> Matrix:
        if not isinstance(written, list) or not written or depth > DEEPEST // 10:
            self.refuse(f"a matrix is {str(written)[:80]}: expected a list, not nested too deeply")
        kind, *rest = written
        if kind in ("W", "U") and len(rest) == 1:
            if rest[0] not in self.spaces[kind] or (kind == "W" and depth):
                self.refuse(f"the matrix {kind}.{rest[0]} is unknown, or a map of the input inside an expression")
            return Weight(kind, rest[0])
        inner = [self.matrix(part, depth + 1) for part in rest[-(2 if kind in ("+", "-") else 1) :]] if rest else []
        if kind == "I" and not rest and depth:
            return Identity()
        if kind == "T" and len(rest) == 1:
            return Transpose(inner[0])
        if kind in ("+", "-") and len(rest) == 2:
            return Sum(inner[0], inner[1], 1 if kind == "+" else -1)
        if kind == "*" and len(rest) == 2:
            return Scaled(self.factor(rest[0]), inner[0])
        return self.refuse(f"the matrix {str(written)[:80]} is no expression of the language")

    def factor(self, written: Any) -> Node | float:
        if not isinstance(written, dict):
            return self.number(written)
        node = self.earlier(written.get("node")) if written.keys() == {"node"} else None
        if node is None or node.shape != "scalar":
            self.refuse(f"a matrix is scaled by {written!r}: expected a number, or the place of one")
        return node

    def returned(self, signature: Signature) -> tuple[Node, ...]:
        places = self.document["returns"]
        if not isinstance(places, list) or len(places) != len(signature.states):
            self.refuse(f"returns is {places!r}: expected a node for each of the states {', '.join(signature.states)}")
        nodes = tuple(map(self.earlier, places))
        if any(node.shape != "vector" for node in nodes):
            self.refuse("a new state has to be a vector")
        return nodes

    def named(self, key: str, shape: Shape) -> dict[str, Node]:
        found = {self.name(name, key): self.earlier(place) for name, place in self.mapping(key).items()}
        if any(node.shape != shape for node in found.values()):
            self.refuse(f"{key}: expected {shape}s only")
        return found

    def mapping(self, key: str) -> dict[Any, Any]:
        given = self.document[key]
        if not isinstance(given, dict):
            self.refuse(f"{key} is {given!r}: expected values by name")
        return given

    def earlier(self, place: Any) -> Node:
        if type(place) is not int or not 0 <= place < len(self.nodes):
            self.refuse(f"a node refers to {place!r}: expected the place of an earlier one")
        return self.nodes[place]

    def names(self, given: Any, key: str) -> tuple[str, ...]:
        if not isinstance(given, list) or len(set(map(str, given))) != len(given):
            self.refuse(f"{key} is {given!r}: expected a list of different names")
        return tuple(self.name(name, key) for name in given)

    def name(self, given: Any, key: str) -> str:
        if not isinstance(given, str) or not given.isidentifier() or keyword.iskeyword(given) or len(given) > 100:
            self.refuse(f"{key} has the name {given!r}: expected one that Python would take")
        return given

    def number(self, given: Any) -> float:
        if isinstance(given, bool) or not isinstance(given, (int, float)) or not math.isfinite(given):
            self.refuse(f"a number is {given!r}: expected a finite one")
        return float(given)
