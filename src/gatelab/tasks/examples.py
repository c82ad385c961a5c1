"""Sequences with their targets, stored compactly and cut into batches of floats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

PADDING = 255  # the token beyond the end of a sequence


class Batch(NamedTuple):
    """Inputs and targets."""

    x: Tensor  # (B, T, D) float32
    y: Tensor  # classes: int64 (B,) or (B, T); values: float32 (B, K) or (B, T, K)
    lengths: Tensor | None  # (B,) int64, where sequences differ in length


class Encoding(Protocol):
    """How stored rows become floats."""

    def __call__(self, rows: Tensor, index: Tensor) -> Tensor:
        """The rows that were picked by `index`, as (B, T, D) in float32."""


@dataclass(frozen=True)
class Examples:
    """One part of a task's data."""

    stored: Tensor  # (N, T, …) as the encoding wants it: bytes, tokens or floats
    targets: Tensor
    encoding: Encoding
    lengths: Tensor | None = None
    per_step: bool = False  # whether there is a target at every step

    def __len__(self) -> int:
        return len(self.targets)

    def batch(self, index: Tensor) -> Batch:
        """The examples with these indices, padded to the longest of them."""
        if self.lengths is None:
            rows, targets = self.stored.index_select(0, index), self.targets.index_select(0, index)
            return Batch(self.encoding(rows, index), targets, None)
        lengths = self.lengths.index_select(0, index)
        longest = int(lengths.max())
        rows = self.stored[:, :longest].index_select(0, index)
        targets = (self.targets[:, :longest] if self.per_step else self.targets).index_select(0, index)
        return Batch(self.encoding(rows, index), targets, lengths)

    def first(self, count: int) -> Batch:
        """The first few examples."""
        return self.batch(torch.arange(min(count, len(self))))


def inside(values: Tensor, lengths: Tensor | None) -> Tensor:
    """For values (B, T, …) which steps lie before the end of their sequence, (B, T)."""
    if lengths is None:
        return torch.ones(values.shape[:2], dtype=torch.bool)
    return torch.arange(values.shape[1]) < lengths[:, None]


class Parts(NamedTuple):
    """A task's data: to learn from, to choose by, and to be judged by once at the end."""

    train: Examples
    validation: Examples
    test: Examples


@dataclass(frozen=True)
class Floats:
    """Rows that are floats already."""

    def __call__(self, rows: Tensor, index: Tensor) -> Tensor:
        return rows


@dataclass(frozen=True)
class Differences:
    """Windows of a differenced series: the change before a window's first step is unknown and taken as 0."""

    nothing: tuple[float, ...]  # no change, as the scaling has it, for each differenced column

    def __call__(self, rows: Tensor, index: Tensor) -> Tensor:
        rows = rows.clone()
        rows[:, 0, : len(self.nothing)] = torch.tensor(self.nothing, dtype=rows.dtype)
        return rows


@dataclass(frozen=True)
class Pixels:
    """Bytes, as (byte − mean) / deviation."""

    mean: float
    deviation: float

    def __call__(self, rows: Tensor, index: Tensor) -> Tensor:
        return rows.to(torch.float32).sub_(self.mean).mul_(1 / self.deviation)


@dataclass(frozen=True)
class OneHot:
    """Tokens, each as a vector with a single one; padding as zeros."""

    size: int

    def __call__(self, rows: Tensor, index: Tensor) -> Tensor:
        encoded = torch.zeros(*rows.shape, self.size, dtype=torch.float32)  # (B, T, D)
        places = rows.long().clamp_(max=self.size - 1).unsqueeze(-1)
        return encoded.scatter_(-1, places, (rows != PADDING).to(torch.float32).unsqueeze(-1))


@dataclass(frozen=True)
class NoiseAfter:
    """Another encoding, and then `steps` of Gaussian noise: what was seen has to be remembered through it.

    Each example has a window on one long tape of noise, always the same one: it costs no memory per example, and an
    epoch sees the noise that the last one saw. Windows overlap, at places that have nothing to do with the answers.
    """

    inner: Encoding
    steps: int
    tape: Tensor  # (M, D)
    starts: Tensor  # (N,), where each example's window begins

    def __call__(self, rows: Tensor, index: Tensor) -> Tensor:
        windows = self.tape.unfold(0, self.steps, 1).transpose(1, 2)  # (M - steps + 1, steps, D), a view
        return torch.cat([self.inner(rows, index), windows.index_select(0, self.starts.index_select(0, index))], 1)
