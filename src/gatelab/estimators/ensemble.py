"""Several networks with different seeds as one forecaster, and the choice between transforms on held-out windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gatelab.estimators import networks
from gatelab.estimators.networks import Network
from gatelab.estimators.transforms import Transform
from gatelab.estimators.windows import Windows
from gatelab.training import ModelSpec, OptimizationSpec


@dataclass(frozen=True)
class Recipe:
    """How a network is trained."""

    model: ModelSpec
    optimization: OptimizationSpec
    steps: int  # of the optimizer
    batch: int


@dataclass(frozen=True)
class Ensemble:
    """Networks that read the same windows; the forecast is the mean of theirs."""

    windows: Windows
    networks: tuple[Network, ...]
    covariates: int  # E, how many of the known columns the network reads ahead

    def forecasts(self, values: np.ndarray, known: np.ndarray, origins: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return forecasts from these origins, (N, H, K) before `Transform.backwards`, and window scales (N, 1, K)."""
        windows, transform = self.windows, self.windows.transform
        if not len(origins):
            return np.empty((0, windows.horizon, values.shape[1])), np.empty((0, 1, values.shape[1]))
        X = windows.inputs(values, known, origins, self.covariates)
        answer = np.mean([network.predict(X) for network in self.networks], 0)
        history = windows.history(values, origins)
        shaped = answer.reshape(len(origins), windows.horizon, -1)
        return transform.forecast(history, shaped), transform.scale(history)


@dataclass(frozen=True)
class Material:
    """A series to train on."""

    values: np.ndarray  # (S, K)
    known: np.ndarray  # (S, C): calendar features, then covariates
    covariates: int
    horizon: int
    recipe: Recipe

    @property
    def behind(self) -> int:
        """How far the last origin is behind the end: covariates of the steps ahead have to be known."""
        return self.horizon if self.covariates else 0

    def trained(self, transform: Transform, end: int, seeds: Sequence[int]) -> Ensemble:
        """Train networks on all windows in the first `end` steps."""
        windows, recipe = Windows(transform, self.horizon), self.recipe
        origins = windows.origins(end)
        X = windows.inputs(self.values, self.known, origins, self.covariates)
        y = windows.targets(self.values, origins)
        each = (
            networks.trained(X, y, recipe.model, recipe.optimization, recipe.steps, recipe.batch, seed)
            for seed in seeds
        )
        return Ensemble(windows, tuple(each), self.covariates)

    def held_out(self, ensemble: Ensemble, cut: int) -> tuple[np.ndarray, np.ndarray]:
        """Return forecasts and scales from all origins at or after the last step of the first `cut`."""
        origins = np.arange(cut - 1, len(self.values) - self.behind)
        return ensemble.forecasts(self.values, self.known, origins)

    def error(self, forecasts: np.ndarray, cut: int, season: int = 1) -> float:
        """Return the mean absolute error of held-out forecasts (N, H, K) in units of the series, scaled as MASE is."""
        N, H, _ = forecasts.shape
        steps = cut + np.arange(N)[:, None] + np.arange(H)
        values, is_known = self.values, (steps < len(self.values))[..., None]
        observed = np.where(is_known, values[np.minimum(steps, len(values) - 1)], np.nan)
        return float(np.mean(np.nanmean(np.abs(observed - forecasts), (0, 1)) / naive_error(values[:cut], season)))


def naive_error(values: np.ndarray, season: int) -> np.ndarray:
    """Return the mean absolute error of the seasonal naive forecast within a series, (K,): what MASE is scaled by."""
    season = season if season < len(values) else 1
    error = np.abs(values[season:] - values[:-season]).mean(0)
    return np.where(error > 0, error, 1.0)
