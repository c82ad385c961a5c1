"""Sequences and targets, stored compactly and encoded as float32 batch by batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

PADDING = 255  # the token of steps after the end of a sequence; with a larger vocabulary, its size


class Batch(NamedTuple):
    """Inputs, targets and lengths of some examples."""

    x: Tensor  # (B, T, D) float32
    y: Tensor  # classes: int64 (B,) or (B, T); values: float32 (B, K) or (B, T, K)
    lengths: Tensor | None  # (B,) int64; None if all sequences have the same length


class Encoding(Protocol):
    """Converts stored sequences to float32."""

    def __call__(self, rows: Tensor, index: Tensor) -> Tensor:
        """Encode the stored sequences with these indices as (B, T, D) in float32."""


@dataclass(frozen=True)
class Examples:
    """A training, validation or test set."""

    stored: Tensor  # (N, T, …) bytes, tokens or floats, as the encoding expects
    targets: Tensor
    encoding: Encoding
    lengths: Tensor | None = None
    per_step: bool = False  # whether there is a target at every step

    def __len__(self) -> int:
        return len(self.targets)

    def batch(self, index: Tensor) -> Batch:
        """Return the examples with these indices, padded to the longest of them."""
        if self.lengths is None:
            rows, targets = self.stored.index_select(0, index), self.targets.index_select(0, index)
            return Batch(self.encoding(rows, index), targets, None)
        lengths = self.lengths.index_select(0, index)
        longest = int(lengths.max())
        rows = self.stored[:, :longest].index_select(0, index)
        targets = (self.targets[:, :longest] if self.per_step else self.targets).index_select(0, index)
        return Batch(self.encoding(rows, index), targets, lengths)

    def first(self, count: int) -> Batch:
        """Return the first `count` examples."""
        return self.batch(torch.arange(min(count, len(self))))


def inside(values: Tensor, lengths: Tensor | None) -> Tensor:
    """Return the mask (B, T) of steps before the end of their sequence, for values (B, T, …)."""
    if lengths is None:
        return torch.ones(values.shape[:2], dtype=torch.bool)
    return torch.arange(values.shape[1]) < lengths[:, None]


class Parts(NamedTuple):
    """The training, validation and test set of a task."""

    train: Examples
    validation: Examples
    test: Examples


@dataclass(frozen=True)
class Floats:
    """Sequences stored as floats."""

    def __call__(self, rows: Tensor, index: Tensor) -> Tensor:
        """Return the sequences unchanged."""
        return rows


@dataclass(frozen=True)
class Differences:
    """Windows of a differenced series; the change at the first step of a window is unknown and set to 0."""

    no_change: tuple[float, ...]  # the scaled value of a change of 0, for each differenced column

    def __call__(self, rows: Tensor, index: Tensor) -> Tensor:
        """Return the windows with the first change set to 0."""
        rows = rows.clone()
        rows[:, 0, : len(self.no_change)] = torch.tensor(self.no_change, dtype=rows.dtype)
        return rows


@dataclass(frozen=True)
class Pixels:
    """Bytes, standardized as (byte − mean) / deviation."""

    mean: float
    deviation: float

    def __call__(self, rows: Tensor, index: Tensor) -> Tensor:
        """Standardize the pixels."""
        return rows.to(torch.float32).sub_(self.mean).mul_(1 / self.deviation)


@dataclass(frozen=True)
class OneHot:
    """Tokens as one-hot vectors; padding, any token that is not in the vocabulary, as zeros."""

    size: int

    def __call__(self, rows: Tensor, index: Tensor) -> Tensor:
        """Encode the tokens as one-hot vectors."""
        encoded = torch.zeros(*rows.shape, self.size, dtype=torch.float32)  # (B, T, D)
        hot = rows.long().clamp_(max=self.size - 1).unsqueeze(-1)
        return encoded.scatter_(-1, hot, (rows.long() < self.size).to(torch.float32).unsqueeze(-1))


@dataclass(frozen=True)
class NoiseAfter:
    """Another encoding followed by `steps` of Gaussian noise, through which the network has to remember the input.

    Each example has a fixed window of one long noise tape. This costs no memory per example, and every epoch sees the
    same noise. Windows may overlap; their positions are independent of the targets.
    """

    inner: Encoding
    steps: int
    tape: Tensor  # (M, D)
    starts: Tensor  # (N,), where the window of each example begins

    def __call__(self, rows: Tensor, index: Tensor) -> Tensor:
        """Encode the sequences and append their noise."""
        windows = self.tape.unfold(0, self.steps, 1).transpose(1, 2)  # (M - steps + 1, steps, D), a view
        return torch.cat([self.inner(rows, index), windows.index_select(0, self.starts.index_select(0, index))], 1)
