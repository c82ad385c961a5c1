"""A series with what is known of its steps and of those ahead: calendar features and covariates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gatelab.data.series import Series
from gatelab.estimators.forecasting import calendar_features
from gatelab.estimators.forecasting.ensemble import Ensemble


@dataclass(frozen=True)
class History:
    """A series up to now, or its last steps."""

    frame: Series
    covariates: np.ndarray  # (S, E)
    cycles: tuple[str, ...]  # of the calendar

    @property
    def values(self) -> np.ndarray:
        """The values (S, K)."""
        return self.frame.values

    def last(self, steps: int) -> History:
        """The last steps."""
        return History(self.frame.last(steps), self.covariates[-steps:], self.cycles)

    def known(self, ahead: int, later: np.ndarray | None = None) -> np.ndarray:
        """Calendar features and covariates, (S + ahead, C).

        `later` are the covariates of the steps ahead, (ahead, E); by default they are NaN, not known yet.
        """
        times = self.frame.index.times
        if times is not None and self.cycles:
            future = self.frame.index.future(ahead)
            assert future is not None  # or there would be no cycles
            times = np.concatenate([times, future])
        later = np.full((ahead, self.covariates.shape[1]), np.nan) if later is None else later
        both = np.concatenate([self.covariates, later])
        return np.concatenate([calendar_features.features(times, self.cycles, len(both)), both], 1)

    def forecasts(
        self, ensemble: Ensemble, steps: int, behind: int, fitted_steps: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """The forecasts (steps, H, K) and scales of the origins that the last steps add, each so many `behind`.

        They are NaN for origins before the end of the training part, of `fitted_steps`: what the networks were trained
        on says nothing about their errors.
        """
        S, K = self.values.shape
        origins = np.arange(S - steps, S) - behind
        judged = origins >= S - (self.frame.index.steps - fitted_steps) - 1
        forecasts, scales = np.full((steps, ensemble.horizon, K), np.nan), np.ones((steps, 1, K))
        forecasts[judged], scales[judged] = ensemble.forecasts(
            self.values, self.known(ensemble.horizon), origins[judged]
        )
        return forecasts, scales
