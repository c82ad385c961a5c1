"""The gradient of a cell: one step backwards, derived from its graph, and a graph in the same language.

An adjoint is the derivative of the loss with respect to a value. The step backwards takes the adjoints of the new
states (leaves of the operation "adjoint") and gives those of the old states, of every product, and of the vectors and
scalars. The adjoint of a product's argument is again a product, with the transposed matrix. Values of the forward step
appear as they are; whoever runs the gradient decides which to keep and which to compute again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gatelab.lang.graph import Graph, Matrix, Node, Transpose
from gatelab.lang.symbols import Symbol, Tracer


@dataclass(frozen=True)
class Gradient:
    """Adjoints; what the loss cannot depend on is left out. Those of vectors and scalars are per row and unit: to be
    summed over what they are shared by.
    """

    states: dict[str, Node]
    products: dict[Node, Node]
    vectors: dict[str, Node]
    scalars: dict[str, Node]


# For y = op(a) or op(a, b) with adjoint A: the adjoints of the arguments. Where the derivative can be had from y
# itself, it is, so that only y need be kept.
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
    """The step backwards. `watched`: the gates were returned too, so they have adjoints of their own."""
    tracer = Tracer()
    adjoints: dict[Node, Symbol] = {}

    def give(node: Node, adjoint: Symbol) -> None:
        adjoints[node] = adjoints[node] + adjoint if node in adjoints else adjoint

    for state, node in zip(graph.states, graph.new_states, strict=True):
        give(node, tracer.leaf("adjoint", "vector", state))
    for gate, node in graph.gates.items() if watched else ():
        give(node, tracer.leaf("gate_adjoint", "vector", gate))

    order = list(graph.nodes())
    for node in reversed(order):
        if node in adjoints:
            for arg, adjoint in zip(node.args, _backwards(tracer, node, adjoints[node]), strict=False):
                give(arg, adjoint)

    found = {node: symbol.node for node, symbol in adjoints.items()}

    def named(op: str) -> dict[str, Node]:
        return {node.name: found[node] for node in order if node.op == op and node in found}

    products = {node: found[node] for node in order if node.op == "product" and node in found}
    return Gradient(named("state"), products, named("vector"), named("scalar"))


def _backwards(tracer: Tracer, node: Node, adjoint: Symbol) -> tuple[Symbol, ...]:
    """The adjoints of a node's arguments. (The input's are not formed here: they are one product over all maps W.)"""
    args = [Symbol(arg, tracer) for arg in node.args]
    if node.op == "product":
        assert node.matrix is not None
        return () if node.args[0].shape == "input" else (_product(tracer, Transpose(node.matrix), adjoint),)
    if node.op == "power":
        n = int(node.value)
        below = args[0] if n == 2 else args[0] ** (n - 1)
        return (adjoint * n * below,) if n else (0 * adjoint,)
    return _RULES[node.op](adjoint, Symbol(node, tracer), *args) if node.args else ()


def _product(tracer: Tracer, matrix: Matrix, argument: Symbol) -> Symbol:
    return Symbol(tracer.node("product", "vector", (argument.node,), matrix=matrix), tracer)
