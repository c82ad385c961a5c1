"""What the model says on the test set, where it is wrong, and how sure it was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.special import softmax
from sklearn.metrics import confusion_matrix

from gatelab.analysis.subject import Subject

EVALUATED = 500  # examples, where the run has no predictions yet


@dataclass(frozen=True)
class Answers:
    """Answers for whole sequences, or at every step: classes, or numbers."""

    said: np.ndarray  # (N,) or (N, T) classes, or (N, K) or (N, T, K) numbers
    right: np.ndarray  # the same of what was right
    counted: np.ndarray  # (N,) or (N, T), whether there is such an answer and it counts
    sure: np.ndarray  # (N,), the probability given to what was said; where there are several, of the worst mistake
    wrong: np.ndarray  # (N,), how wrong: for classes the share of wrong answers, for numbers the mean size of the error
    confusion: np.ndarray | None  # (C, C), true by said
    at_hand: int  # the first so many can be shown as examples

    def mistakes(self, count: int) -> np.ndarray:
        """The examples with the worst answers, among those at hand: most sure of what is wrong, or farthest off."""
        score = self.wrong if self.confusion is None else np.where(self.wrong > 0, self.sure, -1.0)
        score = np.where(np.arange(len(score)) < self.at_hand, score, -1.0)
        worst = np.argsort(-score, kind="stable")[:count]
        found: np.ndarray = worst[(self.wrong[worst] > 0) & (worst < self.at_hand)]
        return found


def answers(subject: Subject) -> Answers:
    """From the run's predictions on its test set; of a run that has none yet, the first test examples."""
    scores, right, lengths = _predictions(subject)
    task = subject.task
    ends = None if lengths is None else torch.from_numpy(lengths)
    exists = task.scored(torch.from_numpy(right), ends).numpy()
    if task.classes is None:
        error = np.abs(scores - right).mean(-1)
        unsure = np.full(len(right), np.nan)
        return Answers(scores, right, exists, unsure, _mean(error, exists), None, len(task.test))
    said = scores.argmax(-1)
    probability = softmax(scores, -1).max(-1)
    off = said != right
    confusion = confusion_matrix(right[exists], said[exists], labels=np.arange(len(task.classes)))
    sure = probability
    if task.per_step:
        sure = np.where(off & exists, probability, 0.0).max(1)
    return Answers(said, right, exists, sure, _mean(off, exists), confusion, len(task.test))


def _predictions(subject: Subject) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    found: dict[str, Any]
    if (subject.run.path / "predictions.npz").is_file():
        found = subject.run.predictions()
    else:
        batch = subject.examples(EVALUATED)
        with torch.no_grad():
            said = subject.model(batch.x, lengths=batch.lengths)
        found = {"predictions": said.numpy(), "answers": batch.y.numpy()}
        found |= {} if batch.lengths is None else {"lengths": batch.lengths.numpy()}
    return found["predictions"].astype(np.float64), found["answers"], found.get("lengths")


def _mean(values: np.ndarray, counted: np.ndarray) -> np.ndarray:
    """An example's mean over what counts of it."""
    if values.ndim == 1:
        return values.astype(np.float64)
    found: np.ndarray = np.where(counted, values, 0.0).sum(1) / np.maximum(1, counted.sum(1))
    return found
