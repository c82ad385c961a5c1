"""Symbolic differentiation of a cell: the backward step as a graph in the same language.

An adjoint is the derivative of the loss with respect to a value. The backward step maps the adjoints of the new states
(leaves with the operation "adjoint") to those of the old states, of every product, and of the vectors and scalars. The
adjoint of a product's argument is a product with the transposed matrix. Nodes of the forward step appear unchanged; the
engine decides which of them to save and which to recompute.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gatelab.lang.graph import Graph, Matrix, Node, Transpose
from gatelab.lang.symbols import Condition, Symbol, Tracer


@dataclass(frozen=True)
class Gradient:
    """Adjoints of all values that the loss can depend on. Those of vectors are per row, of scalars per row and unit;
    the caller sums them.
    """

    states: dict[str, Node]
    products: dict[Node, Node]
    vectors: dict[str, Node]
    scalars: dict[str, Node]
    itself: Node | None  # of the input, where it is used without a map


# For y = op(a) or op(a, b) with adjoint A: the adjoints of the arguments. Where possible they are expressed in y, so
# that only y has to be saved.
_RULES: dict[str, Callable[..., tuple[Any, ...]]] = {
    "add": lambda A, y, a, b: (A, A),
    "sub": lambda A, y, a, b: (A, -A),
    "mul": lambda A, y, a, b: (A * b, A * a),
    "div": lambda A, y, a, b: (A / b, -(A * y / b)),
    "neg": lambda A, y, a: (-A,),
    "sigmoid": lambda A, y, a: (A * (y * (1 - y)),),
    "tanh": lambda A, y, a: (A * (1 - y * y),),
    "relu": lambda A, y, a: (A * y.tracer.pointwise("step", y),),
    "softplus": lambda A, y, a: (A * a.sigmoid(),),
    "exp": lambda A, y, a: (A * y,),
    "sin": lambda A, y, a: (A * a.cos(),),
    "cos": lambda A, y, a: (-(A * a.sin()),),
    "log": lambda A, y, a: (A / a,),
    "sqrt": lambda A, y, a: (A * 0.5 / y,),
    "abs": lambda A, y, a: (A * y.tracer.pointwise("sign", a),),
    # share(a, b) is 1 where a > b, 0 where a < b and 0.5 where they are equal
    "maximum": lambda A, y, a, b: (A * y.tracer.pointwise("share", a, b), A * y.tracer.pointwise("share", b, a)),
    "minimum": lambda A, y, a, b: (A * y.tracer.pointwise("share", b, a), A * y.tracer.pointwise("share", a, b)),
    "clamp": lambda A, y, a, low, high: (A * y.tracer.pointwise("within", a, low, high),),
    "where": lambda A, y, c, a, b: (None, _where(c, A, 0.0), _where(c, 0.0, A)),
    "surrogate": lambda A, y, a, b: (None, A),
    "sum": lambda A, y, a: (A,),
    "mean": lambda A, y, a: (A / _size(A),),
}
CONSTANT = ("step", "floor", "greater", "greater_equal", "stop_gradient", "random")  # no gradient passes through these


def gradient(graph: Graph, watched: bool = False) -> Gradient:
    """The backward step. `watched`: the gates are outputs too and have adjoints of their own."""
    tracer = Tracer()
    adjoints: dict[Node, Symbol] = {}

    def accumulate(node: Node, adjoint: Symbol) -> None:
        adjoint = _shaped(adjoint, node)
        adjoints[node] = adjoints[node] + adjoint if node in adjoints else adjoint

    for state, node in zip(graph.states, graph.new_states, strict=True):
        accumulate(node, tracer.leaf("adjoint", "vector", state))
    for gate, node in graph.gates.items() if watched else ():
        accumulate(node, tracer.leaf("gate_adjoint", "vector", gate))

    order = list(graph.nodes())
    for node in reversed(order):
        if node in adjoints:
            for arg, adjoint in zip(node.args, _argument_adjoints(tracer, node, adjoints[node]), strict=False):
                if adjoint is not None and arg.op != "constant":
                    accumulate(arg, adjoint)

    results = {node: symbol.node for node, symbol in adjoints.items()}

    def named(op: str) -> dict[str, Node]:
        return {node.name: results[node] for node in order if node.op == op and node in results}

    products = {node: results[node] for node in order if node.op == "product" and node in results}
    itself = next((results[node] for node in order if node.op == "itself" and node in results), None)
    return Gradient(named("state"), products, named("vector"), named("scalar"), itself)


def _argument_adjoints(tracer: Tracer, node: Node, adjoint: Symbol) -> tuple[Symbol | None, ...]:
    """The adjoints of a node's arguments. (Not of the input: its gradient is one product over all W.)"""
    if node.op in (*CONSTANT, "itself"):
        return ()
    args = [Symbol(arg, tracer) for arg in node.args]
    if node.op == "product":
        assert node.matrix is not None
        return () if node.args[0].shape == "input" else (_product(tracer, Transpose(node.matrix), adjoint),)
    if node.op == "power":
        n = int(node.value)
        lower = args[0] if n == 2 else args[0] ** (n - 1)
        return (adjoint * n * lower,) if n else (0 * adjoint,)
    return _RULES[node.op](adjoint, Symbol(node, tracer), *args) if node.args else ()


def _shaped(adjoint: Symbol, node: Node) -> Symbol:
    """An adjoint in the shape of its node: summed over the units for a row, repeated for a vector. That of a scalar is
    per unit, and a row is divided among them.
    """
    tracer, shape = adjoint.tracer, adjoint.node.shape
    if shape == "vector" and node.shape == "row":
        return tracer.reduction("sum", adjoint)
    if shape == "row" and node.shape != "row":
        share = adjoint / _size(adjoint) if node.shape == "scalar" else adjoint
        return Symbol(tracer.node("repeat", "vector", (share.node,)), tracer)
    return adjoint


def _where(condition: Symbol, a: Any, b: Any) -> Symbol:
    return condition.tracer.where(Condition(condition.node, condition.tracer), a, b)


def _size(symbol: Symbol) -> Symbol:
    return symbol.tracer.leaf("size", "scalar", "H")  # the number of units


def _product(tracer: Tracer, matrix: Matrix, argument: Symbol) -> Symbol:
    return Symbol(tracer.node("product", "vector", (argument.node,), matrix=matrix), tracer)
