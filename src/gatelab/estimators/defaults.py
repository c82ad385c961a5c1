"""Defaults that others read, too, or that follow from the data. How they were chosen is in docs/estimators.md."""

from __future__ import annotations

import math

CELL = "gru"
LEARNING_RATE = 6e-3
BATCHES = 1_500  # of a whole fit, as far as the limits of the number of epochs allow
EPOCHS = (20, 300)  # at least, at most


def even_batches(sequences: int, batch_size: int) -> int:
    """The size of batches that are as many, and nearly equal.

    Of 50 sequences in batches of 16 the last one would have 2: a gradient and statistics of the stem that are mostly
    noise, in every epoch.
    """
    return math.ceil(sequences / math.ceil(sequences / batch_size))


def num_epochs(sequences: int, batch_size: int) -> int:
    """The number of epochs for this number of training sequences, where none was given."""
    least, most = EPOCHS
    return min(most, max(least, math.ceil(BATCHES / math.ceil(sequences / batch_size))))
