"""Time series in one form, one or several in one index, whether they come from a file, from pandas or from NumPy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Literal

import numpy as np

from gatelab import floats
from gatelab.data.advice import Location, as_python, options_spelled
from gatelab.data.index import Index
from gatelab.data.reading import Aggregate, Fill, Reading
from gatelab.data.regular import IRREGULAR, Rules, Steps, regularize
from gatelab.data.timestamps import Times
from gatelab.errors import DataError, short

Form = Literal["array", "column array", "series", "frame"]
RESET = "reset_index(drop=True)"  # what makes consecutive steps of an index


@dataclass(frozen=True)
class Series:
    """The steps of a series: in the order of time, without gaps or duplicates once it is `regular`."""

    values: np.ndarray  # (S, D) float64
    columns: tuple[Any, ...]  # their names, as pandas has them; those that are forecast come first
    index: Index
    form: Form = "frame"
    _: KW_ONLY
    num_targets: int = 0  # columns that are forecast; the others are known in the future
    notes: Mapping[str, str] = field(default_factory=dict)  # what was done to it, in words
    # Of a file, or of arrays that were named as a task:
    source: str = "y"
    layout: str = "series: one row per step"
    lines: np.ndarray | None = None  # (S,), the line of each step, or of the step before for one that was missing
    parts: np.ndarray | None = None  # (S,): 0, 1, 2 for training, validation and test
    split_by: str = ""
    filled: np.ndarray | None = None  # (S, D), which values were missing
    ignored: tuple[str, ...] = ()  # columns that are not used
    reading: Reading = field(default_factory=Reading)

    @property
    def stamps(self) -> np.ndarray | None:
        """The dates of its last steps, or of all, in seconds; None if there are none."""
        return self.index.seconds

    @property
    def target_names(self) -> tuple[Any, ...]:
        """The columns that are forecast."""
        return self.columns[: self.num_targets]

    @property
    def input_names(self) -> tuple[Any, ...]:
        """The columns that are read, and have to be known in the future."""
        return self.columns[self.num_targets :]

    def last(self, steps: int) -> Series:
        """The last steps, in an index that goes on where it did."""
        return self._with(self.values[-steps:], self.index.last(steps))

    def _with(self, values: np.ndarray, index: Index) -> Series:
        """Other steps, of which it is not known where they come from."""
        return replace(self, values=values, index=index, lines=None, parts=None, filled=None)

    def part(self, begin: int, end: int) -> Series:
        """Some steps, as a series that ends there."""
        times = self.index.times
        if times is not None:
            unknown = self.index.steps - len(times)  # the first ones
            times = times[max(0, begin - unknown) : max(0, end - unknown)]
        return self._with(self.values[begin:end], replace(self.index, times=times, steps=end - begin))

    def with_columns(self, order: list[int]) -> Series:
        """Some of the columns; those that are forecast come first."""
        return replace(
            self,
            values=self.values[:, order],
            columns=tuple(self.columns[i] for i in order),
            num_targets=sum(i < self.num_targets for i in order),
            filled=None if self.filled is None else self.filled[:, order],
        )

    def regular(self, what: str = "y", fill: Fill | None = None, aggregate: Aggregate | None = None) -> Series:
        """The rows in the order of time, one per step, without missing values.

        Missing values and steps, and times that appear twice, are treated as by the task `files`: refused in words
        unless `fill` or `aggregate` say what to do. Irregular times are passed over.
        """
        times = self.index.times
        steps = Steps(self.values, np.arange(len(self.values)), times)
        named = None if times is None else Times(("time",), times)
        rules = Rules(
            lambda row, column: Location(what, row=row, column=None if column is None else self.columns[column]),
            named, fill, aggregate, whole=what, consecutive=RESET,
        )  # fmt: skip
        with options_spelled(as_python):
            found = regularize([steps], rules)
        (steps,), notes = found.steps, {**self.notes, **found.notes}
        if found.interval is None and times is not None and self.index.freq is None and len(times) > 2:
            notes["time"] = IRREGULAR
        index = replace(self.index, times=steps.times, steps=self.index.steps + len(steps.values) - len(self.values))
        index = index.regular() if found.interval is not None and found.is_complete else index
        return replace(self._with(steps.values, index), notes=notes)

    def followed_by(self, new: Series) -> Series:
        """The series with later rows at its end."""
        if len(new.columns) != len(self.columns) or (self.form == new.form == "frame" and new.columns != self.columns):
            raise DataError(
                f"y has the columns {', '.join(map(str, new.columns))}: expected those of fit, "
                f"{', '.join(map(str, self.columns))}"
            )
        if new.index.kind != self.index.kind:
            raise DataError(
                f"y has an index of {new.index.kind}, and that of fit had {self.index.kind}: expected the same kind"
            )
        if self.index.times is not None and new.index.times is not None:
            last, first = self.index.times[-1], new.index.times.min()
            if first <= last:
                shown = Times(("time",), self.index.times)
                raise DataError(
                    f"y begins at {shown.format(first)}, and the series is known up to {shown.format(last)}: expected "
                    "later steps; leave out those that are known, or fit again"
                )
        values = np.concatenate([self.values, new.values])
        return replace(self._with(values, self.index.extended(new.index)), notes={})

    def forecast(self, values: np.ndarray, steps: np.ndarray) -> Any:
        """Forecasts (H, K) at some steps ahead, 1 for the next, in the form that the series had."""
        if self.form in ("array", "column array"):
            picked = values[steps - 1]
            return picked[:, 0] if self.form == "array" else picked
        import pandas as pd

        index = self.index.ahead(int(steps[-1]))[steps - 1]
        if self.form == "series":
            return pd.Series(values[steps - 1, 0], index, name=self.columns[0])
        return pd.DataFrame(values[steps - 1], index, columns=list(self.columns))


def as_given(y: Any, what: str = "y") -> Series:
    """One series (S,), or several (S, K), of pandas or NumPy: values with their names and times, as they are."""
    if isinstance(y, Series):
        return y
    y = floats.checked(y, what)
    if hasattr(y, "index") and hasattr(y, "to_numpy"):
        form: Form = "series" if y.ndim == 1 else "frame"
        columns = (y.name,) if form == "series" else tuple(y.columns)
        if wrong := [n for n, dtype in zip(columns, _dtypes(y), strict=True) if dtype.kind not in "iufb"]:
            raise DataError(f"{what} has the column {wrong[0]!r}, which is not numeric: expected numbers; leave it out")
        values = y.to_numpy(dtype=np.float64, na_value=np.nan)
        index = Index.of(y.index, len(y))
    else:
        try:
            values = np.asarray(y, np.float64)
        except (TypeError, ValueError):
            raise DataError(
                f"{what} is {short(y, 60)}: expected a series of numbers, a pandas Series or DataFrame or a NumPy array"
            ) from None
        form = "array" if values.ndim == 1 else "column array"
        columns = tuple(range(values.shape[1])) if values.ndim == 2 else (None,)
        index = Index.of(None, len(values) if values.ndim else 0)
    if values.ndim not in (1, 2) or 0 in values.shape:
        raise DataError(f"{what} has the shape {values.shape}: expected (S,) for one series, (S, K) for several")
    values = values[:, None] if values.ndim == 1 else values
    if np.isinf(values).any():
        row, column = np.argwhere(np.isinf(values))[0]
        raise DataError(f"{what} is {values[row, column]} in row {row}: expected finite numbers, or NaN with fill")
    return Series(values, columns, index, form, num_targets=values.shape[1], source=what)


def _dtypes(y: Any) -> list[Any]:
    return [y.dtype] if y.ndim == 1 else list(y.dtypes)
