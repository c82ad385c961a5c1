"""The learning rate, and with one cycle the momentum, as functions of epoch and batch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from gatelab.training.spec import OptimizationSpec

# As in torch's OneCycleLR: the part of the batches in which the rate rises, its first and last factor, and the momentum
# where the rate is lowest and highest.
ONE_CYCLE_RISE, ONE_CYCLE_START, ONE_CYCLE_END = 0.3, 1 / 25, 1 / 25 / 1e4
CALM, HASTY = 0.95, 0.85


@dataclass
class Schedule:
    """The learning rate of each batch. Only `plateau` has a state."""

    spec: OptimizationSpec
    num_epochs: int
    factor: float = 1.0  # of plateau
    waited: int = 0  # epochs without improvement

    def learning_rate(self, epoch: int, batch: int, batches: int) -> float:
        """For batch `batch` of `batches` in epoch `epoch`, all counted from 0."""
        spec = self.spec
        rate = spec.learning_rate
        if spec.schedule == "cosine":
            progress = epoch / self.num_epochs  # 1 would be after the last epoch
            low = spec.final_learning_rate
            rate = low + (rate - low) * (1 + math.cos(math.pi * progress)) / 2
        elif spec.schedule == "one_cycle":
            low, height = _one_cycle(epoch * batches + batch, self.num_epochs * batches)
            rate *= low + (1 - low) * height
        elif spec.schedule == "step":
            rate *= spec.step_factor ** (epoch // spec.step_epochs)
        elif spec.schedule == "plateau":
            rate = max(rate * self.factor, spec.final_learning_rate)
        done = epoch * batches + batch + 1
        return rate * min(1.0, done / spec.warmup_steps) if spec.warmup_steps else rate

    def momentum(self, epoch: int, batch: int, batches: int) -> float | None:
        """Of one cycle: it falls while the rate rises, and rises while that falls. None: it stays as it is."""
        if self.spec.schedule != "one_cycle":
            return None
        _, height = _one_cycle(epoch * batches + batch, self.num_epochs * batches)
        return CALM + (HASTY - CALM) * height

    def observe(self, improved: bool) -> None:
        """After each epoch: whether it is the best so far."""
        if self.spec.schedule != "plateau":
            return
        if improved:
            self.waited = 0
            return
        self.waited += 1
        if self.waited >= self.spec.plateau_patience:
            self.factor, self.waited = self.factor * self.spec.step_factor, 0

    def restore(self, state: dict[str, Any]) -> None:
        """The inverse of `state`."""
        self.factor, self.waited = state["factor"], state["waited"]

    def state(self) -> dict[str, float | int]:
        """What a checkpoint has to keep."""
        return {"factor": self.factor, "waited": self.waited}


def _one_cycle(done: int, total: int) -> tuple[float, float]:
    """The lowest factor of this side of the cycle, and the height after this number of batches: from 0 up to 1, then
    down to 0, both along a cosine.
    """
    peak, last = ONE_CYCLE_RISE * total - 1, total - 1
    if done <= peak:
        low, part = ONE_CYCLE_START, done / peak if peak > 0 else 1.0
    else:
        low, part = ONE_CYCLE_END, (last - done) / (last - peak)
    return low, (1 - math.cos(math.pi * part)) / 2
