"""Sample weights: a weight of k is the same as k repetitions, whatever the order of the examples.

Equal sequences with equal targets are merged into one that has the sum of their weights, those of weight zero are left
out, and the rest is brought into an order of its own. So a fit is a function of the weighted set of examples: weights
instead of repetitions, or another order, give the same network bit for bit, also with small batches and early stopping.
"""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_array

from gatelab import floats
from gatelab.data.sequences import Sequences
from gatelab.errors import GatelabError


class Weighted(NamedTuple):
    """Distinct sequences with their targets and weights."""

    sequences: Sequences
    targets: np.ndarray  # (N, …)
    weights: np.ndarray  # (N,) float64, positive
    groups: np.ndarray | None  # (N,) integers


def check_weights(sample_weight: Any, count: int) -> np.ndarray:
    """The weight of each example; ones by default."""
    if sample_weight is None:
        return np.ones(count)
    weights: np.ndarray = check_array(
        floats.unmasked(sample_weight, "sample_weight"),
        ensure_2d=False,
        dtype=np.float64,
        input_name="sample_weight",
        ensure_min_samples=0,
    )
    if weights.shape != (count,):
        raise GatelabError(f"sample_weight has the shape {weights.shape}: expected ({count},), one weight per sequence")
    if weights.min() < 0:
        raise GatelabError(f"sample_weight has {weights.min():g}: expected weights from 0 up")
    if not weights.any():
        raise GatelabError("the sample weights are all zero: expected at least one that is not")
    return weights


def merged(sequences: Sequences, targets: np.ndarray, weights: np.ndarray, groups: np.ndarray | None) -> Weighted:
    """The distinct examples of positive weight, in an order that depends on them alone."""
    values, ends = sequences.values + 0.0, sequences.ends  # -0 becomes 0
    positive = np.flatnonzero(weights)
    keys = np.array([_key(values[i, : ends[i]], targets[i], None if groups is None else groups[i]) for i in positive])
    _, first, member = np.unique(keys, return_index=True, return_inverse=True)
    chosen, totals = positive[first], np.bincount(member, weights[positive])
    longest = int(ends[chosen].max())
    return Weighted(
        Sequences(values[chosen, :longest], None if (ends[chosen] == longest).all() else ends[chosen]),
        targets[chosen],
        totals,
        None if groups is None else groups[chosen],
    )


def _key(sequence: np.ndarray, target: np.ndarray, group: np.ndarray | None) -> str:
    """A checksum by which equal examples are found, and all are sorted."""
    total = hashlib.blake2b(np.ascontiguousarray(sequence).tobytes(), digest_size=16)
    for value in (target, group):
        total.update(b"|" if value is None else value.tobytes())
    return total.hexdigest()
