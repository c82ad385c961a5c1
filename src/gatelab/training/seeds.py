"""One seed, and a generator of its own for each purpose: what one of them draws does not move the others.

The order of an epoch and the dropout of a batch are drawn from generators that are seeded by where they are (epoch,
batch) instead of running on: there is nothing to save, and a run that is continued draws the same.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Generator, Tensor

from gatelab.tasks.sampling import seed_sequence

WINDOW = 50  # batches that are sorted by length together: enough to be alike, few enough to stay random


def number(seed: int, purpose: str, *place: int) -> int:
    """A 63-bit number for this seed, purpose and place."""
    words = seed_sequence(seed, purpose, *place).generate_state(2, np.uint32)
    return (int(words[0]) << 32 | int(words[1])) >> 1


def generator(seed: int, purpose: str, *place: int) -> Generator:
    """A generator for this seed, purpose and place."""
    return Generator().manual_seed(number(seed, purpose, *place))


def batches(seed: int, epoch: int, count: int, size: int, lengths: Tensor | None = None) -> tuple[Tensor, ...]:
    """The batches of an epoch, as indices. With `lengths`, each is of sequences of similar length: windows of the
    random order are sorted by length and cut, and the batches are shuffled again.
    """
    shuffled = order(seed, epoch, count)
    if lengths is None:
        return torch.split(shuffled, size)
    windows = torch.split(shuffled, WINDOW * size)
    cut = [batch for w in windows for batch in torch.split(w[lengths[w].argsort(stable=True)], size)]
    shuffle = torch.randperm(len(cut), generator=generator(seed, "order of batches", epoch))
    return tuple(cut[i] for i in shuffle.tolist())


def order(seed: int, epoch: int, count: int) -> Tensor:
    """The order of the training examples in an epoch: the same for every architecture."""
    return torch.randperm(count, generator=generator(seed, "order", epoch))
