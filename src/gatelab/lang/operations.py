"""The operations on values: how many arguments each takes, and what it computes on tensors.

Tracing, printing, documents, gradients and all engines use these names. (A power has its exponent in `Node.value`.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional


class _Surrogate(torch.autograd.Function):
    """The first argument's value with the second one's derivative."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, smooth: Tensor) -> Tensor:
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return None, grads[0]


def _surrogate(value: Tensor, smooth: Tensor) -> Tensor:
    return _Surrogate.apply(*torch.broadcast_tensors(value, smooth))  # type: ignore[no-untyped-call, no-any-return]


def _step(v: Tensor) -> Tensor:
    return (v > 0).to(v.dtype)


class Operation(NamedTuple):
    """A pointwise operation."""

    compute: Callable[..., Tensor]
    arguments: int = 1


POINTWISE = {
    "add": Operation(torch.add, 2),
    "sub": Operation(torch.sub, 2),
    "mul": Operation(torch.mul, 2),
    "div": Operation(torch.div, 2),
    "neg": Operation(torch.neg),
    "power": Operation(torch.pow),
    "sigmoid": Operation(torch.sigmoid),
    "tanh": Operation(torch.tanh),
    "relu": Operation(torch.relu),
    "softplus": Operation(functional.softplus),
    "exp": Operation(torch.exp),
    "log": Operation(torch.log),
    "sqrt": Operation(torch.sqrt),
    "sin": Operation(torch.sin),
    "cos": Operation(torch.cos),
    "abs": Operation(torch.abs),
    "floor": Operation(torch.floor),
    "step": Operation(_step),
    "maximum": Operation(torch.maximum, 2),
    "minimum": Operation(torch.minimum, 2),
    "clamp": Operation(torch.clamp, 3),  # value, lower and upper bound
    "greater": Operation(torch.gt, 2),
    "greater_equal": Operation(torch.ge, 2),
    "where": Operation(torch.where, 3),  # condition, value where it is true, value elsewhere
    "surrogate": Operation(_surrogate, 2),  # value, function whose derivative is used
    "stop_gradient": Operation(torch.detach),
}
# Functions of the entries of a matrix.
ENTRYWISE = ("sigmoid", "tanh", "relu", "softplus", "exp", "abs", "sin", "cos", "sqrt", "log")
CONDITIONS = ("greater", "greater_equal")  # usable only as the first argument of `where`

# Over the units of a vector: one number per sequence.
REDUCTIONS: dict[str, Callable[..., Tensor]] = {"sum": torch.sum, "mean": torch.mean}
