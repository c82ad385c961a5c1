"""The contents of a cell's kernel: programs of the forward and backward pass, and names shared by C++ and Python.

In C++ every name of the user's follows a prefix (`old_h`, `g_z`, `s_epsilon`, `b_n`), so that it cannot meet a name of
C++, of the runtime or of the generated code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property

from gatelab.engine.fused.phases import LinearSum, Program, saved_activations
from gatelab.lang import Cell
from gatelab.lang.gradient import gradient
from gatelab.lang.graph import (
    Elementwise,
    Exponential,
    IdentityMatrix,
    Matrix,
    Node,
    Scaled,
    Transpose,
    Weight,
    mask_name,
    walk,
)


def matrix_name(matrix: Matrix) -> str:
    """A matrix as a C++ identifier: U_n, or M_U_n_minus_U_n_T_minus_times_gamma_I."""
    return _described(matrix) if isinstance(matrix, Weight) else f"M_{_described(matrix)}"


def _described(matrix: Matrix) -> str:
    if isinstance(matrix, Weight):
        return f"{matrix.space}_{matrix.name}"
    if isinstance(matrix, IdentityMatrix):
        return "I"
    if isinstance(matrix, Transpose):
        return f"{_described(matrix.of)}_T"
    if isinstance(matrix, Scaled):
        factor = f"{matrix.by:g}" if isinstance(matrix.by, float) else matrix.by.name or "number"
        return f"times_{re.sub(r'[^0-9A-Za-z]', '_', factor)}_{_described(matrix.of)}"
    if isinstance(matrix, Exponential):
        return f"expm_{_described(matrix.of)}"
    if isinstance(matrix, Elementwise):
        return "_".join([matrix.function, *map(_described, matrix.of)])
    return f"{_described(matrix.left)}_{'plus' if matrix.sign == 1 else 'minus'}_{_described(matrix.right)}"


@dataclass
class Arguments:
    """The pointers and sizes that a C++ function takes, in order; Python passes them by name."""

    pointers: list[str] = field(default_factory=list)
    sizes: list[str] = field(default_factory=list)

    def pointer(self, name: str, type_: str = "const float*") -> str:
        """Append a pointer argument; returns its C++ declaration."""
        self.pointers.append(name)
        return f"[[maybe_unused]] {type_} const {name} = ({type_})p[{len(self.pointers) - 1}];"

    def size(self, name: str) -> str:
        """Append an integer argument; returns its C++ declaration."""
        self.sizes.append(name)
        return f"[[maybe_unused]] const long {name} = n[{len(self.sizes) - 1}];"


class KernelSource:
    """Everything about a cell's kernel that does not depend on sizes. `watch`: the gates are outputs too."""

    def __init__(self, cell: Cell, watch: bool = False) -> None:
        self.cell, self.watch, self.graph = cell, watch, cell.lowered
        self.states = self.graph.states
        self.gates = self.graph.gates if watch else {}
        read = {node.name for node in walk([*self.graph.new_states, *self.gates.values()]) if node.op == "state"}
        self.live = [s for s in self.states if s in read]  # states that later steps depend on
        self.masks = [self.mask(node) for node in self.graph.randoms]
        self.gradient = gradient(self.graph, watch)
        functions = ("prepare_forward", "forward", "prepare_backward", "backward")
        self.arguments = {name: Arguments() for name in functions}  # filled when the text is written
        self.matrices = self.graph.matrices
        self.matrix_names = self._named_matrices()
        self.adjoints = self._ordered_adjoints()
        # The gradient of a weight is the sum over rows of the outer product of operand and adjoint.
        self.operands = self._named_operands()

        g = self.gradient
        targets = [*g.states.values(), *self.adjoints, *g.vectors.values(), *g.scalars.values()]
        targets += [g.itself] if g.itself is not None else []
        expressions = [node for node in self.operands if node.op not in ("input", "state")]
        saved = saved_activations(self.graph, [*targets, *expressions])
        self.saved = [node for node in saved if node.shape == "vector"]
        self.saved_rows = [node for node in saved if node.shape == "row"]
        self.recomputed = [node for node in expressions if node not in self.saved]
        self.forward = Program(list(dict.fromkeys([*self.graph.new_states, *saved, *self.gates.values()])))
        self.backward = Program(list(dict.fromkeys([*targets, *self.recomputed])), set(saved))
        self.looped = self._phases_in_loop()
        self.ahead = self._products_ahead()
        self.names = self._named_values()
        # For each product: the index of its matrix, the name of its operand, the column of its adjoint.
        self.weight_gradients = [
            (self.matrices.index(p.matrix), self.operands[p.args[0]], self.adjoints.index(adjoint))
            for p, adjoint in g.products.items()
            if p.matrix is not None
        ]

    def _phases_in_loop(self) -> int:
        """The number of forward phases that later steps depend on."""
        new = dict(zip(self.states, self.graph.new_states, strict=True))
        return 1 + max((self.forward.level(new[s]) for s in self.live), default=-1)

    def _products_ahead(self) -> list[LinearSum]:
        """The products of the backward pass that need nothing from later steps."""

        @cache
        def is_ahead(node: Node) -> bool:
            if node.op == "adjoint":
                return node.name not in self.live
            return node in self.backward.available or all(is_ahead(arg) for arg in node.args)

        linears = [] if self.backward.reductions else self.backward.linears
        return [linear for linear in linears if all(is_ahead(p.args[0]) for p in linear.products)]

    @cached_property
    def splits_units(self) -> bool:
        """Whether threads can process units of the same rows: nothing in the loops over time depends on other units."""
        products = [li for level in range(self.looped) for li in self.forward.at_level(level)]
        products += [linear for linear in self.backward.linears if linear not in self.ahead]
        return not (products or self.forward.reductions or self.backward.reductions)

    def parameter_shapes(self, D: int, H: int) -> list[tuple[int, ...]]:
        """The shapes of matrices, vectors and scalars, in that order."""
        matrices = [(H, D) if self.is_input_matrix(matrix) else (H, H) for matrix in self.matrices]
        return [*matrices, *[(H,)] * len(self.graph.b), *[()] * len(self.graph.scalars)]

    @cached_property
    def parameter_names(self) -> list[str]:
        """What messages call the parameters: as the layer does, or by their expression."""
        matrices = [f"{m.space}.{m.name}" if isinstance(m, Weight) else matrix_name(m) for m in self.matrices]
        return [*matrices, *(f"b.{name}" for name in self.graph.b), *self.graph.scalars]

    @staticmethod
    def is_input_matrix(matrix: Matrix) -> bool:
        """Whether a matrix maps the input (H × D), not a state (H × H)."""
        return isinstance(matrix, Weight) and matrix.space == "W"

    @cached_property
    def flags(self) -> dict[str, int]:
        """The position of each vector and scalar among the parameters, after the matrices."""
        names = [*(f"vector_{name}" for name in self.graph.b), *(f"scalar_{name}" for name in self.graph.scalars)]
        return {name: len(self.matrices) + k for k, name in enumerate(names)}

    @cached_property
    def has_gradient(self) -> list[bool]:
        """For each parameter, whether a gradient can reach it."""
        matrices = {matrix for matrix, *_ in self.weight_gradients}
        return [
            *(k in matrices for k in range(len(self.matrices))),
            *(name in self.gradient.vectors for name in self.graph.b),
            *(name in self.gradient.scalars for name in self.graph.scalars),
        ]

    @staticmethod
    def mask(node: Node) -> str:
        """The C++ name of a mask that is drawn at random."""
        return mask_name(node).replace(" ", "_")

    @cached_property
    def text(self) -> str:
        """The complete C++ source, with the equations in its head comment."""
        from gatelab.engine.fused import backward, forward  # they import this module

        equations = "\n".join(f"//   {line}" for line in self.cell.text().splitlines())
        head = f"// Cell {self.cell.name!r}, generated by gatelab from its equations:\n{equations}\n"
        return "\n".join([f'{head}\n#include "runtime.hpp"\n', forward.write(self), backward.write(self)])

    def _named_matrices(self) -> dict[Matrix, str]:
        return dict(zip(self.matrices, _distinct(matrix_name(m) for m in self.matrices), strict=True))

    def _named_operands(self) -> dict[Node, str]:
        nodes = dict.fromkeys(node.args[0] for node in self.gradient.products)
        names = {n: "input" if n.op == "input" else f"state_{n.name}" for n in nodes if n.op in ("input", "state")}
        return {n: names.get(n, f"expression_{i}") for i, n in enumerate(nodes)}

    def _ordered_adjoints(self) -> list[Node]:
        """The products' adjoints, each once, in the order of the forward columns: neighbours share an operand."""
        order = [p for linear in Program(list(self.graph.new_states)).linears for p in linear.products]
        adjoints = self.gradient.products
        return list(dict.fromkeys([*(adjoints[p] for p in order if p in adjoints), *adjoints.values()]))

    def _named_values(self) -> dict[Node, str]:
        """C++ names of gates, new states and adjoints, after the equations."""
        names = {node: f"g_{name}" for name, node in self.graph.gates.items()}
        for name, node in zip(self.states, self.graph.new_states, strict=True):
            if node.args:
                names.setdefault(node, f"new_{name}")
        for product, adjoint in self.gradient.products.items():
            if product.matrix is not None:
                names.setdefault(adjoint, f"d_{self.matrix_names[product.matrix]}")
        return dict(zip(names, _distinct(names.values()), strict=True))


def _distinct(names: Iterable[str]) -> Iterator[str]:
    """Makes names unique by appending underscores."""
    used: set[str] = set()
    for name in names:
        while name in used:
            name += "_"
        used.add(name)
        yield name
