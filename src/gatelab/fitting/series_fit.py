"""A fit to a series: a forecaster with prediction intervals, and its backtest beside naive forecasts."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from gatelab.data.index import Index
from gatelab.data.series import Series
from gatelab.disk import write_text
from gatelab.errors import GatelabError, unknown
from gatelab.estimators.forecasting.backtest import Backtest
from gatelab.estimators.forecasting.forecaster import RecurrentForecaster
from gatelab.estimators.forecasting.parameters import BATCH, LARGEST_SEASON, recipe
from gatelab.formatting import counted
from gatelab.lang.document import digest
from gatelab.sealed import sum_of
from gatelab.tasks.own.files import Files
from gatelab.training.config import Key
from gatelab.training.run import BACKTEST

HORIZON = 12  # steps ahead by default, for series without a season
TEST, LONGEST_TEST = 0.25, 1_000  # the last part of a series, and steps at most
COVERAGE = 0.9
LONGEST_ETS, LARGEST_ETS_SEASON = 1_500, 24  # steps, beyond which exponential smoothing takes minutes


@dataclass(frozen=True)
class Plan:
    """A series, the forecaster that it gets, and the part that it is tested on."""

    task: Files
    forecaster: RecurrentForecaster  # not fitted
    season: int
    horizon: int
    horizon_given: bool
    test: int  # steps

    @cached_property
    def series(self) -> Series:
        """The series, with a time for every step or for none."""
        assert self.task.series is not None
        series = self.task.series
        has_times = series.index.times is not None and len(series.index.times) == len(series.values)
        return series if has_times else replace(series, index=Index.at(None, len(series.values)))

    @property
    def values(self) -> np.ndarray:
        """What is forecast, (S, K)."""
        return self.y.values

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that are forecast."""
        return self.series.target_names

    @property
    def covariates(self) -> tuple[str, ...]:
        """The columns that are read and have to be known in the future."""
        return self.series.input_names

    @property
    def train(self) -> int:
        """The steps before the test part."""
        return len(self.values) - self.test

    @cached_property
    def identity(self) -> str:
        """A checksum of all that the result depends on."""
        parameters = self.forecaster.get_params()
        del parameters["cell"]
        total = hashlib.sha256(np.ascontiguousarray(self.series.values).tobytes())
        total.update(b"" if self.stamps is None else self.stamps.tobytes())
        cell = digest(recipe(self.forecaster).model.equations())
        return sum_of([parameters, cell, self.names, self.covariates, self.horizon, self.test, total.hexdigest()])

    @property
    def has_ets(self) -> bool:
        """Whether exponential smoothing is compared."""
        is_quick = len(self.values) <= LONGEST_ETS and self.season <= LARGEST_ETS_SEASON
        return is_quick and find_spec("statsmodels") is not None

    @property
    def why_no_ets(self) -> str:
        """Why not."""
        if self.has_ets:
            return ""
        if find_spec("statsmodels") is None:
            return "ETS is not compared: statsmodels is not installed (pip install 'gatelab[forecast]')"
        return (
            f"ETS is not compared: it takes minutes for more than {LONGEST_ETS:,} steps or a season of more than "
            f"{LARGEST_ETS_SEASON}"
        )

    @cached_property
    def y(self) -> Series:
        """What is forecast."""
        return self.series.with_columns(list(range(len(self.names))))

    @cached_property
    def X(self) -> Series | None:
        """The covariates."""
        later = range(len(self.names), len(self.series.columns))
        return self.series.with_columns(list(later)) if self.covariates else None

    @property
    def stamps(self) -> np.ndarray | None:
        """The time of every step, datetime64[s]; None if there are none."""
        return self.series.stamps


@dataclass(frozen=True)
class Backtested:
    """A plan and its backtest."""

    plan: Plan
    backtest: Backtest


@dataclass(frozen=True)
class SeriesFit(Backtested):
    """A fitted forecaster and its backtest."""

    forecaster: RecurrentForecaster


def plan(
    task: Files,
    *,
    horizon: int | None,
    cell: str | None,
    epochs: int | None,
    seed: int,
    threads: int | None,
    changes: Mapping[Key, Any],
) -> Plan:
    """Decide what the forecaster is given; `changes` are its parameters by name."""
    forecaster = _forecaster(task, cell, seed, changes)
    steps = len(task.content.values)
    if threads is not None:
        forecaster.set_params(n_jobs=_whole("--threads", threads))
    if epochs is not None:
        if any(key[0] == "num_steps" for key in changes):
            raise GatelabError("--epochs and --set num_steps both say how long networks are trained: leave one out")
        forecaster.set_params(num_steps=math.ceil(_whole("--epochs", epochs) * steps / BATCH))
    test = steps - task.cuts[2] if task.content.parts is not None else min(max(2, round(TEST * steps)), LONGEST_TEST)
    made = Plan(task, forecaster, 1, 1, horizon is not None, test)
    season = forecaster.season or made.series.index.season()
    usual = season if 1 < season <= LARGEST_SEASON else HORIZON
    chosen = min(usual, max(1, test // 2)) if horizon is None else horizon
    if not 1 <= chosen <= test - bool(made.covariates):
        raise GatelabError(
            f"--horizon {horizon}: expected 1 to {test - bool(made.covariates)} steps: the test part, the last "
            f"{counted(test, 'step')} of {steps:,}, has to hold a whole forecast"
        )
    return Plan(task, forecaster, season, chosen, horizon is not None, test)


def _whole(flag: str, value: int) -> int:
    if value < 1:
        raise GatelabError(f"{flag} is {value}: expected an integer of at least 1")
    return value


def _forecaster(task: Files, cell: str | None, seed: int, changes: Mapping[Key, Any]) -> RecurrentForecaster:
    parameters = {".".join(map(str, key)): value for key, value in changes.items()}
    forecaster = RecurrentForecaster(random_state=seed, fill=task.fill, aggregate=task.aggregate)
    for name in parameters:
        if name not in forecaster.get_params() or name in ("random_state", "fill", "aggregate", "horizon", "n_jobs"):
            known = [
                each for each in forecaster.get_params() if each not in ("random_state", "fill", "aggregate", "n_jobs")
            ]
            raise unknown("parameter of RecurrentForecaster in --set", name, known)
    chosen = parameters | ({} if cell is None else {"cell": cell})
    forecaster.set_params(**chosen)
    return forecaster


def fit_whole(given: Backtested) -> SeriesFit:
    """Fit the forecaster on the whole series."""
    plan = given.plan
    forecaster = plan.forecaster.fit(plan.y, X=plan.X, fh=range(1, plan.horizon + 1))
    return SeriesFit(plan, given.backtest, forecaster)


def run_backtest(given: Plan) -> Backtested:
    """Fit on what is before the test part, and forecast from every step of it."""
    share, fh = given.test / len(given.values), range(1, given.horizon + 1)
    outcome = given.forecaster.backtest(given.y, X=given.X, fh=fh, test=share, coverage=COVERAGE, ets=given.has_ets)
    return Backtested(given, outcome)


def save_backtest(given: Backtested, path: Path) -> None:
    """Write the table of errors by method and step ahead."""
    write_text(path / BACKTEST, given.backtest.table().to_csv())
