"""A layer as a Scan: one step of the cell's equations is its body.

What a step computes from the input alone (the products W x first of all) is computed for all steps at once, outside.
Functions of parameters are numbers. The body holds what depends on a state.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gatelab.export.network import Layer, Network
from gatelab.export.numpy_run import value as numpy_value
from gatelab.export.onnx_nodes import MAX_INT, Nodes
from gatelab.export.onnx_plan import EVERY_STEP, IN_TURN, ONCE, OPERATORS, labels, matrix_name, schedule, used_arguments
from gatelab.lang.graph import Graph, Matrix, Node, walk
from gatelab.lang.operations import CONDITIONS


def scan_layer(
    nodes: Nodes, network: Network, layer: Layer, prefix: str, x: str, states: list[str]
) -> tuple[str, list[str]]:
    """The outputs (B, T, H) of one layer and direction, and its new states (B, H); x is (B, T, D)."""
    return _Scan(nodes, network, layer, prefix, x, states).wired()


class _Scan:
    """Writes a layer: `outside` is the graph around the Scan, `body` one step."""

    def __init__(self, nodes: Nodes, network: Network, layer: Layer, prefix: str, x: str, states: list[str]) -> None:
        self.outside, self.body = nodes, Nodes(outer=nodes)
        self.network, self.layer, self.prefix, self.x = network, layer, prefix, x
        self.graph: Graph = network.graph
        self.labels, self.known = labels(self.graph), schedule(self.graph)
        self.first = dict(zip(self.graph.states, states, strict=True))
        self.new = dict(zip(self.graph.states, self.graph.new_states, strict=True))
        read = {node.name for node in self.known if node.op == "state"}
        in_turn = [state for state, node in self.new.items() if self.known[node] != EVERY_STEP]
        # A state that no equation reads is an output of the Scan only: tract refuses it as a state.
        self.recurrent = {
            s: nodes.unique(f"{prefix}.{s}") for s in in_turn if s in read or self.known[self.new[s]] == ONCE
        }
        self.scanned = [s for s in in_turn if s not in self.recurrent or s == self.graph.states[0]]
        self.values: dict[Node, str] = {}  # outside, or in the body for what is computed in turn
        self.numbers: dict[Node, Any] = {}  # of what is known from parameters
        self.slices: dict[str, str] = {}  # a value at every step → its name in the body
        self.conditions: set[str] = set()  # those of them that are true or false
        self.returned: list[str] = []  # the new states among the values of the body

    def wired(self) -> tuple[str, list[str]]:
        """The outputs, and the new states."""
        outputs, ends = self._scan() if self.recurrent else ({}, {})
        for state, node in self.new.items():
            if self.known[node] == EVERY_STEP:
                outputs[state] = self._value(node)
            if state not in ends:
                ends[state] = self._at_end(outputs[state], f"{self.prefix}.{state}_last")
        return outputs[self.graph.states[0]], [ends[state] for state in self.graph.states]

    def _scan(self) -> tuple[dict[str, str], dict[str, str]]:
        """The outputs (B, T, H) of some states, and the last value of those that recur."""
        prefix = self.prefix
        news = {state: self._new_state(state) for state in self.recurrent}
        outputs = [
            self.body.add("Identity", news.get(s) or self._in_body(self.new[s]), name=f"{prefix}.{s}_output")
            for s in self.scanned
        ]
        if not self.slices:  # a Scan needs something to scan, which gives it its number of steps
            self._slice(self.x)
        names = [f"{prefix}.{s}_last" for s in self.recurrent] + [f"{prefix}.{s}_outputs" for s in self.scanned]
        axes = {"scan_input_axes": [1] * len(self.slices), "scan_output_axes": [1] * len(self.scanned)}
        backwards = 0 if self.layer.direction == "fwd" else 1
        directions = {name.replace("axes", "directions"): [backwards] * len(each) for name, each in axes.items()}
        results = self.outside.add_several(
            "Scan",
            *(self.first[state] for state in self.recurrent),
            *self.slices,
            names=[self.outside.unique(name) for name in names],
            doc=self.network.cell.text(),
            body=self._body([*news.values(), *outputs]),
            num_scan_inputs=len(self.slices),
            **{name: each for name, each in {**axes, **directions}.items() if each},  # an empty list has no type
        )
        ends, sequences = results[: len(self.recurrent)], results[len(self.recurrent) :]
        return dict(zip(self.scanned, sequences, strict=True)), dict(zip(self.recurrent, ends, strict=True))

    def _body(self, outputs: list[str]) -> Any:
        helper, H, FLOAT = self.body.onnx.helper, self.network.hidden_size, self.body.onnx.TensorProto.FLOAT
        inputs = [helper.make_tensor_value_info(name, FLOAT, ["B", H]) for name in self.recurrent.values()]
        for value, name in self.slices.items():
            element = self.body.onnx.TensorProto.BOOL if value in self.conditions else FLOAT
            inputs.append(helper.make_tensor_value_info(name, element, ["B", None]))
        infos = [helper.make_tensor_value_info(name, FLOAT, ["B", H]) for name in outputs]
        return helper.make_graph(
            self.body.nodes, f"{self.prefix}.step", inputs, infos, doc_string=self.network.cell.text()
        )

    def _new_state(self, state: str) -> str:
        """An output of the body, under a name that no other output has."""
        node, name = self.new[state], f"{self.prefix}.{state}_next"
        value = self._in_body(node)
        if self.known[node] == ONCE:  # (H,), the same in every sequence
            shape = self.body.add("Shape", self.recurrent[state], name=f"{name}.Shape")
            return self.body.add("Expand", value, shape, name=name)
        computed = {output for each in self.body.nodes for output in each.output}
        is_own = value in computed and value not in self.returned
        self.returned.append(value if is_own else self.body.add("Identity", value, name=name))
        return self.returned[-1]

    def _in_body(self, node: Node) -> str:
        value = self._value(node)
        if node.op in CONDITIONS:
            self.conditions.add(value)
        return self._slice(value) if self.known[node] == EVERY_STEP else value

    def _slice(self, name: str) -> str:
        """The current step of a value that is known at every step, in the body."""
        if name not in self.slices:
            self.slices[name] = self.body.unique(f"{name}_t")
        return self.slices[name]

    def _value(self, node: Node) -> str:
        """The name of a value, whose nodes are added when it is first asked for."""
        if node not in self.values:
            if self.known[node] == ONCE:
                self.values[node] = self._initializer(node)
            elif node.op == "input":
                self.values[node] = self.x
            elif node.op == "state" and self.known[node] == EVERY_STEP:
                self.values[node] = self._delayed(node.name)
            elif node.op == "state":
                self.values[node] = self.recurrent[node.name]
            else:
                self.values[node] = self._computed(node)
        return self.values[node]

    def _computed(self, node: Node) -> str:
        place, read = (self.body, self._in_body) if self.known[node] == IN_TURN else (self.outside, self._value)
        args, name = [read(arg) for arg in used_arguments(node)], f"{self.prefix}.{self.labels[node]}"
        if node.op in ("itself", "surrogate", "stop_gradient"):  # the last two differ in the gradient only
            return args[0]
        attributes: dict[str, Any] = {}
        if node.op == "product":
            assert node.matrix is not None
            args.append(self._matrix(node.matrix))
        elif node.op == "power":
            args.append(place.constant(repr(node.value), node.value))
        elif node.op == "sum":
            args.append(place.integers(-1))
        elif node.op == "mean":
            attributes["axes"] = [-1]
        elif node.op == "softplus":
            return self._softplus(args[0], name, place)
        elif node.op == "clamp":
            args = [place.add("Max", *args[:2], name=f"{name}.Max"), args[2]]
        elif node.op == "step":
            args = [place.add("Greater", *args, place.constant("0.0", 0.0), name=f"{name}.Greater")]
            attributes["to"] = place.onnx.TensorProto.FLOAT
        return place.add(OPERATORS[node.op], *args, name=name, **attributes)

    def _softplus(self, value: str, name: str, place: Nodes) -> str:
        """softplus(min(a, 20)) + relu(a − 20), which is a beyond 20 as in torch: tract's Softplus overflows."""
        limit = place.constant("20.0", 20.0)
        below = place.add("Softplus", place.add("Min", value, limit, name=f"{name}.Min"), name=f"{name}.below")
        above = place.add("Relu", place.add("Sub", value, limit, name=f"{name}.Sub"), name=f"{name}.above")
        return place.add("Add", below, above, name=name)

    def _delayed(self, state: str) -> str:
        """A state that is a value of the step before: the values moved by a step, and the first state before them."""
        values, name, add = self._value(self.new[state]), f"{self.prefix}.{state}", self.outside.add
        first = add("Unsqueeze", self.first[state], self.outside.integers(1), name=f"{name}_before")
        backwards = self.layer.direction == "bwd"
        extended = add("Concat", *((values, first) if backwards else (first, values)), name=f"{name}_extended", axis=1)
        bounds = (1, MAX_INT, 1) if backwards else (0, -1, 1)
        return add("Slice", extended, *map(self.outside.integers, bounds), name=name)

    def _at_end(self, values: str, name: str) -> str:
        """The last step of (B, T, H), which is the first one backwards in time."""
        step = 0 if self.layer.direction == "bwd" else -1
        return self.outside.add("Gather", values, self.outside.index(step), name=name, axis=1)

    def _initializer(self, node: Node) -> str:
        """What is known from parameters, computed here: OpenVINO reads initializers in a Scan, but no other values."""
        zeros = np.zeros(self.network.hidden_size)
        for each in walk([node], operands=used_arguments):
            if each not in self.numbers:
                old = dict.fromkeys(self.graph.states, zeros)
                self.numbers[each] = numpy_value(each, self.numbers, self.layer, zeros, old)
        name = f"{self.prefix}.{self.labels.get(node, node.name)}"
        if node.op == "vector":
            name = f"{self.prefix}.b.{node.name}"
        elif node.op in ("constant", "full"):
            name = repr(node.value) if node.op == "constant" else f"full_{node.value!r}"
        dtype = np.bool_ if node.op in CONDITIONS else np.float32
        return self.outside.constant(name, self.numbers[node], dtype)

    def _matrix(self, matrix: Matrix) -> str:
        """A matrix as rows are multiplied by it: transposed, which its name says as a cell would."""
        name = matrix_name(self.graph, matrix)
        values = self.layer.matrices[matrix].T
        return self.outside.constant(f"{self.prefix}.{name}.T", values, doc=f"the transpose of {name}")
