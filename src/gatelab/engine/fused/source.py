"""What a cell's kernel consists of: its programs forwards and backwards, and the names that C++ and Python share."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from gatelab.engine.fused.plan import Program, kept
from gatelab.lang import Cell
from gatelab.lang.gradient import gradient
from gatelab.lang.graph import Identity, Matrix, Node, Scaled, Transpose, Weight

# Names that C++, the runtime or the generated code use.
_TAKEN = set(keyword.kwlist) | set(
    """alignas alignof and_eq asm auto bitand bitor bool case catch char compl concept const consteval constexpr
    constinit const_cast co_await co_return co_yield decltype default delete do double dynamic_cast enum explicit
    export extern float friend goto inline int long mutable namespace new noexcept not_eq nullptr operator or_eq
    private protected public register reinterpret_cast requires short signed sizeof static static_assert static_cast
    struct switch template this thread_local throw typedef typeid typename union unsigned using virtual void
    volatile wchar_t xor xor_eq linux unix T B D H Hp Dp G A V Vu Vi VL MR NV p n t b i j c M x lengths keep threads
    slab rows ld ldg saved zeros bias linear arguments adjoints expressions temporaries small sums chunk chunk_rows
    after before first last flush swap terms parts load store add_to all only exp sigmoid tanh relu positive
    softplus sin cos power zero copy product outer spread forward backward lanes flushes openmp reciprocal between
    exp_parts slab_of useful_threads thread_id team_size pack_columns pack_rows packed_size next_run add_up Arena
    Cutter Slab Term Stretch FlushDenormals INLINE""".split()  # noqa: SIM905
)
# Patterns by which the generated code makes names of its own.
_MADE = re.compile(r"v\d+|.*_(old|next|new|all|start|final|given)|(W|U|b|d|D|E|gate|packed|sums|fixed|wanted|lay|x)_.*")


def identifier(name: str) -> str:
    """A C++ name that is not taken."""
    return f"{name}_" if name in _TAKEN or _MADE.fullmatch(name) else name


def matrix_name(matrix: Matrix) -> str:
    """A matrix expression as a C++ name: U_n, U_n_minus_U_n_T_minus_times_gamma_I."""
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
    """The pointers and sizes that a C++ function takes, in order; Python fills them by name."""

    pointers: list[str] = field(default_factory=list)
    sizes: list[str] = field(default_factory=list)

    def pointer(self, name: str, type_: str = "const float*") -> str:
        self.pointers.append(name)
        return f"{type_} const {name} = ({type_})p[{len(self.pointers) - 1}];"

    def size(self, name: str) -> str:
        self.sizes.append(name)
        return f"const long {name} = n[{len(self.sizes) - 1}];"


class Source:
    """Everything about a cell's kernel that does not depend on sizes. `watch`: gates are returned, with gradients."""

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
        # The gradient of a weight is a sum over rows of (what the map was applied to) times (the product's adjoint).
        self.operands = self._named_operands()

        g = self.gradient
        wanted = [*g.states.values(), *self.adjoints, *g.vectors.values(), *g.scalars.values()]
        expressions = [node for node in self.operands if node.op not in ("input", "state")]
        self.kept = kept(self.graph, [*wanted, *expressions])
        self.recomputed = [node for node in expressions if node not in self.kept]
        self.forward = Program(list(dict.fromkeys([*self.graph.new_states, *self.kept, *self.gates.values()])))
        self.backward = Program(list(dict.fromkeys([*wanted, *self.recomputed])), set(self.kept))
        self.names = self._named_values()
        # For each product: the number of its matrix, the name of its operand, the column of its adjoint.
        self.weight_gradients = [
            (self.matrices.index(p.matrix), self.operands[p.args[0]], self.adjoints.index(adjoint))
            for p, adjoint in g.products.items()
            if p.matrix is not None
        ]

    @cached_property
    def text(self) -> str:
        """The translation unit."""
        from gatelab.engine.fused import backward, forward  # they write what is planned here

        equations = "\n".join(f"//   {line}" for line in self.cell.text().splitlines())
        head = f"// The cell {self.cell.name!r}, written by gatelab from its equations:\n{equations}\n"
        return "\n".join([f'{head}\n#include "runtime.hpp"\n', forward.write(self), backward.write(self)])

    def _named_matrices(self) -> dict[Matrix, str]:
        return dict(zip(self.matrices, _distinct(matrix_name(m) for m in self.matrices), strict=True))

    def _named_operands(self) -> dict[Node, str]:
        nodes = dict.fromkeys(node.args[0] for node in self.gradient.products)
        named = {n: "x" if n.op == "input" else identifier(n.name) for n in nodes if n.op in ("input", "state")}
        return {n: named.get(n, f"expression_{i}") for i, n in enumerate(nodes)}

    def _ordered_adjoints(self) -> list[Node]:
        """The products' adjoints, each once, in the order of the forward columns: neighbours have the same operand."""
        order = [p for linear in Program(list(self.graph.new_states)).linears for p in linear.products]
        found = self.gradient.products
        return list(dict.fromkeys([*(found[p] for p in order if p in found), *found.values()]))

    def _named_values(self) -> dict[Node, str]:
        """Nodes under the names of the equations."""
        names = {node: identifier(name) for name, node in self.graph.gates.items()}
        for name, node in zip(self.states, self.graph.new_states, strict=True):
            if node.args:
                names.setdefault(node, f"{name}_new")
        for product, adjoint in self.gradient.products.items():
            if product.matrix is not None:
                names.setdefault(adjoint, f"d_{self.matrix_names[product.matrix]}")
        return dict(zip(names, _distinct(names.values()), strict=True))


def _distinct(names: Iterable[str]) -> Iterator[str]:
    """The names, with underscores after those that come again."""
    used: set[str] = set()
    for name in names:
        while name in used:
            name += "_"
        used.add(name)
        yield name
