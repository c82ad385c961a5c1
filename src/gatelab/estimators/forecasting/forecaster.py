"""A forecaster with prediction intervals, in the manner of sktime."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state

from gatelab.data.series import as_given
from gatelab.errors import GatelabError
from gatelab.estimators.forecasting import calendar_features, covariates, horizons, parameters, selection, words
from gatelab.estimators.forecasting.ensemble import Ensemble, Material
from gatelab.estimators.forecasting.history import History
from gatelab.estimators.forecasting.intervals import Scores
from gatelab.estimators.forecasting.selection import ChosenTransforms
from gatelab.estimators.parameters import documented

if TYPE_CHECKING:
    import pandas as pd
    from typing_extensions import Self

    from gatelab.estimators.forecasting.backtest import Backtest

KEPT = 2_000  # origins whose errors are kept


@documented
class RecurrentForecaster(parameters.ForecasterParameters):
    """Forecast one or several series by a few small recurrent networks, with conformal prediction intervals.

    A network reads a window of the series and answers the next step; its forecast becomes a value of the next window.
    Level and season are taken out of the window before (`Transform`). Which way is chosen on the last part of the
    series, where the errors of the forecasts also give the prediction intervals.

    Parameters
    ----------
    {parameters}
    """

    history_: History  # the last steps of the series
    covariate_names_: tuple[Any, ...]
    season_: int
    fitted_steps_: int
    lowest_: float  # the smallest value of the series so far
    horizon_: int
    fh_: np.ndarray  # steps ahead
    ensemble_: Ensemble
    scores_: Scores
    validation_: dict[str, float]  # errors of transforms and naive forecasts on the held-out part, scaled as MASE is
    notes_: dict[str, str]

    # Fitting.

    def fit(self, y: Any, X: Any = None, fh: Any = None) -> Self:
        """Choose a transform, calibrate intervals and train the networks.

        y: one series (Series or array (S,)), or several that are forecast together (DataFrame or array (S, K)).
        X: covariates that are known in the future, a row for each row of y. fh: the steps ahead, as 12 or range(1, 13).
        """
        recipe = parameters.recipe(self)
        given = as_given(y, "y")
        frame = given.regular("y", self.fill, self.aggregate)
        parameters.refuse_outside(self, frame.values)
        self.season_ = parameters.whole("season", self.season) or frame.index.season()
        steps = np.arange(1, parameters.horizon(self, self.season_) + 1)
        self.fh_ = steps if fh is None else horizons.relative(fh, frame.index)
        self.horizon_ = int(self.fh_[-1])
        rows, self.covariate_names_ = covariates.past(X, frame, given.index)
        is_regular = frame.index.are_dates and frame.index.future(1) is not None
        cycles = calendar_features.chosen(frame.index.times) if is_regular and self.calendar else ()
        history = History(frame, rows, cycles)
        self.notes_ = dict(frame.notes)
        material = Material(frame.values, history.known(self.horizon_), rows.shape[1], self.horizon_, recipe)
        seeds = check_random_state(self.random_state).randint(2**31 - 1, size=self.num_networks).tolist()
        candidates = parameters.candidates(self, self.season_, len(frame.values))
        choice = selection.choose(material, candidates, self.log == "auto", self.season_, self.holdout, seeds[0])
        self.validation_ = choice.errors
        self._calibrate(material, choice, seeds)
        self.ensemble_ = material.train(choice.combination.transforms, len(frame.values), seeds)
        self.fitted_steps_, self.lowest_ = frame.index.steps, float(frame.values.min())
        self._keep(history)
        return self

    def _calibrate(self, material: Material, choice: ChosenTransforms, seeds: list[int]) -> None:
        """Keep the errors of networks that were trained without the held-out part."""
        self.scores_ = Scores.none(self.horizon_, material.values.shape[1])
        if choice.ensemble is None:
            self.notes_["validation"] = (
                "the series is too short to hold windows out: nothing was compared, no intervals"
            )
            return
        others = material.train(choice.combination.transforms, choice.cut, seeds[1:])
        forecasts, scales = material.held_out(choice.ensemble.joined(others), choice.cut)
        known = choice.combination.first.forwards(material.values)
        self.scores_ = self.scores_.extended(forecasts, scales, known, material.behind).last(KEPT)

    def _keep(self, history: History) -> None:
        """Keep as many last steps as a forecast and an update need."""
        self.history_ = history.last(self.ensemble_.combination.context + 2 * self.horizon_)

    def update(self, y: Any, X: Any = None) -> Self:
        """Continue the series by newer steps. Forecasts start after them, and their errors count for the intervals.

        The networks stay as they are; `fit` trains new ones.
        """
        self._check_fitted()
        before, given = self.history_, as_given(y, "y")
        frame = before.frame.followed_by(given).regular("y", self.fill, self.aggregate)
        parameters.refuse_outside(self, frame.values)
        added = len(frame.values) - len(before.values)
        rows = covariates.later(X, frame.last(added), given.index, self.covariate_names_)
        history = History(frame, np.concatenate([before.covariates, rows]), before.cycles)
        forecasts, scales = history.forecasts(self.ensemble_, added, self.behind_, self.fitted_steps_)
        values = self.ensemble_.combination.first.forwards(frame.values)
        self.scores_ = self.scores_.extended(forecasts, scales, values, self.behind_).last(KEPT)
        self.notes_ |= frame.notes
        self.lowest_ = min(self.lowest_, float(frame.values.min()))
        self._keep(history)
        return self

    @property
    def behind_(self) -> int:
        """How many steps after its origin a forecast is judged: with covariates, those ahead have to be known."""
        return self.horizon_ if self.covariate_names_ else 0

    # Forecasting.

    def predict(self, fh: Any = None, X: Any = None) -> Any:
        """Forecast the steps of fh, by default those of fit, in the form of y: its columns, its index continued.

        X: covariates of the steps ahead, if the forecaster was fitted with them.
        """
        steps, forecast, _ = self._forecast(fh, X)
        return self.history_.frame.forecast(self.in_units(forecast), steps)

    def predict_interval(self, fh: Any = None, X: Any = None, coverage: Any = 0.9) -> pd.DataFrame:
        """Intervals that contain the value with probability `coverage` (one, or several), as sktime does.

        Columns are (variable, coverage, "lower" or "upper"). The coverage holds for exchangeable windows; overlapping
        windows of one series are not, so that it is approximate. An interval is infinite where there are fewer than
        coverage / (1 − coverage) held-out errors: 9 for 90 %.
        """
        import pandas as pd

        levels = parameters.probabilities("coverage", coverage)
        steps, bounds = self._bounds(fh, X, levels)
        names = self._variables()
        columns = [(name, level, side) for name in names for level in levels for side in ("lower", "upper")]
        table = [bounds[level][side][:, k] for k, _ in enumerate(names) for level in levels for side in (0, 1)]
        index = self.history_.frame.index.ahead(int(steps[-1]))[steps - 1]
        return pd.DataFrame(np.stack(table, 1)[steps - 1], index, columns=pd.MultiIndex.from_tuples(columns))

    def predict_quantiles(self, fh: Any = None, X: Any = None, alpha: Any = (0.05, 0.95)) -> pd.DataFrame:
        """Quantiles: the bounds of the interval with coverage |1 − 2 alpha|. Columns are (variable, alpha)."""
        import pandas as pd

        alphas = parameters.probabilities("alpha", alpha)
        levels = {each: abs(1 - 2 * each) for each in alphas}
        steps, bounds = self._bounds(fh, X, list(levels.values()))
        names = self._variables()
        columns = [(name, each) for name in names for each in alphas]
        table = [bounds[levels[each]][int(each > 0.5)][:, k] for k, _ in enumerate(names) for each in alphas]
        index = self.history_.frame.index.ahead(int(steps[-1]))[steps - 1]
        return pd.DataFrame(np.stack(table, 1)[steps - 1], index, columns=pd.MultiIndex.from_tuples(columns))

    def _forecast(self, fh: Any, X: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The steps, the forecast up to the last of them (H, K), and the scale of the last window (1, K)."""
        self._check_fitted()
        history = self.history_
        parameters.refuse_outside(self, history.values)
        steps = self.fh_ if fh is None else horizons.relative(fh, history.frame.index)
        ahead, last = int(steps[-1]), np.array([len(history.values) - 1])
        known = history.known(ahead, covariates.future(X, history.frame, self.covariate_names_, ahead))
        forecasts, scales = self.ensemble_.iterated(history.values, known, last, ahead)
        return steps, forecasts[0], scales[0]

    def _bounds(
        self, fh: Any, X: Any, levels: list[float]
    ) -> tuple[np.ndarray, dict[float, tuple[np.ndarray, np.ndarray]]]:
        """The steps, and for every level the lower and upper bounds of all steps ahead, (H, K) each."""
        steps, forecast, scale = self._forecast(fh, X)
        widths = {level: self._widths(scale, level, len(forecast)) for level in levels}
        return steps, {
            level: (self.in_units(forecast - width), self.in_units(forecast + width)) for level, width in widths.items()
        }

    def in_units(self, forecasts: np.ndarray) -> np.ndarray:
        """Forecasts in the units of the series, cut off at `lower` and `upper`."""
        within: np.ndarray = np.clip(self.ensemble_.combination.first.backwards(forecasts), *parameters.bounds(self))
        return within

    def _widths(self, scale: np.ndarray, level: float, ahead: int) -> np.ndarray:
        """Half the width of the intervals, (ahead, K), after `Transform.forwards`; 0 for the median."""
        if ahead > self.horizon_:
            raise GatelabError(
                f"fh has the step {ahead}, and intervals are calibrated for {self.horizon_} steps ahead: fit with "
                f"fh=range(1, {ahead + 1})"
            )
        widths = self.scores_.widths(level, self.adaptive, self.behind_)[0, :ahead] if level else np.zeros((ahead, 1))
        scaled: np.ndarray = scale * widths
        return scaled

    def _variables(self) -> list[Any]:
        """The names of the series; 0 for one without, as in sktime."""
        names = self.history_.frame.columns
        return [0] if names == (None,) else list(names)

    # Judging, keeping.

    def backtest(
        self, y: Any, X: Any = None, fh: Any = None, *, test: float = 0.25, coverage: float = 0.9, ets: bool = True
    ) -> Backtest:
        """Forecast the last part of a series from every step of it, beside persistence, seasonal naive and ETS.

        A copy of this forecaster is fitted once, on what is before; then it is updated step by step. `test` is the
        fraction that is forecast. ETS needs statsmodels.
        """
        from gatelab.estimators.forecasting.backtest import backtest

        return backtest(self, y, X, fh, test, coverage, ets)

    def summary(self) -> str:
        """Describe what was assumed and chosen, how good it was on the held-out part, and infinite intervals."""
        self._check_fitted()
        return words.summary(self)

    def save(self, path: Path | str) -> None:
        """Save to a new directory: the run directories of the networks, and the rest as JSON and arrays."""
        from gatelab.estimators.forecasting.saving import saved

        self._check_fitted()
        with saved(self, Path(path)):
            pass

    @classmethod
    def load(cls, path: Path | str) -> RecurrentForecaster:
        """Load what `save` wrote. Nothing in the directory is executed."""
        from gatelab.estimators.forecasting.saving import load

        return load(Path(path))

    def _check_fitted(self) -> None:
        if not hasattr(self, "ensemble_"):
            raise NotFittedError("this RecurrentForecaster is not fitted yet: call fit(y) first")
