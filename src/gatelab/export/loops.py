"""One step of a layer as loops over its units, for languages with the syntax of C.

The schedule is the fused engine's (`phases.py`): products for all units, then one loop that does everything else, level
by level. Every name of the user's follows a prefix (`state_h`, `g_z`, `new_h`, `s_epsilon`, `b_n`), so that it cannot
meet a word of the language, a function, or a name that the loops use (`r1`, `v2`, `sums`, `kept3`, `products4`).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch

from gatelab.engine.fused.phases import EXPENSIVE, LinearSum, Program, parameters_only
from gatelab.engine.fused.pointwise import OPERATORS, Pass, stripped
from gatelab.export.network import Layer
from gatelab.lang.graph import Graph, Matrix, Node, Transpose, evaluate, walk
from gatelab.lang.printing import GREEK

LATIN = {letter: name.rstrip("_") for name, letter in GREEK.items()}


def multiply_pointers(offset: int, number: int, operand: str, outputs: int) -> str:
    """The statement that adds a product to the sums from an offset on, with C's pointers."""
    sums = f"sums + {offset}" if offset else "sums"
    return f"multiply({sums}, products{number}, {operand}, {'inputs' if operand == 'x' else 'units'}, {outputs});"


@dataclass(frozen=True)
class Syntax:
    """How a language writes declarations, numbers and functions."""

    indent: str
    real: str  # declares a constant number
    variable: str  # declares a number that changes
    counter: str  # declares an index
    number: Callable[[float], str]
    functions: Mapping[str, str]  # operation → name of the function
    multiply: Callable[[int, int, str, int], str] = multiply_pointers


@dataclass(frozen=True)
class Product:
    """A product of one operand with the matrices of adjacent sums."""

    operand: str  # its array
    matrices: tuple[Matrix, ...]
    first: int  # the first of the sums

    def packed(self, layer: Layer) -> np.ndarray:
        """Its weights, (inputs, sums × H): all that one number of the operand is multiplied by lie side by side."""
        return np.ascontiguousarray(np.concatenate([effective(layer, matrix) for matrix in self.matrices]).T)


def effective(layer: Layer, matrix: Matrix) -> np.ndarray:
    """A matrix, also one that the backward step transposes."""
    if matrix in layer.matrices:
        return layer.matrices[matrix]
    assert isinstance(matrix, Transpose)
    return effective(layer, matrix.of).T


class Loops:
    """The statements of one step.

    Args:
        program: what is computed, in phases.
        syntax: of the language.
        leaf: the text of a leaf for unit j that is not a parameter: a state, an adjoint, a saved value.
        operand: the array of an operand of a map that is one: the input, a state.
        results: for each value that leaves the step, where it goes, for unit j.
        names: of values, after those in the equations.
    """

    def __init__(
        self,
        program: Program,
        syntax: Syntax,
        hidden_size: int,
        *,
        leaf: Callable[[Node], str | None],
        operand: Callable[[Node], str | None],
        results: Mapping[Node, list[str]],
        names: Mapping[Node, str],
    ) -> None:
        self.program, self.syntax, self.H = program, syntax, hidden_size
        self._leaf, self._operand, self._results = leaf, operand, results
        self.columns = {linear: i for i, linear in enumerate(program.linears)}
        self.arguments = {node: f"operand{i}" for i, node in enumerate(program.stored_arguments())}
        self.temporaries = {node: f"kept{i}" for i, node in enumerate(program.temporaries)}
        self.totals = {node: f"total{i}" for i, node in enumerate(program.reductions)}
        fixed = [n for n in walk(program.outputs, program.available) if parameters_only(n) and n.op in EXPENSIVE]
        self.fixed = {node: f"fixed{i}" for i, node in enumerate(fixed)}  # computed when the network is exported
        stored = [*program.stored(), *program.temporaries]
        # Every value is complete before anything is stored: a result may replace what another one is computed from.
        self.names = {node: f"value{i}" for i, node in enumerate(stored)} | dict(names)
        self.products = [product for level in range(-1, program.levels) for product in self._products(level)]
        self.scalar_names = self._named("scalar", "s")
        self.vector_names = self._named("vector", "b")
        self._read: set[Node] = set()
        # From the last one on, so that only values are kept that a later loop reads.
        self._loops = [self._loop(level) for level in reversed(range(program.levels))][::-1]
        self.operations = {node.op for node in walk(program.outputs, program.available) if node.args}

    def _named(self, op: str, prefix: str) -> dict[str, str]:
        """Names of parameters."""
        found = dict.fromkeys(n.name for n in walk(self.program.outputs, self.program.available) if n.op == op)
        taken: set[str] = set()
        return {name: claimed(f"{prefix}_{name}", taken) for name in found}

    @property
    def sums(self) -> int:
        """The number of sums of products, each of H values."""
        return len(self.columns)

    @property
    def arrays(self) -> list[str]:
        """Arrays of H numbers that the step needs beside the sums."""
        return [*self.arguments.values(), *(n for node, n in self.temporaries.items() if node in self._read)]

    def bias(self, layer: Layer) -> np.ndarray:
        """What the sums begin with, (sums × H,)."""
        start = np.zeros((self.sums, self.H), np.float32)
        for linear, column in self.columns.items():
            for vector in linear.vectors:
                start[column] += layer.vectors[vector.name]
        return start.ravel()

    @property
    def vectors(self) -> list[str]:
        """The names of the parameters that the loops read, without biases in sums and what is fixed."""
        return list(dict.fromkeys(node.name for node in self._in_order("vector")))

    @property
    def scalars(self) -> list[str]:
        """The names of the hyperparameters that the loops read."""
        return list(dict.fromkeys(node.name for node in self._in_order("scalar")))

    def _in_order(self, op: str) -> list[Node]:
        return [n for n in walk(self.program.outputs, self.program.available) if n.op == op and n in self._read]

    def fixed_values(self, layer: Layer) -> dict[str, np.ndarray]:
        """Values that depend on parameters only: (H,), or () for a number."""
        leaves: dict[Node, torch.Tensor] = {}
        for node in walk(self.fixed):
            if node.op == "vector":
                leaves[node] = torch.from_numpy(layer.vectors[node.name]).double()
            elif node.op == "scalar":
                leaves[node] = torch.tensor(layer.scalars[node.name], dtype=torch.float64)
            elif node.op == "full":
                leaves[node] = torch.full((self.H,), node.value, dtype=torch.float64)
            elif node.op == "size":
                leaves[node] = torch.tensor(float(self.H), dtype=torch.float64)
        read = {node: name for node, name in self.fixed.items() if node in self._read}
        values = {name: (node, evaluate(node, leaves)) for node, name in read.items()}
        # A mask in evaluation is one number that stands for a vector.
        return {n: (v.expand(self.H) if node.shape == "vector" else v).numpy() for n, (node, v) in values.items()}

    def lines(self) -> list[str]:
        """The statements of the step, after the sums have begun with the bias."""
        numbered = itertools.count()
        lines = [self._call(product, next(numbered)) for product in self._products(-1)]
        for level in range(self.program.levels):
            lines += [self._call(product, next(numbered)) for product in self._products(level)]
            lines += self._loops[level]
        return lines

    def _call(self, product: Product, number: int) -> str:
        outputs = len(product.matrices) * self.H
        return self.syntax.multiply(product.first * self.H, number, product.operand, outputs)

    def _products(self, level: int) -> Iterator[Product]:
        """The products of a phase; those of the input come before all phases, as level −1."""
        linears = self.program.linears if level < 0 else self.program.at_level(level)
        terms: dict[tuple[str, int], list[tuple[int, Matrix]]] = {}  # by operand, and how often it came before
        for linear in linears:
            seen: dict[str, int] = {}
            for product in linear.products:
                if (product.args[0].op == "input") != (level < 0):
                    continue
                array = self._array(product.args[0])
                assert product.matrix is not None
                terms.setdefault((array, seen.get(array, 0)), []).append((self.columns[linear], product.matrix))
                seen[array] = seen.get(array, 0) + 1
        for (array, _), each in terms.items():
            for _, run in itertools.groupby(enumerate(each), lambda item: item[1][0] - item[0]):
                adjacent = [term for _, term in run]
                yield Product(array, tuple(matrix for _, matrix in adjacent), adjacent[0][0])

    def _array(self, node: Node) -> str:
        array = self.arguments.get(node) or self._operand(node)
        assert array is not None, f"{node.op} {node.name} has no array"
        return array

    def _of_level(self, level: int) -> list[Node]:
        kept = (node for node in self.program.temporaries if node in self._read)
        return [node for node in dict.fromkeys([*self.program.stored(), *kept]) if self.program.level(node) == level]

    def _loop(self, level: int) -> list[str]:
        stored = self._of_level(level)
        if not stored:
            return []
        pointwise = _Loop(self, stored, level)
        values = {node: pointwise.value(node) for node in stored}
        inside, after, before = [*pointwise.lines], [], []
        for node, value in values.items():
            places = list(self._results.get(node, []))
            places += [f"{self.arguments[node]}[j]"] if node in self.arguments else []
            places += [f"{self.temporaries[node]}[j]"] if node in self.temporaries and node in self._read else []
            inside += [f"{place} = {value};" for place in places]
        for node, name in self.totals.items():
            if node.args[0] in values:
                before.append(f"{self.syntax.variable} {name} = {self.syntax.number(0.0)};")
                inside.append(f"{name} += {values[node.args[0]]};")
                after += [f"{name} /= {self.syntax.number(float(self.H))};"] if node.op == "mean" else []
        head = f"for ({self.syntax.counter} j = 0; j < units; j++) {{"
        indent = self.syntax.indent
        loop = [head, *(f"{indent}{line}" for line in inside), "}", *after]
        if pointwise.row_lines:  # in a scope of their own, but for sums that later levels read
            loop = ["{", *(f"{indent}{line}" for line in (*pointwise.row_lines, *loop)), "}"]
        return [*before, *loop]

    def load(self, node: Node, level: int) -> str | None:
        """The text that reads a value for unit j; None if it has to be computed."""
        text = self._loaded(node, level)
        if text is not None:
            self._read.add(node)
        return text

    def _loaded(self, node: Node, level: int) -> str | None:
        if node in self.fixed:
            return self.fixed[node] if node.shape == "scalar" else f"{self.fixed[node]}[j]"
        if node.op in ("constant", "full", "size"):
            return self.syntax.number(float(self.H) if node.op == "size" else node.value)
        if node.op == "scalar":
            return self.scalar_names[node.name]
        if node.op == "vector":
            return f"{self.vector_names[node.name]}[j]"
        if node in self.totals:
            return self.totals[node]
        if node in self.temporaries and self.program.level(node) < level:
            return f"{self.temporaries[node]}[j]"
        return self._leaf(node)


class _Loop(Pass):
    """The statements of one loop over the units."""

    def __init__(self, loops: Loops, starts: list[Node], level: int) -> None:
        self.vector_type = self.number_type = loops.syntax.real
        self._functions = loops.syntax.functions
        self._number = loops.syntax.number

        def column(linear: LinearSum) -> str:
            offset = loops.columns[linear] * loops.H
            return f"sums[{offset} + j]" if offset else "sums[j]"

        super().__init__(loops.program, starts, lambda node: loops.load(node, level), column, loops.names)

    def operation(self, node: Node, args: list[str]) -> str:
        """The text of one operation on numbers."""
        plain = [stripped(arg) for arg in args]
        if node.op in OPERATORS:
            return f"({args[0]} {OPERATORS[node.op]} {args[1]})"
        if node.op in ("greater", "greater_equal"):
            return f"({args[0]} {'>' if node.op == 'greater' else '>='} {args[1]})"
        if node.op == "neg":
            return f"(-{args[0]})"
        if node.op == "where":
            return f"({args[0]} ? {args[1]} : {args[2]})"
        if node.op in ("stop_gradient", "surrogate", "repeat"):
            return args[0]
        if node.op == "power":
            return f"power({plain[0]}, {int(node.value)})"
        return f"{self._functions[node.op]}({', '.join(plain)})"


def claimed(name: str, taken: set[str]) -> str:
    """A name in ASCII, with underscores if another one spells the same (α and alpha are two); it is taken then."""
    spelled = "".join(LATIN.get(c, c) for c in name)
    free = re.sub(r"[^0-9A-Za-z_]", "_", spelled)
    while free in taken:
        free += "_"
    taken.add(free)
    return free


def value_names(graph: Graph, taken: set[str]) -> dict[Node, str]:
    """Names of gates and new states."""
    names: dict[Node, str] = {}
    new = zip(graph.states, graph.new_states, strict=True)
    for name, node in [
        *((f"g_{gate}", node) for gate, node in graph.gates.items()),
        *((f"new_{state}", node) for state, node in new if node.args),  # not of a copy of another state's old value
    ]:
        if node not in names:
            names[node] = claimed(name, taken)
    return names
