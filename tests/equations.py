"""The textbook equations in plain torch, without gatelab: the reference that every cell is tested against.

A cell here is a function of a dictionary of parameters ("W.z" → (H, D), …), the input (B, D) and the states (B, H).
`run` is a plain loop: layer by layer, direction by direction, one sequence and one step at a time.
"""

from __future__ import annotations

import torch
from torch import Tensor

P = dict[str, Tensor]


def affine(p: P, gate: str, x: Tensor, h: Tensor) -> Tensor:
    return x @ p[f"W.{gate}"].T + h @ p[f"U.{gate}"].T + p[f"b.{gate}"]


def antisymmetric(p: P, name: str) -> Tensor:
    M = p[f"U.{name}"]
    return M - M.T - p["gamma"] * torch.eye(len(M), dtype=M.dtype)


def rnn(p: P, x: Tensor, h: Tensor) -> tuple[Tensor, ...]:
    return (torch.tanh(affine(p, "h", x, h)),)


def gru(p: P, x: Tensor, h: Tensor) -> tuple[Tensor, ...]:
    r, z = torch.sigmoid(affine(p, "r", x, h)), torch.sigmoid(affine(p, "z", x, h))
    n = torch.tanh(x @ p["W.n"].T + p["b.n"] + r * (h @ p["U.n"].T + p["b.hn"]))
    return ((1 - z) * n + z * h,)


def gru_cho(p: P, x: Tensor, h: Tensor) -> tuple[Tensor, ...]:
    r, z = torch.sigmoid(affine(p, "r", x, h)), torch.sigmoid(affine(p, "z", x, h))
    n = torch.tanh(x @ p["W.n"].T + (r * h) @ p["U.n"].T + p["b.n"])
    return ((1 - z) * h + z * n,)


def mgu(p: P, x: Tensor, h: Tensor) -> tuple[Tensor, ...]:
    f = torch.sigmoid(affine(p, "f", x, h))
    n = torch.tanh(x @ p["W.n"].T + (f * h) @ p["U.n"].T + p["b.n"])
    return ((1 - f) * h + f * n,)


def lstm(p: P, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, ...]:
    i, f, o = (torch.sigmoid(affine(p, gate, x, h)) for gate in "ifo")
    c = f * c + i * torch.tanh(affine(p, "g", x, h))
    return o * torch.tanh(c), c


def agru(p: P, x: Tensor, h: Tensor) -> tuple[Tensor, ...]:
    r, z = torch.sigmoid(affine(p, "r", x, h)), torch.sigmoid(affine(p, "z", x, h))
    n = torch.tanh(x @ p["W.n"].T + (r * h) @ antisymmetric(p, "n").T + p["b.n"])
    return (h + p["epsilon"] * z * n,)


def antisymmetric_rnn(p: P, x: Tensor, h: Tensor) -> tuple[Tensor, ...]:
    return (h + p["epsilon"] * torch.tanh(h @ antisymmetric(p, "h").T + x @ p["W.h"].T + p["b.h"]),)


def gated_antisymmetric_rnn(p: P, x: Tensor, h: Tensor) -> tuple[Tensor, ...]:
    shared = h @ antisymmetric(p, "h").T
    z = torch.sigmoid(shared + x @ p["W.z"].T + p["b.z"])
    return (h + p["epsilon"] * z * torch.tanh(shared + x @ p["W.h"].T + p["b.h"]),)


def parameters(layer: torch.nn.Module) -> list[list[P]]:
    """The parameters of a `Recurrent` as plain dictionaries: layer → direction → name → tensor."""
    layers = []
    for directions in layer.layers:
        layers.append([])
        for own in directions.values():
            fixed = {
                name: torch.tensor(o.value, dtype=torch.float64) for name, o in own.options.items() if not o.learned
            }
            layers[-1].append(dict(own.named_parameters()) | fixed)
    return layers


def run(step, layers: list[list[P]], x: Tensor, states: list[Tensor], lengths: list[int], residual: bool):
    """(B, T, D) → output (B, T, H·dirs) and final states (L·dirs, B, H), every sequence processed separately."""
    B, T, _ = x.shape
    rows = [_row(step, layers, x[b, : lengths[b]], [s[:, b] for s in states], residual) for b in range(B)]
    outputs = [torch.cat([out, out.new_zeros(T - len(out), out.shape[1])]) for out, _ in rows]
    return torch.stack(outputs), [torch.stack([r[1][k] for r in rows], dim=1) for k in range(len(states))]


def _row(step, layers: list[list[P]], sequence: Tensor, states: list[Tensor], residual: bool):
    finals, number = [], 0
    for index, directions in enumerate(layers):
        halves = []
        for backward, p in enumerate(directions):
            now = tuple(state[number] for state in states)
            outputs = []
            for x in sequence.flip(0) if backward else sequence:
                now = step(p, x, *now)
                outputs.append(now[0])
            halves.append(torch.stack(outputs).flip(0) if backward else torch.stack(outputs))
            finals.append(now)
            number += 1
        output = torch.cat(halves, dim=1)
        sequence = output + sequence if residual and index > 0 else output
    return sequence, [torch.stack(values) for values in zip(*finals, strict=True)]
