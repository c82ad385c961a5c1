"""Windows of a series for direct forecasts: what the network reads up to an origin, and all steps ahead at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gatelab.estimators.transforms import Transform


@dataclass(frozen=True)
class Windows:
    """The windows of a series that end at some origins (the last known step of each)."""

    transform: Transform
    horizon: int  # H, the steps ahead

    def history(self, values: np.ndarray, origins: np.ndarray) -> np.ndarray:
        """Return the values up to each origin, (N, context, K), after `Transform.forwards`."""
        steps = np.arange(-self.transform.context + 1, 1)
        return self.transform.forwards(values[origins[:, None] + steps])

    def inputs(self, values: np.ndarray, known: np.ndarray, origins: np.ndarray, covariates: int = 0) -> np.ndarray:
        """Return what the network reads, (N, T, D).

        values: the series (S, K). known: what is known of every step, (S, C) or more rows: calendar features, then
        `covariates` columns. With covariates the network also reads the steps ahead, (N, T + H, D), without values: a
        last column tells them apart.
        """
        T, H = self.transform.length, self.horizon
        read = self.transform.inputs(self.history(values, origins))  # (N, T, K)
        ahead = H if covariates else 0
        steps = known[origins[:, None] + np.arange(-T + 1, 1 + ahead)]  # (N, T + ahead, C)
        if not ahead:
            return np.concatenate([read, steps], 2)
        read = np.concatenate([read, np.zeros((len(read), H, read.shape[2]))], 1)
        future = np.broadcast_to((np.arange(T + H) >= T)[:, None], (len(read), T + H, 1))
        return np.concatenate([read, steps, future], 2)

    def targets(self, values: np.ndarray, origins: np.ndarray) -> np.ndarray:
        """Return what the network has to answer, (N, H × K)."""
        history = self.history(values, origins)
        future = self.transform.forwards(values[origins[:, None] + np.arange(1, self.horizon + 1)])
        return self.transform.targets(history, future).reshape(len(origins), -1)

    def origins(self, steps: int) -> np.ndarray:
        """Return the origins of a series of this many steps that have a whole window and all steps ahead."""
        return np.arange(self.transform.context - 1, steps - self.horizon)
