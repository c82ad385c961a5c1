"""N-gram frequencies: the trivial baseline of text.

Interpolated with lower orders by the rule of Witten and Bell (1991): a context that was followed by many different
tokens trusts its own counts less.
"""

from __future__ import annotations

import math

import numpy as np

LONGEST = 6  # tokens of an n-gram
COUNTED = 10_000_000  # tokens of the training text at most, the last ones: sorting more would take minutes


def best_order(train: np.ndarray, validation: np.ndarray, test: np.ndarray, vocabulary_size: int) -> tuple[int, float]:
    """The order n with the lowest cross-entropy on the validation text, and its cross-entropy on the test text
    in bits per token. The first token of a text is given, not predicted, as it is to a network.
    """
    train = train[-COUNTED:]
    longest = min(LONGEST, int(62 / math.log2(max(2, vocabulary_size))))  # n-grams are numbered in 64 bits
    estimates = [np.full(len(text) - 1, 1 / vocabulary_size) for text in (validation, test)]
    by_order: list[tuple[float, int, float]] = []  # validation, n, test
    for n in range(1, longest + 1):
        counts = _Counts(train, n, vocabulary_size)
        for text, estimate in zip((validation, test), estimates, strict=True):
            counts.refine(text, estimate)
        by_order.append((_bits(estimates[0]), n, _bits(estimates[1])))
    return min(by_order)[1:]


def _bits(probabilities: np.ndarray) -> float:
    return float(-np.log2(probabilities).mean())


class _Counts:
    """The n-grams of a text, and how often each of their contexts was followed by what."""

    def __init__(self, text: np.ndarray, n: int, vocabulary_size: int) -> None:
        self.n, self.vocabulary_size = n, vocabulary_size
        self.grams, self.counts = np.unique(_grams(text, n, vocabulary_size), return_counts=True)
        self.contexts, first, self.followers = np.unique(
            self.grams // vocabulary_size, return_index=True, return_counts=True
        )
        self.totals = np.add.reduceat(self.counts, first) if len(first) else self.counts

    def refine(self, text: np.ndarray, estimate: np.ndarray) -> None:
        """Interpolate the estimates of the next lower order, in place; tokens whose context begins before the text, or
        was never seen, keep theirs.
        """
        grams = _grams(text, self.n, self.vocabulary_size)[0 if self.n > 1 else 1 :]  # the first token is given
        affected = estimate[len(estimate) - len(grams) :]  # a view
        place, seen = _find(self.contexts, grams // self.vocabulary_size)
        gram, known = _find(self.grams, grams)
        count = np.where(known, self.counts[gram], 0)[seen]
        total, followers = self.totals[place[seen]], self.followers[place[seen]]
        affected[seen] = (count + followers * affected[seen]) / (total + followers)


def _grams(text: np.ndarray, n: int, vocabulary_size: int) -> np.ndarray:
    """Every n-gram of a text as a number whose last digit, to the base of the vocabulary, is its last token."""
    length = max(0, len(text) - n + 1)
    numbers = np.zeros(length, np.int64)
    for i in range(n):
        numbers *= vocabulary_size
        numbers += text[i : i + length]
    return numbers


def _find(table: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The place of each value in a sorted table, and whether it is there."""
    places = np.minimum(np.searchsorted(table, values), len(table) - 1)
    return places, table[places] == values
