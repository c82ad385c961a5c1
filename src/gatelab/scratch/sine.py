"""A noisy sine wave, cut into windows: read T values, predict the next."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gatelab.scratch.gru import Array


class Wave(NamedTuple):
    clean: Array  # (N,)
    noisy: Array  # (N,)


class Windows(NamedTuple):
    x: Array  # (T, windows, 1)
    target: Array  # (windows, 1), the value after each window

    def same_as_now(self) -> float:
        """The mean squared error of predicting that nothing changes."""
        return float(np.mean((self.x[-1] - self.target) ** 2))


def wave(length: int, period: float, noise: float, rng: np.random.Generator) -> Wave:
    clean = np.sin(2 * np.pi * np.arange(length) / period)
    return Wave(clean, clean + rng.normal(0, noise, length))


def windows(series: Array, steps: int) -> Windows:
    """Every stretch of `steps` values with the value that follows it."""
    if len(series) <= steps:
        raise ValueError(
            f"a series of {len(series)} values has no window of {steps} and a next value: give a longer one"
        )
    stretches = np.lib.stride_tricks.sliding_window_view(series, steps)[:-1]  # (windows, T)
    return Windows(stretches.T[:, :, None], series[steps:, None])
