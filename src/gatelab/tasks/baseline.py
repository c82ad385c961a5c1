"""Trivial baselines, which a trained model has to beat: fitted on the training set, scored on the test set."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gatelab.formatting import SMALLER_IS_BETTER, named
from gatelab.tasks.examples import Examples

if TYPE_CHECKING:
    from gatelab.tasks.task import Task


@dataclass(frozen=True)
class Baseline:
    """A trivial prediction rule and its score on the test set."""

    rule: str
    metric: str  # "accuracy" or "mse"
    value: float
    by_column: tuple[
        float, ...
    ] = ()  # for regression: the MSE of each target column, in the units of the scaled targets

    def __str__(self) -> str:
        return f"{named(self.metric, self.value)} ({self.rule})"

    def document(self) -> dict[str, Any]:
        """The baseline as JSON."""
        return {**asdict(self), "by_column": list(self.by_column)}

    @classmethod
    def read(cls, document: dict[str, Any]) -> Baseline:
        """Read the baseline from JSON that was validated."""
        return cls(**{**document, "by_column": tuple(document["by_column"])})

    def beaten_by(self, value: float) -> bool:
        """Whether a model with this value of the metric is better."""
        return value < self.value if self.metric in SMALLER_IS_BETTER else value > self.value


def majority_class(task: Task) -> Baseline:
    """Always predict the most frequent class of the training set."""
    assert task.classes is not None
    majority = int(torch.bincount(targets_of(task, task.train), weights_of(task, task.train)).argmax())
    accuracy = float((targets_of(task, task.test) == majority).double().mean())
    return Baseline(f"majority class of the training set, {task.classes[majority]!r}", "accuracy", accuracy)


def training_mean(task: Task) -> Baseline:
    """Always predict the mean of the training set."""
    targets, weights = targets_of(task, task.train).double(), weights_of(task, task.train)
    mean = targets.mean(0) if weights is None else (weights @ targets) / weights.sum()
    errors = (targets_of(task, task.test) - mean).square().mean(0)
    return Baseline("mean of the training set", "mse", float(errors.mean()), tuple(errors.tolist()))


def persistence(task: Task, block: int = 4096) -> Baseline:
    """For series: predict that the next value equals the current one."""
    squares, count = torch.zeros(task.output_size, dtype=torch.float64), 0
    for index in torch.split(torch.arange(len(task.test)), block):
        x, y, _ = task.test.batch(index)
        squares += (task.persistence_forecast(x) - y).double().square().flatten(0, -2).sum(0)
        count += y[..., 0].numel()
    errors = squares / count
    return Baseline(
        "persistence: the next value equals the current one", "mse", float(errors.mean()), tuple(errors.tolist())
    )


def targets_of(task: Task, part: Examples) -> Tensor:
    """The targets that count, (M,) or (M, K)."""
    return task.counted(part.targets, part.lengths)


def weights_of(task: Task, part: Examples) -> Tensor | None:
    """The weight of each target, in float64."""
    if part.weights is None:
        return None
    weights = part.weights.double()
    if not task.per_step:
        return weights
    return task.counted(weights[:, None].expand(part.targets.shape[:2]), part.lengths)
