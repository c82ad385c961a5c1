"""Losses and metrics for every kind of task."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, l1_loss, mse_loss

from gatelab.tasks import Baseline, Batch, Task
from gatelab.tasks.baseline import targets_of, weights_of
from gatelab.tasks.examples import Examples, inside
from gatelab.training.spec import TrainingSpec

Metrics = dict[str, float]
DIVERGED = 1e6  # a loss beyond any sense: targets of size 1 missed by a thousand times that


class Objective:
    """The loss of a task, and the validation score that selects the weights."""

    def __init__(self, task: Task, spec: TrainingSpec) -> None:
        self.task = task
        self.classifies = task.classes is not None
        self.name = spec.loss if spec.loss != "auto" else "cross_entropy" if self.classifies else "mse"
        by_accuracy = self.classifies and task.bits_metric is None
        self.monitor = spec.monitor if spec.monitor != "auto" else "accuracy" if by_accuracy else "loss"
        self.smoothing = spec.label_smoothing

    def training_loss(self, prediction: Tensor, batch: Batch, weights: Tensor | None = None) -> Tensor:
        """The loss that is minimized: with smoothed labels, if the spec says so."""
        return self.loss(prediction, batch, weights, self.smoothing)

    def loss(self, prediction: Tensor, batch: Batch, weights: Tensor | None = None, smoothing: float = 0.0) -> Tensor:
        """The mean over all targets: (B, K) against (B,) or (B, K), or with a T in the middle. With `weights` (B,), the
        mean of the weighted losses: weights have mean 1 over all batches, not in each of them.
        """
        if weights is not None:
            return self._weighted_loss(prediction, batch, weights, smoothing)
        prediction, targets = self.existing(prediction, batch), self.existing(batch.y, batch)
        if self.classifies:
            return cross_entropy(prediction, targets, label_smoothing=smoothing)
        return mse_loss(prediction, targets) if self.name == "mse" else l1_loss(prediction, targets)

    def _weighted_loss(self, prediction: Tensor, batch: Batch, weights: Tensor, smoothing: float) -> Tensor:
        prediction, targets = self.existing(prediction, batch), self.existing(batch.y, batch)
        if self.classifies:
            losses = cross_entropy(prediction, targets, reduction="none", label_smoothing=smoothing)
        else:
            loss = mse_loss if self.name == "mse" else l1_loss
            losses = loss(prediction, targets, reduction="none").mean(-1)
        return (self.by_target(weights, batch) * losses).mean()

    def by_target(self, weights: Tensor, batch: Batch) -> Tensor:
        """The weight of each target (M,), from those of the sequences (B,)."""
        return self.existing(weights[:, None].expand(batch.y.shape[:2]), batch) if self.task.per_step else weights

    def existing(self, values: Tensor, batch: Batch) -> Tensor:
        """Where there is a target at every step: (B, T, …) → (M, …), without padding."""
        if not self.task.per_step:
            return values
        if batch.lengths is None:
            return values.flatten(0, 1)
        return values[inside(values, batch.lengths)]

    def hopeless(self, part: Examples) -> float:
        """The loss on a part from which on a run has diverged; more where the part has outliers among its targets."""
        if self.classifies:
            return DIVERGED
        low, high = torch.aminmax(part.targets)  # windows of a series are views, and must not be copied
        size = max(-float(low), float(high))
        return DIVERGED * max(1.0, size if self.name == "mae" else size**2)

    def constant_loss(self, part: Examples) -> float:
        """The smallest training loss on a part with the same answer to every input."""
        targets, weights = self._counted(part)
        shares = weights / weights.sum()
        if self.classifies:
            classes = len(self.task.classes or ())
            known = torch.zeros(classes, dtype=torch.float64).index_add(0, targets, shares)
            known = (1 - self.smoothing) * known + self.smoothing / classes
            return float(torch.special.entr(known).sum())
        values = targets.double()
        if self.name == "mse":
            return float((shares @ (values - shares @ values).square()).mean())
        return float((shares @ (values - values.median(0).values).abs()).mean())

    def majority(self, part: Examples) -> tuple[float, int]:
        """The largest share of a class among the targets of a part, and their number."""
        targets, weights = self._counted(part)
        return float((torch.bincount(targets, weights) / weights.sum()).max()), len(targets)

    def _counted(self, part: Examples) -> tuple[Tensor, Tensor]:
        """The targets of a part, (M,) or (M, K), and their weights in float64."""
        targets, weights = targets_of(self.task, part), weights_of(self.task, part)
        return targets, torch.ones(len(targets), dtype=torch.float64) if weights is None else weights

    def score(self, metrics: Metrics) -> float:
        """The monitored metric, with a sign so that larger is better."""
        return metrics["accuracy"] if self.monitor == "accuracy" else -metrics["loss"]

    def scores(self, history: list[dict[str, Any]]) -> list[float]:
        """The validation score of every epoch, from its line of metrics."""
        of_validation = [{n.removeprefix("validation_"): value for n, value in line.items()} for line in history]
        return [self.score(metrics) for metrics in of_validation]


@dataclass
class Tally:
    """Metrics over many batches, every target with the weight of its sequence."""

    objective: Objective
    loss: float = 0.0
    targets: int = 0
    weight: float = 0.0  # of all targets: their number if all count the same
    hits: float = 0
    scored: float = 0
    squared: float = 0.0
    absolute: float = 0.0

    @torch.no_grad()
    def add(self, prediction: Tensor, batch: Batch, loss: float, weights: Tensor | None = None) -> None:
        """Count a batch whose loss, by `Objective.loss` with the same weights, is known."""
        goal = self.objective
        targets = goal.existing(batch.y, batch)
        self.loss += loss * len(targets)
        self.targets += len(targets)
        if weights is not None:
            self._add_weighted(prediction, batch, weights)
            return
        self.weight += len(targets)
        if goal.classifies:
            right = goal.task.counted(prediction.argmax(-1) == batch.y, batch.lengths)
            self.hits += int(right.sum())
            self.scored += len(right)
        else:
            error = (goal.existing(prediction, batch) - targets).cpu().double()  # mps has no float64
            self.squared += float(error.square().mean()) * len(targets)
            self.absolute += float(error.abs().mean()) * len(targets)

    def _add_weighted(self, prediction: Tensor, batch: Batch, weights: Tensor) -> None:
        goal, by_target = self.objective, self.objective.by_target(weights, batch).cpu().double()
        self.weight += float(by_target.sum())
        if goal.classifies:
            right = prediction.argmax(-1) == batch.y
            each = weights[:, None].expand(right.shape) if goal.task.per_step else weights
            right, each = (goal.task.counted(values, batch.lengths) for values in (right, each))
            self.hits += float(each[right].double().sum())
            self.scored += float(each.double().sum())
        else:
            error = (goal.existing(prediction, batch) - goal.existing(batch.y, batch)).cpu().double()
            self.squared += float(by_target @ error.square().mean(-1))
            self.absolute += float(by_target @ error.abs().mean(-1))

    def metrics(self) -> Metrics:
        """The metrics of everything that was counted."""
        mean_loss = self.loss / self.weight
        if self.objective.classifies:
            bits = self.objective.task.bits_metric
            in_bits = {} if bits is None else {bits: mean_loss / math.log(2)}
            return {"loss": mean_loss, **in_bits, "accuracy": self.hits / self.scored}
        return {"loss": mean_loss, "mse": self.squared / self.weight, "mae": self.absolute / self.weight}


def macro_metrics(task: Task, prediction: Tensor, targets: Tensor, lengths: Tensor | None) -> Metrics:
    """Macro-averaged precision, recall and F1, for the test set."""
    if task.classes is None or task.bits_metric is not None:
        return {}
    predicted, true = (task.counted(v, lengths).numpy() for v in (prediction.argmax(-1), targets))
    count = prediction.shape[-1]
    hits, guesses, truths = (np.bincount(v, minlength=count) for v in (true[predicted == true], predicted, true))
    occurs = guesses + truths > 0  # in the predictions or in the targets; a precision or recall of 0 / 0 is 0
    scores = {"precision": (hits, guesses), "recall": (hits, truths), "f1": (2 * hits, guesses + truths)}
    return {name: float((some / np.maximum(all_, 1))[occurs].mean()) for name, (some, all_) in scores.items()}


def own_unit_errors(
    task: Task, prediction: Tensor, targets: Tensor, lengths: Tensor | None, baseline: Baseline
) -> dict[str, dict[str, float]]:
    """RMSE and MAE of each target column in the data's own units, and the baseline's RMSE; for scaled targets."""
    scaling = task.target_scaling
    if task.classes is not None or scaling is None:
        return {}
    error = task.counted((prediction - targets).double(), lengths).reshape(-1, task.output_size)
    deviation = scaling.deviation[: task.output_size]
    rmse, mae = (values.numpy() * deviation for values in (error.square().mean(0).sqrt(), error.abs().mean(0)))
    trivial = np.sqrt(baseline.by_column) * deviation
    columns = task.target_names
    return {
        name: {"rmse": float(rmse[i]), "mae": float(mae[i]), "baseline_rmse": float(trivial[i])}
        for i, name in enumerate(columns)
    }
