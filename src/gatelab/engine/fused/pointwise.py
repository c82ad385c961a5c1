"""The C++ of one pointwise pass over the units of a row: each value computed once, named as in the equations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from gatelab.engine.fused.phases import LEAVES, LinearSum, Program, parameters_only
from gatelab.lang.graph import Node, walk

OPERATORS = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
FUNCTIONS = {"abs": "absolute", "repeat": "all"}  # operations that have another name in the runtime

Load = Callable[[Node], str | None]
Column = Callable[[LinearSum], str]


class Pass:
    """Collects the statements of a pass: `row_lines` once per row, `lines` for the units. `load` returns the C++ that
    reads a value, or None if it must be computed.
    """

    vector_type, number_type = "const V", "const float"  # of a value for each unit, and of one for all of them

    def __init__(
        self, program: Program, starts: list[Node], load: Load, column: Column, names: Mapping[Node, str]
    ) -> None:
        self._program, self._load, self._column, self._names = program, load, column, names
        self._known: dict[Node, str] = {}
        self.lines: list[str] = []
        self.row_lines: list[str] = []
        needed = list(walk(starts, (), self._operands))
        self._uses = Counter(arg for node in needed for arg in self._operands(node))
        self._uses.update(starts)

    def value(self, node: Node) -> str:
        """The C++ expression of a node; a value that is used more than once first gets a statement and a name."""
        if node in self._known:
            return self._known[node]
        expression = self._load(node) or self._computed(node)
        if node.shape == "row":
            name = f"r{len(self._known)}"
            self.row_lines.append(f"{self.number_type} {name} = {stripped(expression)};")
            expression = name
        is_number = (
            node.shape == "row"
            or node.op in ("scalar", "constant")
            or (node.shape == "scalar" and parameters_only(node))
        )
        if not is_number and (self._uses[node] > 1 or node in self._names):
            name = self._names.get(node) or f"v{len(self._known)}"
            self.lines.append(f"{self.vector_type} {name} = {stripped(expression)};")
            expression = name
        self._known[node] = expression
        return expression

    def _operands(self, node: Node) -> tuple[Node, ...]:
        return () if self._load(node) else self._program.operands(node)

    def _computed(self, node: Node) -> str:
        args = [self.value(arg) for arg in self._program.operands(node)]
        if linear := self._program.linear_of(node):
            return f"({' + '.join([self._column(linear), *args])})" if args else self._column(linear)
        return self.operation(node, args)

    def operation(self, node: Node, args: list[str]) -> str:
        """The text of one pointwise operation."""
        return operation(node, args)


def operation(node: Node, args: list[str]) -> str:
    """The C++ of one pointwise operation."""
    if node.op == "div" and node.shape == "vector" and node.args[1].shape == "row":
        return f"({args[0]} * (1.0f / {args[1]}))"  # one division for all units, as in a normalization
    if node.op in OPERATORS:
        return f"({args[0]} {OPERATORS[node.op]} {args[1]})"
    if node.op == "neg":
        return f"(-{args[0]})"
    if node.op == "stop_gradient":
        return args[0]
    if node.op == "surrogate":
        return args[0] if node.args[0].shape == node.shape else f"all({stripped(args[0])})"
    if node.op == "power":
        return f"power({stripped(args[0])}, {int(node.value)})"
    assert node.op not in LEAVES, f"{node.op} {node.name} is a leaf that `load` does not know"
    mixed = len({arg.shape for arg in node.args}) > 1 and node.shape == "vector"
    listed = [
        f"all({stripped(arg)})" if mixed and of.shape != "vector" else stripped(arg)
        for arg, of in zip(args, node.args, strict=True)
    ]
    return f"{FUNCTIONS.get(node.op, node.op)}({', '.join(listed)})"


def literal(value: float) -> str:
    """A C++ float literal, in parentheses if it is negative."""
    return f"{value!r}f" if value >= 0 else f"({value!r}f)"


def stripped(expression: str) -> str:
    """Removes parentheses that enclose the whole expression."""
    if not expression.startswith("("):
        return expression
    depth = 0
    for i, character in enumerate(expression):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return expression[1:-1] if i == len(expression) - 1 else expression
    return expression
