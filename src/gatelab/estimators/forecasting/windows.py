"""Windows of a series: what a network reads up to an origin, and the next step that it answers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gatelab.estimators.forecasting.transforms import Transform


@dataclass(frozen=True)
class Windows:
    """The windows of a series that end at some origins, the last known step of each.

    values: the series (S, K), after `Transform.forwards`. known: what is known of every step and of steps ahead,
    (S + ahead, C): calendar features and covariates. At every step the network reads the value, and what is known of
    the step after it.
    """

    transform: Transform
    values: np.ndarray
    known: np.ndarray

    def origins(self, end: int) -> np.ndarray:
        """The origins with a whole window and a next step among the first `end` steps."""
        return np.arange(self.transform.context - 1, end - 1)

    def history(self, origins: np.ndarray) -> np.ndarray:
        """The values up to each origin, (N, context, K)."""
        steps = np.arange(-self.transform.context + 1, 1)
        found: np.ndarray = self.values[origins[:, None] + steps]
        return found

    def inputs(self, history: np.ndarray, scale: np.ndarray, origins: np.ndarray) -> np.ndarray:
        """What the network reads, (N, T, K + C)."""
        following = self.known[origins[:, None] + np.arange(-self.transform.length + 2, 2)]  # (N, T, C)
        return np.concatenate([self.transform.inputs(history, scale), following], 2)

    def examples(self, end: int) -> tuple[np.ndarray, np.ndarray]:
        """All windows in the first `end` steps, (N, T, K + C), and what the network has to answer, (N, K)."""
        origins = self.origins(end)
        history = self.history(origins)
        scale = self.transform.scale(history)
        future = self.values[origins + 1][:, None]
        return self.inputs(history, scale, origins), self.transform.targets(history, scale, future)[:, 0]
