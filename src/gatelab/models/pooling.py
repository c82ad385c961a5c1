"""From the outputs of the layers at every step to one vector per sequence."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Generator, Tensor, nn

from gatelab.errors import unknown

POOLS = ("last", "mean", "max", "mean+max", "attention")


class Pooled(NamedTuple):
    """What pooling carries from step to step of a stream."""

    steps: int
    sums: Tensor | None = None  # of the outputs, weighted for attention, (B, F)
    largest: Tensor | None = None  # output so far, (B, F)
    weight: Tensor | None = None  # of attention: the sum of weights, relative to the largest score, (B, 1)
    score: Tensor | None = None  # of attention: the largest so far, (B, 1)


class Pooling(nn.Module):
    """Pooling over the steps of each sequence, the padding left out.

    Args:
        kind: "last", the output at the end of each sequence (at the first step for the backward direction); "mean" or
            "max" over the steps, or both, joined ("mean+max"); "attention", a mean with learned weights: the softmax
            over the steps of a learned linear score.
        features: F, the size of the outputs, H × directions.
        backward: how many of them, the last ones, belong to the backward direction.
    """

    query: nn.Parameter | None  # (F,), of attention

    def __init__(self, kind: str, features: int, backward: int = 0) -> None:
        super().__init__()
        if kind not in POOLS:
            raise unknown("pool", kind, POOLS)
        self.kind, self.features, self.backward = kind, features, backward
        self.output_size = 2 * features if kind == "mean+max" else features
        self.register_parameter("query", nn.Parameter(torch.zeros(features)) if kind == "attention" else None)

    @torch.no_grad()
    def reset_parameters(self, generator: Generator | None = None) -> None:
        """Initialize attention as a plain mean."""
        if self.query is not None:
            self.query.zero_()

    def forward(self, output: Tensor, lengths: Tensor | None) -> Tensor:
        """(B, T, F), which is zero in the padding, → (B, F), or (B, 2F) for "mean+max"."""
        B, T = output.shape[:2]
        ends = torch.full((B,), T, device=output.device) if lengths is None else lengths.to(output.device)
        if self.kind == "last":
            return self._last(output, ends)
        inside = (torch.arange(T, device=output.device) < ends.unsqueeze(1)).unsqueeze(2)  # (B, T, 1)
        pooled = []
        if "mean" in self.kind:
            pooled.append(output.sum(1) / ends.to(output).unsqueeze(1))
        if "max" in self.kind:
            pooled.append((output if lengths is None else output.masked_fill(~inside, -torch.inf)).amax(1))
        if self.query is not None:
            scores = (output @ self.query).unsqueeze(2)  # (B, T, 1)
            pooled.append((scores.masked_fill(~inside, -torch.inf).softmax(1) * output).sum(1))
        return torch.cat(pooled, 1) if len(pooled) > 1 else pooled[0]

    def _last(self, output: Tensor, ends: Tensor) -> Tensor:
        last = output[torch.arange(len(output), device=ends.device), ends - 1]  # (B, F)
        if not self.backward:
            return last
        return torch.cat([last[:, : -self.backward], output[:, 0, -self.backward :]], 1)

    def step(self, output: Tensor, before: Pooled | None) -> tuple[Tensor, Pooled]:
        """One step of a stream: its output (B, F) → the features up to here, and what is carried on."""
        steps = 1 if before is None else before.steps + 1
        if self.kind == "last":
            return output, Pooled(steps)
        if self.query is not None:
            return self._attended(output, before, steps)
        sums = largest = None
        pooled = []
        if "mean" in self.kind:
            sums = output if before is None or before.sums is None else before.sums + output
            pooled.append(sums / steps)
        if "max" in self.kind:
            largest = output if before is None or before.largest is None else before.largest.maximum(output)
            pooled.append(largest)
        return torch.cat(pooled, -1) if len(pooled) > 1 else pooled[0], Pooled(steps, sums, largest)

    def _attended(self, output: Tensor, before: Pooled | None, steps: int) -> tuple[Tensor, Pooled]:
        """A softmax step by step: sums are relative to the largest score so far, and rescaled where it rises."""
        assert self.query is not None
        score = (output @ self.query).unsqueeze(-1)
        if before is None or before.sums is None or before.weight is None or before.score is None:
            return output, Pooled(steps, output, None, torch.ones_like(score), score)
        top = before.score.maximum(score)
        old, new = (before.score - top).exp(), (score - top).exp()
        sums, weight = before.sums * old + output * new, before.weight * old + new
        return sums / weight, Pooled(steps, sums, None, weight, top)
