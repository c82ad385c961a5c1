"""The linear head of the models."""

from __future__ import annotations

from torch import Generator, nn

from gatelab.engine import Recurrent, checks


def head(layer: Recurrent, output_size: int, dropout: float, features: int | None = None) -> nn.Sequential:
    """Dropout and a linear layer on the output of a recurrent layer, or on a number of features made from it."""
    checks.sizes(output_size=output_size)
    checks.dropout(dropout, "head_dropout")
    like = next(layer.parameters())
    linear = nn.Linear(features or layer.output_size, output_size, device=like.device, dtype=like.dtype)
    return nn.Sequential(nn.Dropout(dropout), linear)


def reset_head(head: nn.Sequential, generator: Generator | None) -> None:
    """Initialize as nn.Linear does, uniform in ±1/√(inputs), but from a given generator."""
    linear = head[-1]
    assert isinstance(linear, nn.Linear)
    bound = linear.in_features**-0.5
    for parameter in linear.parameters():
        nn.init.uniform_(parameter, -bound, bound, generator=generator)
