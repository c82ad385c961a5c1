"""The default parameters of the estimators: one set for all data. How they were chosen is in docs/estimators.md."""

from __future__ import annotations

import math

# The network.
CELL = "gru"
HIDDEN_SIZE = 64
NUM_LAYERS = 1
BIDIRECTIONAL = True
POOL = "mean+max"
STEM = "conv"
DROPOUT = 0.0  # between layers
HEAD_DROPOUT = 0.3

# The optimization.
OPTIMIZER = "adamw"
LEARNING_RATE = 6e-3
WEIGHT_DECAY = 5e-2
SCHEDULE = "one_cycle"
CLIP_NORM = 1.0
LABEL_SMOOTHING = 0.1
BATCH_SIZE = 16  # at most
BATCHES = 1_500  # of a whole fit, as far as the limits of the number of epochs allow
EPOCHS = (20, 300)  # at least, at most

# Early stopping.
VALIDATION_FRACTION = 0.15
N_ITER_NO_CHANGE = 20


def even_batches(sequences: int, batch_size: int) -> int:
    """Return the size of batches that are as many, and nearly equal.

    Of 50 sequences in batches of 16 the last one would have 2: a gradient and statistics of the stem that are mostly
    noise, in every epoch.
    """
    return math.ceil(sequences / math.ceil(sequences / batch_size))


def num_epochs(sequences: int, batch_size: int) -> int:
    """Return the number of epochs for this number of training sequences, where none was given."""
    least, most = EPOCHS
    return min(most, max(least, math.ceil(BATCHES / math.ceil(sequences / batch_size))))
