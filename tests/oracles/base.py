"""What an oracle is: a cell as its paper writes it, in plain torch, so that autograd gives the gradients."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Parameters = dict[str, Tensor]
State = tuple[Tensor, ...]
Step = Callable[..., tuple[Tensor, State]]

ORACLES: dict[str, Oracle] = {}


@dataclass(frozen=True)
class Oracle:
    """A step of a cell with the names of what it takes.

    `step(p, x, state, **options)` returns the output and the new states. The parameters of `p` are "W.i" (H×D, applied
    to the input), "U.i" (H×H, applied to a state or a gate) and "b.i" (a vector of H, added or multiplied).
    """

    step: Step
    states: tuple[str, ...]  # in order; the first is the output
    W: tuple[str, ...]
    U: tuple[str, ...]
    b: tuple[str, ...]
    options: dict[str, float]
    notes: str
    delays: tuple[str, ...] = ()  # states, at the end, that hold a value of an earlier step
    positive: tuple[str, ...] = ()  # vectors of b that have to be positive
    square: bool = False  # whether the input has to have H values
    least: int = 1  # value of H
    initial: tuple[tuple[str, float], ...] = ()  # states that do not start from 0

    def parameters(self, D: int, H: int, seed: int = 0, scale: float = 0.5) -> Parameters:
        """Random ones, in double precision, with gradients: normal of this deviation; positive vectors in [1, 3)."""
        g = torch.Generator().manual_seed(seed)
        shapes = (
            {f"W.{k}": (H, D) for k in self.W} | {f"U.{k}": (H, H) for k in self.U} | {f"b.{k}": (H,) for k in self.b}
        )
        p = {k: scale * torch.randn(s, generator=g, dtype=torch.float64) for k, s in shapes.items()}
        p |= {f"b.{k}": 1 + 2 * torch.rand(H, generator=g, dtype=torch.float64) for k in self.positive}
        return {k: v.requires_grad_() for k, v in p.items()}

    def start(self, B: int, H: int) -> State:
        """The states before the first step."""
        values = dict(self.initial)
        return tuple(torch.full((B, H), values.get(s, 0.0), dtype=torch.float64) for s in self.states)

    def run(self, p: Parameters, xs: Tensor, state: State | None = None, **options: float) -> tuple[Tensor, State]:
        """The outputs (T, B, H) of a sequence xs (T, B, D), and the last states."""
        if state is None:
            H = next(v.shape[0] for v in p.values())
            state = self.start(xs.shape[1], H)
        ys = []
        for x in xs:
            y, state = self.step(p, x, state, **options)
            ys.append(y)
        return torch.stack(ys), state


def oracle(
    states: str,
    W: str = "",
    U: str = "",
    b: str = "",
    *,
    notes: str,
    delays: str = "",
    positive: str = "",
    **more: object,
) -> Callable[[Step], Step]:
    """Adds a step to the oracles under its name. Names are separated by blanks; the keyword arguments are options."""

    def register(step: Step) -> Step:
        keywords = list(inspect.signature(step).parameters.values())[3:]
        ORACLES[step.__name__] = Oracle(
            step=step,
            states=tuple(states.split()),
            W=tuple(W.split()),
            U=tuple(U.split()),
            b=tuple(b.split()),
            options={k.name: k.default for k in keywords},
            notes=notes,
            delays=tuple(delays.split()),
            positive=tuple(positive.split()),
            **more,
        )
        return step

    return register


def affine(p: Parameters, gate: str, x: Tensor, h: Tensor) -> Tensor:
    """W x + U h + b of a gate."""
    return x @ p[f"W.{gate}"].T + h @ p[f"U.{gate}"].T + p[f"b.{gate}"]


def driven(p: Parameters, gate: str, x: Tensor) -> Tensor:
    """W x + b of a gate that sees the input alone."""
    return x @ p[f"W.{gate}"].T + p[f"b.{gate}"]
