"""One seed, and a generator of its own for each purpose: what one of them draws does not move the others.

The order of an epoch and the dropout of a batch are drawn from generators that are seeded by where they are (epoch,
batch) instead of running on: there is nothing to save, and a run that is continued draws the same.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Generator, Tensor

from gatelab.tasks.chance import sequence


def number(seed: int, purpose: str, *place: int) -> int:
    """A 63-bit number for this seed, purpose and place."""
    words = sequence(seed, purpose, *place).generate_state(2, np.uint32)
    return (int(words[0]) << 32 | int(words[1])) >> 1


def generator(seed: int, purpose: str, *place: int) -> Generator:
    return Generator().manual_seed(number(seed, purpose, *place))


def order(seed: int, epoch: int, count: int) -> Tensor:
    """The order of the training examples in an epoch: the same for every architecture."""
    return torch.randperm(count, generator=generator(seed, "order", epoch))
