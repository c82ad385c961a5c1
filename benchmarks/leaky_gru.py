"""A cell of one's own, which no other library has, and its step in torch written by hand."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from gatelab import Recurrent, cell, learned, sigmoid, tanh


@cell
def leaky_gru(x, h, W, U, b, *, rate=learned(0.5)):
    """A GRU without reset gate and with a learned rate."""
    z = sigmoid(W.z(x) + U.z(h) + b.z)
    n = tanh(W.n(x) + U.n(h) + b.n)
    return h + rate * z * (n - h)


def weights(layer: Recurrent) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """W (D, 2H), U (H, 2H) and b (2H) with both gates, and the rate."""
    p = next(layer.cell_parameters())
    W, U, b = (torch.cat([family["z"], family["n"]]).detach() for family in (p.W, p.U, p.b))
    return W.t().contiguous(), U.t().contiguous(), b, p.scalars()["rate"].detach()


def in_torch(layer: Recurrent) -> Callable[[Tensor, Tensor], Tensor]:
    """(1, D) and (1, H) → (1, H)."""
    W, U, b, rate = weights(layer)

    def step(x: Tensor, h: Tensor) -> Tensor:
        z, n = (torch.addmm(b, x, W) + h @ U).chunk(2, 1)
        return h + rate * z.sigmoid() * (n.tanh() - h)

    return step
