"""The convolutions of a stem in C: constant arrays, and a function that all of them use."""

from __future__ import annotations

from gatelab.export.c_text import array, weights
from gatelab.export.network import Network

CONVOLVED = """\
/* A convolution over time, then ReLU: reads rows of `inputs` numbers and writes rows of `channels`, one for every
   `stride` steps, with that step in the middle of `taps`. Rows begin `row` numbers apart; beyond the ends all is zero.
   Batch normalization is part of the weights, [taps][inputs][channels]. Returns the number of steps written. */
static size_t convolved(const float *from, size_t steps, int row, const {kind} *weights{scales}, const float *bias,
                        int taps, int inputs, int channels, int stride, float *to)
{{
    size_t written = 0;
    for (size_t middle = 0; middle < steps; middle += (size_t)stride, written++) {{
        float *sums = to + written * (size_t)row;
        for (int i = 0; i < channels; i++)
            sums[i] = bias[i];
        for (int k = 0; k < taps; k++) {{
            const size_t step = middle + (size_t)k; /* of the sequence with taps / 2 zeros before it */
            if (step >= (size_t)(taps / 2) && step - (size_t)(taps / 2) < steps)
                multiply(sums, weights + k * inputs * channels{given},
                         from + (step - (size_t)(taps / 2)) * (size_t)row, inputs, channels);
        }}
        for (int i = 0; i < channels; i++)
            sums[i] = sums[i] < 0.0f ? 0.0f : sums[i];
    }}
    return written;
}}"""


class Stem:
    """The text of a stem; nothing if a network has none."""

    def __init__(self, network: Network, int8: bool) -> None:
        self.convolutions, self.int8 = network.stem, int8

    def text(self) -> str:
        """The constants, and the function."""
        if not self.convolutions:
            return ""
        constants = []
        for number, each in enumerate(self.convolutions):
            packed = each.weight.transpose(2, 1, 0).reshape(-1, each.channels)
            constants.append(
                f"{weights(f'stem{number}_weight', packed, self.int8)}\n{array(f'stem{number}_bias', each.bias)}"
            )
        words = {"kind": "float", "scales": "", "given": ""}
        if self.int8:
            words = {"kind": "int8_t", "scales": ", const float *scales", "given": ", scales"}
        return "\n\n".join([CONVOLVED.format(**words), *constants])

    def call(self, number: int, row: int) -> str:
        """The number of steps after a convolution, from `from` to `to`."""
        each, name = self.convolutions[number], f"stem{number}"
        scales = f"{name}_weight_scales, " if self.int8 else ""
        sizes = f"{each.width}, {each.inputs}, {each.channels}, {each.stride}"
        return f"convolved(from, steps, {row}, {name}_weight, {scales}{name}_bias, {sizes}, to)"
