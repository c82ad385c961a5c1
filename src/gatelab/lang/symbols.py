"""Symbolic values for tracing: each operation on them is recorded as a node."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from numbers import Real
from typing import Any, NoReturn

import torch
from torch import Tensor
from torch.nn import functional

from gatelab.errors import CellError
from gatelab.lang.graph import Matrix, Node, Shape, Weight
from gatelab.lang.maps import Map
from gatelab.lang.operations import CONDITIONS, POINTWISE
from gatelab.numerals import fits_float32

OPERATIONS = (
    "+ - * /, negation, powers by integers, sigmoid, hard_sigmoid, tanh, relu, softplus, exp, log, sqrt, sin, "
    "cos, abs, floor, step, maximum, minimum, clamp, where, surrogate, stop_gradient, prev, full, bernoulli, and over "
    "the units sum, mean, layer_norm, rms_norm"
)

MATRICES = "Matrix-valued states (mLSTM, Mamba, DeltaNet) are not in the language"

# torch functions and methods that a cell may use instead.
_METHODS = {"sigmoid", "tanh", "relu", "exp", "log", "sqrt", "sin", "cos", "abs", "floor"}
_TORCH_NAMES: dict[Any, str] = {operation.compute: name for name, operation in POINTWISE.items()}
_TORCH_NAMES |= {
    functional.relu: "relu",
    torch.multiply: "mul",
    torch.subtract: "sub",
    torch.divide: "div",
    torch.special.expit: "sigmoid",
}


# The tracer at work, for functions that may be called with numbers alone.
active: ContextVar[Tracer | None] = ContextVar("active", default=None)

MAX_DELAY = 100  # steps that `prev` may go back; each is a state


class Tracer:
    """Creates nodes, each distinct one once, and records which maps and vectors are used."""

    def __init__(self, input_name: str = "x") -> None:
        self._input_name = input_name
        self._nodes: dict[tuple[Any, ...], Node] = {}
        self.names: dict[str, list[str]] = {"W": [], "U": [], "b": []}

    def node(self, op: str, shape: Shape, args: tuple[Node, ...] = (), **detail: Any) -> Node:
        """The node with this operation and arguments, created on first use."""
        key = (op, args, *sorted(detail.items()))
        return self._nodes.setdefault(key, Node(op, shape, args, **detail))

    def leaf(self, op: str, shape: Shape, name: str) -> Symbol:
        """A named input, state, vector or scalar."""
        return Symbol(self.node(op, shape, name=name), self)

    def pointwise(self, op: str, *values: Any, **detail: Any) -> Symbol:
        """A pointwise operation on symbols and numbers."""
        args = tuple(self._operand(value) for value in values)
        return Symbol(self.node(op, widest(args), args, **detail), self)

    def compare(self, op: str, *values: Any) -> Condition:
        """A comparison of symbols and numbers."""
        return Condition(self.pointwise(op, *values).node, self)

    def where(self, condition: Any, *values: Any) -> Symbol:
        """A choice between two values, unit by unit."""
        if not isinstance(condition, Condition):
            raise CellError("where(condition, a, b) needs a comparison as its condition, as in where(h > 0, a, b)")
        args = (condition.node, *(self._operand(value) for value in values))
        if widest(args[1:]) == "scalar":  # on tensors their dtype would be unknown
            raise CellError(
                "where(condition, a, b) chooses between two numbers, and one of a and b has to be a vector: for a "
                "switch between numbers write a + (b - a) * step(v)"
            )
        return Symbol(self.node("where", widest(args), args), self)

    def reduction(self, op: str, value: Any) -> Symbol:
        """The sum or mean over the units of a vector."""
        node = self._operand(value)
        if node.shape != "vector":
            raise CellError(
                f"{op} is taken over the units of a vector: expected a state, a gate or an expression of them"
            )
        return Symbol(self.node(op, "row", (node,)), self)

    def prev(self, value: Any, delay: Any) -> Symbol:
        """The value of a vector some steps ago."""
        if isinstance(value, Symbol) and value.node.shape == "input":
            raise CellError("prev of the input: apply a map first, prev(W.name(x))")
        if type(delay) is not int or not 1 <= delay <= MAX_DELAY:
            raise CellError(f"prev goes back by {delay!r} steps: expected an integer from 1 to {MAX_DELAY}")
        node = self._operand(value)
        if node.shape != "vector":
            raise CellError(
                "prev applies to vectors: expected a state, a gate, a map of the input, or an expression of them"
            )
        return Symbol(self.node("prev", "vector", (node,), value=float(delay)), self)

    def product(self, matrix: Matrix, argument: Any) -> Symbol:
        """A matrix applied to the input (W) or to a vector (U)."""
        space = "W" if isinstance(matrix, Weight) and matrix.space == "W" else "U"
        shape = argument.node.shape if isinstance(argument, Symbol) else None
        if space == "W" and shape != "input":
            raise CellError(
                f"W applies to the input only, {self._input_name!r} (the cell's first parameter): "
                "write U.name(...) for states and gates"
            )
        if space == "U" and shape != "vector":
            raise CellError("U applies to states and expressions of states and gates: write W.name(x) for the input")
        return Symbol(self.node("product", "vector", (argument.node,), matrix=matrix), self)

    def random(self, probability: Any) -> Symbol:
        """A vector that is 1 with this probability, otherwise 0; a new one for each call."""
        node = self._operand(probability)
        if node.shape != "scalar":
            raise CellError("bernoulli(p) takes a number or a hyperparameter of the cell as its probability")
        number = sum(other.op == "random" for other in self._nodes.values())
        return Symbol(self.node("random", "vector", (node,), value=float(number)), self)

    def full(self, value: Any) -> Symbol:
        """A vector with the same number in all units."""
        node = self._operand(value)
        if node.op != "constant":
            raise CellError("full(v) takes a plain number: for a vector that is learned write b.name")
        return Symbol(self.node("full", "vector", value=node.value), self)

    def has(self, *ops: str) -> bool:
        """Whether one of these operations was used."""
        return any(node.op in ops for node in self._nodes.values())

    def age(self, node: Node) -> int:
        """The number of nodes created before this one."""
        return list(self._nodes.values()).index(node)

    def note(self, space: str, name: str) -> None:
        """Record that the cell uses W.name, U.name or b.name."""
        if name not in self.names[space]:
            self.names[space].append(name)

    def _operand(self, value: Any) -> Node:
        if isinstance(value, Symbol):
            return self.node("itself", "vector", (value.node,)) if value.node.shape == "input" else value.node
        if isinstance(value, Condition):
            raise CellError("a comparison is only the condition of where(condition, a, b): write where(h > 0, h, 0)")
        if isinstance(value, Map):
            raise CellError("a map has to be applied: write U.name(h) or W.name(x)")
        if isinstance(value, (Maps, Vectors)):
            raise CellError("W, U and b are namespaces: name a member, as in b.n, U.n(h), W.n(x)")
        if isinstance(value, Real):
            if not fits_float32(value):
                raise CellError(f"the number {value!r}: expected a finite one, in the range of float32")
            return self.node("constant", "scalar", value=float(value))
        raise CellError(
            f"a {type(value).__name__} is not supported in a cell: "
            "use the input, states, W, U, b, the cell's hyperparameters and plain numbers"
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
        """Not a map itself: always raises `CellError`."""
        raise CellError(f"{self._space} is a namespace of maps: name a member, {self._space}.name(...)")


class Vectors:
    """`b` while tracing: any attribute is a vector (H,) of that name."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def __getattr__(self, name: str) -> Symbol:
        _refuse_private(name)
        self._tracer.note("b", name)
        return self._tracer.leaf("vector", "vector", name)


def _refuse_private(name: str) -> None:
    if name.startswith("_"):  # looked up by Python itself (copying, inspection), not by the cell
        raise AttributeError(name)


def _refused(what: str, instead: str) -> Callable[..., NoReturn]:
    def refuse(self: Any, *_: Any) -> NoReturn:
        raise CellError(f"{what}: {instead}")

    return refuse


class Condition:
    """A comparison of symbolic values: the condition of `where`."""

    def __init__(self, node: Node, tracer: Tracer) -> None:
        self.node = node
        self.tracer = tracer

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return Symbol.__torch_function__(function, types, args, kwargs)

    __and__ = __or__ = __xor__ = __invert__ = __rand__ = __ror__ = _refused(
        "the combination of comparisons", "nest them, where(a > 0, where(b > 0, v, w), w)"
    )
    __bool__ = _refused(
        "an `if`, `while`, `and`, `or`, `min` or `max` on a value that is only known at run time",
        "equations apply to all units at once; write where(h > 0, a, b), minimum(a, b) or maximum(a, b)",
    )


def widest(args: tuple[Node, ...]) -> Shape:
    """The shape of a pointwise operation on these arguments."""
    shapes = {arg.shape for arg in args}
    return "vector" if "vector" in shapes else "row" if "row" in shapes else "scalar"


class Symbol:
    """A symbolic value. Arithmetic on it builds the graph; anything else raises `CellError`."""

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

    # gamma * I is a map: let Map.__rmul__ handle it.
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
            raise CellError("a non-integer exponent: expected an integer, as in h ** 2")
        return self.tracer.pointwise("power", self, value=float(exponent))

    def __abs__(self) -> Symbol:
        return self.tracer.pointwise("abs", self)

    def __gt__(self, other: Any) -> Condition:
        return self.tracer.compare("greater", self, other)

    def __ge__(self, other: Any) -> Condition:
        return self.tracer.compare("greater_equal", self, other)

    def __lt__(self, other: Any) -> Condition:
        return self.tracer.compare("greater", other, self)

    def __le__(self, other: Any) -> Condition:
        return self.tracer.compare("greater_equal", other, self)

    __bool__ = _refused(
        "an `if`, `while`, `and` or `or` on a value that is only known at run time",
        "equations apply to all units at once; write where(h > 0, a, b), or combine both cases with a gate",
    )
    __eq__ = __ne__ = _refused(
        "a test for equality of values that are only known at run time",
        "write where(abs(a - b) < 0.5, …) with a tolerance",
    )
    __mod__ = __rmod__ = _refused("the operator %", "write a - b * floor(a / b) for the remainder of a / b")
    __floordiv__ = __rfloordiv__ = _refused("the operator //", "write floor(a / b)")
    __floor__ = __round__ = __trunc__ = __ceil__ = _refused("rounding by Python", "write floor(v), or floor(v + 0.5)")
    __hash__ = object.__hash__
    __getitem__ = __len__ = __iter__ = _refused(
        "indexing a vector",
        "equations apply to all units alike; use a vector b.name to distinguish them",
    )
    __matmul__ = __rmatmul__ = _refused("the operator @", f"call a named map instead, U.name(h). {MATRICES}")
    __float__ = __int__ = __complex__ = _refused(
        "converting a value that is only known at run time into a number",
        f"use the functions of the language: {OPERATIONS}",
    )
    # On tensors these would modify a state or a parameter in place.
    __iadd__ = __isub__ = __imul__ = __itruediv__ = __ipow__ = __imatmul__ = _refused(
        "an in-place operator", "write the new value out, h = h + n"
    )
    __array_ufunc__ = None  # NumPy scalars are accepted, its functions are refused

    def __getattr__(self, name: str) -> Callable[[], Symbol]:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in _METHODS:
            return lambda: self.tracer.pointwise(name, self)
        if name in ("T", "mT", "transpose", "outer"):
            raise CellError(f".{name}: values are vectors of H units. {MATRICES}")
        if name in ("mean", "sum"):
            raise CellError(
                f".{name}() would include the whole batch: write {name}(v), over the units of each sequence"
            )
        if self.node.op == "state":
            raise CellError(
                f"{self.node.name!r} is a state, and .{name} is not in the language: only W, U and b are namespaces. "
                f"For a map write U.{name}(h), for a vector b.{name} * c; the operations are: {OPERATIONS}"
            )
        raise CellError(f".{name} is not in the language, which has: {OPERATIONS}")

    def __repr__(self) -> str:
        return f"<{self.node.op} {self.node.name}>" if self.node.name else f"<{self.node.op}>"

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = _TORCH_NAMES.get(function)
        tensors = any(isinstance(arg, Tensor) for arg in args)
        if name is None or tensors or kwargs or name == "power" or len(args) != POINTWISE[name].arguments:
            function_name = getattr(function, "__name__", repr(function))
            if tensors:
                raise CellError(
                    "a tensor from outside: use a parameter, b.name, or a hyperparameter, `*, rate=learned(0.5)`"
                )
            how = " with these arguments" if name else ""
            raise CellError(f"torch's {function_name}{how} is not in the language, which has: {OPERATIONS}")
        tracer = next(arg for arg in args if isinstance(arg, Symbol)).tracer
        if name in CONDITIONS:
            return tracer.compare(name, *args)
        return tracer.where(*args) if name == "where" else tracer.pointwise(name, *args)
