"""Training, validation and test set of the user's own sequences: as the data says, or at random."""

from __future__ import annotations

import numpy as np

from gatelab.data.splits import HELD_OUT
from gatelab.errors import DataError
from gatelab.tasks.sampling import spared, split, split_groups, stream


def indices(
    count: int, labels: np.ndarray | None, parts: np.ndarray | None, groups: np.ndarray | None, seed: int, source: str
) -> list[np.ndarray]:
    """The examples of training, validation and test set.

    parts: the split of the data itself, if it has one; with a test set and without validation examples, some training
        examples are taken.
    groups: the group of each example, which stays together. labels: of each example, for a stratified split, whose
        validation set leaves training examples of every class, or is empty.
    """
    if parts is not None:
        found = [np.flatnonzero(parts == part) for part in range(3)]
        is_complete = len(found[1]) or not len(found[2])  # data that is all for training stays so
        return found if is_complete else _with_validation(found, labels, groups, seed, source)
    if groups is not None:
        names = np.unique(groups)
        if len(names) < 3:
            raise DataError(
                f"{source} has {len(names)} groups: expected at least three, for training, validation and test set"
            )
        train, validation, test = split_groups(
            groups, labels, (1 - 2 * HELD_OUT, HELD_OUT, HELD_OUT), stream(seed, "groups")
        )
    else:
        held_out = max(1, round(HELD_OUT * count))
        train, validation, test = split(
            labels, count, (count - 2 * held_out, held_out, held_out), stream(seed, "division")
        )
    return [*spared(train, validation, labels, groups), test]


def _with_validation(
    found: list[np.ndarray], labels: np.ndarray | None, groups: np.ndarray | None, seed: int, source: str
) -> list[np.ndarray]:
    """Take 15 % of the training examples for validation; whole groups, if there are groups."""
    train, count = found[0], len(found[0])
    inner = None if labels is None else labels[train]
    if groups is not None:
        if len(np.unique(groups[train])) < 2:
            raise DataError(
                f"{source} has one group in the training set and no validation set: expected at least two groups, one "
                "of which is taken for validation"
            )
        kept, taken = split_groups(groups[train], inner, (1 - HELD_OUT, HELD_OUT), stream(seed, "validation groups"))
    else:
        if count < 2:
            raise DataError(f"{source} has {count} training example and no validation set: expected at least two")
        held_out = max(1, round(HELD_OUT * count))
        kept, taken = split(inner, count, (count - held_out, held_out), stream(seed, "validation"))
    return [*spared(train[kept], train[taken], labels, groups), found[2]]
