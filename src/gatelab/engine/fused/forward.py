"""The C++ of the forward pass."""

from __future__ import annotations

import itertools
from typing import NamedTuple

from gatelab.engine.fused.kernel_source import KernelSource
from gatelab.engine.fused.phases import LinearSum
from gatelab.engine.fused.pointwise import Pass
from gatelab.engine.fused.writer import Parts, Writer, indented
from gatelab.lang.graph import Matrix, Node


def write(source: KernelSource) -> str:
    """The C++ function `forward` of a kernel."""
    return _Forward(source).write()


SIZES = ("T", "B", "D", "H", "Hp", "x_t", "x_b", "keep", "wanted_team", "wanted_threads", "turn")


class _Block(NamedTuple):
    """Adjacent columns that one matrix product computes."""

    first: int
    width: int
    terms: list[tuple[str, list[Matrix], Node]]  # name of the packed matrices, the matrices, their operand


class _Forward(Writer):
    """Time is processed in chunks of steps. The products of the input are computed for a whole chunk; then come the
    steps one by one; then the phases that no later step depends on, again for the whole chunk.
    """

    def __init__(self, source: KernelSource) -> None:
        super().__init__(source, source.forward, "forward")
        self.arguments = {node: i for i, node in enumerate(self.program.stored_arguments())}
        with_input = [linear for linear in self.program.linears if linear.input_matrices()]
        self.without_input = [linear for linear in self.program.linears if not linear.input_matrices()]
        self.input_blocks = self._blocks(with_input, "input", lambda li: [(m, _INPUT) for m in li.input_matrices()])
        self.blocks = [
            self._blocks(self.program.at_level(level), f"level_{level}", _recurrent_terms)
            for level in range(self.program.levels)
        ]
        self.looped = source.looped
        self.has_later = self.looped < self.program.levels
        self.loops_products = any(self.blocks[: self.looped])

    def write(self) -> str:
        """The C++ of the forward pass."""
        signature, states = self.signature, self.source.states
        sizes = [signature.size(name) for name in SIZES]
        pointers = [
            signature.pointer("prepared"),
            signature.pointer("x"),
            signature.pointer("lengths", "const int64_t*"),
        ]
        pointers += [signature.pointer("resets", "const uint8_t*")]
        pointers += [signature.pointer(f"{name}_{s}") for name in ("start", "begin") for s in states]
        pointers += [signature.pointer(f"final_{s}", "float*") for s in states]
        pointers += [signature.pointer(name, "float*") for name in ("output", "gates", "tape")]
        pointers += [signature.pointer(name) for name in self.source.masks]
        pointers += self.tape()
        pointers += [
            f"float* const gate_{gate} = gates + {k} * T * B * Hp;" for k, gate in enumerate(self.source.gates)
        ]
        parameters = self.add_parameters()
        self.hoist()
        self._add_biases()
        self._add_packing()
        kept = "chunk" if self.has_later else "1"
        own = {"linears": "chunk * most * ld", "gathered": "chunk > 1 ? chunk * most * D : 0"}
        own["all_arguments"] = f"{kept} * most * {len(self.arguments)} * Hp"
        own["all_temporaries"] = f"{kept} * most * {len(self.temporaries)} * Hp"
        own["all_reduced"] = f"{kept} * most * {len(self.reductions)}"
        own |= {f"ring_{s}": "keep ? 0 : (chunk + 1) * most * Hp" for s in states}
        before = [
            f"const long chunk = steps_at_once(most, T, {str(self.loops_products).lower()});",
            "const long ring = keep ? T + 1 : chunk + 1;  // without a backward pass old states are overwritten",
            f"const long ld = spread({max(len(self.columns), 1)} * Hp);",
            "const bool direct = output && H == Hp;  // rows of whole vectors",
            "const long parts = team ? 1 : threads;",
            "if (keep) zero(tape, TAPE_HEADER), *tape = parts;",
        ]
        body = [
            "const Part part = part_of(slab, parts, B);",
            *(f"float* const all_{s} = keep ? taped_{s} + part.row(0, T + 1) * Hp : ring_{s};" for s in states),
            *self._start(),
            "synchronize(slab);",
            "for (long t0 = 0, t1; t0 < T; t0 = t1) {",
            "  t1 = t0 + chunk < T ? t0 + chunk : T;",
            indented([*self._input_products(), *self._loop(), *self._later()], 2),
            "}",
        ]
        parts = Parts(
            parameters=parameters, sizes=sizes, pointers=pointers, own=own, before=before, body="\n".join(body)
        )
        return self.text(parts) + self._one_step()

    def _one_step(self) -> str:
        """A step for streaming: few arguments."""
        states = self.source.states
        values = dict.fromkeys(("gates", "tape", "lengths", "resets"), "nullptr") | {"prepared": "fixed[0]"}
        values |= {name: f"fixed[{k + 1}]" for k, name in enumerate(self.source.masks)}
        for k, state in enumerate(states):
            values |= {f"start_{state}": f"starts[{k}]", f"begin_{state}": "nullptr", f"final_{state}": f"finals[{k}]"}
        listed = ", ".join(f"(void*){values.get(name, name)}" for name in self.signature.pointers)
        arguments = "const float* x, float* output, const float* const* starts, float* const* finals"
        return f"""
extern "C" int step(void* const* fixed, long* n, {arguments}) {{
  void* const p[] = {{{listed}}};
  n[{SIZES.index("turn")}] ^= 1;
  return forward(p, n);
}}
"""

    def _start(self) -> list[str]:
        """Initial states. Values beyond the last unit are never used, but computed with."""
        lines = []
        for s in self.source.states:
            row = f"all_{s} + (b - slab.first) * Hp"
            lines.append(f"copy_units({row}, start_{s} ? start_{s} + b * H : nullptr, first_unit, units);")
            lines.append(f"if (slab.share == 0) zero({row} + H, Hp - H);")
            final = f"copy_units(final_{s} + b * H, {row}, first_unit, units);"
            lines.append(f"if (lengths && lengths[b] == 0) {final}  // it has no steps")
        return [f"for (long b = slab.first; b < slab.last; b++) {{\n{indented(lines, 2)}\n}}"]

    def _input_products(self) -> list[str]:
        lines = []
        for linear in self.without_input:
            column = f"{self.columns[linear]} * Hp"
            copy = (
                f"copy(linears + i * ld + {column} + first_unit, bias + {column} + first_unit, last_unit - first_unit);"
            )
            lines.append(f"for (long i = 0; i < (t1 - t0) * rows; i++) {copy}")
        if self.input_blocks:
            rows = "x + t0 * x_t + slab.first * x_b, x_t, x_b, rows, t1 - t0, D, gathered, slab"
            lines.append(f"const Rows inputs = rows_of({rows});")
        lines += [
            self._product(block, "linears", f"bias + {block.first} * Hp, 0", "(t1 - t0) * rows")
            for block in self.input_blocks
        ]
        return lines

    def _loop(self) -> list[str]:
        """The steps, one by one. A thread of a team needs the units of others only for products, and waits before."""
        lines = [*self._pointers(), *self._resets(), *self._padding()]
        wait = ["synchronize(slab);"] if self.loops_products else []
        for level in range(self.looped):
            products = [
                self._product(block, "linear", f"linear + {block.first} * Hp, ld", "rows")
                for block in self.blocks[level]
            ]
            passes = self._pass(level)
            lines += [*products, *passes, *wait] if passes else products
        lines += self._leave([s for s in self.source.states if not self._is_later(s)])
        return [f"for (long t = t0; t < t1; t++) {{\n{indented(lines, 2)}\n}}"]

    def _later(self) -> list[str]:
        """Phases that no later step depends on."""
        if not self.has_later:
            return ["synchronize(slab);"]
        lines = []
        for level in range(self.looped, self.program.levels):
            if self.blocks[level]:
                lines.append("synchronize(slab);")
            for block in self.blocks[level]:
                if any(operand.op == "state" for *_, operand in block.terms):
                    product = self._product(block, "linear", f"linear + {block.first} * Hp, ld", "rows")
                    steps = indented([*self._pointers(), product], 2)
                    lines.append(f"for (long t = t0; t < t1; t++) {{\n{steps}\n}}")
                else:
                    lines.append(
                        self._product(block, "linears", f"linears + {block.first} * Hp, ld", "(t1 - t0) * rows")
                    )
            passes = indented([*self._pointers(), *self._pass(level)], 2)
            lines.append(f"for (long t = t0; t < t1; t++) {{\n{passes}\n}}")
        leave = indented([*self._pointers(), *self._leave([s for s in self.source.states if self._is_later(s)])], 2)
        return [*lines, f"for (long t = t0; t < t1; t++) {{\n{leave}\n}}", "synchronize(slab);"]

    def _is_later(self, state: str) -> bool:
        """Whether a new state is computed after the loop."""
        new = self.graph.new_states[self.source.states.index(state)]
        return self.program.level(new) >= self.looped

    # ---- products -------------------------------------------------------------------------------------------------

    def _blocks(self, linears, prefix, terms_of) -> list[_Block]:  # type: ignore[no-untyped-def]
        """Groups adjacent linears whose terms have the same operands."""

        def key(item: tuple[int, LinearSum]) -> object:
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
        self.prepared["bias"] = f"{len(self.columns)} * Hp"
        self.initialization.append(f"zero(bias, {len(self.columns)} * Hp);")
        for linear, column in self.columns.items():
            for vector in linear.vectors:
                add = f"add_to(bias + {column} * Hp + j, load(b_{vector.name} + j));"
                self.initialization.append(f"for (long j = 0; j < Hp; j += VL) {add}")

    def _add_packing(self) -> None:
        for block in itertools.chain(self.input_blocks, *self.blocks):
            for name, matrices, operand in block.terms:
                K = "D" if operand is _INPUT else "H"
                self.prepared[name] = f"packed_size({K}, {block.width} * Hp)"
                listed = ", ".join(self.source.matrix_names[matrix] for matrix in matrices)
                pack = f"pack_columns({name}, M, {block.width}, H, Hp, {K}, id, threads);"
                self.packing.append(f"{{\n  const float* M[] = {{{listed}}};\n  {pack}\n}}")

    def _product(self, block: _Block, out: str, start: str, rows: str) -> str:
        """A product for the rows of one step, or of all steps of a chunk."""
        at_once = out == "linears"
        # Every second step takes the panels backwards: of weights that exceed the cache it finds the last ones there.
        order = "false" if at_once else "(t + turn) & 1"
        terms = ", ".join(f"{{{self._rows(operand, at_once)}, {name}}}" for name, _, operand in block.terms)
        operands = ", ".join(dict.fromkeys(self._described(operand) for *_, operand in block.terms))
        size = f"{rows}, columns_of(slab, {block.width}, Hp), {order}"
        call = f"product({out} + {block.first} * Hp, ld, {start}, terms, {len(block.terms)}, {size});"
        return f"{{  // products with {operands}\n  const Term terms[] = {{{terms}}};\n  {call}\n}}"

    def _rows(self, operand: Node, at_once: bool) -> str:
        if operand is _INPUT:
            return "inputs.first, inputs.ld, D"
        if operand.op == "state":
            return f"old_{operand.name}, Hp, H"
        array = "all_arguments" if at_once else "arguments"
        return f"{array} + {self.arguments[operand]} * Hp, {len(self.arguments)} * Hp, H"

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
            "  for (long j = first_unit; j < last_unit; j += VL) {\n"
            f"{indented([*pointwise.lines, *stores, *inside], 4)}\n  }}\n"
            f"{indented([*after, *rows], 2)}\n}}"
        ]

    def _load(self, node: Node, level: int) -> str | None:
        if node.op == "state":
            return f"load(old_{node.name} + i * Hp + j)"
        if (given := self.load_input(node)) is not None:
            return given
        if node in self.reductions:
            return self.reduced(node)
        if node in self.temporaries and self.program.level(node) < level:
            return f"load({self.temporary(node)})"
        return self.load_fixed(node)

    def _stores(self, node: Node, value: str) -> list[str]:
        states = zip(self.source.states, self.graph.new_states, strict=True)
        lines = [f"store(next_{state} + i * Hp + j, {value});" for state, new in states if new is node]
        if node is self.graph.new_states[0]:
            lines.append(f"if (direct) store(output + (t * B + b) * H + j, {value});")
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

    def _pointers(self) -> list[str]:
        """What belongs to step t: old and new states, and the rows of the own arrays."""
        step = "(t - t0) * rows" if self.has_later else "0"
        arrays = {"linear": "(t - t0) * rows * ld", "arguments": f"{step} * {len(self.arguments)} * Hp"}
        arrays["temporaries"] = f"{step} * {len(self.temporaries)} * Hp"
        arrays["reduced"] = f"{step} * {len(self.reductions)}"
        bases = {"linear": "linears"}
        lines = [
            f"[[maybe_unused]] float* const {name} = {bases.get(name, f'all_{name}')} + {offset};"
            for name, offset in arrays.items()
        ]
        for s in self.source.states:
            lines.append(f"[[maybe_unused]] float* const old_{s} = all_{s} + t % ring * rows * Hp;")
            lines.append(f"[[maybe_unused]] float* const next_{s} = all_{s} + (t + 1) % ring * rows * Hp;")
        return [*lines, "[[maybe_unused]] const long kept_row = part.row(t, T);"]

    def _resets(self) -> list[str]:
        """Where a sequence begins anew, the old states are those it begins with."""
        copies = [
            f"copy_units(old_{s} + (b - slab.first) * Hp, begin_{s} ? begin_{s} + b * H : nullptr, first_unit, units);"
            for s in self.source.live
        ]
        if not copies:
            return []
        rows = (
            f"for (long b = slab.first; b < slab.last; b++)\n  if (resets[t * B + b]) {{\n{indented(copies, 4)}\n  }}"
        )
        wait = ["synchronize(slab);"] if self.loops_products else []
        return [f"if (resets) {{\n{indented([rows, *wait], 2)}\n}}"]

    def _padding(self) -> list[str]:
        """After the end of a sequence all values are zero; the backward pass multiplies them by zero."""
        width = "last_unit - first_unit"
        zeros = [f"zero(next_{state} + i * Hp + first_unit, {width});" for state in self.source.states]
        zeros += [f"zero(gate_{gate} + (t * B + b) * Hp + first_unit, {width});" for gate in self.source.gates]
        if self.saved:
            saved = f"zero(saved + ((kept_row + i) * {len(self.saved)} + k) * Hp + first_unit, {width});"
            zeros.append(f"for (long k = 0; keep && k < {len(self.saved)}; k++) {saved}")
        return [
            "for (long b = slab.first; lengths && b < slab.last; b++)\n"
            "  if (t >= lengths[b]) {\n    const long i = b - slab.first;\n" + f"{indented(zeros, 4)}\n  }}"
        ]

    def _leave(self, states: list[str]) -> list[str]:
        """Copy new states to where the caller wants them: the first is the output, all are final states."""
        lines, new = [], {s: f"next_{s} + (b - slab.first) * Hp" for s in states}
        if (first := self.source.states[0]) in states:
            row = f"copy_units(output + (t * B + b) * H, {new[first]}, first_unit, units);"
            is_missing = "(direct ? lengths && t >= lengths[b] : output != nullptr)"
            lines.append(f"for (long b = slab.first; b < slab.last; b++)\n  if {is_missing}\n    {row}")
        copies = [f"copy_units(final_{s} + b * H, {new[s]}, first_unit, units);" for s in states]
        if copies:
            lines.append(
                "for (long b = slab.first; (lengths || t == T - 1) && b < slab.last; b++)\n"
                f"  if (t == (lengths ? lengths[b] : T) - 1) {{\n{indented(copies, 4)}\n  }}"
            )
        return lines


_INPUT = Node("input", "input", name="x")  # stands for the input, whatever its name in the cell


def _recurrent_terms(linear: LinearSum) -> list[tuple[Matrix, Node]]:
    return [(p.matrix, p.args[0]) for p in linear.products if p.matrix and p.args[0].op != "input"]
