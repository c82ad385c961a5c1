"""The JavaScript of a layer: its step forwards, and the derived step backwards. All layers have the same equations."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np

from gatelab.engine.fused.kernel_source import matrix_name
from gatelab.engine.fused.phases import Program, saved_activations
from gatelab.export.clampable import clampable
from gatelab.export.js_text import SYNTAX, data, indented
from gatelab.export.loops import Loops, Product, claimed, value_names
from gatelab.export.network import Layer, Network
from gatelab.lang.gradient import gradient
from gatelab.lang.graph import Matrix, Node, Transpose, Weight

PER_LINE = 4  # declarations
INPUT = "x, xAt"  # the array, and where a step's input begins in it


class JsLayers:
    """The functions `forwardStep` and `backwardStep`, each of which prepares a layer's weights and returns its step.

    Arrays hold the values of all steps, one row of H numbers per step. States have one row more: a step reads a row of
    each state and writes the one after it, or before it in the backward direction.
    """

    def __init__(self, network: Network) -> None:
        self.network, self.H = network, network.hidden_size
        self.clampable = clampable(network.cell)
        self.graph = self.clampable.graph
        self.gradient = gradient(self.graph)
        self.input_products = [p for p in self.gradient.products if p.args[0].op == "input"]
        self._name_arrays()
        self._name_matrices()
        self._schedule()

    def _name_arrays(self) -> None:
        taken: set[str] = set()
        graph = self.graph
        self.states = {state: claimed(f"state_{state}", taken) for state in graph.states}
        self.adjoints = {state: claimed(f"d_{state}", taken) for state in graph.states}
        self.gates = {gate: claimed(f"gate_{gate}", taken) for gate in graph.gates}
        self.clamp_arrays: dict[str, str] = {}  # leaf → array
        for name, clamp in self.clampable.clamps.items():
            self.clamp_arrays[clamp.on.name] = claimed(f"on_{name}", taken)
            self.clamp_arrays[clamp.to.name] = claimed(f"to_{name}", taken)
        self.names = value_names(graph, taken)
        for name, node in self.clampable.free.items():
            if node.args and node not in self.names:
                self.names[node] = claimed(f"free_{name}", taken)
        for product, adjoint in self.gradient.products.items():
            if adjoint.args and adjoint not in self.names and product.matrix is not None:
                self.names[adjoint] = claimed(f"d_{matrix_name(product.matrix)}", taken)

    def _name_matrices(self) -> None:
        """The names of matrices among the weights; those of expressions may be alike."""
        self.matrices: dict[Matrix, str] = {}
        for matrix in self.graph.matrices:
            name = f"{matrix.space}.{matrix.name}" if isinstance(matrix, Weight) else matrix_name(matrix)
            while name in self.matrices.values():
                name += "_"
            self.matrices[matrix] = name

    def _schedule(self) -> None:
        graph, adjoints = self.graph, self.gradient
        results: dict[Node, list[str]] = {}  # of the backward step
        for state, node in adjoints.states.items():
            if state in self.states:
                results.setdefault(node, []).append(f"{self.adjoints[state]}[from + j]")
        for number, product in enumerate(self.input_products):
            offset = f"{number * self.H} + " if number else ""
            results.setdefault(adjoints.products[product], []).append(f"inputAdjoints[{offset}j]")
        if adjoints.itself is not None:
            results.setdefault(adjoints.itself, []).append("itselfAdjoint[j]")
        saved = saved_activations(graph, results)
        self.places = {node: f"{self.gates[name]}[at" for name, node in graph.gates.items()}
        self.places |= {
            node: f"{self.states[state]}[to" for state, node in zip(graph.states, graph.new_states, strict=True)
        }
        self.saved = [node for node in saved if node not in self.places]
        self.places |= {node: f"saved{i}[at" for i, node in enumerate(self.saved)}
        self.forward = self._loops(Program(list(self.places)), self._forward_results())
        self.backward = self._loops(Program(list(results), set(saved)), results)

    def _forward_results(self) -> dict[Node, list[str]]:
        """Where values go. One with several names is stored under each of them."""
        results: dict[Node, list[str]] = {}
        for name, node in self.graph.gates.items():
            results.setdefault(node, []).append(f"{self.gates[name]}[at + j]")
        for state, node in zip(self.graph.states, self.graph.new_states, strict=True):
            results.setdefault(node, []).append(f"{self.states[state]}[to + j]")
        for node in self.saved:
            results.setdefault(node, []).append(f"{self.places[node]} + j]")
        return results

    def _loops(self, program: Program, results: dict[Node, list[str]]) -> Loops:
        def leaf(node: Node) -> str | None:
            if node in program.available:  # a row is the same for all units
                return f"{self.places[node]}]" if node.shape == "row" else f"{self.places[node]} + j]"
            if node.op == "adjoint":
                return f"{self.adjoints[node.name]}[to + j]"
            if node.op == "state" and node.name in self.clamp_arrays:
                return f"{self.clamp_arrays[node.name]}[j]"
            if node.op == "state":
                return f"{self.states[node.name]}[from + j]"
            return "x[xAt + j]" if node.op == "itself" else None

        def operand(node: Node) -> str | None:
            if node in program.available:
                return self.places[node].replace("[", ", ")
            if node.op == "state":
                return f"{self.states[node.name]}, from"
            return INPUT if node.op == "input" else None

        return Loops(program, SYNTAX, self.H, leaf=leaf, operand=operand, results=results, names=self.names)

    # ---- the weights ------------------------------------------------------------------------------------------------

    def float32(self, layer: Layer) -> dict[str, np.ndarray]:
        """The weights of a layer by name: W.z, U.z, b.z."""
        named = {name: layer.matrices[matrix] for matrix, name in self.matrices.items()}
        return named | {f"b.{name}": vector for name, vector in layer.vectors.items()}

    def float64(self, layer: Layer) -> dict[str, np.ndarray]:
        """Hyperparameters, and values that follow from parameters alone."""
        named = {scalar: np.array(value) for scalar, value in layer.scalars.items()}
        for name, loops in (("forward", self.forward), ("backward", self.backward)):
            named |= {f"{name}.{own}": value for own, value in loops.fixed_values(layer).items()}
        return named

    # ---- the text ---------------------------------------------------------------------------------------------------

    def text(self) -> str:
        """Both functions."""
        return f"{self._forward_text()}\n\n{self._backward_text()}"

    def _forward_text(self) -> str:
        lines = self.forward.lines()
        prepares, arguments = "parameter, inputs, clamps, isSparse", "x, xAt, record, at, from, to"
        what = "One step: reads x at xAt and the states at `from`, writes the new states at `to`, all else at `at`."
        return self._function("forward", what, prepares, arguments, self.forward, lines, [])

    def _backward_text(self) -> str:
        count, lines, prepared = len(self.input_products), self.backward.lines(), []
        if count:
            matrices = ", ".join(self._matrix(p.matrix) for p in self.input_products if p.matrix is not None)
            prepared.append(f"const inputAdjoints = new Float64Array({count * self.H});")
            prepared.append(f"const toInput = packed({count * self.H}, [transposed(joined([{matrices}]), inputs)]);")
            lines.append("multiply(dx, xAt, toInput, inputAdjoints, 0);")
        if self.gradient.itself is not None:
            prepared.append("const itselfAdjoint = new Float64Array(units);")
            lines.append("for (let j = 0; j < units; j++) dx[xAt + j] += itselfAdjoint[j];")
        prepares, arguments = "parameter, inputs, clamps", "x, xAt, record, adjoints, dx, at, from, to"
        what = (
            "The step backwards: from the adjoints of the new states at `to` to those of the old ones at `from`.\n"
            "    The adjoint of x is added to dx."
        )
        return self._function("backward", what, prepares, arguments, self.backward, lines, prepared)

    def _function(
        self, name: str, what: str, prepares: str, arguments: str, loops: Loops, lines: list[str], prepared: list[str]
    ) -> str:
        """A function that prepares a layer's weights, and returns the one that makes a step."""
        used = set(re.findall(r"\w+", "\n".join(lines)))
        body = [*self._arrays(used), *self._start(loops), *lines]
        outside = [f"const units = {self.H};", *self._constants(name, loops), *prepared, *self._clamps(used)]
        inner = [f"return ({arguments}) => {{", *(f"  {line}" for line in body), "};"]
        return f"/** {what} */\nfunction {name}Step({prepares}) {{\n{indented([*outside, *inner])}\n}}"

    def _arrays(self, used: set[str]) -> Iterable[str]:
        """The arrays of a record by name, those that the step uses."""
        groups = {
            "record.states": self.states.values(),
            "record.gates": self.gates.values(),
            "record.saved": (f"saved{i}" for i in range(len(self.saved))),
            "adjoints": self.adjoints.values(),
        }
        for group, names in groups.items():
            listed = [f"{name} = {group}[{i}]" for i, name in enumerate(names) if name in used]
            for first in range(0, len(listed), PER_LINE):
                yield f"const {', '.join(listed[first : first + PER_LINE])};"

    def _clamps(self, used: set[str]) -> Iterable[str]:
        for i, clamp in enumerate(self.clampable.clamps.values()):
            arrays = {"on": self.clamp_arrays[clamp.on.name], "to": self.clamp_arrays[clamp.to.name]}
            listed = [f"{key}: {array}" for key, array in arrays.items() if array in used]
            if listed:
                yield f"const {{ {', '.join(listed)} }} = clamps[{i}];"

    @staticmethod
    def _start(loops: Loops) -> list[str]:
        if not loops.sums:
            return []
        return ["sums.set(bias);" if any(linear.vectors for linear in loops.columns) else "sums.fill(0);"]

    def _constants(self, name: str, loops: Loops) -> Iterable[str]:
        for number, product in enumerate(loops.products):
            yield f"const products{number} = {self._packed(product)};"
        for vector in loops.vectors:
            yield f"const {loops.vector_names[vector]} = {parameter(f'b.{vector}')};"
        for scalar in loops.scalars:
            yield f"const {loops.scalar_names[scalar]} = {parameter(scalar)}[0];"
        layer = self.network.layers[0][0]  # the shapes are those of every layer
        for own, value in loops.fixed_values(layer).items():
            yield f"const {own} = {parameter(f'{name}.{own}')}{'' if value.ndim else '[0]'};"
        if any(linear.vectors for linear in loops.columns):
            vectors = (", ".join(parameter(f"b.{v.name}") for v in linear.vectors) for linear in loops.columns)
            yield f"const bias = summed(units, [{', '.join(f'[{each}]' for each in vectors)}]);"
        if loops.sums:
            yield f"const sums = new Float64Array({loops.sums * self.H});"
        for array in loops.arrays:
            yield f"const {array} = new Float64Array(units);"

    def _packed(self, product: Product) -> str:
        matrices = f"[{', '.join(map(self._matrix, product.matrices))}]"
        return f"packed(inputs, {matrices}, isSparse)" if product.operand == INPUT else f"packed(units, {matrices})"

    def _matrix(self, matrix: Matrix) -> str:
        """The text of a matrix, also of one that the backward step transposes."""
        if matrix in self.matrices:
            return parameter(self.matrices[matrix])
        assert isinstance(matrix, Transpose)
        return f"transposed({self._matrix(matrix.of)}, units)"


def parameter(name: str) -> str:
    """The text that reads a weight of a layer."""
    return f"parameter({data(name)})"
