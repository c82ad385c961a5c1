"""Adam (Kingma & Ba 2015, arXiv:1412.6980), and gradient clipping by global norm."""

from __future__ import annotations

import numpy as np

from gatelab.scratch.gru import Parameters


def clip(grads: Parameters, limit: float) -> float:
    """Scale all gradients in place so that their global norm is at most `limit`; returns the norm before clipping."""
    norm = float(np.sqrt(sum(np.sum(g**2) for g in grads.values())))
    if norm > limit:
        for g in grads.values():
            g *= limit / norm
    return norm


class Adam:
    """The optimizer, with a learning rate per parameter from running moments of its gradient."""

    def __init__(self, learning_rate: float, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8) -> None:
        self.learning_rate, self.beta1, self.beta2, self.epsilon = learning_rate, beta1, beta2, epsilon
        self.steps = 0
        self.m: Parameters = {}  # running mean of each gradient
        self.v: Parameters = {}  # running mean of its square

    def update(self, p: Parameters, grads: Parameters) -> None:
        """One optimization step; updates p in place."""
        self.steps += 1
        for name, g in grads.items():
            self.m[name] = self.beta1 * self.m.get(name, 0) + (1 - self.beta1) * g
            self.v[name] = self.beta2 * self.v.get(name, 0) + (1 - self.beta2) * g**2
            m = self.m[name] / (1 - self.beta1**self.steps)  # bias correction, since both means start at zero
            v = self.v[name] / (1 - self.beta2**self.steps)
            p[name] -= self.learning_rate * m / (np.sqrt(v) + self.epsilon)
