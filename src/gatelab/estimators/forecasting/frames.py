"""Series as the user has them (pandas or NumPy, one or several) in one form, and forecasts in the user's form."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from gatelab import floats
from gatelab.errors import DataError, short
from gatelab.estimators.forecasting.stamps import Stamps
from gatelab.formatting import counted
from gatelab.tasks.own import calendars, gaps
from gatelab.tasks.own.reading import Aggregate, Fill
from gatelab.tasks.own.time_columns import Times

Form = Literal["array", "column array", "series", "frame"]


@dataclass(frozen=True)
class Frame:
    """The steps of a series, in the order of time, without gaps or duplicates."""

    values: np.ndarray  # (S, K) float64
    names: tuple[Any, ...]  # of the columns, as pandas has them
    form: Form
    stamps: Stamps
    notes: dict[str, str] = field(default_factory=dict)  # what was done to it, in words

    def last(self, steps: int) -> Frame:
        """Return the last steps."""
        return replace(self, values=self.values[-steps:], stamps=self.stamps.last(steps))

    def forecast(self, values: np.ndarray, steps: np.ndarray) -> Any:
        """Return forecasts (H, K) at some steps ahead, 1 for the next, in the form that the series had."""
        if self.form in ("array", "column array"):
            picked = values[steps - 1]
            return picked[:, 0] if self.form == "array" else picked
        import pandas as pd

        index = self.stamps.index(int(steps[-1]))[steps - 1]
        if self.form == "series":
            return pd.Series(values[steps - 1, 0], index, name=self.names[0])
        return pd.DataFrame(values[steps - 1], index, columns=list(self.names))


def cleaned(frame: Frame, what: str = "y", fill: Fill | None = None, aggregate: Aggregate | None = None) -> Frame:
    """Return the rows in the order of time, one per step, without missing values.

    Missing values and steps, and times that appear twice, are treated as by the task `files`: refused in words unless
    `fill` or `aggregate` say what to do. Irregular times are passed over.
    """
    frame = _complete(_merged(_ordered(frame), what, aggregate), what, fill)
    return _filled(frame, what, fill)


def joined(before: Frame, new: Frame) -> Frame:
    """Return a series with later rows at its end."""
    if len(new.names) != len(before.names) or (before.form == new.form == "frame" and new.names != before.names):
        raise DataError(
            f"y has the columns {', '.join(map(str, new.names))}: expected those of fit, "
            f"{', '.join(map(str, before.names))}"
        )
    if new.stamps.kind != before.stamps.kind:
        raise DataError(
            f"y has an index of {new.stamps.kind}, and that of fit had {before.stamps.kind}: expected the same kind"
        )
    if before.stamps.times is not None and new.stamps.times is not None:
        last, first = before.stamps.times[-1], new.stamps.times.min()
        if first <= last:
            shown = Times(("index",), before.stamps.times)
            raise DataError(
                f"y begins at {shown.format(first)}, and the series is known up to {shown.format(last)}: expected "
                "later steps; leave out those that are known, or fit again"
            )
    values = np.concatenate([before.values, new.values])
    return replace(before, values=values, stamps=before.stamps.extended(new.stamps), notes={})


def as_given(y: Any, what: str = "y") -> Frame:
    """Read a series (S,), or several (S, K): values with their names and times, as they are."""
    if isinstance(y, Frame):
        return y
    y = floats.checked(y, what)
    if hasattr(y, "index") and hasattr(y, "to_numpy"):
        form: Form = "series" if y.ndim == 1 else "frame"
        names = (y.name,) if form == "series" else tuple(y.columns)
        if wrong := [n for n, dtype in zip(names, _dtypes(y), strict=True) if dtype.kind not in "iufb"]:
            raise DataError(f"{what} has the column {wrong[0]!r}, which is not numeric: expected numbers; leave it out")
        values = y.to_numpy(dtype=np.float64, na_value=np.nan)
        stamps = Stamps.of(y.index, len(y))
    else:
        try:
            values = np.asarray(y, np.float64)
        except (TypeError, ValueError):
            raise DataError(
                f"{what} is {short(y, 60)}: expected a series of numbers, a pandas Series or DataFrame or a NumPy array"
            ) from None
        form = "array" if values.ndim == 1 else "column array"
        names = tuple(range(values.shape[1])) if values.ndim == 2 else (None,)
        stamps = Stamps.of(None, len(values) if values.ndim else 0)
    if values.ndim not in (1, 2) or 0 in values.shape:
        raise DataError(f"{what} has the shape {values.shape}: expected (S,) for one series, (S, K) for several")
    values = values[:, None] if values.ndim == 1 else values
    if np.isinf(values).any():
        row, column = np.argwhere(np.isinf(values))[0]
        raise DataError(f"{what} is {values[row, column]} in row {row}: expected finite numbers, or NaN with fill")
    return Frame(values, names, form, stamps)


def part(frame: Frame, begin: int, end: int) -> Frame:
    """Return some steps of a series, as one that ends there."""
    times = None if frame.stamps.times is None else frame.stamps.times[begin:end]
    return replace(frame, values=frame.values[begin:end], stamps=replace(frame.stamps, times=times, steps=end - begin))


def with_columns(frame: Frame, order: list[int]) -> Frame:
    """Return some of the columns."""
    return replace(frame, values=frame.values[:, order], names=tuple(frame.names[i] for i in order))


def _dtypes(y: Any) -> list[Any]:
    return [y.dtype] if y.ndim == 1 else list(y.dtypes)


def _ordered(frame: Frame) -> Frame:
    """Return the rows in the order of time."""
    times = frame.stamps.times
    if times is None or not (times[1:] < times[:-1]).any():
        return frame
    order = np.argsort(times, kind="stable")
    return _picked(frame, order, order="sorted by time")


def _picked(frame: Frame, rows: np.ndarray, **notes: str) -> Frame:
    assert frame.stamps.times is not None
    steps = frame.stamps.steps + len(rows) - len(frame.values)
    stamps = replace(frame.stamps, times=frame.stamps.times[rows], steps=steps)
    return replace(frame, values=frame.values[rows], stamps=stamps, notes={**frame.notes, **notes})


def _merged(frame: Frame, what: str, aggregate: Aggregate | None) -> Frame:
    """Merge rows of the same time."""
    times = frame.stamps.times
    if times is None or not len(repeated := np.flatnonzero(times[1:] == times[:-1]) + 1):
        return frame
    when = Times(("index",), times).text(repeated[0])
    if aggregate is None:
        raise DataError(
            f"{what} has {when} twice in its index ({counted(len(repeated), 'such row')}): expected one row per time; "
            "aggregate='mean', 'first', 'last' or 'sum' merges them, and reset_index(drop=True) takes the rows as "
            "consecutive steps"
        )
    values = gaps.merged(frame.values, times, aggregate)
    first = np.flatnonzero(np.concatenate([[True], times[1:] != times[:-1]]))
    note = f"{counted(len(repeated), 'row')} with the time of another merged ({aggregate}), first {when}"
    return replace(_picked(frame, first, duplicates=note), values=values)


def _complete(frame: Frame, what: str, fill: Fill | None) -> Frame:
    """Insert missing steps."""
    stamps = frame.stamps
    if stamps.times is None:
        return frame
    shown = Times(("index",), stamps.times)
    regular = calendars.regular(stamps.times)
    if regular is None:
        if len(stamps.times) < 3 or stamps.freq is not None:  # too few to tell, or what pandas knows to be regular
            return frame
        return replace(frame, notes={**frame.notes, "time": "irregular intervals, taken as consecutive steps"})
    if not regular.missing:
        return replace(frame, stamps=stamps.regular())
    row = int(np.flatnonzero(np.diff(regular.positions) > 1)[0])
    absent = shown.format(regular.complete[regular.positions[row] + 1])
    found = f"{counted(regular.missing, 'missing step')}, first {absent}"
    if fill is None:
        raise DataError(
            f"{what} has {shown.text(row)} in row {row}, and then the step {absent} is missing "
            f"({counted(regular.missing, 'missing step')} at an interval of {regular.interval}): fill='interpolate' or "
            "'previous' inserts them; fill='none' takes the rows as consecutive steps"
        )
    if fill == "none":
        return replace(frame, notes={**frame.notes, "gaps": f"{found}; rows are taken as consecutive steps"})
    values = gaps.with_missing_steps(frame.values, regular.positions)
    times = regular.complete.astype(stamps.times.dtype)
    whole = replace(stamps, times=times, steps=stamps.steps + regular.missing).regular()
    return replace(frame, values=values, stamps=whole, notes={**frame.notes, "gaps": f"{found}; filled ({fill})"})


def _filled(frame: Frame, what: str, fill: Fill | None) -> Frame:
    """Fill missing values, or name the first."""
    missing = np.isnan(frame.values)
    if not missing.any():
        return frame
    values = gaps.fill_missing(frame.values, fill)
    if len(rest := np.argwhere(np.isnan(values))):
        row, column = rest[0]
        name = "" if frame.names[column] is None else f", column {frame.names[column]!r}"
        raise DataError(
            f"{what} has a missing value in row {row}{name} ({counted(len(rest), 'such value')}): {gaps.unfilled(fill)}"
        )
    note = f"{counted(int(missing.sum()), 'value')} filled ({fill})"
    return replace(frame, values=values, notes={**frame.notes, "missing values": note})
