"""The operations of the language in every engine and form: values and gradients, printing, documents, ablation."""

from __future__ import annotations

import pytest
import torch
from test_fused import _poisoned, compare, pair, random_states  # noqa: F401

from gatelab import (
    CellError, GatelabError, Recurrent, cell, clamp, cos, exp, expm, floor, hard_sigmoid, hold, layer_norm, learned, log,
    maximum, mean, minimum, prev, relu, rms_norm, sigmoid, sqrt, step, stop_gradient, sum, surrogate, tanh, values, where,
)  # fmt: skip
from gatelab.lang.document import from_document, to_document


@cell
def pieces(x, h, W, U, b, *, rate=learned(0.4)):
    a = W.a(x) + U.a(h) + b.a
    n = maximum(a, 0.3 * b.m) + minimum(a * rate, h) - abs(a) + clamp(2 * a, -0.5, 0.7)
    k = hard_sigmoid(a) * where(a > 0.1, tanh(n), rate * h) + where(b.m <= h, 0, n)
    return 0.5 * k + 0.1 * sqrt(1 + a * a) + 0.1 * log(2 + h * h)


@cell
def spiking(x, s, m, W, U, b, *, slope=10.0):
    v = 0.9 * m + W.m(x) + U.m(s) - stop_gradient(s)
    u = v - 0.2
    return surrogate(step(u), u / (1 + slope * abs(u))), v + 0.1 * floor(2 * v) + 0.2 * surrogate(floor(v), v)


@cell
def normalized(x, h, c, W, U, b, *, rate=learned(0.3)):
    i = sigmoid(b.g * layer_norm(W.i(x) + U.i(h)) + b.i)
    mu = mean(c)
    n = tanh(b.s * rms_norm(W.n(x) + U.n(i * h)) + b.n)
    share = exp(n) / sum(exp(n))
    return n * share + 0.2 * rate * mu + 0.1 * sum(h * n) * rate, c * i + tanh(layer_norm(n)) * mean(h)


@cell
def remembering(x, h, t, W, U, b):
    v = W.v(x)
    n = tanh(v + U.n(h) + b.n - prev(v, 2))
    phase = t / 3 - floor(t / 3)
    return n * phase + prev(n) * prev(h) + 0.1 * prev(prev(n, 2)) + 0.3 * cos(0.1 * t)


@cell
def highway(x, h, W, U, b):
    z = sigmoid(W.z(x) + b.z * x)
    return z * tanh(U.h(h + x)) + (1 - z) * x


@cell
def untouched(x, h, b):
    return b.d * h + x * x


@cell(
    given={"U.mask": values.off_diagonal(), "b.sign": values.signs(0.8)},
    start={"b.h": 0.25, "U.h": values.uniform(0, 1)},
)
def constrained(x, h, W, U, b):
    skew = expm(U.s - U.s.T)
    return tanh(W.h(x) + (U.mask * relu(U.h))(b.sign * h) + skew(h) + 0.1 * abs(U.s)(h) + b.h)


@cell
def vectors_in_rows(x, h, W, b):
    return tanh(W.h(x)) * mean(b.g) + sum(b.g * h) / 5


CELLS = [pieces, spiking, normalized, remembering, highway, untouched, constrained, vectors_in_rows]


@pytest.mark.parametrize("own", CELLS, ids=lambda own: own.name)
def test_fused_is_eager(own):
    """Awkward sizes, two layers, both directions, lengths, gates and two threads; one kernel each."""
    before = torch.get_num_threads()
    try:
        for threads, (B, T, H), lengths in [(1, (3, 6, 5), None), (2, (9, 5, 21), [5, 1, 4, 2, 5, 3, 3, 1, 2])]:
            torch.set_num_threads(threads)
            torch.manual_seed(threads)
            D, several = (H, 1) if own.graph.uses_input_itself else (3, 2)
            layer, exact = pair(own, D, H, several, bidirectional=several == 2)
            compare(layer, exact, torch.randn(B, T, D), random_states(layer, B), lengths=lengths, gates=True)
    finally:
        torch.set_num_threads(before)
