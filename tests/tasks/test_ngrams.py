"""N-gram frequencies against counting by hand."""

from __future__ import annotations

import math
from collections import Counter, defaultdict

import numpy as np
import pytest

from gatelab.tasks import ngrams


def bits_by_hand(train: list[int], text: list[int], n: int, size: int) -> float:
    """Witten and Bell's interpolation, in dictionaries."""
    followers = [defaultdict(Counter) for _ in range(n)]
    for order in range(n):
        for i in range(order, len(train)):
            followers[order][tuple(train[i - order : i])][train[i]] += 1

    def probability(token: int, context: tuple[int, ...]) -> float:
        lower = probability(token, context[1:]) if context else 1 / size
        counts = followers[len(context)].get(context)
        if not counts:
            return lower
        return (counts[token] + len(counts) * lower) / (counts.total() + len(counts))

    places = range(1, len(text))
    return -sum(math.log2(probability(text[i], tuple(text[max(0, i - n + 1) : i]))) for i in places) / len(places)


@pytest.mark.parametrize(("size", "length"), [(3, 400), (40, 900), (3000, 2000)])
def test_the_entropy_is_that_of_counting(size, length):
    random = np.random.RandomState(size)
    walk = np.cumsum(random.randint(-1, 2, (3, length)), 1) % size  # tokens that depend on the one before
    train, validation, test = (np.where(random.uniform(size=length) < 0.9, row, 0) for row in walk)
    order, bits = ngrams.best_order(train, validation, test, size)
    longest = min(ngrams.LONGEST, int(62 / math.log2(size)))
    by_order = [bits_by_hand(train.tolist(), validation.tolist(), n, size) for n in range(1, longest + 1)]
    assert order == 1 + int(np.argmin(by_order))
    assert bits == pytest.approx(bits_by_hand(train.tolist(), test.tolist(), order, size), rel=1e-12)


def test_uniform_noise_has_as_many_bits_as_tokens_have():
    train, validation, test = np.random.RandomState(0).randint(0, 8, (3, 30_000))
    order, bits = ngrams.best_order(train, validation, test, 8)
    assert order == 1
    assert bits == pytest.approx(3.0, abs=0.01)


def test_of_a_long_text_the_last_tokens_are_counted(monkeypatch):
    train, validation, test = np.random.RandomState(0).randint(0, 4, (3, 600)) // [[1], [1], [2]]
    last = ngrams.best_order(train[-200:], validation, test, 4)
    assert ngrams.best_order(train, validation, test, 4) != last
    monkeypatch.setattr(ngrams, "COUNTED", 200)
    assert ngrams.best_order(train, validation, test, 4) == last


@pytest.mark.parametrize(("size", "longest"), [(1400, 5), (1500, 5), (2048, 5), (1200, 6)])
def test_the_numbers_of_n_grams_stay_within_64_bits(size, longest):
    """Of a text that repeats itself, longer contexts are better: the longest whose number has room is taken."""
    cycle = np.arange(size - 12, size)
    order, bits = ngrams.best_order(*(np.tile(cycle, n) for n in (300, 3, 3)), size)
    assert order == longest
    assert 0 < bits < 0.2
    assert (size - 1) * sum(size**k for k in range(longest)) < 2**63
