"""The C++ of the backward pass: adjoints step by step, weight gradients in chunks of steps that fit in cache."""

from __future__ import annotations

from gatelab.engine.fused.kernel_source import KernelSource
from gatelab.engine.fused.phases import LinearSum
from gatelab.engine.fused.pointwise import Pass
from gatelab.engine.fused.writer import Parts, Writer, indented
from gatelab.lang.graph import Matrix, Node, Transpose

WORTH_THREADS = 1 << 16  # floats of weight gradients that one thread would take longer to add up than several
CHUNK = 128  # maximum number of steps per weight-gradient product


def write(source: KernelSource) -> str:
    """The C++ function `backward` of a kernel."""
    return _Backward(source).write()


class _Backward(Writer):
    """Time is processed in chunks of steps, last chunk first. Products that need nothing from later steps (those of a
    read-out that is not fed back) are computed for a whole chunk; then come the steps one by one; then the gradients of
    the input and of the weights, again for the whole chunk.
    """

    def __init__(self, source: KernelSource) -> None:
        super().__init__(source, source.backward, "backward")
        self.adjoints = {node: i for i, node in enumerate(source.adjoints)}
        self.recomputed = {node: i for i, node in enumerate(source.recomputed)}
        self.input_products = [p for p in source.gradient.products if p.args[0].op == "input"]
        # Gradients of vectors and scalars, summed over rows and time: node, whether to sum over units too.
        g = source.gradient
        self.sums = [(f"vector_{name}", node, False) for name, node in g.vectors.items()]
        self.sums += [(f"scalar_{name}", node, True) for name, node in g.scalars.items()]
        self.ahead = source.ahead  # computed for a whole chunk, from these adjoints:
        self.early = dict.fromkeys(p.args[0] for linear in self.ahead for p in linear.products)

    def write(self) -> str:
        """The C++ of the backward pass."""
        sizes, pointers = self._sizes(), self._all_pointers()
        parameters = self.add_parameters()
        self.hoist()
        self.prepared["zeros"] = "Hp > Dp ? Hp : Dp"
        self.initialization.append("zero(zeros, Hp > Dp ? Hp : Dp);")
        self._add_packing()
        own, shared = self._arrays_of_rows(), self._arrays_of_sums()
        before, body = self._divided(), self._body()
        parts = Parts(
            parameters=parameters, sizes=sizes, pointers=pointers, own=own, shared=shared, before=before, body=body,
            after=self._collect(shared),
            meeting="pooled ? Meeting::NEEDED : team ? Meeting::OPTIONAL : Meeting::NONE",
            division=["const long parts = parts_of(tape, B);", "if (parts > 1) team = 0, threads = parts;"],
            shares="parts",
        )  # fmt: skip
        return self.text(parts)

    def _sizes(self) -> list[str]:
        names = ["T", "B", "D", "H", "Hp", "Dp", "x_t", "x_b", "d_output_t", "d_output_b"]
        names += ["wanted_team", "wanted_threads", "chunk_rows", "most_floats", "begins"]
        return [self.signature.size(name) for name in names]

    def _all_pointers(self) -> list[str]:
        """The arguments that are addresses, and what follows from them."""
        signature, states = self.signature, self.source.states
        pointers = [signature.pointer("prepared"), signature.pointer("x"), signature.pointer("tape", "float*")]
        pointers += [signature.pointer("lengths", "const int64_t*"), signature.pointer("resets", "const uint8_t*")]
        pointers += [signature.pointer(name) for name in ("d_output", *(f"d_final_{s}" for s in states), "d_gates")]
        pointers += [signature.pointer(name, "float*") for name in ("d_x", "d_starts", "gradients")]
        pointers += [signature.pointer("wanted", "const uint8_t*")]
        pointers += [signature.pointer(name) for name in self.source.masks]
        pointers += self.tape()
        pointers += [
            f"[[maybe_unused]] const float* const d_gate_{gate} = d_gates ? d_gates + {k} * T * B * Hp : nullptr;"
            for k, gate in enumerate(self.source.gates)
        ]
        return pointers + self._wanted_columns()

    def _arrays_of_rows(self) -> dict[str, str]:
        """The arrays of each thread's rows, and their sizes."""
        arrays = {
            "linears": f"{'chunk' if self.ahead else '1'} * most * ld",
            "adjoints": "chunk * most * ldg",
            "expressions": f"chunk * most * {len(self.recomputed)} * Hp",
            "temporaries": f"most * {len(self.temporaries)} * Hp",
            "reduced": f"most * {len(self.reductions)}",
            "direct": "chunk * most * Hp" if self.source.gradient.itself is not None else "0",
            "input_rows": "d_x ? chunk * most * Dp : 0",
            "small": f"{len(self.sums)} * Hp",
        }
        # D and E: adjoints of the states after and before the step. S: of initial states where sequences begin anew.
        arrays |= {f"D_{s}": "most * Hp" for s in self.source.states}
        arrays |= {f"E_{s}": "most * Hp" for s in self.source.live}
        return arrays | {f"S_{s}": "resets ? most * Hp : 0" for s in self.source.live}

    def _arrays_of_sums(self) -> dict[str, str]:
        """The arrays that all threads share, and their sizes."""
        sums = {f"sums_{operand}": f"copies * {self._size(node)}" for node, operand in self.source.operands.items()}
        small = {"small_sums": f"threads * {self._small_size()}", "scratches": "threads * (Hp + APART)"}
        return {**sums, **small}

    def _divided(self) -> list[str]:
        """How much is done at once, and who sums the gradients of weights."""
        sizes_of_sums = " + ".join([self._size(node) for node in self.source.operands] or ["0"])
        return [
            "long chunk = (chunk_rows + most - 1) / most;  // steps with about chunk_rows rows",
            f"if (chunk > {CHUNK}) chunk = {CHUNK};",
            "if (chunk > T) chunk = T;",
            f"const long ld = spread({max(len(self.columns), 1)} * Hp);",
            f"const long ldg = spread({max(len(self.adjoints), 1)} * Hp);",
            "// Each thread sums weight gradients over its own rows, unless that takes too much memory: then it sums",
            "// its own columns over the rows of all threads.",
            f"const bool pooled = !alone && !team && threads > 1 && threads * ({sizes_of_sums}) > most_floats;",
            "const bool together = team || pooled;",
            "const long copies = together || alone ? 1 : threads, turns = together ? threads : 1;",
            f"const bool is_little = copies * ({sizes_of_sums}) < {WORTH_THREADS};",
            "[[maybe_unused]] const long collectors = alone || is_little ? 1 : threads;",
        ]

    def _body(self) -> str:
        return "\n".join(
            [
                "const long copy_id = copies > 1 ? id : 0;",
                "const Part part = part_of(slab, parts, B);",
                *self._start(),
                "if (together) meet(slab);",
                "for (long after = T, before; after > 0; after = before) {",
                "  before = after > chunk ? after - chunk : 0;",
                indented(self._ahead(), 2),
                f"  for (long t = after - 1; t >= before; t--) {{\n{indented(self._step(), 4)}\n  }}",
                "  synchronize(slab);",
                indented([*self._input_gradient(), *self._weights(), *self._small_sums()], 2),
                "  synchronize(slab);",
                "}",
                *self._finish(),
            ]
        )

    # ---- the loop over time -----------------------------------------------------------------------------------------

    def _start(self) -> list[str]:
        lines = [
            "[[maybe_unused]] const bool zeroes = !alone || id == 0;  // the first one to use these sums",
            "float* const scratch = scratches + slab.id * (Hp + APART);",
            "zero(scratch, Hp);",
            f"zero(small_sums + slab.id * {self._small_size()}, {len(self.sums)} * Hp);",
            f"for (long k = 0; k < {len(self.sums)}; k++) zero(small + k * Hp + first_unit, last_unit - first_unit);",
        ]
        for node, operand in self.source.operands.items():
            width, K = f"{len(self.adjoints)} * Hp", self._length(node)
            lines.append(
                f"for (long k = slab.id % turns; zeroes && wanted_by_{operand} && k < {K}; k += turns)\n"
                f"  zero(sums_{operand} + copy_id * {self._size(node)} + k * {width}, {width});"
            )
        for s in self.source.states:
            given = f"d_final_{s} ? d_final_{s} + b * H : nullptr"
            fill = [f"copy_units(D_{s} + (b - slab.first) * Hp, {given}, first_unit, units);"]
            fill.append(f"if (slab.share == 0) zero(D_{s} + (b - slab.first) * Hp + H, Hp - H);")
            if s in self.source.live:
                fill.append(f"if (resets) zero(S_{s} + (b - slab.first) * Hp + first_unit, last_unit - first_unit);")
            lines.append(f"for (long b = slab.first; b < slab.last; b++) {{\n{indented(fill, 2)}\n}}")
        return lines

    def _pointers(self) -> list[str]:
        """What belongs to step t."""
        return [
            f"[[maybe_unused]] float* const linear = linears + {'(t - before) * rows * ld' if self.ahead else '0'};",
            "[[maybe_unused]] float* const G = adjoints + (t - before) * rows * ldg;",
            f"[[maybe_unused]] float* const A = expressions + (t - before) * rows * {len(self.recomputed)} * Hp;",
            "[[maybe_unused]] const long kept_row = part.row(t, T);",
            *(
                f"[[maybe_unused]] const float* const old_{s} = taped_{s} + part.row(t, T + 1) * Hp;"
                for s in self.source.states
            ),
        ]

    def _ahead(self) -> list[str]:
        """Products that need nothing from later steps."""
        lines = []
        for level in range(self.program.levels) if self.ahead else ():
            here = [linear for linear in self.program.at_level(level) if linear in self.ahead]
            lines += ["synchronize(slab);"] if here else []
            lines += [self._product(linear, "linears", "adjoints", "(after - before) * rows") for linear in here]
            early = [node for node in self.early if self.program.level(node) == level]
            if passes := self._pass(early, level, is_early=True):
                steps = indented([*self._pointers(), *passes], 2)
                lines.append(f"for (long t = after - 1; t >= before; t--) {{\n{steps}\n}}")
        return lines

    def _step(self) -> list[str]:
        lines = self._pointers()
        for level in range(self.program.levels):
            here = [linear for linear in self.program.at_level(level) if linear not in self.ahead]
            lines += [self._product(linear, "linear", "G", "rows") for linear in here]
            lines += self._pass([node for node in self.of_level(level) if node not in self.early], level)
        live = self.source.live
        resets = [
            f"add_to(S_{s} + i * Hp + j, load(E_{s} + i * Hp + j)), store(E_{s} + i * Hp + j, V{{}});" for s in live
        ]
        if live:
            lines.append(
                "for (long i = 0; resets && i < rows; i++)\n"
                "  if (resets[t * B + slab.first + i])\n"
                f"    for (long j = first_unit; j < last_unit; j += VL) {{\n{indented(resets, 6)}\n    }}"
            )
        lines += [f"{{\n  float* const swap = D_{s};\n  D_{s} = E_{s}, E_{s} = swap;\n}}" for s in live]
        return lines

    def _finish(self) -> list[str]:
        """Gradients of the initial states, and with `begins` also of those after resets, which are not the initial ones
        then; gradients of states that no step reads are zero.
        """
        lines = []
        for number, s in enumerate(self.source.states):
            out = f"d_starts + ({number} * B + b) * H"
            other = f"d_starts + (({len(self.source.states)} + {number}) * B + b) * H"
            if s not in self.source.live:
                final = f"lengths && lengths[b] == 0 && d_final_{s} ? d_final_{s} + b * H : nullptr"
                lines.append(f"copy_units({out}, {final}, first_unit, units);")
                lines.append(f"if (begins) copy_units({other}, nullptr, first_unit, units);")
                continue
            row, sums = f"D_{s} + (b - slab.first) * Hp", f"S_{s} + (b - slab.first) * Hp"
            add = f"add_to({row} + j, load({sums} + j));"
            lines.append(f"for (long j = first_unit; resets && !begins && j < last_unit; j += VL) {add}")
            lines.append(f"copy_units({out}, {row}, first_unit, units);")
            lines.append(f"if (begins) copy_units({other}, resets ? {sums} : nullptr, first_unit, units);")
        return [f"for (long b = slab.first; b < slab.last; b++) {{\n{indented(lines, 2)}\n}}"]

    # ---- sums over rows and time ------------------------------------------------------------------------------------

    def _length(self, operand: Node) -> str:
        return "D" if operand.op == "input" else "H"

    def _size(self, operand: Node) -> str:
        """Number of floats of one thread's gradients of all weights applied to this operand."""
        return f"({self._length(operand)} * {len(self.adjoints)} * Hp + APART)"

    def _small_size(self) -> str:
        """The same of vectors and scalars."""
        return f"({len(self.sums)} * Hp + APART)"

    def _wanted_columns(self) -> list[str]:
        """For each operand, the columns of adjoints whose weight gradient is wanted; null if none is."""
        lines = []
        for operand in self.source.operands.values():
            flags: list[list[str]] = [[] for _ in self.adjoints]
            for matrix, by, column in self.source.weight_gradients:
                if by == operand:
                    flags[column].append(f"wanted[{matrix}]")
            listed = ", ".join(" || ".join(flag) or "0" for flag in flags)
            count = len(flags)
            lines.append(f"const uint8_t columns_by_{operand}[] = {{{listed}}};")
            lines.append(
                f"const uint8_t* const wanted_by_{operand} = any(columns_by_{operand}, {count}) ? "
                f"columns_by_{operand} : nullptr;"
            )
        return lines

    def _operand_rows(self, node: Node) -> tuple[str, str, str]:
        """The address of an operand's rows at the first step of the chunk, and the distances of steps and of rows."""
        if node.op == "input":
            return "x + before * x_t + from.first * x_b", "x_t", "x_b"
        if node.op == "state":
            return f"taped_{node.name} + its_part.row(before, T + 1) * Hp", "its_part.rows * Hp", "Hp"
        if node in self.saved:
            width = f"{len(self.saved)} * Hp"
            first = f"saved + its_part.row(before, T) * {width} + {self.saved[node]} * Hp"
            return first, f"its_part.rows * {width}", width
        width = f"{len(self.recomputed)} * Hp"
        return f"expressions + shift + {self.recomputed[node]} * Hp", f"from.rows() * {width}", width

    def _weights(self) -> list[str]:
        """Weight gradients of a chunk, for the columns of adjoints that are wanted, and sums of vectors and scalars."""
        products = []
        for node, operand in self.source.operands.items():
            address, step, ld = self._operand_rows(node)
            width, K = f"{len(self.adjoints)} * Hp", self._length(node)
            products.append(
                f"for (long first, last = 0; next_wanted(wanted_by_{operand}, {len(self.adjoints)}, first, last);) {{\n"
                f"  Segment segments[{CHUNK}];\n"
                f"  long lda = {ld};\n"
                f"  const int count = segments_of(segments, lda, {address}, {step},\n"
                "                                adjoints + shift + first * Hp, ldg, from.rows(), after - before);\n"
                f"  float* const d_by = sums_{operand} + copy_id * {self._size(node)} + first * Hp;\n"
                f"  outer(d_by, {width}, segments, count, lda, ldg, {K},\n"
                "        pooled ? columns_of_share((last - first) * Hp, slab.id, slab.threads)\n"
                "               : columns_of(slab, last - first, Hp));\n}"
            )
        lines = []
        if products:
            barrier = "if (pooled) meet(slab);"
            lines += [
                barrier,
                "for (int k = pooled ? 0 : slab.id; k < (pooled ? slab.threads : slab.id + 1); k++) {\n"
                "  const Slab from = slab_of(k, slab.threads, B, team, block, nullptr);\n"
                "  [[maybe_unused]] const Part its_part = part_of(from, parts, B);\n"
                "  const long shift = (k - slab.id) * own_floats;  // to the arrays of that thread\n"
                f"{indented(products, 2)}\n}}",
                barrier,
            ]
        return lines

    def _small_sums(self) -> list[str]:
        """The sums of a chunk are added to those of the others: smaller rounding errors than one long sum."""
        add = f"add_to(small_sums + slab.id * {self._small_size()} + k * Hp + j, load(small + k * Hp + j))"
        return [
            f"for (long k = 0; k < {len(self.sums)}; k++)\n"
            f"  for (long j = first_unit; j < last_unit; j += VL) {add}, store(small + k * Hp + j, V{{}});"
        ]

    def _collect(self, shared: dict[str, str]) -> list[str]:
        """Add the threads' sums in a fixed order, so that results are deterministic."""
        matrices, sums, done = [], [], set[int]()
        offsets = self._offsets()
        operands = {operand: node for node, operand in self.source.operands.items()}
        for matrix, operand, column in self.source.weight_gradients:
            node = operands[operand]
            of = f"sums_{operand} + {column} * Hp, {self._size(node)}, copies, {len(self.adjoints)} * Hp"
            size = f"H, {self._length(node)}, {str(matrix in done).lower()}, id, collectors"
            matrices.append(f"if (wanted[{matrix}]) collect(gradients + {offsets[matrix]}, {of}, {size});")
            done.add(matrix)
        for k, (name, _, over_units) in enumerate(self.sums):
            flag = self.source.flags[name]
            of = f"small_sums + {k} * Hp, {self._small_size()}, threads, H"
            add = f"add_up(gradients + {offsets[flag]}, {of}, {str(over_units).lower()});"
            sums.append(f"if (wanted[{flag}]) {add}")
        by_all = f"in_parallel(collectors, Meeting::NONE, [&](const int id) {{\n{indented(matrices, 2)}\n}});"
        return [self._pieces("shared", shared, "memory"), *([by_all] if matrices else []), *sums]

    def _offsets(self) -> list[str]:
        """Where the gradient of each parameter begins: matrices, vectors, scalars, one after the other."""
        offsets, W, U = [], 0, 0
        for matrix in self.source.matrices:
            offsets.append(f"{W} * H * D + {U} * H * H")
            W, U = (W + 1, U) if self.source.is_input_matrix(matrix) else (W, U + 1)
        end = f"{W} * H * D + {U} * H * H"
        vectors, scalars = len(self.graph.b), len(self.graph.scalars)
        offsets += [f"{end} + {k} * H" for k in range(vectors)]
        return offsets + [f"{end} + {vectors} * H + {k}" for k in range(scalars)]

    # ---- products ---------------------------------------------------------------------------------------------------

    def _terms(self, linear: LinearSum) -> list[tuple[str, Matrix, Node]]:
        """For each term: the name of the packed matrix, the matrix that is transposed, the adjoint it is applied to."""
        terms = []
        for i, p in enumerate(linear.products):
            assert isinstance(p.matrix, Transpose)
            terms.append((f"packed_{self.columns[linear]}_{i}", p.matrix.of, p.args[0]))
        return terms

    def _add_packing(self) -> None:
        for linear in self.program.linears:
            for name, matrix, _ in self._terms(linear):
                self.prepared[name] = "packed_size(H, Hp)"
                self.packing.append(f"pack_rows({name}, {self.source.matrix_names[matrix]}, H, H, Hp, id, threads);")
        for i, p in enumerate(self.input_products):
            assert p.matrix is not None
            self.prepared[f"packed_x_{i}"] = "packed_size(H, Dp)"
            pack = f"pack_rows(packed_x_{i}, {self.source.matrix_names[p.matrix]}, H, D, Dp, id, threads);"
            self.packing.append(f"if (Dp) {pack}")

    def _adjoint_rows(self, adjoint: Node, of: str) -> str:
        return f"{of} + {self.adjoints[adjoint]} * Hp, ldg, H"

    def _product(self, linear: LinearSum, out: str, of: str, rows: str) -> str:
        """A product for the rows of one step, or of all steps of a chunk."""
        terms = ", ".join(f"{{{self._adjoint_rows(a, of)}, {name}}}" for name, _, a in self._terms(linear))
        columns = f"{out} + {self.columns[linear]} * Hp, ld"
        order = "false" if out == "linears" else "t & 1"  # as in the forward pass
        size = f"{rows}, columns_of(slab, 1, Hp), {order}"
        call = f"product({columns}, zeros, 0, terms, {len(linear.products)}, {size});"
        return f"{{\n  const Term terms[] = {{{terms}}};\n  {call}\n}}"

    def _input_gradient(self) -> list[str]:
        """The gradient of the input for a chunk, in rows of Dp, then copied to rows of D."""
        itself, adjoints = self.source.gradient.itself is not None, self.source.gradient.products
        lines, rows = [], "input_rows + i * Dp"
        if self.input_products:
            terms = ", ".join(
                f"{{{self._adjoint_rows(adjoints[p], 'adjoints + first * ldg')}, packed_x_{i}}}"
                for i, p in enumerate(self.input_products)
            )
            start = "direct + first * Hp, Hp" if itself else "zeros, 0"
            size = f"{len(self.input_products)}, last - first, columns_of_share(Dp, 0, 1)"
            lines = [
                f"const Term terms[] = {{{terms}}};",
                f"product(input_rows + first * Dp, Dp, {start}, terms, {size});",
            ]
        else:
            rows = "direct + i * Hp" if itself else "zeros"
        lines.append(
            "for (long i = first; i < last; i++)\n"
            f"  copy(d_x + ((before + i / rows) * B + slab.first + i % rows) * D, {rows}, D);"
        )
        own = [  # a team splits the rows, not the columns: there may be few of these
            "const long all_rows = (after - before) * rows;",
            "const long first = all_rows * slab.share / slab.shares, last = all_rows * (slab.share + 1) / slab.shares;",
        ]
        return [f"if (d_x) {{\n{indented([*own, *lines], 2)}\n}}"]

    # ---- the pointwise pass -----------------------------------------------------------------------------------------

    def _pass(self, stored: list[Node], level: int, is_early: bool = False) -> list[str]:
        """The pointwise pass of a level over all rows and units; nothing if it stores nothing."""
        pointwise = Pass(
            self.program, stored, lambda node: self._load(node, level, is_early), self.load_column, self.source.names
        )
        values = {node: pointwise.value(node) for node in stored}
        before_units, inside, after_units = self.reductions_of(values)
        past = list[str]()  # for rows that have ended
        for node, value in values.items():
            self._store(node, value, inside, past)
        for s in () if is_early else self.source.live:
            before = self.source.gradient.states.get(s)  # None if no gradient reaches the old state
            if level == (0 if before is None else self.program.level(before)):
                inside.append(f"store(E_{s} + i * Hp + j, {pointwise.value(before) if before else 'V{}'});")
                past.append(f"store(E_{s} + i * Hp + j, load(D_{s} + i * Hp + j));")
        if not inside:
            return []
        rows = [*self._last_adjoints(), *pointwise.row_lines, *before_units]
        return [self._over_rows(rows, [*pointwise.lines, *inside], after_units, past)]

    def _store(self, node: Node, value: str, inside: list[str], past: list[str]) -> None:
        """Store a value where it is needed, zero for rows that have ended, and add it to the sums it belongs to."""
        addresses = self._addresses(node)
        if node is self.source.gradient.itself:
            addresses.insert(0, "direct + ((t - before) * rows + i) * Hp + j")
        inside += [f"store({address}, {value});" for address in addresses]
        past += [f"store({address}, V{{}});" for address in addresses]
        for k, (name, adjoint, over_units) in enumerate(self.sums):
            if adjoint is node:
                summed = f"only({value}, H - j)" if over_units else value
                inside.append(f"if (wanted[{self.source.flags[name]}]) add_to(small + {k} * Hp + j, {summed});")

    def _last_adjoints(self) -> list[str]:
        """Adjoints of the final values of states that no step reads."""
        return [
            f"[[maybe_unused]] const float* const last_{s} = t == (lengths ? lengths[b] : T) - 1 ? "
            f"D_{s} + i * Hp : zeros;"
            for s in self.source.states
            if s not in self.source.live
        ]

    def _over_rows(self, before: list[str], inside: list[str], after: list[str], past: list[str]) -> str:
        """A loop over rows and units; `past` is for the units of rows that have ended."""
        return (
            "for (long b = slab.first; b < slab.last; b++) {\n"
            "  const long i = b - slab.first;\n"
            "  if (lengths && t >= lengths[b]) {\n"
            f"    for (long j = first_unit; j < last_unit; j += VL) {{\n{indented(past, 6)}\n    }}\n"
            "    continue;\n  }\n"
            "  [[maybe_unused]] const float* const d_out = d_output\n"
            "      ? whole_row(d_output + t * d_output_t + b * d_output_b, scratch, H, Hp) : zeros;\n"
            f"{indented(before, 2)}\n"
            "  for (long j = first_unit; j < last_unit; j += VL) {\n"
            f"{indented(inside, 4)}\n  }}\n{indented(after, 2)}\n}}"
        )

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

    def _load(self, node: Node, level: int, is_early: bool) -> str | None:
        if node.op == "state":
            return f"load(old_{node.name} + i * Hp + j)"
        if node.op == "adjoint":
            from_output = " + load(d_out + j)" if node.name == self.source.states[0] else ""
            later = f"D_{node.name} + i * Hp" if node.name in self.source.live else f"last_{node.name}"
            return f"(load({later} + j){from_output})"
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
        is_earlier = self.program.level(node) < level
        is_stored = (is_earlier or not is_early) if node in self.early else (is_earlier and not is_early)
        if node in self.adjoints and is_stored:
            return f"load(G + i * ldg + {self.adjoints[node]} * Hp + j)"
        if node in self.temporaries and is_stored:
            return f"load({self.temporary(node)})"
        return self.load_fixed(node)
