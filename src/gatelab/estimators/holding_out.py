"""The part of the training data that early stopping is decided on."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.utils.validation import check_array, check_consistent_length

from gatelab import floats
from gatelab.errors import GatelabError
from gatelab.tasks.sampling import LEAST, spared, split, split_groups, stream


def checked_groups(groups: Any, X: Any, early_stopping: bool) -> np.ndarray | None:
    """The group of each sequence as an integer."""
    if groups is None:
        return None
    if not early_stopping:
        raise GatelabError(
            "groups were passed without early_stopping, and nothing is held out: set early_stopping=True, so that "
            "validation has whole groups, or leave them out"
        )
    array = check_array(floats.unmasked(groups, "groups"), ensure_2d=False, dtype=None, input_name="groups")
    if array.ndim != 1:
        raise GatelabError(f"groups have the shape {array.shape}: expected one group per sequence")
    check_consistent_length(X, array)
    member: np.ndarray = np.unique(array, return_inverse=True)[1].astype(np.int64)
    return member


def parts(count: int, fraction: float, labels: np.ndarray | None, groups: np.ndarray | None, seed: int) -> np.ndarray:
    """For each example "train" or "validation": stratified by labels, or whole groups.

    Every class keeps training examples; where classes have too few for that, nothing is held out.
    """
    if not 0 < fraction < 1:
        raise GatelabError(f"validation_fraction is {fraction!r}: expected a number between 0 and 1")
    random, held_out = stream(seed, "early stopping"), max(1, round(fraction * count))
    if groups is not None:
        if (distinct := len(np.unique(groups))) < 2:
            raise GatelabError(f"groups has {distinct} group: expected at least two, one of them for validation")
        train, validation = split_groups(groups, labels, (1 - fraction, fraction), random)
    else:
        if count < 2:
            raise GatelabError("X has n_samples = 1: expected at least two distinct ones, one of them for validation")
        train, validation = split(labels, count, (count - held_out, held_out), random)
    if not len(train):
        raise GatelabError(f"validation_fraction is {fraction!r}, which leaves none of {count} sequences for training")
    _, validation = spared(train, validation, labels, groups)
    if not len(validation):
        warnings.warn(
            "early_stopping holds nothing out: it would take the last training sequences of most classes, which need "
            f"more than {LEAST} each. Trained are all epochs on all sequences",
            stacklevel=4,
        )
    names = np.full(count, "train", dtype="U10")
    names[validation] = "validation"
    return names
