"""Forecasts that a network has to beat: persistence, seasonal naive, linear autoregression; ETS with statsmodels."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np

from gatelab.estimators import ridge

LINEAR = "linear autoregression"
LEAST_WINDOWS = 8  # that it is fitted on
MOST_NUMBERS, MOST_FEATURES = 20_000_000, 2_000  # so that it takes seconds
LEAST_SEASONS = 2  # whole seasons that statsmodels needs to begin with


def persistence(values: np.ndarray, origins: np.ndarray, horizon: int) -> np.ndarray:
    """Repeat the last value: (S, K) → (N, horizon, K)."""
    return np.repeat(values[origins][:, None], horizon, 1)


def seasonal_naive(values: np.ndarray, origins: np.ndarray, horizon: int, season: int) -> np.ndarray:
    """Repeat the last season: (S, K) → (N, horizon, K); persistence for a season of 1."""
    repeated: np.ndarray = values[origins[:, None] + 1 - season + np.arange(horizon) % season]
    return repeated


def linear_autoregression(
    values: np.ndarray, covariates: np.ndarray, origins: np.ndarray, horizon: int, window: int, train: int
) -> np.ndarray | None:
    """Forecast each step ahead by a ridge regression of its own on the last `window` values, column by column.

    (S, K) → (N, horizon, K). It is fitted once, on the windows whose steps ahead are among the first `train` steps, and
    also reads the covariates (S, E) of the steps ahead. None if there are too few windows, or too many features.
    """
    ends = np.arange(window - 1, train - horizon)
    features = window + horizon * covariates.shape[1]
    if len(ends) < LEAST_WINDOWS or features > MOST_FEATURES:
        return None
    ends = ends[-(MOST_NUMBERS // max(features, horizon)) :]
    ahead = np.arange(1, horizon + 1)
    forecasts = []
    for column in values.T:
        read = [_read(column, covariates, places, window, ahead) for places in (ends, origins)]
        fitted = ridge.fit(read[0], column[ends[:, None] + ahead] - column[ends, None])
        forecasts.append(column[origins, None] + fitted.predict(read[1]))
    return np.stack(forecasts, -1)


def _read(
    column: np.ndarray, covariates: np.ndarray, origins: np.ndarray, window: int, ahead: np.ndarray
) -> np.ndarray:
    """The last value, those before it relative to it, and the covariates of the steps ahead, (N, P)."""
    last, before = column[origins, None], column[origins[:, None] + np.arange(1 - window, 0)]
    parts = [last, before - last]
    if covariates.shape[1]:
        parts.append(covariates[origins[:, None] + ahead].reshape(len(origins), -1))
    return np.concatenate(parts, 1)


def has_statsmodels() -> bool:
    """Whether exponential smoothing is available."""
    return find_spec("statsmodels") is not None


def exponential_smoothing(
    values: np.ndarray, origins: np.ndarray, horizon: int, season: int, train: int
) -> np.ndarray | None:
    """Forecast by ETS, column by column; its form is chosen by AICc and fitted on the first `train` steps, once.

    (S, K) → (N, horizon, K); None if no form can be fitted.
    """
    columns = [_smoothed(column, origins, horizon, season, train) for column in values.T]
    found = [column for column in columns if column is not None]
    return np.stack(found, -1) if len(found) == len(columns) else None


def _smoothed(column: np.ndarray, origins: np.ndarray, horizon: int, season: int, train: int) -> np.ndarray | None:
    best, best_aicc = None, np.inf
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its optimizer, about forms that are not chosen
        for form in _forms(column[:train], season):
            model = _model(column[:train], form)
            try:
                fitted = model.fit(disp=False)
            except (ValueError, np.linalg.LinAlgError):
                continue
            if np.isfinite(fitted.aicc) and fitted.aicc < best_aicc:
                best, best_aicc = (form, fitted), fitted.aicc
        if best is None:
            return None
        form, fitted = best  # its initial states are among the parameters: newer values are only smoothed
        ahead = [_model(column[: origin + 1], form).smooth(fitted.params).forecast(horizon) for origin in origins]
    return np.stack(ahead)


def _forms(column: np.ndarray, season: int) -> Iterator[dict[str, Any]]:
    """Yield the forms that are compared: damped trend or none, season or none; multiplicative for positive values."""
    seasonal: list[str | None] = [None]
    if season > 1 and len(column) >= LEAST_SEASONS * season + 5:
        seasonal += ["add", "mul"] if (column > 0).all() else ["add"]
    for error in ("add", "mul") if (column > 0).all() else ("add",):
        for trend in (None, "add"):
            for each in seasonal:
                if error == "add" and each == "mul":  # unstable
                    continue
                yield {
                    "error": error, "trend": trend, "damped_trend": trend is not None, "seasonal": each,
                    "seasonal_periods": season if each is not None else None,
                }  # fmt: skip


def _model(column: np.ndarray, form: dict[str, Any]) -> Any:
    from statsmodels.tsa.exponential_smoothing.ets import ETSModel

    return ETSModel(column, **form)
