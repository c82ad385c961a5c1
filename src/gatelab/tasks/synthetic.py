"""Base classes of synthetic tasks: number of examples, and distinct sequences."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import ClassVar

import numpy as np
import torch
from pydantic import Field

from gatelab.errors import GatelabError
from gatelab.tasks.examples import Encoding, Examples, Parts, TokenIndices
from gatelab.tasks.sampling import stream
from gatelab.tasks.task import Task

ROW_BYTES = 600  # of the objects that keep one example apart
Drawn = tuple[np.ndarray, np.ndarray, np.ndarray | None]  # inputs (N, T, …), targets, lengths


class Synthetic(Task):
    """A task with randomly generated examples."""

    synthetic = True
    bytes_per_step: ClassVar[int] = 40  # of one example, while examples are drawn and kept
    split_rule = "`size` training examples, a fifth of that each for validation and test; all sequences distinct"

    size: int = Field(10_000, ge=5, lt=2**31, description="number of training examples")

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The number of training, validation and test examples."""
        return self.size, self.size // 5, self.size // 5

    def data_bytes(self) -> int:
        """The memory of the arrays of one draw, their distinct rows, and the three parts."""
        return sum(self.sizes) * (self.steps * self.bytes_per_step + ROW_BYTES)

    def draw(self, count: int, random: np.random.RandomState) -> Drawn:
        """Draw `count` examples, which may repeat."""
        raise NotImplementedError

    def encoding(self) -> Encoding:
        """How stored sequences become floats."""
        raise NotImplementedError

    def load(self) -> Parts:
        """Generate all examples and split them."""
        inputs, targets, lengths = distinct(self.draw, sum(self.sizes), stream(self.seed, self.name), self.name)
        edges = np.cumsum([0, *self.sizes])
        parts = []
        for a, b in itertools.pairwise(edges):
            ends = None if lengths is None else torch.from_numpy(lengths[a:b])
            x, y = torch.from_numpy(inputs[a:b]), torch.from_numpy(targets[a:b])
            parts.append(Examples(x, y, encoding=self.encoding(), lengths=ends, per_step=self.per_step))
        return Parts(*parts)


class Tokens(Synthetic):
    """A task whose steps are tokens."""

    @property
    def input_size(self) -> int:
        """D: the size of the vocabulary."""
        return len(self.vocabulary)

    def encoding(self) -> Encoding:
        """The encoding of tokens."""
        return TokenIndices()


def distinct(
    draw: Callable[[int, np.random.RandomState], Drawn], count: int, random: np.random.RandomState, name: str
) -> Drawn:
    """Draw `count` examples with distinct inputs, so that no test example was trained on."""
    kept: dict[bytes, tuple[np.ndarray, ...]] = {}
    for _ in range(20):
        columns = [column for column in draw(count, random) if column is not None]
        for row in zip(*columns, strict=True):
            kept.setdefault(row[0].tobytes(), row)
        if len(kept) >= count:
            # Short sequences run out early, so the order of appearance is not stationary. Shuffling gives the three
            # parts the same distribution.
            rows = list(kept.values())[:count]
            shuffled = [rows[i] for i in random.permutation(count)]
            inputs, targets, *lengths = (np.stack(column) for column in zip(*shuffled, strict=True))
            return inputs, targets, lengths[0] if lengths else None
    raise GatelabError(
        f"{name} has too few distinct sequences with these options: expected {count:,}, drew {len(kept):,} in 20 "
        "attempts; choose a smaller size or longer sequences"
    )
