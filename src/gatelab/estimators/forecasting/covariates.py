"""Covariates X: further columns that are known in the future, such as holidays or planned prices."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gatelab.data.index import Index
from gatelab.data.series import Series, as_given
from gatelab.errors import DataError

EXPECTED = "covariates have to be known in the future"


def past(X: Any, y: Series, rows: Index) -> tuple[np.ndarray, tuple[Any, ...]]:
    """The covariates at the steps of the series, (S, E), and their names; without any (S, 0).

    `rows` are the times of y as it was given, row by row: those of an X that has none.
    """
    if X is None:
        return np.empty((len(y.values), 0)), ()
    given = as_given(X, "X")
    if given.index.times is None and len(given.values) == rows.steps:
        given = replace(given, index=rows)
    if given.index.times is not None and y.index.times is not None:
        return _at(y.index.times, given, "y"), given.columns
    if len(given.values) != len(y.values):
        raise DataError(f"X has {len(given.values):,} rows and y {len(y.values):,}: expected a row of X for each of y")
    return _finite(given.values), given.columns


def later(X: Any, y: Series, rows: Index, names: tuple[Any, ...]) -> np.ndarray:
    """The covariates of steps that continue a series, (S, E): those of fit. `rows` as for `past`."""
    if not names:
        return np.empty((len(y.values), 0))
    if X is None:
        raise DataError(f"X is missing: expected {', '.join(map(str, names))} for each row of y")
    given = _same_columns(X, names)
    return past(given, y, rows)[0]


def future(X: Any, y: Series, names: tuple[Any, ...], horizon: int) -> np.ndarray:
    """The covariates of the steps ahead, (horizon, E)."""
    if not names:
        if X is not None:
            raise DataError("X was given, and the forecaster was fitted without it: leave it out, or fit with X")
        return np.empty((horizon, 0))
    listed = ", ".join(map(str, names))
    if X is None:
        raise DataError(
            f"the forecaster was fitted with the covariates {listed}: pass X with their values for the {horizon} steps "
            "ahead"
        )
    given = _same_columns(X, names)
    times = y.index.future(horizon)
    if given.index.times is not None and times is not None:
        return _at(times, given, "the forecast")
    if len(given.values) < horizon:
        raise DataError(
            f"X has {len(given.values)} rows: expected {horizon}, one for each step ahead that the networks answer"
        )
    return _finite(given.values[:horizon])


def _same_columns(X: Any, names: tuple[Any, ...]) -> Series:
    """Read X, and put the columns of a DataFrame in the order of fit."""
    given = as_given(X, "X")
    listed = ", ".join(map(str, names))
    if len(given.columns) != len(names) or (given.form == "frame" and set(given.columns) != set(names)):
        raise DataError(f"X has the columns {', '.join(map(str, given.columns))}: expected {listed}")
    return given.with_columns([given.columns.index(name) for name in names]) if given.form == "frame" else given


def _at(times: np.ndarray, given: Series, whose: str) -> np.ndarray:
    """The rows of these times."""
    assert given.index.times is not None
    row = dict[Any, int]()
    for i, time in enumerate(given.index.times.tolist()):
        first = row.setdefault(time, i)
        if not np.array_equal(given.values[i], given.values[first], equal_nan=True):
            raise DataError(f"X has different rows for {time}, {first} and {i}: expected one row per time; merge them")
    if absent := [time for time in times.tolist() if time not in row]:
        raise DataError(
            f"X has no row for {absent[0]} ({len(absent)} of {len(times)} steps): expected the times of {whose}; "
            f"{EXPECTED}"
        )
    return _finite(given.values[[row[time] for time in times.tolist()]])


def _finite(values: np.ndarray) -> np.ndarray:
    if np.isnan(values).any():
        row = int(np.argwhere(np.isnan(values))[0][0])
        raise DataError(f"X has a missing value in row {row}: expected numbers; fill them before, as X.ffill() does")
    return values
