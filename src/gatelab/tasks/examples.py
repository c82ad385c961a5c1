"""Sequences and targets, stored compactly and encoded batch by batch."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from gatelab.tasks.scaling import Scaling


class Batch(NamedTuple):
    """Inputs, targets and lengths of some examples."""

    x: Tensor  # (B, T, D) float32, or tokens (B, T) int64
    y: Tensor  # classes: int64 (B,) or (B, T); values: float32 (B, K) or (B, T, K)
    lengths: Tensor | None  # (B,) int64; None if all sequences have the same length


class Encoding(Protocol):
    """Converts stored sequences to what a model reads."""

    def __call__(self, rows: Tensor, index: Tensor) -> Tensor:
        """Encode the stored sequences with these indices as (B, T, D) in float32, or tokens (B, T) as integers."""


@dataclass(frozen=True)
class Floats:
    """Sequences stored as floats."""

    def __call__(self, rows: Tensor, index: Tensor) -> Tensor:
        """The sequences unchanged."""
        return rows


@dataclass(frozen=True)
class Examples:
    """A training, validation or test set."""

    stored: Tensor  # (N, T, …) bytes, tokens or floats, as the encoding expects
    targets: Tensor
    _: KW_ONLY
    encoding: Encoding = Floats()
    lengths: Tensor | None = None
    per_step: bool = False  # whether there is a target at every step
    weights: Tensor | None = None  # (N,) float32 of mean 1, how much each sequence counts; None if all count the same

    def __len__(self) -> int:
        return len(self.targets)

    def batch(self, index: Tensor, steps: slice | None = None) -> Batch:
        """The examples with these indices, padded to the longest of them; with `steps`, only those steps, where
        the lengths are those within them, from 0.
        """
        lengths = None if self.lengths is None else self.lengths.index_select(0, index)
        steps = steps or slice(0, self.longest(index))
        if lengths is not None:
            lengths = (lengths - steps.start).clamp(0, steps.stop - steps.start)
        rows = self.stored[:, steps].index_select(0, index)
        targets = (self.targets[:, steps] if self.per_step else self.targets).index_select(0, index)
        if not targets.is_floating_point():
            targets = targets.long()  # text stores its tokens as bytes
        return Batch(self.encoding(rows, index), targets, lengths)

    def weights_of(self, index: Tensor) -> Tensor | None:
        """The weights (B,) of the examples with these indices; None if all count the same."""
        return None if self.weights is None else self.weights.index_select(0, index)

    def longest(self, index: Tensor) -> int:
        """The number of steps of the longest of these examples."""
        return self.stored.shape[1] if self.lengths is None else int(self.lengths.index_select(0, index).max())

    def segments(self, count: int) -> Examples:
        """One long sequence (1, S, …) as `count` consecutive ones (count, S // count, …), views of it."""
        assert len(self) == 1
        assert self.lengths is None
        length = self.stored.shape[1] // count
        stored, targets = (
            values[0, : count * length].view(count, length, *values.shape[2:]) for values in (self.stored, self.targets)
        )
        return Examples(stored, targets, encoding=self.encoding, per_step=True)

    def first(self, count: int) -> Batch:
        """The first `count` examples."""
        return self.batch(torch.arange(min(count, len(self))))


def inside(values: Tensor, lengths: Tensor | None) -> Tensor:
    """The mask (B, T) of steps before the end of their sequence, for values (B, T, …)."""
    if lengths is None:
        return torch.ones(values.shape[:2], dtype=torch.bool, device=values.device)
    return torch.arange(values.shape[1], device=values.device) < lengths[:, None]


class Parts(NamedTuple):
    """The training, validation and test set of a task."""

    train: Examples
    validation: Examples
    test: Examples


@dataclass(frozen=True)
class Differences:
    """Windows of a differenced series; the change at the first step of a window is unknown and set to 0."""

    no_change: tuple[float, ...]  # the scaled value of a change of 0, for each differenced column

    def __call__(self, rows: Tensor, index: Tensor) -> Tensor:
        """The windows with the first change set to 0."""
        rows = rows.clone()
        rows[:, 0, : len(self.no_change)] = torch.tensor(self.no_change, dtype=rows.dtype)
        return rows


@dataclass(frozen=True)
class Pixels:
    """Bytes, standardized as (byte − mean) / deviation."""

    scaling: Scaling  # of all pixels

    def __call__(self, rows: Tensor, index: Tensor) -> Tensor:
        """Standardize the pixels."""
        mean, deviation = float(self.scaling.mean[0]), float(self.scaling.deviation[0])
        return rows.to(torch.float32).sub_(mean).mul_(1 / deviation)


@dataclass(frozen=True)
class TokenIndices:
    """Tokens as integers; the model makes one-hot vectors or embeddings of them."""

    def __call__(self, rows: Tensor, index: Tensor) -> Tensor:
        """The tokens as int64."""
        return rows.long()


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
