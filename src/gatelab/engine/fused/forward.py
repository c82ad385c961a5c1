"""The C++ of the forward pass."""

from __future__ import annotations

import itertools
from typing import NamedTuple

from gatelab.engine.fused.phases import Linear
from gatelab.engine.fused.pointwise import Pass
from gatelab.engine.fused.source import Source
from gatelab.engine.fused.writer import Writer, indented
from gatelab.lang.graph import Matrix, Node


def write(source: Source) -> str:
    """The C++ function `forward` of a kernel."""
    return _Forward(source).text()


class _Block(NamedTuple):
    """Adjacent columns that one matrix product computes."""

    first: int
    width: int
    terms: list[tuple[str, list[Matrix], Node]]  # name of the packed matrices, the matrices, their operand


class _Forward(Writer):
    def __init__(self, source: Source) -> None:
        super().__init__(source, source.forward, source.forward_arguments)
        self.arguments = {node: i for i, node in enumerate(self.program.stored_arguments())}
        with_input = [linear for linear in self.program.linears if linear.input_matrices()]
        self.without_input = [linear for linear in self.program.linears if not linear.input_matrices()]
        self.input_blocks = self._blocks(with_input, "input", lambda li: [(m, _INPUT) for m in li.input_matrices()])
        self.blocks = [
            self._blocks(self.program.at_level(level), f"level_{level}", _recurrent_terms)
            for level in range(self.program.levels)
        ]

    def text(self) -> str:
        signature, states = self.signature, self.source.states
        sizes = [
            signature.size(name) for name in ("T", "B", "D", "H", "Hp", "x_t", "x_b", "keep", "team", "wanted_threads")
        ]
        pointers = [signature.pointer("x"), signature.pointer("lengths", "const int64_t*")]
        pointers += [signature.pointer(f"start_{s}") for s in states]
        pointers += [signature.pointer(f"{what}_{s}", "float*") for what in ("final", "all") for s in states]
        pointers += [signature.pointer(name, "float*") for name in ("saved", "saved_rows")]
        pointers += [signature.pointer(f"gate_{gate}", "float*") for gate in self.source.gates]
        pointers += [signature.pointer(name) for name in self.source.matrix_names.values()]
        pointers += [signature.pointer(name) for name in self.source.masks]
        self.add_parameters()
        self.hoist()
        self._add_biases()
        packing = self._add_packing()
        own = {"linear": "rows * ld", "arguments": f"rows * {len(self.arguments)} * Hp"}
        own["temporaries"] = f"rows * {len(self.temporaries)} * Hp"
        own["reduced"] = f"rows * {len(self.reductions)}"
        width = len(self.columns) + 1 + len(self.arguments) + len(self.temporaries)
        self.shared("team_buffer", f"team ? B * {width} * (Hp + 16) + 64 : 0")
        memory = "team ? team_buffer : own_arena.get(lay_out_own(Allocator{nullptr}))"
        steps = [*self._state_pointers(), *self._padding(), *self._phases(), *self._finals()]
        body = [
            *packing,
            "#pragma omp barrier",
            f"const long ld = spread({max(len(self.columns), 1)} * Hp);",
            self.own(own, memory),
            f"for (long t = 0; t < T; t++) {{\n{indented(steps, 2)}\n}}",
        ]
        return self.function("forward", sizes, pointers, "\n".join(body))

    # ---- products -------------------------------------------------------------------------------------------------

    def _blocks(self, linears, prefix, terms_of) -> list[_Block]:  # type: ignore[no-untyped-def]
        """Groups adjacent linears whose terms have the same operands."""

        def key(item: tuple[int, Linear]) -> object:
            position, linear = item
            return [operand for _, operand in terms_of(linear)], self.columns[linear] - position

        blocks = []
        for _, group in itertools.groupby(enumerate(linears), key):
            members = [linear for _, linear in group]
            first = self.columns[members[0]]
            by_term = zip(*(terms_of(linear) for linear in members), strict=True)
            terms = [
                (f"packed_{prefix}_{first}_{i}", [matrix for matrix, _ in term], term[0][1])
                for i, term in enumerate(by_term)
            ]
            blocks.append(_Block(first, len(members), terms))
        return blocks

    def _add_biases(self) -> None:
        self.shared("bias", f"{len(self.columns)} * Hp")
        self.initialization.append(f"zero(bias, {len(self.columns)} * Hp);")
        for linear, column in self.columns.items():
            for vector in linear.vectors:
                add = f"add_to(bias + {column} * Hp + j, load(b_{vector.name} + j));"
                self.initialization.append(f"for (long j = 0; j < Hp; j += VL) {add}")

    def _add_packing(self) -> list[str]:
        lines = []
        for block in itertools.chain(self.input_blocks, *self.blocks):
            for name, matrices, operand in block.terms:
                K = "D" if operand is _INPUT else "H"
                self.shared(name, f"packed_size({K}, {block.width} * Hp)")
                listed = ", ".join(self.source.matrix_names[matrix] for matrix in matrices)
                pack = f"pack_columns({name}, M, {block.width}, H, Hp, {K}, slab.id, slab.threads);"
                lines.append(f"{{\n  const float* M[] = {{{listed}}};\n  {pack}\n}}")
        return lines

    def _phases(self) -> list[str]:
        lines = []
        for linear in self.without_input:
            column = f"{self.columns[linear]} * Hp"
            copy = f"copy(linear + i * ld + {column}, bias + {column}, Hp);"
            lines.append(f"for (long i = 0; slab.share == 0 && i < rows; i++) {copy}")
        lines += [self._product(block, f"bias + {block.first} * Hp, 0") for block in self.input_blocks]
        lines.append("synchronize(slab);")
        for level, blocks in enumerate(self.blocks):
            products = [self._product(block, f"linear + {block.first} * Hp, ld") for block in blocks]
            lines += [*products, "synchronize(slab);"] if products else []
            passes = self._pass(level)
            lines += [*passes, "synchronize(slab);"] if passes else []
        return lines

    def _product(self, block: _Block, start: str) -> str:
        terms = ", ".join(f"{{{self._rows(operand)}, {name}}}" for name, _, operand in block.terms)
        operands = ", ".join(dict.fromkeys(self._described(operand) for *_, operand in block.terms))
        out = f"linear + {block.first} * Hp, ld, {start}"
        size = f"rows, {block.width} * Hp, slab.share, slab.shares"
        call = f"product({out}, terms, {len(block.terms)}, {size});"
        return f"{{  // products with {operands}\n  const Term terms[] = {{{terms}}};\n  {call}\n}}"

    def _rows(self, operand: Node) -> str:
        if operand is _INPUT:
            return "x + t * x_t + slab.first * x_b, x_b, D"
        if operand.op == "state":
            return f"old_{operand.name} + slab.first * Hp, Hp, H"
        return f"arguments + {self.arguments[operand]} * Hp, {len(self.arguments)} * Hp, H"

    def _described(self, operand: Node) -> str:
        return operand.name or self.source.names.get(operand, "an expression")

    # ---- the pointwise pass -----------------------------------------------------------------------------------------

    def _pass(self, level: int) -> list[str]:
        stored = self.of_level(level)
        if not stored:
            return []
        pointwise = Pass(
            self.program, stored, lambda node: self._load(node, level), self.load_column, self.source.names
        )
        values = {node: pointwise.value(node) for node in stored}
        stores = [
            line for node, value in values.items() if node.shape == "vector" for line in self._stores(node, value)
        ]
        before, inside, after = self.reductions_of(values)
        rows = [f"if (keep) {self.saved_row(node)} = {values[node]};" for node in stored if node in self.saved_rows]
        return [
            "for (long b = slab.first; b < slab.last; b++) {\n"
            "  if (lengths && t >= lengths[b]) continue;\n"
            "  [[maybe_unused]] const long i = b - slab.first;\n"
            f"{indented([*pointwise.row_lines, *before], 2)}\n"
            "  for (long j = slab.first_unit(Hp); j < slab.last_unit(Hp); j += VL) {\n"
            f"{indented([*pointwise.lines, *stores, *inside], 4)}\n  }}\n"
            f"{indented([*after, *rows], 2)}\n}}"
        ]

    def _load(self, node: Node, level: int) -> str | None:
        if node.op == "state":
            return f"load(old_{node.name} + b * Hp + j)"
        if (given := self.load_input(node)) is not None:
            return given
        if node in self.reductions:
            return self.reduced(node)
        if node in self.temporaries and self.program.level(node) < level:
            return f"load({self.temporary(node)})"
        return self.load_fixed(node)

    def _stores(self, node: Node, value: str) -> list[str]:
        states = zip(self.source.states, self.graph.new_states, strict=True)
        lines = [f"store(next_{state} + b * Hp + j, {value});" for state, new in states if new is node]
        for gate, watched in self.source.gates.items():
            if watched is node:
                lines.append(f"store(gate_{gate} + (t * B + b) * Hp + j, {value});")
        if node in self.arguments:
            lines.append(f"store(arguments + (i * {len(self.arguments)} + {self.arguments[node]}) * Hp + j, {value});")
        if node in self.temporaries:
            lines.append(f"store({self.temporary(node)}, {value});")
        if node in self.saved:
            lines.append(f"if (keep) store({self.saved_at(node)}, {value});")
        return lines

    # ---- states -----------------------------------------------------------------------------------------------------

    def _state_pointers(self) -> list[str]:
        """Addresses of the old and new states. The history of the first state is the output; those of the others are
        stored only for the backward pass, and otherwise alternate between two buffers.
        """
        lines = []
        for number, state in enumerate(self.source.states):
            now, before = ("(keep ? t : t % 2)", "(keep ? t - 1 : (t - 1) % 2)") if number else ("t", "(t - 1)")
            old = f"t ? all_{state} + {before} * B * Hp : start_{state}"
            lines.append(f"[[maybe_unused]] const float* const old_{state} = {old};")
            lines.append(f"float* const next_{state} = all_{state} + {now} * B * Hp;")
        return lines

    def _padding(self) -> list[str]:
        zeros = [f"zero(next_{state} + b * Hp, Hp);" for state in self.source.states]
        zeros += [f"zero(gate_{gate} + (t * B + b) * Hp, Hp);" for gate in self.source.gates]
        if self.saved:  # the backward pass multiplies them by zero, and uninitialized memory may hold NaN
            zeros.append(f"if (keep) zero(saved + (t * B + b) * {len(self.saved)} * Hp, {len(self.saved)} * Hp);")
        return [
            "for (long b = slab.first; lengths && slab.share == 0 && b < slab.last; b++)\n"
            f"  if (t >= lengths[b]) {{\n{indented(zeros, 4)}\n  }}"
        ]

    def _finals(self) -> list[str]:
        copies = [f"copy(final_{state} + b * Hp, next_{state} + b * Hp, Hp);" for state in self.source.states]
        return [
            "for (long b = slab.first; slab.share == 0 && (lengths || t == T - 1) && b < slab.last; b++)\n"
            f"  if (t == (lengths ? lengths[b] : T) - 1) {{\n{indented(copies, 4)}\n  }}"
        ]


_INPUT = Node("input", "input", name="x")  # stands for the input, whatever its name in the cell


def _recurrent_terms(linear: Linear) -> list[tuple[Matrix, Node]]:
    return [(p.matrix, p.args[0]) for p in linear.products if p.matrix and p.args[0].op != "input"]
