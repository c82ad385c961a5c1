"""How well a model of text predicts another text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from torch.nn.functional import log_softmax

from gatelab import memory
from gatelab.errors import DataError, GatelabError
from gatelab.formatting import visible
from gatelab.models import StepPredictor
from gatelab.tasks.text import encode, read_text
from gatelab.training.evaluation import STREAM_STEPS
from gatelab.training.process import denormals_flushed

if TYPE_CHECKING:
    from gatelab.engine.recurrent import State
    from gatelab.use.trained_model import TrainedModel

ROW = 600  # bytes of memory per row of the table of predictions


def score(trained: TrainedModel, path: Path) -> tuple[list[list[object]], dict[str, float]]:
    """A row for each token after the first (place, token, the likeliest one, probability of the token), and the
    cross-entropy in bits and the accuracy. The text is read from its start, with the state carried along.
    """
    prepared = trained.preparation
    assert prepared.text is not None
    try:
        tokens = encode(read_text(path, prepared.text), prepared.vocabulary, prepared.text)
    except DataError:
        raise
    except GatelabError as error:
        raise DataError(f"{path}: {error}") from None
    if len(tokens) < 2:
        raise DataError(
            f"{path} has {len(tokens)} {prepared.text}: expected at least two, one to read and one to predict"
        )
    memory.refuse(ROW * len(tokens), f"{path} with {len(tokens):,} {prepared.text}", "split it")
    predicted, nats = _predictions(cast(StepPredictor, trained.module), torch.from_numpy(tokens))
    names = [visible(token) for token in prepared.vocabulary]
    rows: list[list[object]] = [
        [place, names[true], names[guess], float(p)]
        for place, (true, guess, p) in enumerate(zip(tokens[1:], predicted, np.exp(-nats), strict=True), 1)
    ]
    bits = f"bits per {prepared.text[:-1]}"
    return rows, {bits: float(nats.mean() / np.log(2)), "accuracy": float((predicted == tokens[1:]).mean())}


@torch.no_grad()
def _predictions(model: StepPredictor, tokens: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
    """The likeliest token at each place, and minus the logarithm of the probability of the true one."""
    state: State | None = None
    predicted, nats = [], []
    with denormals_flushed():
        for start in range(0, len(tokens) - 1, STREAM_STEPS):
            end = min(start + STREAM_STEPS, len(tokens) - 1)
            scores, state = model.process(tokens[None, start:end], state)
            predicted.append(scores[0].argmax(-1))
            true = tokens[start + 1 : end + 1, None]
            nats.append(-log_softmax(scores[0].double(), -1).gather(1, true)[:, 0])
    return torch.cat(predicted).numpy(), torch.cat(nats).numpy()
