"""The directory of a forecaster in use: its series continued, from its end or from newer values in a file.

reading.json, beside what `RecurrentForecaster.save` writes, has the columns and how their file was read.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from gatelab import sealed
from gatelab.data import series_tables, timestamps
from gatelab.data.reading import Reading
from gatelab.data.series import Series
from gatelab.disk import within
from gatelab.errors import DataError, GatelabError, first_problem
from gatelab.estimators.forecasting import words
from gatelab.estimators.forecasting.forecaster import RecurrentForecaster
from gatelab.estimators.forecasting.history import History
from gatelab.estimators.forecasting.saving import saved
from gatelab.fitting.series_fit import COVERAGE, Plan, SeriesFit, save_backtest
from gatelab.formatting import counted
from gatelab.training.run import FORECASTER
from gatelab.use.forecasting import Forecast, check_steps

READING = "reading.json"


class FileReading(BaseModel):
    """How new files are read: as the first one was."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    columns: tuple[str, ...] = ()  # that are forecast
    inputs: tuple[str, ...] = ()  # the covariates
    header: bool | None = None
    reading: Reading = Reading()
    plan: str = ""  # the identity of the fit


def holds_forecaster(path: Path) -> bool:
    """Whether a directory holds a forecaster."""
    return (path / FORECASTER).is_file()


def save(fit: SeriesFit, path: Path, write_more: Callable[[Path], None]) -> None:
    """Write the directory, complete or not at all; `write_more` adds to it."""
    with saved(fit.forecaster, path) as made:
        task = fit.plan.task
        kept = FileReading(
            columns=fit.plan.names,
            inputs=fit.plan.covariates,
            header=task.header,
            reading=task.content.reading,
            plan=fit.plan.identity,
        )
        sealed.write_json(made / READING, kept.model_dump(mode="json"))
        save_backtest(fit, made)
        write_more(made)


def is_done(plan: Plan, path: Path) -> bool:
    """Whether a directory holds what this fit makes: a process may have been killed just after saving it."""
    return holds_forecaster(path) and (path / READING).is_file() and _kept(path).plan == plan.identity


def forecast(
    path: Path,
    steps: int | None = None,
    data: Path | None = None,
    future: Path | None = None,
    coverage: float | None = None,
    lower: float | None = None,
    upper: float | None = None,
) -> Forecast:
    """Forecast the series of a forecaster, from its end or from newer values, by default as far as its horizon.

    lower, upper: values that the series cannot go beyond; by default those of the fit.
    """
    forecaster = RecurrentForecaster.load(path)
    forecaster.set_params(
        lower=forecaster.lower if lower is None else lower, upper=forecaster.upper if upper is None else upper
    )
    steps = forecaster.horizon_ if steps is None else steps
    check_steps(steps)
    how = _reading(path, forecaster)
    if data is not None:
        _continue(forecaster, how, data)
    X = None if future is None else _future(forecaster, how, future)
    if forecaster.covariate_names_ and X is None:
        raise GatelabError(
            f"the forecaster reads {', '.join(map(str, forecaster.covariate_names_))}: give the values of the "
            f"{counted(steps, 'step')} ahead, --future FILE.csv"
        )
    return forecast_ahead(forecaster, steps, X, coverage)


def forecast_ahead(
    forecaster: RecurrentForecaster, steps: int, X: Any = None, coverage: float | None = None
) -> Forecast:
    """A forecast with its intervals; they are NaN beyond the horizon that they are calibrated for."""
    coverage = COVERAGE if coverage is None else coverage
    frame, calibrated = forecaster.history_.frame, min(steps, forecaster.horizon_)
    values = np.asarray(forecaster.predict(range(1, steps + 1), X=X), np.float64).reshape(steps, -1)
    known = forecaster.predict_interval(range(1, calibrated + 1), X=X, coverage=coverage).to_numpy(np.float64)
    bounds = np.full((2, *values.shape), np.nan)
    bounds[:, :calibrated] = known.reshape(calibrated, -1, 2).transpose(2, 0, 1)
    names = tuple("value" if name is None else str(name) for name in frame.columns)
    advice = words.unbounded(forecaster, bounds[0], "--lower 0")
    return Forecast(names, frame, values, frame.index.dates_ahead(steps), bounds[0], bounds[1], coverage, advice)


def _reading(path: Path, forecaster: RecurrentForecaster) -> FileReading:
    """How files are read; of a forecaster that was saved in Python, by the names of its columns."""
    if not (path / READING).is_file():
        columns = tuple(str(name) for name in forecaster.history_.frame.columns if name is not None)
        return FileReading(columns=columns, inputs=tuple(map(str, forecaster.covariate_names_)))
    return _kept(path)


def _kept(path: Path) -> FileReading:
    try:
        return FileReading.model_validate(sealed.read_json(within(path, path / READING)))
    except ValidationError as error:
        raise DataError(f"{path / READING} cannot be read: {first_problem(error)}") from None


def _read(how: FileReading, path: Path, columns: tuple[str, ...]) -> Series:
    if not columns:
        raise GatelabError("the forecaster was fitted without names of columns: no file can be read for it")
    return series_tables.read(path, columns, how.reading.resolved(split=None, header=how.header))


def _continue(forecaster: RecurrentForecaster, how: FileReading, path: Path) -> None:
    """Continue the series by the rows of a file that are later than what is known. A file without times is the series
    itself, with newer values at its end.
    """
    given = _read(how, path, (*how.columns, *how.inputs))
    count, history = len(given.values), forecaster.history_
    y = given.with_columns(list(range(len(how.columns))))
    X = given.with_columns(list(range(len(how.columns), len(given.columns))))
    if not history.frame.index.are_dates or history.frame.index.times is None:
        needed = forecaster.ensemble_.combination.context
        if count < needed:
            raise DataError(
                f"{path} has {counted(count, 'row')}: expected at least {needed}, the steps that the networks read: "
                "without times, the file has to hold the series and its newer values"
            )
        forecaster.history_ = History(y, X.values, history.cycles)  # its gaps are filled
        return
    if given.index.times is None or len(given.index.times) != count:
        raise DataError(f"{path} has no times, and the series of the forecaster has: expected a column of times")
    known = history.frame.index.times[-1]
    later = int((given.index.times > known).sum())
    if not later:
        first, last = timestamps.format_times(np.array([known, given.index.times[-1]]).astype("datetime64[s]"))
        raise DataError(f"{path} ends at {last}, and the series is known up to {first}: expected later rows")
    forecaster.update(y.part(count - later, count), X=X.part(count - later, count) if how.inputs else None)


def _future(forecaster: RecurrentForecaster, how: FileReading, path: Path) -> Series:
    """The covariates of the steps ahead."""
    if not how.inputs:
        raise GatelabError("--future was given, and the forecaster has no covariates: leave it out")
    return _read(how, path, how.inputs)
