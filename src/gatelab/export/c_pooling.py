"""Pooling in C: from the output of each step to what the head reads, as running values."""

from __future__ import annotations

from collections.abc import Callable

from gatelab.export.c_text import array, indented
from gatelab.export.network import POOLED, Network


class CPooling:
    """Statements for one step at a time. `place` is where a running value is kept: "total" → "state->total_"."""

    def __init__(self, network: Network) -> None:
        self.network, self.size = network, network.features

    def text(self) -> str:
        """The constants, and for whole sequences a function."""
        network = self.network
        parts = [] if network.query is None else [array("pooling_query", network.query)]
        if network.reads_whole and network.read in POOLED:
            parts.append(self._whole())
        return "\n\n".join(parts)

    def update(self, output: str, place: Callable[[str], str], is_first: str) -> list[str]:
        """Replace the running values; `output` is an array."""
        if self.network.read == "attention":
            return self._attention(output, place)
        changes = []
        if "mean" in self.network.read:
            changes.append(f"{place('total')}[i] += {output}[i];")
        if "max" in self.network.read:
            largest = f"{place('largest')}[i]"
            changes.append(f"{largest} = {is_first} || {output}[i] > {largest} ? {output}[i] : {largest};")
        return self._each(*changes)

    def _attention(self, output: str, place: Callable[[str], str]) -> list[str]:
        """A softmax step by step: sums are relative to the largest score so far, and rescaled where it rises."""
        total, weight, score = map(place, ("total", "weight", "score"))
        return [
            "float sum = 0.0f, top, earlier, now;",
            *self._each(f"sum += pooling_query[i] * {output}[i];"),
            f"top = {weight} > 0.0f && {score} > sum ? {score} : sum;",
            f"earlier = {weight} > 0.0f ? exponential({score} - top) : 0.0f;",
            "now = exponential(sum - top);",
            *self._each(f"{total}[i] = {total}[i] * earlier + {output}[i] * now;"),
            f"{weight} = {weight} * earlier + now;",
            f"{score} = top;",
        ]

    def read(self, place: Callable[[str], str], steps: str) -> list[str]:
        """Set the features, after an update; `steps` is the number of steps, a float."""
        reads = {
            "mean": f"{place('total')}[i] / {steps}",
            "max": f"{place('largest')}[i]",
            "attention": f"{place('total')}[i] / {place('weight')}",
        }
        values = [reads[kind] for kind in self.network.read.split("+")]
        begins = ("i", f"{self.size} + i")
        return self._each(*(f"features[{at}] = {value};" for at, value in zip(begins, values, strict=False)))

    def _whole(self) -> str:
        """The same over all steps."""
        kept = POOLED[self.network.read]
        arrays = [name for name in kept if name in ("total", "largest")]
        numbers = [f"{name} = 0.0f" for name in kept if name not in arrays]
        lines = [
            f"float {', '.join([*(f'{name}[{self.size}]' for name in arrays), *numbers])};",
            *self._each(*(f"{name}[i] = 0.0f;" for name in arrays)),
            "for (size_t t = 0; t < steps; t++) {",
            "    const float *output = outputs + t * (size_t)row;",
            *(f"    {line}" for line in self.update("output", str, "t == 0")),
            "}",
            *self.read(str, "(float)steps"),
        ]
        head = "static void pooled(const float *outputs, size_t steps, int row, float *features)"
        what = "/* What the head reads of the outputs of all steps; rows begin `row` numbers apart. */"
        return f"{what}\n{head}\n{{\n{indented(lines)}\n}}"

    def _each(self, *statements: str) -> list[str]:
        """Statements for each of the features."""
        loop = f"for (int i = 0; i < {self.size}; i++)"
        if len(statements) == 1:
            return [loop, f"    {statements[0]}"]
        return [f"{loop} {{", *(f"    {statement}" for statement in statements), "}"]
