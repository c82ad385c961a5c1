"""Code generation shared by the forward and backward pass: loads, hoisting, memory layout."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from gatelab.engine.fused.kernel_source import KernelSource
from gatelab.engine.fused.phases import EXPENSIVE, LinearSum, Program, parameters_only
from gatelab.engine.fused.pointwise import Pass, literal
from gatelab.lang.graph import Node, walk


def indented(lines: Iterable[str], by: int) -> str:
    """The lines as one text; items that span several lines are indented as a block."""
    return "\n".join(" " * by + line if line else "" for text in lines for line in text.splitlines())


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The parts of a pass, as C++."""

    parameters: list[str]  # statements that name parameters
    sizes: list[str]
    pointers: list[str]
    own: dict[str, str]  # arrays of rows and their sizes: each thread's for its slab, or the team's together
    body: str  # what each thread does
    shared: dict[str, str] = field(default_factory=dict)  # arrays of all threads
    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    meeting: str = "team ? Meeting::OPTIONAL : Meeting::NONE"
    division: list[str] = field(default_factory=list)  # may change the number of threads
    shares: str = "1"  # that the caller runs, one after the other, where threads cannot meet


class Writer:
    """Generates one pass of a kernel as two functions: `prepare_NAME` computes from the parameters what every call
    needs (padded vectors, packed matrices, values that are constant over time), and `NAME` runs over a sequence.
    """

    def __init__(self, source: KernelSource, program: Program, name: str) -> None:
        self.source, self.program, self.graph, self.name = source, program, source.graph, name
        self.preparation, self.signature = source.arguments[f"prepare_{name}"], source.arguments[name]
        self.columns = {linear: i for i, linear in enumerate(program.linears)}
        self.temporaries = {node: i for i, node in enumerate(program.temporaries)}
        self.saved = {node: i for i, node in enumerate(source.saved)}
        self.saved_rows = {node: i for i, node in enumerate(source.saved_rows)}
        self.reductions = {node: i for i, node in enumerate(program.reductions)}
        self.hoisted: dict[Node, str] = {}
        self.prepared: dict[str, str] = {}  # arrays that are computed from parameters: name → number of floats
        self.initialization: list[str] = []  # the statements that compute them, by one thread
        self.packing: list[str] = []  # by all threads
        self.read: list[str] = []  # numbers among them, as local variables

    def add_parameters(self) -> list[str]:
        """Prepare the cell's vectors, padded to Hp, and its scalars; returns the declarations of their pointers."""
        declared = [self.preparation.pointer(name) for name in self.source.matrix_names.values()]
        for name in self.graph.b:
            declared.append(self.preparation.pointer(f"unpadded_{name}"))
            self.prepared[f"b_{name}"] = "Hp"
            self.initialization.append(f"copy(b_{name}, unpadded_{name}, H), zero(b_{name} + H, Hp - H);")
        for name in self.graph.scalars:
            declared.append(self.preparation.pointer(f"pointer_{name}"))
            self.prepared[f"kept_{name}"] = "1"
            self.initialization.append(f"*kept_{name} = *pointer_{name};")
            number = f"[[maybe_unused]] const float s_{name} = *kept_{name};"
            self.initialization.append(number)
            self.read.append(number)
        return declared

    def hoist(self) -> None:
        """Move expensive values that depend on nothing but parameters out of the loop over time."""
        for node in walk(self.program.outputs, self.program.available):
            if not parameters_only(node) or node.op not in EXPENSIVE:
                continue
            name = f"fixed_{self.source.names.get(node) or len(self.hoisted)}"
            pointwise = Pass(self.program, [node], self.load_fixed, self.load_column, {})
            value = pointwise.value(node)
            if node.shape == "scalar":
                self.prepared[f"kept_{name}"] = "1"
                number = f"[[maybe_unused]] const float {name} = *kept_{name};"
                self.initialization += [f"*kept_{name} = {value};", number]
                self.read.append(number)
            else:
                self.prepared[name] = "Hp"
                body = indented([*pointwise.lines, f"store({name} + j, {value});"], 2)
                self.initialization.append(f"for (long j = 0; j < Hp; j += VL) {{\n{body}\n}}")
            self.hoisted[node] = name

    def load_fixed(self, node: Node) -> str | None:
        """The C++ that reads a value that is constant over time; None for other values."""
        if node in self.hoisted:
            return self.hoisted[node] if node.shape == "scalar" else f"load({self.hoisted[node]} + j)"
        if node.op == "constant":
            return literal(node.value)
        if node.op == "full":
            return f"all({literal(node.value)})"
        if node.op == "size":
            return "(float)H"
        if node.op == "scalar":
            return f"s_{node.name}"
        return f"load(b_{node.name} + j)" if node.op == "vector" else None

    def load_input(self, node: Node) -> str | None:
        """The C++ that reads the input itself, or a mask, at this step; None for other values."""
        if node.op == "itself":
            return "load(x + t * x_t + b * x_b + j)"
        return f"load({self.source.mask(node)} + (t * B + b) * Hp + j)" if node.op == "random" else None

    def load_column(self, linear: LinearSum) -> str:
        """The C++ that reads the accumulated sum of a linear."""
        return f"load(linear + i * ld + {self.columns[linear]} * Hp + j)"

    def temporary(self, node: Node) -> str:
        """The address of a temporary, for row i and unit j."""
        return f"temporaries + (i * {len(self.temporaries)} + {self.temporaries[node]}) * Hp + j"

    def saved_at(self, node: Node) -> str:
        """The address of an activation saved for the backward pass, for row i and unit j."""
        return f"saved + ((kept_row + i) * {len(self.saved)} + {self.saved[node]}) * Hp + j"

    def saved_row(self, node: Node) -> str:
        """Where a value of a row is saved for the backward pass, for row i."""
        return f"saved_rows[(kept_row + i) * {len(self.saved_rows)} + {self.saved_rows[node]}]"

    def reduced(self, node: Node) -> str:
        """Where a sum over the units is held, for row i."""
        return f"reduced[i * {len(self.reductions)} + {self.reductions[node]}]"

    def reductions_of(self, values: dict[Node, str]) -> tuple[list[str], list[str], list[str]]:
        """The statements of the sums over these values: before the loop over the units, inside, and after it."""
        before, inside, after = [], [], []
        for node, k in self.reductions.items():
            if (value := values.get(node.args[0])) is not None:
                before.append(f"V sum_{k} = V{{}};")
                inside.append(f"sum_{k} += only({value}, H - j);")
                after.append(f"{self.reduced(node)} = total(sum_{k}){' / H' if node.op == 'mean' else ''};")
        return before, inside, after

    def of_level(self, level: int) -> list[Node]:
        """The nodes that the pointwise pass of this level stores."""
        nodes = dict.fromkeys([*self.program.stored(), *self.program.temporaries])
        return [node for node in nodes if self.program.level(node) == level]

    def tape(self) -> list[str]:
        """Declare the arrays of the tape: all states, initial ones included, and what else the backward pass needs."""
        B, count = "(T + 1) * B * Hp", len(self.source.states)
        arrays = {f"taped_{s}": f"{k} * {B}" for k, s in enumerate(self.source.states)}
        arrays["saved"] = f"{count} * {B}"
        arrays["saved_rows"] = f"{count} * {B} + T * B * {len(self.saved)} * Hp"
        return [
            f"[[maybe_unused]] float* const {name} = tape + TAPE_HEADER + {offset};" for name, offset in arrays.items()
        ]

    def text(self, parts: Parts) -> str:
        """Both functions: the one that prepares values, and the pass."""
        return self._prepare(parts) + self._pass_over_time(parts)

    def _declared(self) -> str:
        known = ", ".join(f"*{name}" for name in self.prepared)
        return f"[[maybe_unused]] float {known};" if self.prepared else ""

    def _prepare(self, parts: Parts) -> str:
        sizes = [self.preparation.size(name) for name in ("D", "H", "Hp", "Dp", "wanted_threads")]
        memory = self.preparation.pointer("prepared", "float*")
        return f"""
// Returns the number of floats that the prepared values take; computes them if there is memory for them.
extern "C" long prepare_{self.name}(void* const* p, const long* n) {{
{indented([*sizes, memory, *parts.parameters], 2)}
  {self._declared()}
{indented([self._layout("lay_out", self.prepared)], 2)}
  const long floats = lay_out(prepared);
  if (!prepared) return floats;
{indented(self.initialization, 2)}
  const int threads = wanted_threads;
  in_parallel(threads, Meeting::NONE, [&]([[maybe_unused]] const int id) {{
{indented(self.packing, 4)}
  }});
  return floats;
}}
"""

    def _pass_over_time(self, parts: Parts) -> str:
        lay_out = self._layout("lay_out", self.prepared)
        return f"""
// Returns 0, or 1 if there is not enough memory.
extern "C" int {self.name}(void* const* p, const long* n) {{
{indented(parts.sizes, 2)}
{indented(parts.pointers, 2)}
  {self._declared()}
{indented([lay_out, "lay_out((float*)prepared);", *self.read], 2)}
  long team = wanted_team, threads = wanted_threads;
{indented(parts.division, 2)}
  // Memory for all threads is taken before they begin, so that they need not wait for it.
  // Once, or again by the caller alone if threads that have to meet are not to be had.
  for (bool alone = wanted_threads == 1;; team = 0, threads = {parts.shares}, alone = true) {{
    const long block = block_rows(B, threads, {str(self.source.splits_units).lower()});
    const long most = most_rows(threads, B, team, block);
{indented(parts.before, 4)}
{indented(self._arrays("shared", parts.shared), 4)}
{indented(self._arrays("own", parts.own), 4)}
    const long shared_floats = lay_out_shared(nullptr), own_floats = lay_out_own(nullptr) + APART;
    float* const memory = arena.get(shared_floats + (team ? 1 : threads) * own_floats);
    if (!memory) return 1;
    Barrier barrier;
    auto work = [&](const int id) __attribute__((noinline)) {{
      const Slab slab = slab_of(id, threads, B, team, block, &barrier);
      FlushDenormals flush;
      [[maybe_unused]] const long rows = slab.rows();
      [[maybe_unused]] const long first_unit = slab.first_unit(Hp), last_unit = slab.last_unit(Hp);
      [[maybe_unused]] const long units = last_unit < H ? last_unit - first_unit : H > first_unit ? H - first_unit : 0;
{indented([self._pieces("shared", parts.shared, "memory")], 6)}
{indented([self._pieces("own", parts.own, "memory + shared_floats + (team ? 0 : id) * own_floats")], 6)}
{indented([parts.body], 6)}
    }};
    for (long id = 0; alone && id < threads; id++) work(id);
    if (!alone && !in_parallel(threads, {parts.meeting}, work)) continue;
{indented(parts.after, 4)}
    return 0;
  }}
}}
"""

    def _arrays(self, group: str, arrays: dict[str, str]) -> list[str]:
        """A function that returns the number of floats of these arrays, and sets pointers to them."""
        listed = "".join(f", float*& {name}" for name in arrays)
        takes = indented([f"{name} = c.take({floats});" for name, floats in arrays.items()], 2)
        counted = indented([self._pieces(group, arrays, "from", True)], 2)
        return [
            f"auto place_{group} = [&](float* from{listed}) {{",
            f"  Allocator c{{from}};\n{takes}\n  return (long)c.used;\n}};",
            f"auto lay_out_{group} = [&](float* from) {{\n{counted}\n}};",
        ]

    @staticmethod
    def _pieces(group: str, arrays: dict[str, str], memory: str, returns: bool = False) -> str:
        """Declare the pointers to these arrays, and set them."""
        declared = f"[[maybe_unused]] float {', '.join(f'*{name}' for name in arrays)};\n" if arrays else ""
        listed = "".join(f", {name}" for name in arrays)
        return f"{declared}{'return ' if returns else ''}place_{group}({memory}{listed});"

    @staticmethod
    def _layout(name: str, arrays: dict[str, str]) -> str:
        takes = indented([f"{array} = c.take({floats});" for array, floats in arrays.items()], 2)
        return f"auto {name} = [&](float* from) {{\n  Allocator c{{from}};\n{takes}\n  return (long)c.used;\n}};"
