"""Random numbers that are the same on every machine, and how examples are divided by chance."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Sequence

import numpy as np


def sequence(seed: int, purpose: str, *place: int) -> np.random.SeedSequence:
    """The source of all random numbers for one seed, purpose and place."""
    return np.random.SeedSequence([seed, zlib.crc32(purpose.encode()), *place])


def stream(seed: int, purpose: str) -> np.random.RandomState:
    """A generator for one purpose. NumPy has promised not to change what RandomState and SeedSequence yield; its newer
    Generator may yield other numbers in another version.
    """
    return np.random.RandomState(np.random.MT19937(sequence(seed, purpose)))


def divide(
    labels: np.ndarray | None, count: int, sizes: Sequence[int], random: np.random.RandomState
) -> list[np.ndarray]:
    """`count` examples in disjoint parts of these sizes, in random order; with labels, each class in the same share."""
    assert sum(sizes) <= count
    order = random.permutation(count)
    if labels is not None:
        # Sorting by the relative rank within the class deals the classes out evenly: any stretch of the order holds
        # each class in its share, and so does every part that is cut from it.
        rank = np.empty(count)
        for label in np.unique(labels):
            members = np.flatnonzero(labels[order] == label)
            rank[members] = (np.arange(len(members)) + random.uniform(size=len(members))) / len(members)
        order = order[np.argsort(rank, kind="stable")]
    edges = np.cumsum([0, *sizes])
    return [random.permutation(order[a:b]) for a, b in itertools.pairwise(edges)]


def balanced(labels: np.ndarray, size: int, random: np.random.RandomState) -> np.ndarray:
    """`size` places in which every class is as frequent as every other (within one, and as far as there are any)."""
    rank = np.empty(len(labels))
    order = random.permutation(len(labels))
    for label in np.unique(labels):
        members = order[labels[order] == label]
        rank[members] = np.arange(len(members))
    chosen: np.ndarray = np.sort(np.argsort(rank + random.uniform(size=len(rank)), kind="stable")[:size])
    return chosen
