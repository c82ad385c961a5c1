"""The training loop: epochs, mini-batches, and evaluation on held-out data."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gatelab.scratch import network
from gatelab.scratch.adam import Adam, clip
from gatelab.scratch.gru import Parameters
from gatelab.scratch.sine import Windows

Report = Callable[[int, float, float], None]  # epoch, training MSE, held-out MSE


def mse(p: Parameters, data: Windows) -> float:
    """The mean squared error on all windows."""
    return float(np.mean((network.predict(p, data.x) - data.target) ** 2))


def train(
    p: Parameters,
    training: Windows,
    held_out: Windows,
    epochs: int,
    rng: np.random.Generator,
    learning_rate: float = 1e-2,
    batch_size: int = 256,
    clip_at: float = 1.0,
    report: Report = lambda epoch, training, held_out: None,
) -> list[tuple[float, float]]:
    """Train p in place; returns the (training, held-out) MSE before training and after each epoch."""
    optimiser = Adam(learning_rate)
    curve = [(mse(p, training), mse(p, held_out))]
    report(0, *curve[0])
    for epoch in range(1, epochs + 1):
        order = rng.permutation(len(training.target))
        for start in range(0, len(order), batch_size):
            batch = order[start : start + batch_size]
            _, grads = network.loss_and_gradients(p, training.x[:, batch], training.target[batch])
            clip(grads, clip_at)
            optimiser.update(p, grads)
        curve.append((mse(p, training), mse(p, held_out)))
        report(epoch, *curve[-1])
    return curve
