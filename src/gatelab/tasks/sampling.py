"""Reproducible random numbers, random splits and balanced subsets."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Sequence

import numpy as np

LEAST = 2  # training examples of a class that a validation set leaves


def seed_sequence(seed: int, purpose: str, *index: int) -> np.random.SeedSequence:
    """The seed sequence for a random seed, a purpose and an index (epoch, batch, …)."""
    return np.random.SeedSequence([seed, zlib.crc32(purpose.encode()), *index])


def stream(seed: int, purpose: str) -> np.random.RandomState:
    """A random generator for one purpose.

    NumPy guarantees the streams of RandomState and SeedSequence; those of its newer Generator may change. The purpose
    seeds the stream: with another text ("division", "limit", …) the same options give other data.
    """
    return np.random.RandomState(np.random.MT19937(seed_sequence(seed, purpose)))


def split(
    labels: np.ndarray | None, count: int, sizes: Sequence[int], random: np.random.RandomState
) -> list[np.ndarray]:
    """Random disjoint index sets of these sizes; with labels, the split is stratified."""
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


def spared(
    train: np.ndarray, held: np.ndarray, labels: np.ndarray | None, groups: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Training and held-out examples after classes that would have too few to train on got theirs back.

    A class keeps two training examples, or the one that it has; with groups, whole ones are given back. Where more than
    half would be given back, the rest says nothing about most classes, and nothing is held out.
    """
    if labels is None:
        return train, held
    known = np.bincount(labels[train], minlength=int(labels.max()) + 1)
    back = np.zeros(len(held), bool)
    for place, label in enumerate(labels[held].tolist()):
        if known[label] < LEAST and not back[place]:
            unit = np.arange(len(held)) == place if groups is None else groups[held] == groups[held[place]]
            known += np.bincount(labels[held[unit]], minlength=len(known))
            back |= unit
    if 2 * back.sum() > len(held):
        back[:] = True
    return (np.concatenate([train, held[back]]), held[~back]) if back.any() else (train, held)


def balanced_subset(labels: np.ndarray, size: int, random: np.random.RandomState) -> np.ndarray:
    """`size` indices with equal class counts, up to one and as far as a class has enough examples."""
    rank = np.empty(len(labels))
    order = random.permutation(len(labels))
    for label in np.unique(labels):
        members = order[labels[order] == label]
        rank[members] = np.arange(len(members))
    chosen: np.ndarray = np.sort(np.argsort(rank + random.uniform(size=len(rank)), kind="stable")[:size])
    return chosen


def split_groups(
    groups: np.ndarray, labels: np.ndarray | None, shares: Sequence[float], random: np.random.RandomState
) -> list[np.ndarray]:
    """Random disjoint index sets near these shares of the examples; members of a group stay together.

    Of many random assignments, the one is used whose sizes, and with labels whose class shares, fit best.
    """
    names, group = np.unique(groups, return_inverse=True)
    assert len(names) >= len(shares)
    classes = np.zeros(len(groups), np.int64) if labels is None else np.unique(labels, return_inverse=True)[1]
    counts = np.zeros((len(names), classes.max() + 1))  # (G, C)
    np.add.at(counts, (group, classes), 1)
    wanted = np.outer(shares, counts.sum(0))  # (parts, C)
    best, least = np.zeros(len(names), np.int64), np.inf
    for _ in range(max(5, min(200, 20_000 // len(names)))):
        assigned = _assigned(counts, wanted, random.permutation(len(names)))
        held = np.stack([counts[assigned == part].sum(0) for part in range(len(shares))])
        error = float(np.abs(held.sum(1) - wanted.sum(1)).sum() + np.abs(held - wanted).sum())
        if error < least:
            best, least = assigned, error
    return [random.permutation(np.flatnonzero(best[group] == part)) for part in range(len(shares))]


def _assigned(counts: np.ndarray, wanted: np.ndarray, order: np.ndarray) -> np.ndarray:
    """The part of each group: one after the other goes where the most is missing, and each part gets one."""
    sizes, missing = counts.sum(1), wanted.sum(1)
    assigned, members = np.zeros(len(order), np.int64), np.zeros(len(missing), np.int64)
    for place, index in enumerate(order):
        empty = np.flatnonzero(members == 0)
        part = int(empty[0] if len(order) - place <= len(empty) else np.argmax(missing))
        assigned[index] = part
        members[part] += 1
        missing[part] -= sizes[index]
    return assigned
