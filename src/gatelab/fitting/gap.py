"""How much worse the test set is predicted than the validation set, if by more than chance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import ttest_ind

from gatelab.fitting.comparison import wilson

CONFIDENCE = 0.99  # not 0.95: the validation set has chosen the epoch, so that its score is a little too good


@dataclass(frozen=True)
class Gap:
    """Accuracies, or mean absolute errors of standardized targets, of independent sequences."""

    validation: float
    test: float
    low: float  # the interval of how much worse the test set is
    high: float
    sequences: int  # of validation sequences
    are_classes: bool


def found(validation: tuple[np.ndarray, np.ndarray], test: tuple[np.ndarray, np.ndarray]) -> Gap | None:
    """The gap, from predicted and true classes (M,) or numbers (M, K); None if it may be chance."""
    are_classes = validation[1].ndim == 1
    if min(len(validation[1]), len(test[1])) < 2:
        return None
    if are_classes:
        right = [predicted == true for predicted, true in (validation, test)]
        hits = [(int(each.sum()), len(each)) for each in right]
        low, high = difference(hits[0], hits[1])
        gap = Gap(float(right[0].mean()), float(right[1].mean()), low, high, len(right[0]), are_classes)
    else:
        errors = [np.abs(predicted - true).mean(1) for predicted, true in (validation, test)]
        interval = ttest_ind(errors[1], errors[0], equal_var=False).confidence_interval(CONFIDENCE)
        low, high = float(interval.low), float(interval.high)
        gap = Gap(float(errors[0].mean()), float(errors[1].mean()), low, high, len(errors[0]), are_classes)
    return gap if gap.low > 0 else None


def difference(first: tuple[int, int], second: tuple[int, int], confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Newcombe's interval for the difference of two shares, each of hits in a count."""
    (p, (p_low, p_high)), (q, (q_low, q_high)) = (
        (hits / count, wilson(hits, count, confidence)) for hits, count in (first, second)
    )
    low = p - q - np.hypot(p - p_low, q_high - q)
    high = p - q + np.hypot(p_high - p, q - q_low)
    return float(low), float(high)
