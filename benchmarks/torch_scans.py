"""Layers without a recurrent matrix in torch: all products at once, and then a scan h_t = a_t h_{t−1} + b_t over time.

Three scans are compared: a loop over time in place, doubling (Hillis & Steele), and doubling under `torch.compile`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, softplus

from gatelab import Recurrent

Scan = Callable[[Tensor, Tensor], Tensor]  # a and b (T, B, H) → h
Values = dict[str, Tensor]


class Sequential(torch.autograd.Function):
    """One step after another, in place."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        h = b.clone(memory_format=torch.contiguous_format)
        steps = h.unbind()
        for a_t, before, h_t in zip(a.unbind()[1:], steps, steps[1:], strict=False):
            h_t.addcmul_(a_t, before)
        ctx.save_for_backward(a, h)
        return h

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        a, h = ctx.saved_tensors
        of_b = gradient.clone(memory_format=torch.contiguous_format)
        steps = of_b.unbind()[::-1]
        for a_t, after, g_t in zip(a.conj().unbind()[::-1], steps, steps[1:], strict=False):
            g_t.addcmul_(a_t, after)
        of_a = torch.zeros_like(of_b)
        torch.mul(of_b[1:], h[:-1].conj(), out=of_a[1:])
        return of_a, of_b


def sequential(a: Tensor, b: Tensor) -> Tensor:
    return Sequential.apply(a.expand_as(b), b)


def doubling(a: Tensor, b: Tensor) -> Tensor:
    """log₂ T passes; after each, a step includes twice as many before it."""
    distance = 1
    while distance < len(b):
        b = torch.cat([b[:distance], torch.addcmul(b[distance:], a[distance:], b[:-distance])])
        a = torch.cat([a[:distance], a[distance:] * a[:-distance]])
        distance *= 2
    return b


SCANS: dict[str, Scan] = {
    "loop": sequential,
    "doubling": doubling,
    "compiled doubling": torch.compile(doubling, fullgraph=True, dynamic=False),
}


class Layer(nn.Module):
    """The layer of a cell that is linear in its state, with the parameters of ours: all input products in one."""

    def __init__(self, layer: Recurrent, scan: Scan) -> None:
        super().__init__()
        p = next(layer.cell_parameters())
        self.equations, self.scan, self.names = EQUATIONS[layer.cell.name], scan, tuple(p.W)
        self.W = nn.Parameter(torch.cat(p.W.values()).detach())
        self.U, self.b = (nn.ParameterDict({n: v.detach().clone() for n, v in f.items()}) for f in (p.U, p.b))

    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        W = dict(zip(self.names, linear(x, self.W).chunk(len(self.names), -1), strict=True))
        return self.equations(W, self.U, self.b, self.scan), None


# The cells; W has the products of their names with x.


def mingru(W: Values, U: Values, b: Values, scan: Scan) -> Tensor:
    z = torch.sigmoid(W["z"] + b["z"])
    return scan(1 - z, z * (W["h"] + b["h"]))


def minlstm(W: Values, U: Values, b: Values, scan: Scan) -> Tensor:
    f, i = torch.sigmoid(W["f"] + b["f"]), torch.sigmoid(W["i"] + b["i"])
    k = f / (f + i)
    return scan(k, (1 - k) * (W["h"] + b["h"]))


def gilr(W: Values, U: Values, b: Values, scan: Scan) -> Tensor:
    g = torch.sigmoid(W["g"] + b["g"])
    return scan(g, (1 - g) * torch.tanh(W["i"] + b["i"]))


def qrnn(W: Values, U: Values, b: Values, scan: Scan) -> Tensor:
    def convolution(name: str) -> Tensor:
        before = torch.cat([torch.zeros_like(W[f"{name}1"][:1]), W[f"{name}1"][:-1]])
        return before + W[f"{name}2"] + b[name]

    z, f, o = torch.tanh(convolution("z")), torch.sigmoid(convolution("f")), torch.sigmoid(convolution("o"))
    return o * scan(f, (1 - f) * z)


def hgrn(W: Values, U: Values, b: Values, scan: Scan) -> Tensor:
    f = 0.5 + 0.5 * torch.sigmoid(W["f"] + b["f"])
    return torch.sigmoid(W["g"] + b["g"]) * scan(f, (1 - f) * nn.functional.silu(W["c"] + b["c"]))


def rg_lru(W: Values, U: Values, b: Values, scan: Scan) -> Tensor:
    r, i = torch.sigmoid(W["a"] + b["a"]), torch.sigmoid(W["x"] + b["x"])
    a = torch.exp(-8.0 * r * softplus(-b["Lambda"]))
    return scan(a, torch.sqrt((1 - a * a).clamp(min=1e-6)) * (i * W["u"]))


def lru(W: Values, U: Values, b: Values, scan: Scan) -> Tensor:
    """In complex numbers."""
    r = torch.exp(-torch.exp(b["nu"]))
    g = torch.exp(b["gamma"]) * torch.sqrt(1 - r * r)
    inputs = torch.complex(g * W["b_re"], g * W["b_im"])
    h = scan(torch.polar(r, torch.exp(b["theta"])).expand(len(inputs), 1, -1), inputs)
    return linear(h.real, U["c_re"]) - linear(h.imag, U["c_im"]) + W["d"]


EQUATIONS: dict[str, Callable[[Values, Values, Values, Scan], Tensor]] = {
    cell.__name__: cell for cell in (mingru, minlstm, gilr, qrnn, hgrn, rg_lru, lru)
}
