"""A layer as a Scan: one step of the cell's equations is its body.

What a step computes from the input alone (the products W x first of all) is computed for all steps at once, outside;
so are functions of parameters. The body holds what depends on a state.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gatelab.export.network import Layer, Network
from gatelab.export.onnx_nodes import Nodes
from gatelab.lang.graph import Graph, Matrix, Node, Weight, walk, weights

OPERATORS = {
    "add": "Add",
    "sub": "Sub",
    "mul": "Mul",
    "div": "Div",
    "neg": "Neg",
    "power": "Pow",
    "sigmoid": "Sigmoid",
    "tanh": "Tanh",
    "relu": "Relu",
    "softplus": "Softplus",
    "exp": "Exp",
    "log": "Log",
    "sqrt": "Sqrt",
    "sin": "Sin",
    "cos": "Cos",
    "abs": "Abs",
    "floor": "Floor",
    "maximum": "Max",
    "minimum": "Min",
    "greater": "Greater",
    "greater_equal": "GreaterOrEqual",
    "where": "Where",
    "product": "MatMul",
    "sum": "ReduceSum",
    "mean": "ReduceMean",
    "step": "Cast",
    "clamp": "Min",
}
ONCE, EVERY_STEP, IN_TURN = range(3)  # when a value is known: from parameters, from the input, from states


def scan_layer(
    nodes: Nodes, network: Network, layer: Layer, prefix: str, x: str, states: list[str]
) -> tuple[str, list[str]]:
    """The outputs (B, T, H) of one layer and direction, and its new states (B, H); x is (B, T, D)."""
    return _Scan(nodes, network, layer, prefix, x).wired(states)


class _Scan:
    def __init__(self, nodes: Nodes, network: Network, layer: Layer, prefix: str, x: str) -> None:
        self.outside, self.body = nodes, Nodes(outer=nodes)
        self.network, self.layer, self.prefix, self.x = network, layer, prefix, x
        self.graph: Graph = network.graph
        self.labels = labels(self.graph)
        self.known: dict[Node, int] = {}
        self.values: dict[Node, str] = {}  # outside, or in the body for what is computed in turn
        self.slices: dict[str, str] = {}  # a value at every step → its name in the body
        self.olds = {state: nodes.unique(f"{prefix}.{state}") for state in self.graph.states}

    def wired(self, states: list[str]) -> tuple[str, list[str]]:
        for node in walk(self.graph.new_states, operands=_operands):
            self.known[node] = self._when(node)
            self.values[node] = self._value(node)
        news = [self._new_state(s, node) for s, node in zip(self.graph.states, self.graph.new_states, strict=True)]
        output = self.body.add("Identity", news[0], name=f"{self.prefix}.output_t")
        if not self.slices:  # a Scan needs something to scan, which gives it its number of steps
            self._slice(self.x)
        body = self._body([*news, output])
        names = [self.outside.unique(f"{self.prefix}.{name}") for name in (*(f"{s}_last" for s in self.graph.states), "output")]
        direction = 0 if self.layer.direction == "fwd" else 1
        *ends, outputs = self.outside.add_several(
            "Scan",
            *states,
            *self.slices,
            names=names,
            doc=self.network.cell.text(),
            body=body,
            num_scan_inputs=len(self.slices),
            scan_input_axes=[1] * len(self.slices),
            scan_input_directions=[direction] * len(self.slices),
            scan_output_axes=[1],
            scan_output_directions=[direction],
        )
        return outputs, ends

    def _body(self, outputs: list[str]) -> Any:
        helper, H = self.body.onnx.helper, self.network.hidden_size

        def info(name: str, size: int | None = H) -> Any:
            return helper.make_tensor_value_info(name, self.body.onnx.TensorProto.FLOAT, ["B", size])

        inputs = [*map(info, self.olds.values()), *(info(name, None) for name in self.slices.values())]
        return helper.make_graph(
            self.body.nodes, f"{self.prefix}.step", inputs, list(map(info, outputs)), doc_string=self.network.cell.text()
        )

    def _new_state(self, state: str, node: Node) -> str:
        """An output of the body, under a name that no other output has."""
        name, value = f"{self.prefix}.{state}_next", self._read(node, self.body)
        if self.known[node] == ONCE:  # (H,), and the same in every sequence
            shape = self.body.add("Shape", self.olds[state], name=f"{name}.Shape")
            return self.body.add("Expand", value, shape, name=name)
        return self.body.add("Identity", value, name=name)

    def _when(self, node: Node) -> int:
        if node.op == "state":
            return IN_TURN
        return EVERY_STEP if node.op == "input" else max((self.known[arg] for arg in _operands(node)), default=ONCE)

    def _slice(self, name: str) -> str:
        """The current step of a value that is known at every step, in the body."""
        if name not in self.slices:
            self.slices[name] = self.body.unique(f"{name}_t")
        return self.slices[name]

    def _read(self, node: Node, place: Nodes) -> str:
        value = self.values[node]
        return self._slice(value) if place is self.body and self.known[node] == EVERY_STEP else value

    def _value(self, node: Node) -> str:
        place = self.body if self.known[node] == IN_TURN else self.outside
        if not node.args:
            return self._leaf(node)
        args, name = [self._read(arg, place) for arg in _operands(node)], f"{self.prefix}.{self.labels[node]}"
        if node.op == "product":
            assert node.matrix is not None
            args.append(self._matrix(node.matrix))
        elif node.op == "power":
            args.append(self._number(node.value))
        elif node.op == "sum":
            args.append(place.integers(-1))
        elif node.op == "step":
            args = [place.add("Greater", args[0], self._number(0.0), name=f"{name}.Greater")]
        elif node.op == "clamp":
            args = [place.add("Max", *args[:2], name=f"{name}.Max"), args[2]]
        value = self._applied(node, args, name, place)
        if node.shape == "vector" and all(arg.shape == "scalar" for arg in node.args):
            return place.add("Expand", value, place.integers(self.network.hidden_size), name=f"{name}.Expand")
        return value

    def _applied(self, node: Node, args: list[str], name: str, place: Nodes) -> str:
        if node.op in ("itself", "surrogate", "stop_gradient"):  # the last two differ in the gradient only
            return args[0]
        attributes: dict[str, Any] = {}
        if node.op == "step":
            attributes["to"] = place.onnx.TensorProto.FLOAT
        elif node.op == "mean":
            attributes["axes"] = [-1]
        return place.add(OPERATORS[node.op], *args, name=name, **attributes)

    def _leaf(self, node: Node) -> str:
        if node.op == "input":
            return self.x
        if node.op == "state":
            return self.olds[node.name]
        if node.op == "vector":
            return self.outside.constant(f"{self.prefix}.b.{node.name}", self.layer.vectors[node.name])
        if node.op == "scalar":
            return self.outside.constant(f"{self.prefix}.{node.name}", self.layer.scalars[node.name])
        if node.op == "full":
            return self.outside.constant(f"full_{node.value!r}", np.full(self.network.hidden_size, node.value))
        return self._number(node.value)

    def _number(self, value: float) -> str:
        return self.outside.constant(repr(value), value)

    def _matrix(self, matrix: Matrix) -> str:
        """A matrix as rows are multiplied by it: transposed, which its name says as a cell would."""
        name = matrix_name(self.graph, matrix)
        values = self.layer.matrices[matrix].T
        return self.outside.constant(f"{self.prefix}.{name}.T", values, doc=f"{name}, transposed: {values.shape}")


def _operands(node: Node) -> tuple[Node, ...]:
    """The arguments whose values count: a surrogate's second one is for its gradient."""
    return node.args[:1] if node.op == "surrogate" else node.args


def matrix_name(graph: Graph, matrix: Matrix) -> str:
    """W.z, the name of a matrix expression, or the matrices in it."""
    if isinstance(matrix, Weight):
        return f"{matrix.space}.{matrix.name}"
    named = {each: name for name, each in graph.maps.items()}
    inner = dict.fromkeys(f"{weight.space}.{weight.name}" for weight in weights(matrix))
    return named.get(matrix) or f"matrix({', '.join(inner)})"


def labels(graph: Graph) -> dict[Node, str]:
    """A name for every value that is computed: z, U.z(h), and z.Add for an unnamed step on the way to z."""
    named = {**graph.numbers, **graph.gates}
    own = {node: name for name, node in named.items() if node.args}
    for state, node in zip(graph.states, graph.new_states, strict=True):
        if node.args:
            own.setdefault(node, f"{state}_new")
    result: dict[Node, str] = {}
    for root, name in own.items():
        for node in walk([root]):
            if node.matrix is not None:
                argument = result.get(node.args[0]) or node.args[0].name
                result.setdefault(node, own.get(node, f"{matrix_name(graph, node.matrix)}({argument})"))
            elif node.args:
                result.setdefault(node, own.get(node, f"{name}.{OPERATORS.get(node.op, node.op)}"))
    return result
