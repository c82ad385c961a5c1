"""Reproducible random numbers, random splits and balanced subsets."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Sequence

import numpy as np


def seed_sequence(seed: int, purpose: str, *index: int) -> np.random.SeedSequence:
    """Return the seed sequence for a random seed, a purpose and an index (epoch, batch, …)."""
    return np.random.SeedSequence([seed, zlib.crc32(purpose.encode()), *index])


def stream(seed: int, purpose: str) -> np.random.RandomState:
    """Return a random generator for one purpose.

    NumPy guarantees the streams of RandomState and SeedSequence; those of its newer Generator may change. The purpose
    seeds the stream: with another text ("division", "limit", …) the same options give other data.
    """
    return np.random.RandomState(np.random.MT19937(seed_sequence(seed, purpose)))


def split(
    labels: np.ndarray | None, count: int, sizes: Sequence[int], random: np.random.RandomState
) -> list[np.ndarray]:
    """Return random disjoint index sets of these sizes; with labels, the split is stratified."""
    assert sum(sizes) <= count
    order = random.permutation(count)
    if labels is not None:
        # Sorting by the relative rank within the class spreads each class evenly over the order, so every slice of it
        # is stratified.
        rank = np.empty(count)
        for label in np.unique(labels):
            members = np.flatnonzero(labels[order] == label)
            rank[members] = (np.arange(len(members)) + random.uniform(size=len(members))) / len(members)
        order = order[np.argsort(rank, kind="stable")]
    edges = np.cumsum([0, *sizes])
    return [random.permutation(order[a:b]) for a, b in itertools.pairwise(edges)]


def balanced_subset(labels: np.ndarray, size: int, random: np.random.RandomState) -> np.ndarray:
    """Return `size` indices with equal class counts, up to one and as far as a class has enough examples."""
    rank = np.empty(len(labels))
    order = random.permutation(len(labels))
    for label in np.unique(labels):
        members = order[labels[order] == label]
        rank[members] = np.arange(len(members))
    chosen: np.ndarray = np.sort(np.argsort(rank + random.uniform(size=len(rank)), kind="stable")[:size])
    return chosen
