"""A noisy sine wave in windows: predict the next value from T values."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gatelab.scratch.gru import Array


class Wave(NamedTuple):
    """A sine wave without and with noise."""

    clean: Array  # (N,)
    noisy: Array  # (N,)


class Windows(NamedTuple):
    """Inputs and targets for one-step-ahead prediction."""

    x: Array  # (T, windows, 1)
    target: Array  # (windows, 1), the value after each window

    def persistence_error(self) -> float:
        """The mean squared error of the persistence baseline, which predicts the last value."""
        return float(np.mean((self.x[-1] - self.target) ** 2))


def wave(length: int, period: float, noise: float, rng: np.random.Generator) -> Wave:
    """`length` samples of a sine with Gaussian noise of standard deviation `noise`."""
    clean = np.sin(2 * np.pi * np.arange(length) / period)
    return Wave(clean, clean + rng.normal(0, noise, length))


def windows(series: Array, steps: int) -> Windows:
    """All sliding windows of `steps` values, and the value that follows each."""
    if len(series) <= steps:
        raise ValueError(f"the series has {len(series)} values: expected at least {steps + 1} for windows of {steps}")
    views = np.lib.stride_tricks.sliding_window_view(series, steps)[:-1]  # (windows, T)
    return Windows(views.T[:, :, None], series[steps:, None])
