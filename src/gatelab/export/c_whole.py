"""C of a network that reads whole sequences only: one function, which needs memory of the caller's."""

from __future__ import annotations

from gatelab.export.c_program import Code
from gatelab.export.c_runner import work_width
from gatelab.export.c_text import indented
from gatelab.export.network import POOLED

SWAP = ("swap = from;", "from = to;", "to = swap;")


class Whole(Code):
    """A network that also reads backwards, or has a stem: whole sequences, in memory that the caller provides."""

    @property
    def width(self) -> int:
        """The number of floats of a step between layers."""
        return work_width(self.network)

    def declarations(self) -> str:
        """The function, and the memory that it needs."""
        return f"""\
/* The number of floats of memory that {self.name}_run needs for a sequence. */
#define {self.name.upper()}_WORK(steps) ((size_t)(steps) * {2 * self.width})

/* Reads a whole sequence. out has {self.out_size} numbers. */
void {self.name}_run({self.sequence}, size_t steps, float *work, float *out);"""

    def definitions(self) -> str:
        """The function."""
        H, width = self.H, self.width
        copies = [
            f"for (int i = 0; i < {self.network.encoded_size}; i++)",
            f"    from[t * {width} + i] = ({self.x_at_t})[i];",
        ]
        lines = [
            f"float *from = work, *to = work + steps * {width}, *swap;",
            f"float {', '.join(f'{state}[{H}]' for state in self.states)}, features[{self.network.read_size}];",
            "size_t t;",
            "for (t = 0; t < steps; t++)",
            *([f"    encode({self.x_at_t}, from + t * {width});"] if self.encodes else (f"    {c}" for c in copies)),
        ]
        for number in range(len(self.network.stem)):
            lines += [f"steps = {self.stem.call(number, width)};", *SWAP]
        for number, directions in enumerate(self.network.layers):
            for layer in directions:
                backwards = layer.direction == "bwd"
                place = f"t * {width} + {f'{H} + ' if backwards else ''}i"
                add = f" + from[{place}]" if self.network.residual and number else ""
                lines += [
                    f"for (int i = 0; i < {H}; i++)",
                    f"    {' = '.join(f'{state}[i]' for state in self.states)} = 0.0f;",
                    f"for ({'t = steps; t-- > 0;' if backwards else 't = 0; t < steps; t++'}) {{",
                    f"    {self.layers.name(layer)}(from + t * {width}, {', '.join(self.states)});",
                    f"    for (int i = 0; i < {H}; i++)",
                    f"        to[{place}] = {self.states[0]}[i]{add};",
                    "}",
                ]
            lines += SWAP
        lines += self._read()
        return (
            f"void {self.name}_run({self.sequence}, size_t steps, float *work, float *out)\n{{\n{indented(lines)}\n}}"
        )

    def _read(self) -> list[str]:
        """From the outputs of the last layer to the answer."""
        H, width, network = self.H, self.width, self.network
        if network.read == "steps":
            return [
                "for (t = 0; t < steps; t++) {",
                f"    for (int i = 0; i < {network.features}; i++)",
                f"        features[i] = from[t * {width} + i];",
                f"    answer(features, out + t * {network.output_size});",
                "}",
            ]
        pooled = [f"pooled(from, steps, {width}, features);"]
        ends = [
            f"for (int i = 0; i < {H}; i++) {{",
            f"    features[i] = from[(steps - 1) * {width} + i];",
            *([f"    features[{H} + i] = from[{H} + i];"] if network.bidirectional else []),
            "}",
        ]
        return [
            "if (steps == 0)",
            "    return;",
            *(pooled if network.read in POOLED else ends),
            "answer(features, out);",
        ]
