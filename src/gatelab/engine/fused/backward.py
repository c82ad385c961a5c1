"""The C++ of the backward pass: adjoints step by step, weight gradients in chunks of steps that fit in cache."""

from __future__ import annotations

from gatelab.engine.fused.phases import Linear
from gatelab.engine.fused.pointwise import Pass
from gatelab.engine.fused.source import Source
from gatelab.engine.fused.writer import Writer, indented
from gatelab.lang.graph import Matrix, Node, Transpose

CHUNK = 64  # maximum number of steps per weight-gradient product


def write(source: Source) -> str:
    """The C++ function `backward` of a kernel."""
    return _Backward(source).text()


class _Backward(Writer):
    def __init__(self, source: Source) -> None:
        super().__init__(source, source.backward, source.backward_arguments)
        self.adjoints = {node: i for i, node in enumerate(source.adjoints)}
        self.recomputed = {node: i for i, node in enumerate(source.recomputed)}
        self.input_products = [p for p in source.gradient.products if p.args[0].op == "input"]
        # Gradients of vectors and scalars, summed over rows and time: name, node, whether to sum over units too.
        g = source.gradient
        self.sums = [(f"d_b_{name}", node, False) for name, node in g.vectors.items()]
        self.sums += [(f"d_scalar_{name}", node, True) for name, node in g.scalars.items()]

    def text(self) -> str:
        signature, states, operands = self.signature, self.source.states, self.source.operands.values()
        names = [
            "T",
            "B",
            "D",
            "H",
            "Hp",
            "Dp",
            "x_t",
            "x_b",
            "d_output_t",
            "d_output_b",
            "wanted_threads",
            "chunk_rows",
        ]
        sizes = [signature.size(name) for name in names]
        pointers = [
            signature.pointer("x"),
            signature.pointer("lengths", "const int64_t*"),
            signature.pointer("d_output"),
        ]
        pointers += [signature.pointer(f"{what}_{s}") for what in ("start", "all") for s in states]
        pointers += [signature.pointer("saved"), signature.pointer("saved_rows"), signature.pointer("d_x", "float*")]
        pointers += [signature.pointer(f"d_final_{s}") for s in states]
        pointers += [signature.pointer(f"d_start_{s}", "float*") for s in states]
        pointers += [signature.pointer(f"d_gate_{gate}") for gate in self.source.gates]
        pointers += [signature.pointer(f"d_by_{operand}", "float*") for operand in operands]
        pointers += [signature.pointer(name, "float*") for name, _, _ in self.sums]
        wanted = ["wanted_sums", *(f"wanted_by_{operand}" for operand in operands)]
        pointers += [signature.pointer(name, "const uint8_t*") for name in wanted]
        pointers += [signature.pointer(name) for name in self.source.matrix_names.values()]
        pointers += [signature.pointer(name) for name in self.source.masks]
        self.add_parameters()
        self.hoist()
        packing = self._add_packing()
        self.shared("zeros", "Hp > Dp ? Hp : Dp")
        self.initialization.append("zero(zeros, Hp > Dp ? Hp : Dp);")
        for node, operand in self.source.operands.items():
            self.shared(f"sums_{operand}", f"threads * {self._size(node)}")
        self.shared("sums", f"threads * {len(self.sums)} * Hp")
        sizes.append("const bool team = false;")  # each thread sums weight gradients over its own rows
        return self.function("backward", sizes, pointers, self._body(packing))

    def _body(self, packing: list[str]) -> str:
        states = self.source.states
        own = {"linear": "rows * ld", "adjoints": "chunk * rows * ldg"}
        own["expressions"] = f"chunk * rows * {len(self.recomputed)} * Hp"
        own["temporaries"] = f"rows * {len(self.temporaries)} * Hp"
        own["reduced"] = f"rows * {len(self.reductions)}"
        own["direct"] = "rows * Hp"  # the gradient of the input where it is used without a map
        own["small"] = f"{len(self.sums)} * Hp"
        # D and E: adjoints of the states after and before the step.
        own |= {f"{letter}_{s}": "rows * Hp" for s in states for letter in "DE"}
        swaps = [f"{{\n  float* const swap = D_{s};\n  D_{s} = E_{s}, E_{s} = swap;\n}}" for s in states]
        step = [
            "float* const G = adjoints + (t - before) * rows * ldg;",
            f"[[maybe_unused]] float* const A = expressions + (t - before) * rows * {len(self.recomputed)} * Hp;",
            *(
                f"[[maybe_unused]] const float* const old_{s} = t ? all_{s} + (t - 1) * B * Hp : start_{s};"
                for s in states
            ),
            *self._phases(),
            *self._input_gradient(),
            *swaps,
        ]
        flush = f"add_to(sums + slab.id * {len(self.sums)} * Hp + j, load(small + j)), store(small + j, V{{}});"
        finish = [f"copy(d_start_{s} + b * Hp, D_{s} + (b - slab.first) * Hp, Hp);" for s in states]
        return "\n".join(
            [
                *packing,
                "long chunk = rows ? (chunk_rows + rows - 1) / rows : 1;  // steps with about chunk_rows rows",
                f"if (chunk > {CHUNK}) chunk = {CHUNK};",
                "if (chunk > T) chunk = T;",
                f"const long ld = spread({max(len(self.columns), 1)} * Hp);",
                f"const long ldg = spread({max(len(self.adjoints), 1)} * Hp);",
                self.own(own),
                *self._start(),
                "#pragma omp barrier",
                "for (long after = T, before; after > 0; after = before) {",
                "  before = after > chunk ? after - chunk : 0;",
                f"  for (long t = after - 1; t >= before; t--) {{\n{indented(step, 4)}\n  }}",
                indented(self._weights(), 2),
                f"  for (long j = 0; j < {len(self.sums)} * Hp; j += VL) {flush}",
                "}",
                f"for (long b = slab.first; b < slab.last; b++) {{\n{indented(finish, 2)}\n}}",
                "#pragma omp barrier",
                *self._collect(),
            ]
        )

    # ---- sums over rows and time ------------------------------------------------------------------------------------

    def _length(self, operand: Node) -> str:
        return "D" if operand.op == "input" else "H"

    def _size(self, operand: Node) -> str:
        """Number of floats in the gradients of all weights applied to this operand."""
        return f"{self._length(operand)} * {len(self.adjoints)} * Hp"

    def _start(self) -> list[str]:
        width = f"{len(self.sums)} * Hp"
        lines = [f"zero(small, {width});", f"zero(sums + slab.id * {width}, {width});"]
        for node, operand in self.source.operands.items():
            size = self._size(node)
            lines.append(f"if (wanted_by_{operand}) zero(sums_{operand} + slab.id * {size}, {size});")
        for s in self.source.states:
            begin = f"copy(D_{s} + (b - slab.first) * Hp, d_final_{s} ? d_final_{s} + b * Hp : zeros, Hp);"
            lines.append(f"for (long b = slab.first; b < slab.last; b++) {begin}")
        return lines

    def _operand_rows(self, node: Node) -> tuple[str, str]:
        """The address of an operand's rows at step t, and their leading dimension."""
        if node.op == "input":
            return "x + t * x_t + slab.first * x_b", "x_b"
        if node.op == "state":
            name = node.name
            return f"(t ? all_{name} + (t - 1) * B * Hp : start_{name}) + slab.first * Hp", "Hp"
        if node in self.saved:
            width = f"{len(self.saved)} * Hp"
            return f"saved + (t * B + slab.first) * {width} + {self.saved[node]} * Hp", width
        width = f"{len(self.recomputed)} * Hp"
        return f"expressions + (t - before) * rows * {width} + {self.recomputed[node]} * Hp", width

    def _weights(self) -> list[str]:
        """Weight gradients of a chunk, for the columns of adjoints that are required."""
        lines = []
        for node, operand in self.source.operands.items():
            address, ld = self._operand_rows(node)
            width, K = f"{len(self.adjoints)} * Hp", self._length(node)
            lines.append(
                f"for (long first, last = 0; next_wanted(wanted_by_{operand}, {len(self.adjoints)}, first, last);) {{\n"
                f"  Segment segments[{CHUNK}];\n"
                f"  for (long t = before; t < after; t++)\n"
                f"    segments[t - before] = {{{address}, adjoints + (t - before) * rows * ldg + first * Hp, rows}};\n"
                f"  float* const d_by = sums_{operand} + slab.id * {self._size(node)} + first * Hp;\n"
                f"  outer(d_by, {width}, segments, after - before, {ld}, ldg, {K}, (last - first) * Hp);\n}}"
            )
        return lines

    def _collect(self) -> list[str]:
        """Add the threads' sums in a fixed order, so that results are deterministic."""
        lines = []
        for node, operand in self.source.operands.items():
            arrays = f"d_by_{operand}, sums_{operand}, {self._size(node)}"
            lines.append(f"if (wanted_by_{operand}) add_up({arrays}, slab.id, slab.threads);")
        additions = [
            f"add_to({name} + j, load(sums + (k * {len(self.sums)} + {i}) * Hp + j));"
            for i, (name, _, _) in enumerate(self.sums)
        ]
        if additions:
            loops = "for (int k = 0; k < slab.threads; k++)\n    for (long j = 0; j < Hp; j += VL) {"
            lines.append(f"if (slab.id == 0)\n  {loops}\n{indented(additions, 6)}\n    }}")
        return lines

    # ---- products ---------------------------------------------------------------------------------------------------

    def _terms(self, linear: Linear) -> list[tuple[str, Matrix, Node]]:
        """For each term: the name of the packed matrix, the matrix that is transposed, the adjoint it is applied to."""
        terms = []
        for i, p in enumerate(linear.products):
            assert isinstance(p.matrix, Transpose)
            terms.append((f"packed_{self.columns[linear]}_{i}", p.matrix.of, p.args[0]))
        return terms

    def _add_packing(self) -> list[str]:
        lines = []
        for linear in self.program.linears:
            for name, matrix, _ in self._terms(linear):
                self.shared(name, "packed_size(H, Hp)")
                lines.append(f"pack_rows({name}, {self.source.matrix_names[matrix]}, H, H, Hp, slab.id, slab.threads);")
        for i, p in enumerate(self.input_products):
            assert p.matrix is not None
            self.shared(f"packed_x_{i}", "packed_size(H, Dp)")
            pack = f"pack_rows(packed_x_{i}, {self.source.matrix_names[p.matrix]}, H, D, Dp, slab.id, slab.threads);"
            lines.append(f"if (d_x) {pack}")
        return lines

    def _adjoint_rows(self, adjoint: Node) -> str:
        return f"G + {self.adjoints[adjoint]} * Hp, ldg, H"

    def _phases(self) -> list[str]:
        lines = []
        for level in range(self.program.levels):
            for linear in self.program.at_level(level):
                terms = ", ".join(f"{{{self._adjoint_rows(a)}, {name}}}" for name, _, a in self._terms(linear))
                out = f"linear + {self.columns[linear]} * Hp, ld"
                call = f"product({out}, zeros, 0, terms, {len(linear.products)}, rows, Hp);"
                lines.append(f"{{\n  const Term terms[] = {{{terms}}};\n  {call}\n}}")
            lines += self._pass(level)
        return lines

    def _input_gradient(self) -> list[str]:
        start = "zeros, 0" if self.source.gradient.itself is None else "direct, Hp"
        if not self.input_products:
            rows = "zeros" if self.source.gradient.itself is None else "direct + (b - slab.first) * Hp"
            return [f"for (long b = slab.first; d_x && b < slab.last; b++) copy(d_x + (t * B + b) * Dp, {rows}, Dp);"]
        adjoints = self.source.gradient.products
        terms = ", ".join(
            f"{{{self._adjoint_rows(adjoints[p])}, packed_x_{i}}}" for i, p in enumerate(self.input_products)
        )
        out = "d_x + (t * B + slab.first) * Dp, Dp"
        call = f"product({out}, {start}, terms, {len(self.input_products)}, rows, Dp);"
        return [f"if (d_x) {{\n  const Term terms[] = {{{terms}}};\n  {call}\n}}"]

    # ---- the pointwise pass -----------------------------------------------------------------------------------------

    def _pass(self, level: int) -> list[str]:
        stored = self.of_level(level)
        pointwise = Pass(
            self.program, stored, lambda node: self._load(node, level), self.load_column, self.source.names
        )
        values = {node: pointwise.value(node) for node in stored}
        before_units, inside, after_units = self.reductions_of(values)
        past = []  # for rows that have ended
        for node, value in values.items():
            if node is self.source.gradient.itself:
                inside.append(f"store(direct + i * Hp + j, {value});")
                past.append("store(direct + i * Hp + j, V{});")
            for address in self._addresses(node):
                inside.append(f"store({address}, {value});")
                past.append(f"store({address}, V{{}});")
            for i, (_, adjoint, over_units) in enumerate(self.sums):
                if adjoint is node:
                    summed = f"only({value}, H - j)" if over_units else value
                    inside.append(f"if (wanted_sums[{i}]) add_to(small + {i} * Hp + j, {summed});")
        for s in self.source.states:
            before = self.source.gradient.states.get(s)  # None if nothing depends on the old state
            if before in values or (before is None and level == 0):
                inside.append(f"store(E_{s} + i * Hp + j, {values[before] if before else 'V{}'});")
                past.append(f"store(E_{s} + i * Hp + j, load(D_{s} + i * Hp + j));")
        if not inside:
            return []
        return [
            "for (long b = slab.first; b < slab.last; b++) {\n"
            "  const long i = b - slab.first;\n"
            "  [[maybe_unused]] const float* const d_out =\n"
            "      d_output ? d_output + t * d_output_t + b * d_output_b : zeros;\n"
            "  if (lengths && t >= lengths[b]) {\n"
            f"    for (long j = 0; j < Hp; j += VL) {{\n{indented(past, 6)}\n    }}\n    continue;\n  }}\n"
            f"{indented([*pointwise.row_lines, *before_units], 2)}\n"
            f"  for (long j = 0; j < Hp; j += VL) {{\n{indented([*pointwise.lines, *inside], 4)}\n  }}\n"
            f"{indented(after_units, 2)}\n}}"
        ]

    def _addresses(self, node: Node) -> list[str]:
        """Where a value is stored, for row i and unit j."""
        addresses = []
        if node in self.adjoints:
            addresses.append(f"G + i * ldg + {self.adjoints[node]} * Hp + j")
        if node in self.recomputed:
            addresses.append(f"A + (i * {len(self.recomputed)} + {self.recomputed[node]}) * Hp + j")
        if node in self.temporaries:
            addresses.append(self.temporary(node))
        return addresses

    def _load(self, node: Node, level: int) -> str | None:
        if node.op == "state":
            return f"load(old_{node.name} + b * Hp + j)"
        if node.op == "adjoint":
            from_output = " + load(d_out + j)" if node.name == self.source.states[0] else ""
            return f"(load(D_{node.name} + i * Hp + j){from_output})"
        if node.op == "gate_adjoint":
            name = f"d_gate_{node.name}"
            return f"load(({name} ? {name} + (t * B + b) * Hp : zeros) + j)"
        if (given := self.load_input(node)) is not None:
            return given
        if node in self.saved:
            return f"load({self.saved_at(node)})"
        if node in self.saved_rows:
            return self.saved_row(node)
        if node in self.reductions:
            return self.reduced(node)
        if node in self.adjoints and self.program.level(node) < level:
            return f"load(G + i * ldg + {self.adjoints[node]} * Hp + j)"
        if node in self.temporaries and self.program.level(node) < level:
            return f"load({self.temporary(node)})"
        return self.load_fixed(node)
