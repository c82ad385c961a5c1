"""What a cell's function works on while it is traced: symbols that record each operation as a node."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Real
from typing import Any, NoReturn

import torch
from torch import Tensor
from torch.nn import functional

from gatelab.errors import CellError
from gatelab.lang.graph import POINTWISE, Matrix, Node, Shape, Weight
from gatelab.lang.maps import Map

OPERATIONS = "+ - * /, negation, powers by integers, sigmoid, tanh, relu, softplus, exp, sin, cos"

# torch's own functions and methods mean the same thing in a cell.
_METHODS = {"sigmoid", "tanh", "relu", "exp", "sin", "cos"}
_TORCH_NAMES: dict[Any, str] = {function: name for name, function in POINTWISE.items()}
_TORCH_NAMES |= {
    functional.relu: "relu",
    torch.multiply: "mul",
    torch.subtract: "sub",
    torch.divide: "div",
    torch.special.expit: "sigmoid",
}


class Tracer:
    """Makes nodes, each distinct one once, and notes which maps and vectors were asked for."""

    def __init__(self, input_name: str = "x") -> None:
        self._input_name = input_name
        self._nodes: dict[tuple[Any, ...], Node] = {}
        self.names: dict[str, list[str]] = {"W": [], "U": [], "b": []}

    def node(self, op: str, shape: Shape, args: tuple[Node, ...] = (), **detail: Any) -> Node:
        key = (op, args, *sorted(detail.items()))
        return self._nodes.setdefault(key, Node(op, shape, args, **detail))

    def leaf(self, op: str, shape: Shape, name: str) -> Symbol:
        return Symbol(self.node(op, shape, name=name), self)

    def pointwise(self, op: str, *values: Any, **detail: Any) -> Symbol:
        args = tuple(self._operand(value) for value in values)
        shape: Shape = "vector" if any(arg.shape == "vector" for arg in args) else "scalar"
        return Symbol(self.node(op, shape, args, **detail), self)

    def product(self, matrix: Matrix, argument: Any) -> Symbol:
        space = "W" if isinstance(matrix, Weight) and matrix.space == "W" else "U"
        shape = argument.node.shape if isinstance(argument, Symbol) else None
        if space == "W" and shape != "input":
            raise CellError(
                f"W maps the input, {self._input_name!r} (the cell's first parameter), and nothing else: "
                "write U.name(...) for a map of states and gates"
            )
        if space == "U" and shape != "vector":
            raise CellError("U maps a state or an expression of states and gates: write W.name(x) for the input")
        return Symbol(self.node("product", "vector", (argument.node,), matrix=matrix), self)

    def age(self, node: Node) -> int:
        """How many nodes were made before it."""
        return list(self._nodes.values()).index(node)

    def note(self, space: str, name: str) -> None:
        if name not in self.names[space]:
            self.names[space].append(name)

    def _operand(self, value: Any) -> Node:
        if isinstance(value, Symbol):
            if value.node.shape == "input":
                raise CellError("the input has D entries and everything else H: write W.name(x), not x alone")
            return value.node
        if isinstance(value, Map):
            raise CellError("a map has to be applied: write U.name(h) or W.name(x)")
        if isinstance(value, (Maps, Vectors)):
            raise CellError("W, U and b are families: name the one you mean, as in b.n, U.n(h), W.n(x)")
        if isinstance(value, Real):
            if not math.isfinite(value):
                raise CellError(f"the number {value!r}: an equation has finite ones")
            return self.node("constant", "scalar", value=float(value))
        raise CellError(
            f"a {type(value).__name__} is not a value of the language: "
            "use the input, states, W, U, b, the cell's options and plain numbers"
        )


class Maps:
    """`W` or `U` while tracing: any attribute is a linear map of that name."""

    def __init__(self, tracer: Tracer, space: str) -> None:
        self._tracer = tracer
        self._space = space

    def __getattr__(self, name: str) -> Map:
        _refuse_private(name)
        self._tracer.note(self._space, name)
        return Map(Weight(self._space, name), self._tracer.product)

    def __call__(self, *_: Any) -> NoReturn:
        raise CellError(f"{self._space} is a family of maps: name the one you mean, {self._space}.name(...)")


class Vectors:
    """`b` while tracing: any attribute is a vector of H numbers of that name."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def __getattr__(self, name: str) -> Symbol:
        _refuse_private(name)
        self._tracer.note("b", name)
        return self._tracer.leaf("vector", "vector", name)


def _refuse_private(name: str) -> None:
    if name.startswith("_"):  # Python's own questions (copying, inspection) are not parameters of the cell
        raise AttributeError(name)


def _refused(what: str, instead: str) -> Callable[..., NoReturn]:
    def refuse(self: Any, *_: Any) -> NoReturn:
        raise CellError(f"{what}: {instead}")

    return refuse


class Symbol:
    """A value that is not known yet. Arithmetic on it builds the graph; anything else is refused in words."""

    def __init__(self, node: Node, tracer: Tracer) -> None:
        self.node = node
        self.tracer = tracer

    def __add__(self, other: Any) -> Symbol:
        return self.tracer.pointwise("add", self, other)

    def __radd__(self, other: Any) -> Symbol:
        return self.tracer.pointwise("add", other, self)

    def __sub__(self, other: Any) -> Symbol:
        return self.tracer.pointwise("sub", self, other)

    def __rsub__(self, other: Any) -> Symbol:
        return self.tracer.pointwise("sub", other, self)

    # A map leaves the product with a number to its own side: gamma * I is a map.
    def __mul__(self, other: Any) -> Any:
        return NotImplemented if isinstance(other, Map) else self.tracer.pointwise("mul", self, other)

    def __rmul__(self, other: Any) -> Symbol:
        return self.tracer.pointwise("mul", other, self)

    def __truediv__(self, other: Any) -> Symbol:
        return self.tracer.pointwise("div", self, other)

    def __rtruediv__(self, other: Any) -> Symbol:
        return self.tracer.pointwise("div", other, self)

    def __neg__(self) -> Symbol:
        return self.tracer.pointwise("neg", self)

    def __pow__(self, exponent: Any) -> Symbol:
        if not isinstance(exponent, Real) or not float(exponent).is_integer():
            raise CellError("a power that is not a whole number: only powers by integers, such as h ** 2")
        return self.tracer.pointwise("power", self, value=float(exponent))

    __bool__ = _refused(
        "an `if`, `while`, `and` or `or` on a value that is only known at run time",
        "an equation holds for every unit at once; blend the two cases with a gate, g * a + (1 - g) * b",
    )
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refused(
        "a comparison of values that are only known at run time",
        "use relu(v) for what is above zero, or a steep sigmoid(k * v) for a switch",
    )
    __hash__ = object.__hash__
    __getitem__ = __len__ = __iter__ = _refused(
        "taking single entries of a vector",
        "equations hold for all units alike; use a vector b.name to tell them apart",
    )
    __matmul__ = __rmatmul__ = _refused("the operator @", "name the map and apply it: U.name(h)")
    __float__ = __int__ = __complex__ = _refused(
        "turning a value that is only known at run time into a number",
        f"use the language's own functions: {OPERATIONS}",
    )
    # On tensors these would change a state, or a parameter, for good.
    __iadd__ = __isub__ = __imul__ = __itruediv__ = __ipow__ = __imatmul__ = _refused(
        "an in-place operator", "write the new value out, h = h + n"
    )
    __array_ufunc__ = None  # numbers of NumPy are numbers here, its functions are refused

    def __getattr__(self, name: str) -> Callable[[], Symbol]:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in _METHODS:
            return lambda: self.tracer.pointwise(name, self)
        if self.node.op == "state":
            raise CellError(
                f"{self.node.name!r} is a state here, since only W, U and b are families of parameters. For a map "
                f"write U.{name}(h), for a vector b.{name} * c; the functions there are: {OPERATIONS}"
            )
        raise CellError(f".{name} is not in the language, which has: {OPERATIONS}")

    def __repr__(self) -> str:
        return f"<{self.node.op} {self.node.name}>" if self.node.name else f"<{self.node.op}>"

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = _TORCH_NAMES.get(function)
        tensors = any(isinstance(arg, Tensor) for arg in args)
        arity = 2 if name in ("add", "sub", "mul", "div") else 1
        if name is None or tensors or kwargs or name == "power" or len(args) != arity:
            called = getattr(function, "__name__", repr(function))
            if tensors:
                raise CellError(
                    "a tensor from outside: make it a parameter, b.name, or an option, `*, rate=learned(0.5)`"
                )
            how = " with these arguments" if name else ""
            raise CellError(f"torch's {called}{how} is not in the language, which has: {OPERATIONS}")
        symbol = next(arg for arg in args if isinstance(arg, Symbol))
        return symbol.tracer.pointwise(name, *args)
