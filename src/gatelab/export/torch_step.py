"""One step of a cell as Python on tensors that TorchScript takes as well: names, expressions, and lines of a width."""

from __future__ import annotations

import builtins
import keyword
import math
from collections.abc import Iterable

import torch
from torch import nn

from gatelab.export.torch_lines import folded
from gatelab.lang.graph import Graph, IdentityMatrix, Matrix, Node, Weight, walk, weights
from gatelab.lang.operations import CONDITIONS
from gatelab.lang.printing import ATOM, GREEK, PRODUCT, SUM, _normalized, _Python, _Text, text

ARITHMETIC = ("add", "sub", "mul", "div", "neg", "power")
LEAVES = ("input", "state", "vector", "scalar", "constant", "full", "itself", "product")

HELPERS = {
    "step": '''\
def step(v: Tensor) -> Tensor:
    """1 where v is positive, otherwise 0."""
    return (v > 0).to(v.dtype)''',
    "surrogate": '''\
def surrogate(value: Tensor, smooth: Tensor) -> Tensor:
    """The value, with the derivative of another function."""
    return value.detach() + (smooth - smooth.detach())''',
    "layer_norm": '''\
def layer_norm(v: Tensor) -> Tensor:
    """Normalize over the units: mean 0, variance 1."""
    centered = v - v.mean(-1, keepdim=True)
    return centered / torch.sqrt((centered * centered).mean(-1, keepdim=True) + 1e-5)''',
    "rms_norm": '''\
def rms_norm(v: Tensor) -> Tensor:
    """Normalize over the units: mean square 1."""
    return v / torch.sqrt((v * v).mean(-1, keepdim=True) + 1e-5)''',
}
IMPORTED = ("torch", "nn", "linear", "softplus", "one_hot", "Tensor", "Dict", "List", "Optional", "Tuple", "Path")
GLOBALS = (*IMPORTED, "load")


class Names:
    """Identifiers for Python and TorchScript, each given out once."""

    def __init__(self, *taken: Iterable[str]) -> None:
        self.taken = {name for names in taken for name in names}

    def new(self, wanted: str) -> str:
        """An identifier as close to the wanted name as possible. (TorchScript reads ASCII only.)"""
        letters = {greek: name.removesuffix("_") for name, greek in GREEK.items()}
        name = "".join(c if c.isascii() else letters.get(c, f"u{ord(c):x}") for c in wanted)
        if name.startswith("__"):  # Python would put the name of the class before it
            name = name.lstrip("_") or "value"
        while name in self.taken or keyword.iskeyword(name):
            name += "_"
        self.taken.add(name)
        return name


class Attributes:
    """What the tensors of a layer are called in its module, and which of them are learned."""

    def __init__(self, graph: Graph, given: Iterable[str], fixed: Iterable[str]) -> None:
        needed = set(graph.nodes(*graph.new_states))
        nodes = [node for node in graph.nodes() if node in needed]  # in the order of the equations
        names = Names(dir(nn.Module()), dir(torch.jit.ScriptModule), ("step", "training"))
        labels = {matrix: name for name, matrix in graph.maps.items()}
        self.matrices: dict[Matrix, str] = {}
        for matrix in dict.fromkeys(node.matrix for node in nodes if node.matrix is not None):
            self.matrices[matrix] = names.new(labels.get(matrix) or _matrix_name(matrix))
        vectors = dict.fromkeys(node.name for node in nodes if node.op == "vector")
        self.vectors = {name: names.new(f"b_{name}") for name in vectors}
        scalars = dict.fromkeys(node.name for node in nodes if node.op == "scalar")
        self.scalars = {name: names.new(name) for name in scalars}
        self.buffers = {own for name, own in self.vectors.items() if f"b.{name}" in given}
        self.buffers |= {own for name, own in self.scalars.items() if name in fixed}
        self.buffers |= {
            own for matrix, own in self.matrices.items() if all(f"{w.space}.{w.name}" in given for w in weights(matrix))
        }


def _matrix_name(matrix: Matrix) -> str:
    if isinstance(matrix, Weight):
        return f"{matrix.space}_{matrix.name}"
    if isinstance(matrix, IdentityMatrix):
        return "I"
    return "_".join(["A", *dict.fromkeys(weight.name for weight in weights(matrix))])


class TorchStep(_Python):
    """The step of a cell as a method of its layer."""

    functions = {
        name: f"torch.{name}"
        for name in ("sigmoid", "tanh", "relu", "exp", "log", "sqrt", "sin", "cos", "abs", "floor", "where")
    } | {"maximum": "torch.maximum", "minimum": "torch.minimum"}

    def __init__(self, graph: Graph, attributes: Attributes) -> None:
        self.attributes, self.used = attributes, set[str]()
        self.names = Names(GLOBALS, HELPERS, dir(builtins), ("self",))
        given = next((node.name for node in graph.nodes() if node.op == "input"), "x")
        self.input = self.names.new(given)
        self.states = {name: self.names.new(name) for name in graph.states}
        super().__init__(graph)

    @property
    def arguments(self) -> list[str]:
        """The names of the arguments: the input and the old states."""
        return [self.input, *self.states.values()]

    def lines(self) -> list[str]:
        """Assignments in topological order, and the return statement."""
        needed = set(walk(self.graph.new_states))
        nodes = [node for node in self.graph.nodes() if node in needed and node in self.labels]
        nodes.sort(key=lambda node: node.shape != "scalar")  # numbers first, otherwise the order is kept
        lines = [f"{self.labels[node]} = {self.expression(node, top=True)[0]}" for node in nodes]
        lines.append(f"return {', '.join(self._full(node) for node in self.graph.new_states)}")
        return [part for line in lines for part in folded(line)]

    def expression(self, node: Node, top: bool = False) -> tuple[str, int]:
        """The text of a node and its precedence."""
        if node in self.labels and not top:
            return self.labels[node], ATOM
        if (normalized := _normalized(node)) is not None:
            return self.called(normalized[0], self._vector(normalized[1])), ATOM
        if node.op in CONDITIONS:
            return self._compared(node.op, *node.args), SUM
        if node.op in (*ARITHMETIC, *LEAVES):
            return super().expression(node, top)
        if node.op == "stop_gradient":
            return self._method(node.args[0], "detach()"), ATOM
        if node.op in ("sum", "mean"):
            if _is_flat(node.args[0]) and not _is_number(node.args[0]):
                return f"{self._vector(node.args[0])}.{node.op}(-1, keepdim=True)", ATOM
            return self._method(node.args[0], f"{node.op}(-1, keepdim=True)"), ATOM
        if node.op in ("maximum", "minimum") and _is_number(node.args[1]):
            bound = "min" if node.op == "maximum" else "max"
            return f"torch.clamp({self._tensor(node.args[0])}, {bound}={self.expression(node.args[1])[0]})", ATOM
        if node.op == "clamp":  # its bounds are numbers
            inner = [self._tensor(node.args[0]), *(self.expression(bound)[0] for bound in node.args[1:])]
            return f"torch.clamp({', '.join(inner)})", ATOM
        if node.op == "where":
            return self._chosen(*node.args), ATOM
        return self.called(node.op, ", ".join(map(self._tensor, node.args))), ATOM

    def _method(self, node: Node, call: str) -> str:
        """A method of a node."""
        atomic = _is_number(node) or self.expression(node)[1] == ATOM
        return f"{self._tensor(node)}.{call}" if atomic else f"({self._tensor(node)}).{call}"

    def _compared(self, op: str, left: Node, right: Node) -> str:
        if _is_number(left) and not _is_number(right):  # v < 0 instead of 0 > v
            return f"{self.wrapped(right, PRODUCT)} {'<' if op == 'greater' else '<='} {self.wrapped(left, PRODUCT)}"
        own = self._tensor(left) if _is_number(left) else self.wrapped(left, PRODUCT)
        return f"{own} {self.comparison(op)} {self.wrapped(right, PRODUCT)}"

    def _chosen(self, condition: Node, yes: Node, no: Node) -> str:
        # torch.where takes numbers, but two of them would be no tensor of this precision.
        both = _is_number(yes) and _is_number(no)
        values = [self._tensor(yes) if both else self.expression(yes)[0], self.expression(no)[0]]
        return self.called("where", ", ".join([self.expression(condition)[0], *values]))

    def _tensor(self, node: Node) -> str:
        """A node as a tensor, even if it is a number."""
        own = self.expression(node)[0]
        return f"torch.full_like({self._like()}, {own})" if _is_number(node) else own

    def _vector(self, node: Node) -> str:
        """A node as a tensor with an axis of units."""
        if _is_flat(node) and not _is_number(node):
            return self._method(node, f"expand_as({self._like()})")
        return self._tensor(node)

    def _full(self, node: Node) -> str:
        """A node as a new state, (B, H)."""
        if _is_number(node) or (_is_batched(node) and not _is_one_per_sequence(node)):
            return self._tensor(node)
        return self._method(node, f"expand_as({self._like()})")

    def _like(self) -> str:
        return next(iter(self.states.values()))

    def applied(self, matrix: Matrix, node: Node) -> tuple[str, int]:
        """A product: the last axis is that of the features."""
        return f"linear({self._vector(node)}, self.{self.attributes.matrices[matrix]})", ATOM

    def matrix_comment(self, matrix: Matrix) -> str:
        """What a matrix expression is; nothing for a weight."""
        return "" if isinstance(matrix, Weight) else _Text(self.graph).matrix(matrix, top=True)

    def called(self, op: str, inner: str) -> str:
        """A function of torch, or one of the helpers, which are written into the file then."""
        self.used.add(op)
        return super().called(op, inner)

    def leaf(self, node: Node) -> str:
        """A tensor of the layer, the input or an old state."""
        if node.op == "vector":
            return f"self.{self.attributes.vectors[node.name]}"
        if node.op == "scalar":
            return f"self.{self.attributes.scalars[node.name]}"
        return self.states[node.name] if node.op == "state" else self.input

    def wrapped(self, node: Node, at_least: int) -> str:
        """An operand; whole numbers are written as such."""
        if node.op in ("constant", "full") and node not in self.labels and 0 <= node.value < 1e6:
            return f"{node.value:.0f}" if node.value.is_integer() else repr(node.value)
        return super().wrapped(node, at_least)

    def number(self, value: float) -> str:
        """A number of Python."""
        return repr(value) if math.isfinite(value) else f"float('{value}')"

    def filled(self, value: float) -> str:
        """A vector of one number: the number, where it is broadcast."""
        return self.number(value)

    def name(self, name: str) -> str:
        """A named value."""
        return self.names.new(name)

    def repeated(self, number: int) -> str:
        """A long expression that is used more than once."""
        return self.names.new(f"a{number}")

    def new_state(self, name: str) -> str:
        """The value of a state after the step."""
        return self.names.new(f"new_{name}")


def _is_number(node: Node) -> bool:
    """Whether a node is a number of Python in the text, not a tensor."""
    return node.op in ("constant", "full") or (node.op in ARITHMETIC and all(map(_is_number, node.args)))


def _is_flat(node: Node) -> bool:
    """Whether a node is one number, as a tensor or in Python."""
    if node.op in ("input", "state", "vector", "product", "sum", "mean"):
        return False
    return all(map(_is_flat, node.args))


def _is_one_per_sequence(node: Node) -> bool:
    """Whether a node is one number per sequence, also where it stands for a vector: a sum times a full vector."""
    if node.op in ("sum", "mean"):
        return True
    if node.op in ("input", "state", "vector", "product"):
        return False
    return all(map(_is_one_per_sequence, node.args))


def _is_batched(node: Node) -> bool:
    """Whether a node has a value per sequence."""
    return any(each.op in ("input", "state") for each in walk([node]))


def equations(graph: Graph) -> list[str]:
    """The equations for a docstring."""
    return text(graph).replace("\\", "\\\\").splitlines()
