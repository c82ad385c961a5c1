"""What a task yields to someone who learns nothing: the number that a trained model has to beat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gatelab.tasks.examples import Examples

if TYPE_CHECKING:
    from gatelab.tasks.task import Task


@dataclass(frozen=True)
class Baseline:
    """A score on the test set, and what does nothing to earn it."""

    rule: str
    metric: str  # "accuracy" or "mse"
    value: float

    def __str__(self) -> str:
        shown = f"accuracy {100 * self.value:.2f} %" if self.metric == "accuracy" else f"MSE {self.value:.4f}"
        return f"{shown} ({self.rule})"


def commonest_class(task: Task) -> Baseline:
    assert task.classes is not None
    commonest = int(torch.bincount(_answers(task, task.train)).argmax())
    share = float((_answers(task, task.test) == commonest).double().mean())
    return Baseline(f"always {task.classes[commonest]!r}, the commonest in training", "accuracy", share)


def training_mean(task: Task) -> Baseline:
    mean = _answers(task, task.train).mean(0)
    error = (_answers(task, task.test) - mean).square().mean()
    return Baseline("always the mean of training", "mse", float(error))


def same_as_now(task: Task, block: int = 4096) -> Baseline:
    """For tasks whose answer at every step is what comes next: that nothing will change."""
    total, count = 0.0, 0
    for index in torch.split(torch.arange(len(task.test)), block):
        x, y, _ = task.test.batch(index)
        total += float((x[..., : y.shape[-1]] - y).double().square().sum())
        count += y.numel()
    return Baseline("the last value again", "mse", total / count)


def _answers(task: Task, part: Examples) -> Tensor:
    return task.counted(part.targets, part.lengths)
