"""A trained network beside simple methods, on the test set: the majority class or the mean, and its peers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.stats import binomtest

from gatelab.analysis.predictions import Predictions
from gatelab.fitting import peers
from gatelab.tasks.own.files import Files

OURS = "network"
MAJORITY, MEAN = "majority class", "training mean"
CONFIDENCE = 0.95


@dataclass(frozen=True)
class MethodComparison:
    """Predictions for all test targets, by method: classes (M,), or numbers (M, K) in the units of the data."""

    true: np.ndarray
    predicted: dict[str, np.ndarray]  # ours first
    independent: bool  # whether targets are those of different sequences
    missing: str = ""  # which methods are left out, and why

    @property
    def are_classes(self) -> bool:
        """Whether the targets are classes."""
        return self.true.ndim == 1

    @cached_property
    def scores(self) -> dict[str, float]:
        """What methods are compared by: accuracy, or R² (the mean over several targets). Larger is better."""
        if self.are_classes:
            return {name: float((values == self.true).mean()) for name, values in self.predicted.items()}
        return {name: float(np.mean(self.r2(name))) for name in self.predicted}

    @property
    def best(self) -> str:
        """The best of the other methods."""
        return max((name for name in self.scores if name != OURS), key=self.scores.__getitem__)

    def interval(self, method: str) -> tuple[float, float]:
        """Wilson's interval for the accuracy."""
        return wilson(int((self.predicted[method] == self.true).sum()), len(self.true))

    def p_value(self, method: str) -> float:
        """That of McNemar's exact test, whether ours and a method are right equally often."""
        ours, theirs = (self.predicted[name] == self.true for name in (OURS, method))
        only_ours, only_theirs = int((ours & ~theirs).sum()), int((theirs & ~ours).sum())
        if not only_ours + only_theirs:
            return 1.0
        return float(binomtest(only_ours, only_ours + only_theirs).pvalue)

    def rmse(self, method: str) -> np.ndarray:
        """The root mean squared error of each target, (K,)."""
        return np.asarray(np.sqrt(np.square(self.predicted[method] - self.true).mean(0)))

    def mae(self, method: str) -> np.ndarray:
        """The mean absolute error of each target, (K,)."""
        return np.asarray(np.abs(self.predicted[method] - self.true).mean(0))

    def r2(self, method: str) -> np.ndarray:
        """The coefficient of determination of each target, (K,); 0 for one that is constant in the test set."""
        spread = np.square(self.true - self.true.mean(0)).mean(0)
        share = np.square(self.predicted[method] - self.true).mean(0) / np.where(spread > 0, spread, np.inf)
        return np.where(spread > 0, 1 - share, 0.0)


def wilson(hits: int, count: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Wilson's confidence interval for a share of `hits` in `count`."""
    found = binomtest(hits, count).proportion_ci(confidence, method="wilson")
    return float(found.low), float(found.high)


def compare(task: Files, ours: Predictions) -> MethodComparison:
    """Fit the other methods on the training set, and predict the test set by all of them."""
    true = ours.targets[ours.scored]
    predicted = {OURS: ours.predicted[ours.scored]}
    train = task.counted(task.train.targets, task.train.lengths).numpy()
    if task.classes is not None:
        predicted[MAJORITY] = np.full(len(true), np.bincount(train).argmax())
    else:
        predicted[MEAN] = np.broadcast_to(train.mean(0), true.shape)
    if not peers.why_none(task):
        predicted |= dict(peers.predictions(task))
    if task.classes is None:
        scaling = task.target_scaling
        assert scaling is not None
        true, predicted = scaling.undo(true), {name: scaling.undo(values) for name, values in predicted.items()}
    return MethodComparison(true, predicted, not task.per_step, peers.left_out(task))
