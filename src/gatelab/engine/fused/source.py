"""The contents of a cell's kernel: programs of the forward and backward pass, and names shared by C++ and Python."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from gatelab.engine.fused.phases import Program, saved_activations
from gatelab.lang import Cell
from gatelab.lang.gradient import gradient
from gatelab.lang.graph import Identity, Matrix, Node, Scaled, Transpose, Weight

# Names that C++, the runtime or the generated code use.
_RESERVED = set(keyword.kwlist) | set(
    """alignas alignof and_eq asm auto bitand bitor bool case catch char compl concept const consteval constexpr
    constinit const_cast co_await co_return co_yield decltype default delete do double dynamic_cast enum explicit
    export extern float friend goto inline int long mutable namespace new noexcept not_eq nullptr operator or_eq
    private protected public register reinterpret_cast requires short signed sizeof static static_assert static_cast
    struct switch template this thread_local throw typedef typeid typename union unsigned using virtual void
    volatile wchar_t xor xor_eq linux unix T B D H Hp Dp G A V Vu Vi VL MR NV p n t b i j c M x lengths keep threads
    slab rows ld ldg saved zeros bias linear arguments adjoints expressions temporaries small sums chunk chunk_rows
    after before first last flush swap terms load store add_to all only exp sigmoid tanh relu positive
    softplus sin cos power zero copy product outer spread forward backward lanes flushes openmp reciprocal clamp
    exp_split slab_of useful_threads thread_id team_size pack_columns pack_rows packed_size next_bits add_up synchronize
    Arena Allocator Slab Term Segment segments team_buffer FlushDenormals INLINE""".split()  # noqa: SIM905
)
# Patterns of the names that the generated code defines.
_GENERATED = re.compile(
    r"v\d+|.*_(old|next|new|all|start|final|unpadded|pointer)|(W|U|b|d|D|E|gate|packed|sums|fixed|wanted|lay|x)_.*"
)


def identifier(name: str) -> str:
    """The name as a C++ identifier, with an underscore appended if it is reserved."""
    return f"{name}_" if name in _RESERVED or _GENERATED.fullmatch(name) else name


def matrix_name(matrix: Matrix) -> str:
    """A matrix expression as a C++ identifier: U_n, U_n_minus_U_n_T_minus_times_gamma_I."""
    if isinstance(matrix, Weight):
        return f"{matrix.space}_{matrix.name}"
    if isinstance(matrix, Identity):
        return "I"
    if isinstance(matrix, Transpose):
        return f"{matrix_name(matrix.of)}_T"
    if isinstance(matrix, Scaled):
        factor = f"{matrix.by:g}" if isinstance(matrix.by, float) else matrix.by.name or "number"
        return f"times_{re.sub(r'[^0-9A-Za-z]', '_', factor)}_{matrix_name(matrix.of)}"
    return f"{matrix_name(matrix.left)}_{'plus' if matrix.sign == 1 else 'minus'}_{matrix_name(matrix.right)}"


@dataclass
class Arguments:
    """The pointers and sizes that a C++ function takes, in order; Python passes them by name."""

    pointers: list[str] = field(default_factory=list)
    sizes: list[str] = field(default_factory=list)

    def pointer(self, name: str, type_: str = "const float*") -> str:
        """Append a pointer argument; returns its C++ declaration."""
        self.pointers.append(name)
        return f"{type_} const {name} = ({type_})p[{len(self.pointers) - 1}];"

    def size(self, name: str) -> str:
        """Append an integer argument; returns its C++ declaration."""
        self.sizes.append(name)
        return f"const long {name} = n[{len(self.sizes) - 1}];"


class Source:
    """Everything about a cell's kernel that does not depend on sizes. `watch`: the gates are outputs too."""

    def __init__(self, cell: Cell, watch: bool = False) -> None:
        self.cell, self.watch, self.graph = cell, watch, cell.graph
        self.states = [identifier(state) for state in cell.graph.states]
        self.gates = cell.graph.gates if watch else {}
        self.gradient = gradient(cell.graph, watch)
        self.forward_arguments, self.backward_arguments = Arguments(), Arguments()
        products = [node for node in self.graph.nodes() if node.op == "product"]
        self.matrices: list[Matrix] = list(dict.fromkeys(node.matrix for node in products if node.matrix is not None))
        self.matrix_names = self._named_matrices()
        self.adjoints = self._ordered_adjoints()
        # The gradient of a weight is the sum over rows of the outer product of operand and adjoint.
        self.operands = self._named_operands()

        g = self.gradient
        targets = [*g.states.values(), *self.adjoints, *g.vectors.values(), *g.scalars.values()]
        expressions = [node for node in self.operands if node.op not in ("input", "state")]
        self.saved = saved_activations(self.graph, [*targets, *expressions])
        self.recomputed = [node for node in expressions if node not in self.saved]
        self.forward = Program(list(dict.fromkeys([*self.graph.new_states, *self.saved, *self.gates.values()])))
        self.backward = Program(list(dict.fromkeys([*targets, *self.recomputed])), set(self.saved))
        self.names = self._named_values()
        # For each product: the index of its matrix, the name of its operand, the column of its adjoint.
        self.weight_gradients = [
            (self.matrices.index(p.matrix), self.operands[p.args[0]], self.adjoints.index(adjoint))
            for p, adjoint in g.products.items()
            if p.matrix is not None
        ]

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
        names = {n: "x" if n.op == "input" else identifier(n.name) for n in nodes if n.op in ("input", "state")}
        return {n: names.get(n, f"expression_{i}") for i, n in enumerate(nodes)}

    def _ordered_adjoints(self) -> list[Node]:
        """The products' adjoints, each once, in the order of the forward columns: neighbours share an operand."""
        order = [p for linear in Program(list(self.graph.new_states)).linears for p in linear.products]
        adjoints = self.gradient.products
        return list(dict.fromkeys([*(adjoints[p] for p in order if p in adjoints), *adjoints.values()]))

    def _named_values(self) -> dict[Node, str]:
        """C++ names of gates, new states and adjoints, after the equations."""
        names = {node: identifier(name) for name, node in self.graph.gates.items()}
        for name, node in zip(self.states, self.graph.new_states, strict=True):
            if node.args:
                names.setdefault(node, f"{name}_new")
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
