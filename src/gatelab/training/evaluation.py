"""Evaluation of a model on one part of the data."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from gatelab.engine.recurrent import State
from gatelab.models import StepPredictor
from gatelab.tasks import Batch, Examples
from gatelab.training import chunks, devices
from gatelab.training.objective import Metrics, Objective, Tally

EVALUATED_AT_ONCE = 500  # sequences
STREAM_STEPS = 1000  # of one long sequence, at once
KEPT = 5_000_000  # numbers of the predictions for one long sequence, those of the first steps: a text has many


@torch.no_grad()
def evaluate(model: nn.Module, part: Examples, objective: Objective, is_stream: bool = False) -> tuple[Metrics, Tensor]:
    """The metrics on a part of the data, and the predictions, on the CPU. Nothing random, and nothing is changed."""
    training, _ = model.training, model.eval()
    try:
        return (_evaluate_stream if is_stream else _evaluate)(model, part, objective)
    finally:
        model.train(training)


def _evaluate(model: nn.Module, part: Examples, objective: Objective) -> tuple[Metrics, Tensor]:
    tally, predictions, device = Tally(objective), [], devices.of(model)
    for index in torch.split(torch.arange(len(part)), EVALUATED_AT_ONCE):
        batch, weights = devices.moved(part.batch(index), device), devices.moved_weights(part.weights_of(index), device)
        prediction: Tensor = model(batch.x, lengths=batch.lengths)
        tally.add(prediction, batch, objective.loss(prediction, batch, weights).item(), weights)
        predictions.append(_padded(prediction.cpu(), part))
    return tally.metrics(), torch.cat(predictions)


def _padded(prediction: Tensor, part: Examples) -> Tensor:
    """Predictions at every step, (B, T, …) with zeros up to the longest sequence of the whole part."""
    missing = part.stored.shape[1] - prediction.shape[1] if part.per_step and part.lengths is not None else 0
    return pad(prediction, (0, 0, 0, missing)) if missing else prediction


def _evaluate_stream(model: nn.Module, part: Examples, objective: Objective) -> tuple[Metrics, Tensor]:
    """One long sequence from its start to its end; the predictions are those of its first steps, (1, S, K)."""
    tally, predictions, state, device = Tally(objective), list[Tensor](), None, devices.of(model)
    for chunk in chunks.in_time(part, torch.arange(1), STREAM_STEPS):
        batch = devices.moved(part.batch(*chunk), device)
        prediction, state = run_chunk(model, batch, state)
        tally.add(prediction, batch, objective.loss(prediction, batch).item())
        if sum(earlier.numel() for earlier in predictions) < KEPT:
            predictions.append(prediction.cpu())
    return tally.metrics(), torch.cat(predictions, 1)


def run_chunk(model: nn.Module, batch: Batch, state: State | None) -> tuple[Tensor, State]:
    """Predictions for a chunk, from the state of the one before it, and the state after it."""
    # Nothing counts of a sequence that ended before the chunk, but engines expect at least one step.
    lengths = None if batch.lengths is None else batch.lengths.clamp(min=1)
    return cast(StepPredictor, model).process(batch.x, state, lengths=lengths)
