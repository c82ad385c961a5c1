"""Reproducible random numbers, stratified splits and balanced subsets."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gatelab.tasks.sampling import balanced_subset, split, stream


def test_random_numbers_are_the_same_on_every_machine():
    assert stream(0, "division").randint(0, 1000, 5).tolist() == [557, 960, 464, 471, 991]
    assert stream(7, "noise").permutation(8).tolist() == [6, 7, 2, 0, 5, 1, 3, 4]
    assert stream(0, "a").randint(0, 1 << 30) != stream(0, "b").randint(0, 1 << 30)


@given(
    labels=st.lists(st.integers(0, 4), min_size=10, max_size=200),
    shares=st.tuples(st.floats(0, 0.5), st.floats(0, 0.5)),
    seed=st.integers(0, 100),
)
def test_a_split_is_disjoint_and_stratified(labels, shares, seed):
    labels = np.array(labels)
    sizes = [int(share * len(labels)) for share in shares]
    parts = split(labels, len(labels), sizes, stream(seed, "test"))
    assert [len(part) for part in parts] == sizes
    assert len(set(np.concatenate(parts).tolist())) == sum(sizes)
    for part in parts:
        for label in range(5):
            expected = len(part) * (labels == label).mean()
            assert abs((labels[part] == label).sum() - expected) <= 4  # each class may be off by one at either edge


@given(labels=st.lists(st.integers(0, 3), min_size=4, max_size=80), seed=st.integers(0, 50), data=st.data())
def test_a_balanced_subset_has_equal_class_counts_as_far_as_possible(labels, seed, data):
    labels = np.array(labels)
    size = data.draw(st.integers(1, len(labels)))
    chosen = labels[balanced_subset(labels, size, stream(seed, "test"))]
    assert len(chosen) == size
    counts = {label: (chosen == label).sum() for label in np.unique(labels)}
    most = max(counts.values())
    for label, count in counts.items():
        assert count >= min(most - 1, (labels == label).sum())
