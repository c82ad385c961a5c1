"""A rolling-origin backtest: a forecaster beside naive forecasts, linear autoregression and ETS, by step ahead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from gatelab.data.series import as_given
from gatelab.errors import DataError, GatelabError
from gatelab.estimators.forecasting import baselines, covariates, parameters, words
from gatelab.estimators.forecasting.ensemble import naive_error
from gatelab.estimators.forecasting.history import History
from gatelab.formatting import counted

if TYPE_CHECKING:
    import pandas as pd

    from gatelab.estimators.forecasting.forecaster import RecurrentForecaster

OURS = "RecurrentForecaster"


@dataclass(frozen=True)
class Backtest:
    """Forecasts from every origin of the test part, and what came."""

    names: tuple[Any, ...]  # of the series
    steps: np.ndarray  # (F,) the steps ahead
    observed: np.ndarray  # (N, F, K); NaN after the end of the series
    forecasts: dict[str, np.ndarray]  # (N, F, K) by method
    lower: np.ndarray  # (N, F, K), of our intervals
    upper: np.ndarray
    plain_lower: np.ndarray  # (N, F, K), with `adaptive=False`
    plain_upper: np.ndarray
    scale: np.ndarray  # (K,): the error of the seasonal naive forecast on the training part, as MASE has it
    season: int
    coverage: float
    train: int  # steps before the first origin
    fitted: RecurrentForecaster  # on the training part

    def errors(self, method: str) -> np.ndarray:
        """Observed minus forecast values, (N, F, K)."""
        errors: np.ndarray = self.observed - self.forecasts[method]
        return errors

    def mase(self, method: str) -> float:
        """The mean absolute scaled error over all origins, steps ahead and series."""
        return float(np.mean(np.nanmean(np.abs(self.errors(method)), (0, 1)) / self.scale))

    def covered(self) -> float:
        """How often our intervals contain the value, over all origins, steps ahead and series."""
        return float(self._inside()[~np.isnan(self.observed)].mean())

    def relative_width(self) -> float:
        """The mean width of our intervals, in units of that of plain ones, which do not adapt."""
        return self._relative(self.upper - self.lower, self.plain_upper - self.plain_lower)

    def relative_score(self) -> float:
        """The mean interval score (Gneiting and Raftery, 2007), in units of that of plain ones; less is better.

        It is the width, plus 2 / (1 − coverage) times the distance of a value that is outside.
        """
        plain = self._scores(self.plain_lower, self.plain_upper)
        return self._relative(self._scores(self.lower, self.upper), plain)

    def _scores(self, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
        outside = np.maximum(lower - self.observed, 0) + np.maximum(self.observed - upper, 0)
        scores: np.ndarray = upper - lower + 2 / (1 - self.coverage) * outside
        return scores

    def _relative(self, ours: np.ndarray, plain: np.ndarray) -> float:
        """The mean over series of ratios of means, over what is known and finite in both; NaN if nothing is."""
        counted_in = np.isfinite(ours) & np.isfinite(plain) & ~np.isnan(self.observed)
        sums = [np.where(counted_in, each, 0).sum((0, 1)) for each in (ours, plain)]
        return float(np.mean(sums[0] / np.where(sums[1] > 0, sums[1], np.nan)))

    def _inside(self) -> np.ndarray:
        return (self.lower <= self.observed) & (self.observed <= self.upper)

    def table(self) -> pd.DataFrame:
        """MAE, RMSE, MASE and coverage by method and step ahead; "all" is over all steps.

        Of several series, MAE and RMSE are means over their own units, and MASE is the mean of theirs.
        """
        import pandas as pd

        rows = dict[tuple[str, Any], dict[str, float]]()
        places: dict[Any, list[int]] = {int(step): [i] for i, step in enumerate(self.steps)}
        places["all"] = list(range(len(self.steps)))
        for method in self.forecasts:
            for step, at in places.items():
                error, known = self.errors(method)[:, at], ~np.isnan(self.observed[:, at])
                mae, mse = np.nanmean(np.abs(error), (0, 1)), np.nanmean(error**2, (0, 1))
                inside = self._inside()[:, at][known].mean() if method == OURS else np.nan
                errors = {"MAE": mae.mean(), "RMSE": np.sqrt(mse).mean(), "MASE": (mae / self.scale).mean()}
                rows[method, step] = {**errors, "coverage": inside}
        index = pd.MultiIndex.from_tuples(list(rows), names=["method", "step"])
        return pd.DataFrame(list(rows.values()), index)

    def summary(self) -> str:
        """Describe the outcome in words: which method is better, by how much, and at which steps ahead."""
        scores = {method: self.mase(method) for method in self.forecasts}
        naive = {name: score for name, score in scores.items() if name in words.NAIVE}
        ours = scores[OURS]
        lines = [
            f"{counted(len(self.observed), 'origin')} after {counted(self.train, 'step')} of training, "
            f"{counted(len(self.steps), 'step')} ahead, season {self.season}",
            "  MASE           " + ", ".join(f"{name} {score:.3f}" for name, score in scores.items()),
            f"  verdict        {words.verdict(ours, naive)}",
        ]
        if worse := self._lost():
            lines.append(f"  steps ahead    a naive forecast is better at {worse}")
        for name, title in ((baselines.LINEAR, "linear"), ("ETS", "ETS")):
            if name in scores:
                lines.append(f"  {title:<14} {words.verdict(ours, {name: scores[name]})}")
        inside, share = self._inside(), 100 * self.covered()
        infinite = float(np.isinf(self.upper - self.lower).mean())
        note = f"; {100 * infinite:.0f} % of them are infinite, for want of held-out errors" if infinite else ""
        by_step = [f"{100 * inside[:, i][~np.isnan(self.observed[:, i])].mean():.0f}" for i in range(len(self.steps))]
        covered = f"those of {self.coverage:.0%} cover {share:.1f} %, by step ahead {', '.join(by_step)} %"
        if self.fitted.adaptive and np.isfinite(self.relative_width()):
            covered += f"; {self.relative_width():.2f} times as wide as without adapting"
        lines.append(f"  intervals      {covered}{note}")
        return "\n".join(lines)

    def _lost(self) -> str:
        """The steps ahead at which a naive forecast is better, with the factor."""
        table = self.table()["MASE"]
        parts = []
        for step in self.steps.tolist():
            best = min((name for name in self.forecasts if name in words.NAIVE), key=lambda n: table[n, step])
            if table[best, step] < table[OURS, step]:
                share = 100 * (table[OURS, step] / table[best, step] - 1) if table[best, step] else np.inf
                parts.append(f"{step} ({best}, by {share:.0f} %)")
        return ", ".join(parts)


def backtest(
    forecaster: RecurrentForecaster, y: Any, X: Any, fh: Any, test: float, coverage: float, ets: bool
) -> Backtest:
    """Fit a copy on the first part of a series, and forecast from every step of the rest, updating as it comes.

    Every method sees the same values: those up to the origin. Linear autoregression and ETS are fitted once, too;
    ETS smooths what comes.
    """
    if not isinstance(test, float) or not 0 < test < 1:
        raise GatelabError(f"test is {test!r}: expected the fraction of the series that is forecast, as 0.25")
    given_y = as_given(y, "y")
    frame = given_y.regular("y", forecaster.fill, forecaster.aggregate)
    rows, names = covariates.past(X, frame, given_y.index)
    train = len(frame.values) - max(1, round(test * len(frame.values)))
    part = clone(forecaster)
    given = frame.part(0, train)
    part.fit(given, X=rows[:train] if names else None, fh=fh)
    H, season, values = part.horizon_, part.season_, frame.values
    origins = np.arange(train - 1, len(values) - max(1, part.behind_))
    if not len(origins):
        raise DataError(
            f"the test part has {len(values) - train} steps: expected more than the {H} steps ahead whose covariates "
            "are read; choose a larger test or a smaller fh"
        )
    history = History(frame, rows, part.history_.cycles)
    ours, bounds, plain = _replayed(part, history, origins, coverage)
    steps = part.fh_
    known = origins[:, None] + steps  # (N, F)
    observed = np.where((known < len(values))[..., None], values[np.minimum(known, len(values) - 1)], np.nan)
    forecasts = {OURS: ours, "persistence": baselines.persistence(values, origins, H)}
    if 1 < season <= train:
        forecasts["seasonal naive"] = baselines.seasonal_naive(values, origins, H, season)
    window = part.ensemble_.combination.first.length
    linear = baselines.linear_autoregression(values, rows, origins, H, window, train)
    forecasts |= {} if linear is None else {baselines.LINEAR: np.clip(linear, *parameters.bounds(part))}
    if ets and baselines.has_statsmodels():
        smoothed = baselines.exponential_smoothing(values, origins, H, season, train)
        forecasts |= {} if smoothed is None else {"ETS": smoothed}
    at = steps - 1
    lower, upper, plain_lower, plain_upper = (each[:, at] for each in (*bounds, *plain))
    return Backtest(
        frame.columns, steps, observed, {name: each[:, at] for name, each in forecasts.items()}, lower, upper,
        plain_lower, plain_upper, naive_error(values[:train], season), season, coverage, train, part,
    )  # fmt: skip


def _replayed(
    part: RecurrentForecaster, history: History, origins: np.ndarray, coverage: float
) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Forecasts, their bounds and the plain ones, (N, H, K): what `predict_interval` gives after each `update`.

    The networks stay the same, so that they forecast from all origins at once; only the intervals change on the way,
    each made of the errors that were known at its origin.
    """
    ensemble = part.ensemble_
    forecasts, scales = ensemble.forecasts(history.values, history.known(part.horizon_), origins)
    added = len(history.values) - 1 - int(origins[0])
    later, later_scales = history.forecasts(ensemble, added, part.behind_, part.fitted_steps_)
    values = ensemble.combination.first.forwards(history.values)
    scores = part.scores_.extended(later, later_scales, values, part.behind_)

    def bounds(adaptive: bool) -> tuple[np.ndarray, np.ndarray]:
        width = scales * scores.widths(coverage, adaptive, part.behind_, added + 1)[: len(origins)]
        return part.in_units(forecasts - width), part.in_units(forecasts + width)

    return part.in_units(forecasts), bounds(part.adaptive), bounds(False)
