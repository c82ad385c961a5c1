"""The C of the layers: constant arrays, and a function for each layer and direction that replaces its states."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from gatelab.engine.fused.kernel_source import matrix_name
from gatelab.engine.fused.phases import Program
from gatelab.export import c_functions
from gatelab.export.c_text import SYNTAX, array, comment, indented, literal, weights
from gatelab.export.loops import Loops, Product, claimed, multiply_pointers, value_names
from gatelab.export.network import Layer, Network
from gatelab.lang.graph import Node


class CLayers:
    """The functions `layer0(x, h, …)`, or `layer0_fwd` and `layer0_bwd`; all have the same equations."""

    def __init__(self, network: Network, int8: bool) -> None:
        self.network, self.int8, self.H = network, int8, network.hidden_size
        graph = network.graph
        taken: set[str] = set()
        self.states = {state: claimed(f"state_{state}", taken) for state in graph.states}  # the arrays' names
        program = Program(list(dict.fromkeys(graph.new_states)))
        new = dict(zip(graph.states, graph.new_states, strict=True))
        # A state is replaced in the last loop. One that is ready earlier may still be read, and waits in next_state_….
        self.waiting = [self.states[s] for s, node in new.items() if program.level(node) < program.levels - 1]
        results: dict[Node, list[str]] = {}
        for state, node in new.items():
            name = self.states[state]
            results.setdefault(node, []).append(f"next_{name}[j]" if name in self.waiting else f"{name}[j]")
        syntax = replace(SYNTAX, multiply=_multiply_int8) if int8 else SYNTAX
        names = value_names(graph, taken)
        self.loops = Loops(
            program, syntax, self.H, leaf=self._leaf, operand=self._operand, results=results, names=names
        )

    def _leaf(self, node: Node) -> str | None:
        if node.op == "state":
            return f"{self.states[node.name]}[j]"
        return "x[j]" if node.op == "itself" else None

    def _operand(self, node: Node) -> str | None:
        if node.op == "state":
            return self.states[node.name]
        return "x" if node.op in ("input", "itself") else None

    def functions(self) -> str:
        """The functions that all layers call."""
        attention = ("exp",) if self.network.read == "attention" else ()
        parts = [c_functions.functions((*self.loops.operations, *attention))]
        sizes = [len(product.matrices) * self.H for product in self.loops.products]
        sizes += [convolution.channels for convolution in self.network.stem]
        if sizes and self.int8:
            parts += [f"enum {{ LARGEST_PRODUCT = {max(sizes)} }};\n", c_functions.MULTIPLY_INT8]
        elif sizes:
            parts.append(c_functions.MULTIPLY)
        return "\n".join(part for part in parts if part)

    def name(self, layer: Layer) -> str:
        """The name of a layer's function."""
        return f"layer{layer.number}" + (f"_{layer.direction}" if self.network.bidirectional else "")

    def text(self, layer: Layer, input_size: int) -> str:
        """The constants and the function of one layer."""
        states = ", ".join(f"float *{name}" for name in self.states.values())
        body = self._body(layer, input_size)
        if not re.search(r"\bx\b", "\n".join(body)):
            body.append("(void)x; /* these equations have no input */")
        function = f"static void {self.name(layer)}(const float *x, {states})\n{{\n{indented(body)}\n}}"
        return "\n\n".join([*self._constants(layer), function])

    def _constants(self, layer: Layer) -> list[str]:
        loops, name = self.loops, self.name(layer)
        constants = [array(f"{name}_bias", loops.bias(layer))] if loops.sums else []
        constants += [
            self._weights(f"{name}_products{number}", product, layer) for number, product in enumerate(loops.products)
        ]
        constants += [array(f"{name}_{loops.vector_names[vector]}", layer.vectors[vector]) for vector in loops.vectors]
        fixed = loops.fixed_values(layer).items()
        return constants + [array(f"{name}_{own}", value.astype(np.float32)) for own, value in fixed if value.ndim]

    def _weights(self, name: str, product: Product, layer: Layer) -> str:
        packed = product.packed(layer)  # (inputs, outputs)
        matrices = ", ".join(matrix_name(matrix) for matrix in product.matrices)
        head = f"/* {comment(matrices)}, {packed.shape[0]} inputs x {packed.shape[1]} outputs */"
        return f"{head}\n{weights(name, packed, self.int8)}"

    def _body(self, layer: Layer, input_size: int) -> list[str]:
        loops, name, H = self.loops, self.name(layer), self.H
        steps = loops.lines()
        reads_input = any(product.operand == "x" for product in loops.products)
        lines = [f"enum {{ units = {H}{f', inputs = {input_size}' if reads_input else ''} }};"]
        numbers = {loops.scalar_names[scalar]: layer.scalars[scalar] for scalar in loops.scalars}
        numbers |= {own: float(value) for own, value in loops.fixed_values(layer).items() if not value.ndim}
        lines += [f"const float {own} = {literal(value)};" for own, value in numbers.items()]
        arrays = [f"sums[{loops.sums * H}]"] if loops.sums else []
        arrays += [f"{array}[units]" for array in (*loops.arrays, *(f"next_{state}" for state in self.waiting))]
        lines += [f"float {', '.join(arrays)};"] if arrays else []
        if loops.sums:
            lines += [f"for (int j = 0; j < {loops.sums * H}; j++)", f"    sums[j] = {name}_bias[j];"]
        own_arrays = r"\b(products\d+\w*|fixed\d+(?=\[)|b_\w+(?=\[))"  # each layer has its own
        lines += [re.sub(own_arrays, rf"{name}_\1", line) for line in steps]
        for state in self.waiting:
            lines += ["for (int j = 0; j < units; j++)", f"    {state}[j] = next_{state}[j];"]
        return lines


def _multiply_int8(offset: int, number: int, operand: str, outputs: int) -> str:
    """The same statement for weights that have scales."""
    weights = f"products{number}"
    return multiply_pointers(offset, number, operand, outputs).replace(weights, f"{weights}, {weights}_scales", 1)
