"""Many-to-one: a GRU over a window, and a linear layer on its final state."""

from __future__ import annotations

import numpy as np

from gatelab.scratch import gru
from gatelab.scratch.gru import Array, Parameters, Step


def initialise(input_size: int, hidden_size: int, output_size: int, rng: np.random.Generator) -> Parameters:
    """The GRU's parameters, and V, c of the linear layer."""
    p = gru.initialise(input_size, hidden_size, rng)
    bound = np.sqrt(6 / (hidden_size + output_size))
    p["V"] = rng.uniform(-bound, bound, (output_size, hidden_size))
    p["c"] = np.zeros(output_size)
    return p


def predict(p: Parameters, x: Array) -> Array:
    """The prediction (B, O) for x (T, B, D), from an initial state of zeros."""
    return _forward(p, x)[0]


def loss_and_gradients(p: Parameters, x: Array, target: Array) -> tuple[float, Parameters]:
    """The mean squared error L of a batch, and its gradients."""
    y, h, steps = _forward(p, x)
    error = y - target
    loss = float(np.mean(error**2))  # L = mean (y − target)²
    dy = 2 * error / error.size  # ∂L/∂y
    grads, _, _ = gru.backward(p, steps, dy @ p["V"])  # ∂y/∂h = V
    grads["V"] = dy.T @ h  # ∂L/∂V = Σ_batch dy hᵀ
    grads["c"] = dy.sum(axis=0)  # ∂L/∂c = Σ_batch dy
    return loss, grads


def _forward(p: Parameters, x: Array) -> tuple[Array, Array, list[Step]]:
    h, steps = gru.forward(p, x, np.zeros((x.shape[1], p["b.z"].size)))
    return h @ p["V"].T + p["c"], h, steps
