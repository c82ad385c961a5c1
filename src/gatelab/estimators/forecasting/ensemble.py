"""Several networks as one forecaster: some for each transform, with different seeds; the forecast is their mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gatelab.estimators.fitted import FittedRun
from gatelab.estimators.forecasting import networks, progress
from gatelab.estimators.forecasting.networks import Recipe
from gatelab.estimators.forecasting.transforms import Combination, Transform
from gatelab.estimators.forecasting.windows import Windows
from gatelab.formatting import counted


@dataclass(frozen=True)
class Ensemble:
    """Networks by transform."""

    networks: dict[Transform, tuple[FittedRun, ...]]
    horizon: int  # H, the steps ahead with intervals

    @property
    def combination(self) -> Combination:
        """The transforms."""
        return Combination(tuple(self.networks))

    def forecasts(self, values: np.ndarray, known: np.ndarray, origins: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Forecasts from these origins, (N, H, K) after `Transform.forwards`, and window scales (N, 1, K).

        values: the series (S, K). known: what is known of its steps and of those ahead, (S + H, C).
        """
        return self.iterated(values, known, origins, self.horizon)

    def iterated(
        self, values: np.ndarray, known: np.ndarray, origins: np.ndarray, horizon: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """`forecasts` for any number of steps ahead. Every forecast becomes the last value of the next window."""
        if not len(origins):
            return np.empty((0, horizon, values.shape[1])), np.empty((0, 1, values.shape[1]))
        paths, scale, done = list[np.ndarray](), np.empty(0), 0
        what = f"{counted(horizon, 'step')} ahead from {counted(len(origins), 'origin')}"
        for transform, members in self.networks.items():
            windows = Windows(transform, transform.forwards(values), known)
            history = windows.history(origins)  # (N, context, K)
            scale = transform.scale(history)  # stays that of the known values, so that no forecast can blow it up
            ahead = list[np.ndarray]()
            for step in range(horizon):
                X = windows.inputs(history, scale, origins + step)
                answer = np.mean([networks.predict(network, X) for network in members], 0)[:, None]  # (N, 1, K)
                ahead.append(transform.forecast(history, scale, answer))
                history = np.concatenate([history[:, 1:], ahead[-1]], 1)
                done += 1
                progress.tell("forecasting", what, done, horizon * len(self.networks))
            paths.append(np.concatenate(ahead, 1))
        return np.mean(paths, 0), scale

    def part(self, combination: Combination) -> Ensemble:
        """The networks of some transforms."""
        found = {each: self.networks[each] for each in combination.transforms}
        return Ensemble(found, self.horizon)

    def joined(self, other: Ensemble) -> Ensemble:
        """The networks of both; those of `other` are for the same transforms, or for more of them."""
        found = {each: (*self.networks.get(each, ()), *other.networks.get(each, ()))
                 for each in (*self.networks, *other.networks)}  # fmt: skip
        return Ensemble(found, self.horizon)


@dataclass(frozen=True)
class Material:
    """A series to train on."""

    values: np.ndarray  # (S, K)
    known: np.ndarray  # (S + H, C): calendar features and covariates, which are NaN where they are not known yet
    covariates: int  # E, how many there are
    horizon: int
    recipe: Recipe

    @property
    def behind(self) -> int:
        """How far the last origin is behind the end: covariates of the steps ahead have to be known."""
        return self.horizon if self.covariates else 0

    def train(self, transforms: Sequence[Transform], end: int, seeds: Sequence[int]) -> Ensemble:
        """Train a network per transform and seed on all windows in the first `end` steps."""
        found = dict[Transform, tuple[FittedRun, ...]]()
        for transform in transforms:
            X, y = Windows(transform, transform.forwards(self.values), self.known).examples(end)
            what, members = f"network ({transform}) on {counted(len(X), 'window')}", list[FittedRun]()
            for seed in seeds:
                progress.tell("training", what, 0, 1)
                members.append(networks.fit(X, y, self.recipe, seed))
                progress.tell("training", what, 1, 1)
            found[transform] = tuple(members)
        return Ensemble(found, self.horizon)

    def held_out(self, ensemble: Ensemble, cut: int) -> tuple[np.ndarray, np.ndarray]:
        """Forecasts and scales from all origins at or after the last step of the first `cut`."""
        origins = np.arange(cut - 1, len(self.values) - self.behind)
        return ensemble.forecasts(self.values, self.known, origins)

    def error(self, forecasts: np.ndarray, cut: int, season: int = 1) -> float:
        """The mean absolute error of held-out forecasts (N, H, K) in units of the series, scaled as MASE is."""
        N, H, _ = forecasts.shape
        steps = cut + np.arange(N)[:, None] + np.arange(H)
        values, is_known = self.values, (steps < len(self.values))[..., None]
        observed = np.where(is_known, values[np.minimum(steps, len(values) - 1)], np.nan)
        return float(np.mean(np.nanmean(np.abs(observed - forecasts), (0, 1)) / naive_error(values[:cut], season)))


def naive_error(values: np.ndarray, season: int) -> np.ndarray:
    """The mean absolute error of the seasonal naive forecast within a series, (K,): what MASE is scaled by."""
    season = season if season < len(values) else 1
    error = np.abs(values[season:] - values[:-season]).mean(0)
    return np.where(error > 0, error, 1.0)
