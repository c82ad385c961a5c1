"""An epoch as a list of chunks: whole batches, or with truncated back-propagation pieces of them in time.

A chunk begins with the state in which the one before it ended, detached from its gradient. A series or a text is one
long sequence, which is cut into as many consecutive segments as a batch has rows.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from gatelab.engine.recurrent import State
from gatelab.tasks import Examples
from gatelab.training import seeds
from gatelab.training.spec import TrainingSpec

LEAST_CHUNKS = 4  # of a segment


class Chunk(NamedTuple):
    """Some examples, and the steps of them that are run at once; None for all."""

    examples: Tensor
    steps: slice | None = None

    @property
    def continues(self) -> bool:
        """Whether the chunk begins with the state of the one before it."""
        return self.steps is not None and self.steps.start > 0


class Epoch(NamedTuple):
    """The chunks of an epoch, and the examples that they refer to."""

    part: Examples
    chunks: list[Chunk]


def epoch(part: Examples, is_stream: bool, bptt: int | None, training: TrainingSpec, number: int) -> Epoch:
    """The training part as the chunks of an epoch: the same for every architecture."""
    if is_stream and bptt is not None:
        part = part.segments(segment_count(part, training.batch_size, bptt))
        length = part.stored.shape[1]
        even = -(-length // -(-length // bptt))  # no short chunk at the end
        return Epoch(part, in_time(part, torch.arange(len(part)), even))
    lengths = part.lengths if training.bucket_by_length else None
    batches = seeds.batches(training.seed, number, len(part), training.batch_size, lengths)
    return Epoch(part, [chunk for examples in batches for chunk in in_time(part, examples, bptt)])


def segment_count(part: Examples, batch_size: int, bptt: int) -> int:
    """The rows of one long sequence: the batch size, or fewer for a short one, so that a row has several chunks and
    its state is carried along.
    """
    return max(1, min(batch_size, part.stored.shape[1] // (LEAST_CHUNKS * bptt)))


def in_time(part: Examples, examples: Tensor, length: int | None) -> list[Chunk]:
    """The chunks of a batch, one after the other in time; one if there is no length."""
    if length is None:
        return [Chunk(examples)]
    longest = part.longest(examples)
    return [Chunk(examples, slice(start, min(start + length, longest))) for start in range(0, longest, length)]


def detached(state: State) -> State:
    """The state without its gradient."""
    return state.detach() if isinstance(state, Tensor) else tuple(value.detach() for value in state)
