"""C of a network that reads step by step, or in pieces: its state, and the functions begin, step and run."""

from __future__ import annotations

from gatelab.export.c_program import Code
from gatelab.export.c_text import RESERVED, indented
from gatelab.export.loops import claimed
from gatelab.export.network import POOLED, Network

NUMBERS = ("weight", "score", "steps")  # of what is carried, those that are one number


class Stream(Code):
    """A network that reads forwards: step by step, or in pieces."""

    def __init__(self, network: Network, int8: bool) -> None:
        super().__init__(network, int8)
        self.with_state = ", state" if network.differenced else ""
        # Callers read a state under its own name: the fields of the struct have no prefix.
        taken = {*RESERVED, *(f"{extra}_" for extra in network.extras), *map(self.macro, ("H", *self.sizes))}
        self.fields = [claimed(state, taken) for state in network.graph.states]

    def declarations(self) -> str:
        """The state and the functions."""
        name, upper = self.name, self.name.upper()
        fields = [f"float {state}[{upper}_LAYERS][{upper}_UNITS];" for state in self.fields]
        for extra, size in self.network.extras.items():
            length = "" if extra in NUMBERS else f"[{size}]"
            fields.append(f"float {extra}_{length}; /* {self.network.meaning(extra)} */")
        return f"""\
/* What is carried from step to step. */
typedef struct {{
{indented(fields)}
}} {name}_state;

/* The beginning of a sequence: everything is zero. */
void {name}_begin({name}_state *state);

/* One step; out, {upper}_OUTPUTS numbers, is the answer if the sequence ends here. */
void {name}_step({self.x}, {name}_state *state, float *out);

/* Several steps; a sequence may be read in pieces. out has {self.out_size} numbers. */
void {name}_run({self.sequence}, size_t steps, {name}_state *state, float *out);"""

    def definitions(self) -> str:
        """The functions."""
        network, name = self.network, self.name
        x = ", x" if network.differenced else ""
        each, end = "", ""
        if network.read == "steps":
            at_t = f", {self.x_at_t}" if network.differenced else ""
            each = f"\n        answer(features{at_t}, out + t * {network.output_size});"
        else:
            end = "\n    if (steps > 0)\n        answer(features, out);"
        return f"""\
/* One step of all layers; the head reads the features. */
static void advance({self.x}, {name}_state *state, float *features)
{{
{indented(self._advance())}
}}

void {name}_begin({name}_state *state)
{{
{indented(self._begin())}
}}

void {name}_step({self.x}, {name}_state *state, float *out)
{{
    float features[{network.read_size}];
    advance(x, state, features);
    answer(features{x}, out);
}}

void {name}_run({self.sequence}, size_t steps, {name}_state *state, float *out)
{{
    float features[{network.read_size}];
    for (size_t t = 0; t < steps; t++) {{
        advance({self.x_at_t}, state, features);{each}
    }}{end}
}}"""

    def _advance(self) -> list[str]:
        network, H = self.network, self.H
        lines, read = [], "x"
        if self.encodes:
            lines += [f"float encoded[{self.input_size(0)}];", f"encode(x{self.with_state}, encoded);"]
            read = "encoded"
        for number in range(len(network.layers)):
            lines.append(f"layer{number}({read}, {', '.join(f'state->{s}[{number}]' for s in self.fields)});")
            read = f"state->{self.fields[0]}[{number}]"
            if network.residual:
                sum_ = f"{read}[i] + features[i]" if number else f"{read}[i]"
                lines += [f"for (int i = 0; i < {H}; i++)", f"    features[i] = {sum_};"]
                read = "features"
        is_pooled = network.read in POOLED
        if is_pooled:
            lines += self.pooling.update(read, "state->{}_".format, "state->steps_ == 0.0f")
        if network.differenced:
            lines += [f"for (int i = 0; i < {network.differenced}; i++)", "    state->before_[i] = x[i];"]
        lines += ["state->steps_ += 1.0f;"] if "steps" in network.extras else []
        if is_pooled:
            return lines + self.pooling.read("state->{}_".format, "state->steps_")
        if read != "features":
            lines += [f"for (int i = 0; i < {H}; i++)", f"    features[i] = {read}[i];"]
        return lines

    def _begin(self) -> list[str]:
        lines = [
            f"for (int n = 0; n < {len(self.network.layers)}; n++)",
            f"    for (int i = 0; i < {self.H}; i++)",
            f"        {' = '.join(f'state->{state}[n][i]' for state in self.fields)} = 0.0f;",
        ]
        for extra, size in self.network.extras.items():
            if extra in NUMBERS:
                lines.append(f"state->{extra}_ = 0.0f;")
            else:
                lines += [f"for (int i = 0; i < {size}; i++)", f"    state->{extra}_[i] = 0.0f;"]
        return lines
