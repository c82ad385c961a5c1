"""What is made small, and how well it went: losses and metrics for every kind of task."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, l1_loss, mse_loss

from gatelab.tasks import Batch, Task
from gatelab.tasks.examples import inside
from gatelab.training.spec import TrainingSpec

Metrics = dict[str, float]
SHARES = ("accuracy", "precision", "recall", "f1")  # metrics that are shown in percent


class Objective:
    """The loss of a task, and what decides which weights are better."""

    def __init__(self, task: Task, spec: TrainingSpec) -> None:
        self.task = task
        self.classifies = task.classes is not None
        self.name = spec.loss if spec.loss != "auto" else "cross_entropy" if self.classifies else "mse"
        self.monitor = spec.monitor if spec.monitor != "auto" else "accuracy" if self.classifies else "loss"

    def loss(self, prediction: Tensor, batch: Batch) -> Tensor:
        """The mean over all answers that exist: (B, K) against (B,) or (B, K), or with a T in the middle."""
        prediction, answers = self.existing(prediction, batch), self.existing(batch.y, batch)
        if self.classifies:
            return cross_entropy(prediction, answers)
        return mse_loss(prediction, answers) if self.name == "mse" else l1_loss(prediction, answers)

    def existing(self, values: Tensor, batch: Batch) -> Tensor:
        """Where there is an answer at every step: (B, T, …) → (M, …), without what lies beyond the end."""
        if not self.task.per_step:
            return values
        if batch.lengths is None:
            return values.flatten(0, 1)
        return values[inside(values, batch.lengths)]

    def score(self, metrics: Metrics) -> float:
        """What is monitored, as a number of which more is better."""
        return metrics["accuracy"] if self.monitor == "accuracy" else -metrics["loss"]


@dataclass
class Tally:
    """Metrics over many batches, in which every answer has the same weight."""

    objective: Objective
    loss: float = 0.0
    answers: int = 0
    hits: int = 0
    scored: int = 0
    squared: float = 0.0
    absolute: float = 0.0

    @torch.no_grad()
    def add(self, prediction: Tensor, batch: Batch, loss: float) -> None:
        goal = self.objective
        answers = goal.existing(batch.y, batch)
        self.loss += loss * len(answers)
        self.answers += len(answers)
        if goal.classifies:
            right = goal.task.counted(prediction.argmax(-1) == batch.y, batch.lengths)
            self.hits += int(right.sum())
            self.scored += len(right)
        else:
            error = (goal.existing(prediction, batch) - answers).double()
            self.squared += float(error.square().mean()) * len(answers)
            self.absolute += float(error.abs().mean()) * len(answers)

    def metrics(self) -> Metrics:
        mean_loss = self.loss / self.answers
        if self.objective.classifies:
            return {"loss": mean_loss, "accuracy": self.hits / self.scored}
        return {"loss": mean_loss, "mse": self.squared / self.answers, "mae": self.absolute / self.answers}


def macro_metrics(task: Task, prediction: Tensor, answers: Tensor, lengths: Tensor | None) -> Metrics:
    """Precision, recall and F1 as plain means over the classes, for the test set."""
    if task.classes is None:
        return {}
    from sklearn.metrics import precision_recall_fscore_support

    said, right = (task.counted(v, lengths).numpy() for v in (prediction.argmax(-1), answers))
    precision, recall, f1, _ = precision_recall_fscore_support(right, said, average="macro", zero_division=0)
    return {"precision": float(precision), "recall": float(recall), "f1": float(f1)}
