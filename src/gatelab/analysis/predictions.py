"""Predictions on the test set: which are wrong, and how confident they were."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.special import softmax

from gatelab.analysis.subject import Subject
from gatelab.tasks import Task

EVALUATED = 500  # examples, where the run has no predictions yet


@dataclass(frozen=True)
class Predictions:
    """Predictions for whole sequences, or at every step: classes, or numbers."""

    predicted: np.ndarray  # (N,) or (N, T) classes, or (N, K) or (N, T, K) numbers
    targets: np.ndarray  # of the same shape
    scored: np.ndarray  # (N,) or (N, T), whether the target exists and is scored
    confidence: np.ndarray  # (N,), the probability of the predicted class; of several per sequence, of the worst error
    error: np.ndarray  # (N,), for classes the share of wrong predictions, for numbers the mean absolute error
    confusion: np.ndarray | None  # (C, C), true by predicted
    available: int  # number of examples that can be shown, from the first

    def worst(self, count: int) -> np.ndarray:
        """The available examples with the worst predictions: most confident in a wrong class, or farthest off."""
        score = self.error if self.confusion is None else np.where(self.error > 0, self.confidence, -1.0)
        score = np.where(np.arange(len(score)) < self.available, score, -1.0)
        ranked = np.argsort(-score, kind="stable")[:count]
        wrong: np.ndarray = ranked[(self.error[ranked] > 0) & (ranked < self.available)]
        return wrong


def predictions_of(subject: Subject) -> Predictions:
    """From the run's predictions on its test set; of a run that has none yet, the first test examples."""
    scores, targets, lengths = _saved(subject)
    task = subject.task
    ends = None if lengths is None else torch.from_numpy(lengths)
    scored = task.scored(torch.from_numpy(targets), ends).numpy()
    if task.classes is None:
        size = np.abs(scores - targets).mean(-1)
        unknown = np.full(len(targets), np.nan)
        return Predictions(scores, targets, scored, unknown, _mean(size, scored), None, len(task.test))
    predicted = scores.argmax(-1)
    probability = softmax(scores, -1).max(-1)
    wrong = predicted != targets
    from sklearn.metrics import confusion_matrix  # a second to import, of use for classes only

    confusion = confusion_matrix(targets[scored], predicted[scored], labels=np.arange(len(task.classes)))
    confidence = np.where(wrong & scored, probability, 0.0).max(1) if task.per_step else probability
    return Predictions(predicted, targets, scored, confidence, _mean(wrong, scored), confusion, len(task.test))


def _saved(subject: Subject) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Scores or numbers, targets, and lengths where sequences differ."""
    arrays: dict[str, Any]
    if (subject.run.path / "predictions.npz").is_file():
        arrays = subject.run.predictions()
        if len(arrays["answers"]) == 1 and subject.task.per_step:
            arrays = _in_windows(arrays, subject.task)
    else:
        batch = subject.examples(EVALUATED)
        with torch.no_grad():
            output = subject.model(batch.x, lengths=batch.lengths)
        arrays = {"predictions": output.numpy(), "answers": batch.y.numpy()}
        arrays |= {} if batch.lengths is None else {"lengths": batch.lengths.numpy()}
    return arrays["predictions"].astype(np.float64), arrays["answers"], arrays.get("lengths")


def _in_windows(arrays: dict[str, Any], task: Task) -> dict[str, Any]:
    """Predictions for one long sequence as those for the test examples, which are windows of it."""
    T, count = task.steps, len(task.test)
    apart = T if task.vocabulary else 1  # windows of a series overlap
    steps = min(arrays["answers"].shape[1], (count - 1) * apart + T)
    windows = {
        name: np.lib.stride_tricks.sliding_window_view(arrays[name][0, :steps], T, 0)[::apart]
        for name in ("predictions", "answers")
    }
    return {name: np.moveaxis(values, -1, 1).copy() for name, values in windows.items()}


def _mean(values: np.ndarray, scored: np.ndarray) -> np.ndarray:
    """The mean of each example over its scored targets."""
    if values.ndim == 1:
        return values.astype(np.float64)
    mean: np.ndarray = np.where(scored, values, 0.0).sum(1) / np.maximum(1, scored.sum(1))
    return mean
