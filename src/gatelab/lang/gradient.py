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
from gatelab.lang.symbols import Symbol, Tracer


@dataclass(frozen=True)
class Gradient:
    """Adjoints of all values that the loss can depend on. Those of vectors are per row, of scalars per row and unit;
    the caller sums them.
    """

    states: dict[str, Node]
    products: dict[Node, Node]
    vectors: dict[str, Node]
    scalars: dict[str, Node]


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
    "relu": lambda A, y, a: (A * y.tracer.pointwise("positive", y),),  # 1 where y > 0, else 0
    "softplus": lambda A, y, a: (A * a.sigmoid(),),
    "exp": lambda A, y, a: (A * y,),
    "sin": lambda A, y, a: (A * a.cos(),),
    "cos": lambda A, y, a: (-(A * a.sin()),),
}


def gradient(graph: Graph, watched: bool = False) -> Gradient:
    """The backward step. `watched`: the gates are outputs too and have adjoints of their own."""
    tracer = Tracer()
    adjoints: dict[Node, Symbol] = {}

    def accumulate(node: Node, adjoint: Symbol) -> None:
        adjoints[node] = adjoints[node] + adjoint if node in adjoints else adjoint

    for state, node in zip(graph.states, graph.new_states, strict=True):
        accumulate(node, tracer.leaf("adjoint", "vector", state))
    for gate, node in graph.gates.items() if watched else ():
        accumulate(node, tracer.leaf("gate_adjoint", "vector", gate))

    order = list(graph.nodes())
    for node in reversed(order):
        if node in adjoints:
            for arg, adjoint in zip(node.args, _argument_adjoints(tracer, node, adjoints[node]), strict=False):
                accumulate(arg, adjoint)

    results = {node: symbol.node for node, symbol in adjoints.items()}

    def named(op: str) -> dict[str, Node]:
        return {node.name: results[node] for node in order if node.op == op and node in results}

    products = {node: results[node] for node in order if node.op == "product" and node in results}
    return Gradient(named("state"), products, named("vector"), named("scalar"))


def _argument_adjoints(tracer: Tracer, node: Node, adjoint: Symbol) -> tuple[Symbol, ...]:
    """The adjoints of a node's arguments. (Not of the input: its gradient is one product over all W.)"""
    args = [Symbol(arg, tracer) for arg in node.args]
    if node.op == "product":
        assert node.matrix is not None
        return () if node.args[0].shape == "input" else (_product(tracer, Transpose(node.matrix), adjoint),)
    if node.op == "power":
        n = int(node.value)
        lower = args[0] if n == 2 else args[0] ** (n - 1)
        return (adjoint * n * lower,) if n else (0 * adjoint,)
    return _RULES[node.op](adjoint, Symbol(node, tracer), *args) if node.args else ()


def _product(tracer: Tracer, matrix: Matrix, argument: Symbol) -> Symbol:
    return Symbol(tracer.node("product", "vector", (argument.node,), matrix=matrix), tracer)
