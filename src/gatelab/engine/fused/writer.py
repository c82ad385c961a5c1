"""What the C++ of both ways has in common: reading values, hoisting, laying out memory."""

from __future__ import annotations

from collections.abc import Iterable

from gatelab.engine.fused.plan import EXPENSIVE, Linear, Program, parameters_only
from gatelab.engine.fused.pointwise import Pass, literal
from gatelab.engine.fused.source import Arguments, Source, identifier
from gatelab.lang.graph import Node, walk


def indented(lines: Iterable[str], by: int) -> str:
    return "\n".join(" " * by + line if line else "" for text in lines for line in text.splitlines())


class Writer:
    """Writes one way of a kernel. Collects declarations, the layout of shared memory, and what is filled in once."""

    def __init__(self, source: Source, program: Program, arguments: Arguments) -> None:
        self.source, self.program, self.graph, self.take = source, program, source.graph, arguments
        self.columns = {linear: i for i, linear in enumerate(program.linears)}
        self.temporaries = {node: i for i, node in enumerate(program.temporaries)}
        self.saved = {node: i for i, node in enumerate(source.kept)}
        self.hoisted: dict[Node, str] = {}
        self.declared: list[str] = []
        self.layout: list[str] = []
        self.filled: list[str] = []

    def shared(self, name: str, floats: str) -> None:
        """An array that all threads see."""
        self.declared.append(f"float* {name};")
        self.layout.append(f"{name} = c.take({floats});")

    def add_parameters(self) -> None:
        """The cell's vectors, padded to whole rows, and its scalars."""
        for name in self.graph.b:
            self.declared.append(self.take.pointer(f"b_{name}_given"))
            self.shared(f"b_{name}", "Hp")
            self.filled.append(f"copy(b_{name}, b_{name}_given, H), zero(b_{name} + H, Hp - H);")
        for name in map(identifier, self.graph.scalars):
            self.declared += [
                self.take.pointer(f"{name}_given"),
                f"[[maybe_unused]] const float {name} = *{name}_given;",
            ]

    def hoist(self) -> None:
        """Expensive values of parameters alone: computed once per call, before the loop over time."""
        for node in walk(self.program.outputs, self.program.given):
            if not parameters_only(node) or node.op not in EXPENSIVE:
                continue
            name = f"fixed_{self.source.names.get(node) or len(self.hoisted)}"
            passing = Pass(self.program, [node], self.load_fixed, self.load_column, {})
            value = passing.value(node)
            if node.shape == "scalar":
                self.filled.append(f"const float {name} = {value};")
            else:
                self.shared(name, "Hp")
                body = indented([*passing.lines, f"store({name} + j, {value});"], 2)
                self.filled.append(f"for (long j = 0; j < Hp; j += VL) {{\n{body}\n}}")
            self.hoisted[node] = name

    def load_fixed(self, node: Node) -> str | None:
        """Where a value that does not change with time can be read."""
        if node in self.hoisted:
            return self.hoisted[node] if node.shape == "scalar" else f"load({self.hoisted[node]} + j)"
        if node.op == "constant":
            return literal(node.value)
        if node.op == "scalar":
            return identifier(node.name)
        return f"load(b_{node.name} + j)" if node.op == "vector" else None

    def load_column(self, linear: Linear) -> str:
        return f"load(linear + i * ld + {self.columns[linear]} * Hp + j)"

    def temporary(self, node: Node) -> str:
        return f"temporaries + (i * {len(self.temporaries)} + {self.temporaries[node]}) * Hp + j"

    def saved_at(self, node: Node) -> str:
        return f"saved + ((t * B + b) * {len(self.saved)} + {self.saved[node]}) * Hp + j"

    def of_level(self, level: int) -> list[Node]:
        """What the pass of this level has to store."""
        nodes = dict.fromkeys([*self.program.stored(), *self.program.temporaries])
        return [node for node in nodes if self.program.level(node) == level]

    def function(self, name: str, sizes: list[str], pointers: list[str], body: str) -> str:
        """A C++ function: arguments, shared memory, and a body that every thread runs on its slab of rows."""
        return f"""
extern "C" void {name}(void* const* p, const long* n) {{
{indented(sizes, 2)}
{indented(pointers, 2)}
  const long threads = team ? wanted_threads : useful_threads(wanted_threads, B);
{indented(self.declared, 2)}
  auto lay_out = [&](Cutter c) {{
{indented(self.layout, 4)}
    return c.used;
  }};
  lay_out(Cutter{{shared_arena.get(lay_out(Cutter{{nullptr}}))}});
{indented(self.filled, 2)}

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
    def own(arrays: dict[str, str], memory: str = "own_arena.get(lay_out_own(Cutter{nullptr}))") -> str:
        """Arrays of one thread."""
        names = ", ".join(f"*{name}" for name in arrays)
        taken = indented([f"{name} = c.take({floats});" for name, floats in arrays.items()], 2)
        return (
            f"float {names};\nauto lay_out_own = [&](Cutter c) {{\n{taken}\n  return c.used;\n}};\n"
            f"lay_out_own(Cutter{{{memory}}});"
        )
