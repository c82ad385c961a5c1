"""Code generation shared by the forward and backward pass: loads, hoisting, memory layout."""

from __future__ import annotations

from collections.abc import Iterable

from gatelab.engine.fused.phases import EXPENSIVE, Linear, Program, parameters_only
from gatelab.engine.fused.pointwise import Pass, literal
from gatelab.engine.fused.source import Arguments, Source
from gatelab.lang.graph import Node, walk


def indented(lines: Iterable[str], by: int) -> str:
    """The lines as one text; items that span several lines are indented as a block."""
    return "\n".join(" " * by + line if line else "" for text in lines for line in text.splitlines())


class Writer:
    """Generates one pass of a kernel. Collects declarations, the layout of shared memory, and its initialization."""

    def __init__(self, source: Source, program: Program, arguments: Arguments) -> None:
        self.source, self.program, self.graph, self.signature = source, program, source.graph, arguments
        self.columns = {linear: i for i, linear in enumerate(program.linears)}
        self.temporaries = {node: i for i, node in enumerate(program.temporaries)}
        self.saved = {node: i for i, node in enumerate(source.saved)}
        self.saved_rows = {node: i for i, node in enumerate(source.saved_rows)}
        self.reductions = {node: i for i, node in enumerate(program.reductions)}
        self.hoisted: dict[Node, str] = {}
        self.declared: list[str] = []
        self.layout: list[str] = []
        self.initialization: list[str] = []

    def shared(self, name: str, floats: str) -> None:
        """Declare an array shared by all threads."""
        self.declared.append(f"float* {name};")
        self.layout.append(f"{name} = c.take({floats});")

    def add_parameters(self) -> None:
        """Declare the cell's vectors, padded to Hp, and its scalars."""
        for name in self.graph.b:
            self.declared.append(self.signature.pointer(f"unpadded_{name}"))
            self.shared(f"b_{name}", "Hp")
            self.initialization.append(f"copy(b_{name}, unpadded_{name}, H), zero(b_{name} + H, Hp - H);")
        for name in self.graph.scalars:
            self.declared += [
                self.signature.pointer(f"pointer_{name}"),
                f"[[maybe_unused]] const float s_{name} = *pointer_{name};",
            ]

    def hoist(self) -> None:
        """Move expensive values that depend on nothing but parameters out of the loop over time."""
        for node in walk(self.program.outputs, self.program.available):
            if not parameters_only(node) or node.op not in EXPENSIVE:
                continue
            name = f"fixed_{self.source.names.get(node) or len(self.hoisted)}"
            pointwise = Pass(self.program, [node], self.load_fixed, self.load_column, {})
            value = pointwise.value(node)
            if node.shape == "scalar":
                self.initialization.append(f"const float {name} = {value};")
            else:
                self.shared(name, "Hp")
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

    def load_column(self, linear: Linear) -> str:
        """The C++ that reads the accumulated sum of a linear."""
        return f"load(linear + i * ld + {self.columns[linear]} * Hp + j)"

    def temporary(self, node: Node) -> str:
        """The address of a temporary, for row i and unit j."""
        return f"temporaries + (i * {len(self.temporaries)} + {self.temporaries[node]}) * Hp + j"

    def saved_at(self, node: Node) -> str:
        """The address of an activation saved for the backward pass, for step t, row b and unit j."""
        return f"saved + ((t * B + b) * {len(self.saved)} + {self.saved[node]}) * Hp + j"

    def saved_row(self, node: Node) -> str:
        """Where a value of a row is saved for the backward pass, for step t and row b."""
        return f"saved_rows[(t * B + b) * {len(self.saved_rows)} + {self.saved_rows[node]}]"

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

    def function(self, name: str, sizes: list[str], pointers: list[str], body: str) -> str:
        """A C++ function: arguments, shared memory, and a body that each thread executes on its slab of rows."""
        return f"""
extern "C" void {name}(void* const* p, const long* n) {{
{indented(sizes, 2)}
{indented(pointers, 2)}
  const long threads = team ? wanted_threads : useful_threads(wanted_threads, B);
{indented(self.declared, 2)}
  auto lay_out = [&](Allocator c) {{
{indented(self.layout, 4)}
    return c.used;
  }};
  lay_out(Allocator{{shared_arena.get(lay_out(Allocator{{nullptr}}))}});
{indented(self.initialization, 2)}

#pragma omp parallel num_threads(threads)
  {{
    FlushDenormals flush;
    const Slab slab = slab_of(thread_id(), team_size(), B, team);
    const long rows = slab.rows();
{indented([body], 4)}
  }}
}}
"""

    @staticmethod
    def own(arrays: dict[str, str], memory: str = "own_arena.get(lay_out_own(Allocator{nullptr}))") -> str:
        """Declare arrays that are private to a thread."""
        names = ", ".join(f"*{name}" for name in arrays)
        takes = indented([f"{name} = c.take({floats});" for name, floats in arrays.items()], 2)
        return (
            f"float {names};\nauto lay_out_own = [&](Allocator c) {{\n{takes}\n  return c.used;\n}};\n"
            f"lay_out_own(Allocator{{{memory}}});"
        )
