"""A trained network beside simple methods, on the test set: the majority class or the mean, and linear regression."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from scipy.stats import binomtest

from gatelab.analysis.predictions import Predictions
from gatelab.tasks.examples import Examples
from gatelab.tasks.own.files import Files

OURS = "network"
MAJORITY, MEAN = "majority class", "training mean"
LOGISTIC, RIDGE = "logistic regression", "ridge regression"
MOST = 20_000_000  # numbers that the regressions read
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Comparison:
    """Predictions for all test targets, by method: classes (M,), or numbers (M, K) in the units of the data."""

    true: np.ndarray
    predicted: dict[str, np.ndarray]  # ours first
    independent: bool  # whether targets are those of different sequences
    missing: str = ""  # why there is no linear regression

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
        """Return Wilson's interval for the accuracy."""
        return wilson(int((self.predicted[method] == self.true).sum()), len(self.true))

    def p_value(self, method: str) -> float:
        """Return that of McNemar's exact test, whether ours and a method are right equally often."""
        ours, theirs = (self.predicted[name] == self.true for name in (OURS, method))
        only_ours, only_theirs = int((ours & ~theirs).sum()), int((theirs & ~ours).sum())
        if not only_ours + only_theirs:
            return 1.0
        return float(binomtest(only_ours, only_ours + only_theirs).pvalue)

    def rmse(self, method: str) -> np.ndarray:
        """Return the root mean squared error of each target, (K,)."""
        return np.asarray(np.sqrt(np.square(self.predicted[method] - self.true).mean(0)))

    def mae(self, method: str) -> np.ndarray:
        """Return the mean absolute error of each target, (K,)."""
        return np.asarray(np.abs(self.predicted[method] - self.true).mean(0))

    def r2(self, method: str) -> np.ndarray:
        """Return the coefficient of determination of each target, (K,); 0 for one that is constant in the test set."""
        spread = np.square(self.true - self.true.mean(0)).mean(0)
        share = np.square(self.predicted[method] - self.true).mean(0) / np.where(spread > 0, spread, np.inf)
        return np.where(spread > 0, 1 - share, 0.0)


def wilson(hits: int, count: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return Wilson's confidence interval for a share of `hits` in `count`."""
    found = binomtest(hits, count).proportion_ci(confidence, method="wilson")
    return float(found.low), float(found.high)


def compare(task: Files, ours: Predictions) -> Comparison:
    """Fit the other methods on the training set, and predict the test set by all of them."""
    true = ours.targets[ours.scored]
    predicted = {OURS: ours.predicted[ours.scored]}
    train = task.counted(task.train.targets, task.train.lengths).numpy()
    if task.classes is not None:
        predicted[MAJORITY] = np.full(len(true), np.bincount(train).argmax())
    else:
        predicted[MEAN] = np.broadcast_to(train.mean(0), true.shape)
    missing = _why_not_linear(task)
    if not missing:
        predicted |= dict(_linear(task))
    if task.classes is None:
        scaling = task.target_scaling
        assert scaling is not None
        true, predicted = scaling.undo(true), {name: scaling.undo(values) for name, values in predicted.items()}
    return Comparison(true, predicted, not task.per_step, missing)


def _why_not_linear(task: Files) -> str:
    """Return why a linear regression on the flattened sequences is no method for this data; empty if it is."""
    if task.per_step:
        return "a linear regression on whole sequences has no answer at every step"
    if task.train.lengths is not None:
        return "sequences of unequal length cannot be flattened for a linear regression"
    if (task.sizes[0] + task.sizes[2]) * task.steps * task.input_size > MOST:
        return f"the data is too large for a quick linear regression (more than {MOST:,} numbers)"
    if task.classes is not None and len(np.unique(task.train.targets.numpy())) < 2:
        return "the training set has one class"
    return ""


def _linear(task: Files) -> Iterator[tuple[str, np.ndarray]]:
    """Yield a linear regression on the sequences as vectors, fitted on the training set, and its predictions."""
    from sklearn.linear_model import LogisticRegression, RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    name = LOGISTIC if task.classes is not None else RIDGE
    method: Any = LogisticRegression(max_iter=1000) if name == LOGISTIC else RidgeCV(np.logspace(-3, 3, 13))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its optimizer, which may end before it has converged
        fitted = make_pipeline(StandardScaler(), method).fit(_flat(task, task.train), task.train.targets.numpy())
        answer = fitted.predict(_flat(task, task.test))
    yield name, answer if name == LOGISTIC else answer.reshape(len(answer), -1)


def _flat(task: Files, part: Examples) -> np.ndarray:
    """Return the sequences as vectors, (N, T × D); tokens as one-hot vectors."""
    x = part.batch(torch.arange(len(part))).x
    values = np.eye(task.input_size)[x.numpy()] if task.vocabulary else x.numpy().astype(np.float64)
    return values.reshape(len(values), -1)
