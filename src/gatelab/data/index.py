"""The index of a series: which times its steps have, and how it continues."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from gatelab.data import time_intervals, timestamps
from gatelab.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

Kind = Literal["positions", "numbers", "dates", "periods"]
# Steps per season by the unit of a frequency.
SEASONS = {
    "Y": 1, "Q": 4, "M": 12, "W": 52, "B": 5, "D": 7, "h": 24, "min": 1440, "s": 60,
}  # fmt: skip


@dataclass(frozen=True)
class Index:
    """When the steps of a series are, or only their number."""

    kind: Kind
    steps: int  # S, of the whole series
    times: np.ndarray | None = None  # (S,) or the last of them; datetime64[us], int64 or float64
    freq: str | None = None  # as pandas writes it
    unit: str = "us"  # resolution of the index
    zone: str | None = None  # of dates
    utc: bool = False  # whether the times of a zone are in UTC, not in local time
    name: str | None = None

    @classmethod
    def of(cls, index: pd.Index | None, steps: int) -> Index:
        """Read an index; None for an array, whose steps have positions only."""
        import pandas as pd

        if index is None:
            return cls("positions", steps)
        name = None if index.name is None else str(index.name)
        if isinstance(index, pd.MultiIndex):
            raise DataError(
                f"y has an index of {index.nlevels} levels: expected one level, the time; columns of a DataFrame are "
                "forecast together, and a panel needs one forecaster per series"
            )
        if index.hasnans:
            raise DataError("y has a missing time in its index: expected a time for every row; drop these rows")
        if isinstance(index, pd.PeriodIndex):
            times = index.to_timestamp(how="start").to_numpy().astype("datetime64[us]")
            return cls("periods", steps, times, index.freqstr, name=name)
        if isinstance(index, pd.DatetimeIndex):
            return _dates(index, steps, name)
        if not pd.api.types.is_numeric_dtype(index.dtype) or index.dtype == bool:
            raise DataError(
                f"y has an index of {index.dtype}, from {index[0]!r}: expected dates, periods or numbers; "
                "pd.to_datetime converts text"
            )
        integers = index.dtype.kind in "iu"
        if integers and index.max() > np.iinfo(np.int64).max:
            raise DataError(
                f"y has {index.max()} in its index: expected integers below {2**63:,}; subtract an offset from all"
            )
        return cls("numbers", steps, index.to_numpy().astype(np.int64 if integers else np.float64), name=name)

    @classmethod
    def at(cls, seconds: np.ndarray | None, steps: int) -> Index:
        """The dates of the last steps, or of all, datetime64[s]; positions without them."""
        if seconds is None:
            return cls("positions", steps)
        return cls("dates", steps, seconds.astype("datetime64[us]"), unit="s")

    @property
    def are_dates(self) -> bool:
        """Whether steps have dates."""
        return self.kind in ("dates", "periods")

    def season(self) -> int:
        """The usual season of the frequency: 12 for months, 7 for days, 24 for hours, 1 if there is none."""
        found = re.fullmatch(r"(\d*)([A-Za-z]+?)([SE](?=-|$))?(-\w+)?", self.frequency() or "")
        if found is None:
            return 1
        every, unit = int(found[1] or 1), found[2]
        unit = unit if unit in SEASONS else unit[:1]
        steps = SEASONS.get(unit, 1)
        return steps // every if steps % every == 0 else 1

    def frequency(self) -> str | None:
        """The frequency as pandas writes it: that of the index, or what its times show."""
        import pandas as pd

        if self.freq is not None or self.kind != "dates" or self.times is None or len(self.times) < 3:
            return self.freq
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pandas 4 will return an offset, which has its text as freqstr
            found = pd.infer_freq(pd.DatetimeIndex(self.times))
        return None if found is None else str(getattr(found, "freqstr", found))

    def regular(self) -> Index:
        """The same with the frequency that the times show."""
        return replace(self, freq=self.frequency())

    @property
    def seconds(self) -> np.ndarray | None:
        """The dates of the steps, datetime64[s]; None if there are none, or if they have fractions of seconds."""
        return timestamps.to_seconds(self.times) if self.times is not None and self.are_dates else None

    def future(self, steps: int) -> np.ndarray | None:
        """The times of the next steps; None if there are none, or if they are irregular."""
        if self.times is None:
            return None
        if self.are_dates and self.freq is not None:
            return self._continued(steps)
        found = time_intervals.regular(self.times)
        if found is None or (self.are_dates and found.missing):
            return None
        return found.future(steps)

    def dates_ahead(self, steps: int) -> np.ndarray | None:
        """The dates of the next steps, datetime64[s]; None if there are none, or if they are irregular."""
        times = self.future(steps) if self.are_dates else None
        return None if times is None else timestamps.to_seconds(times)

    def _continued(self, steps: int) -> np.ndarray:
        import pandas as pd

        assert self.times is not None
        if self.kind == "periods":
            last = pd.Period(self.times[-1], freq=self.freq)
            periods = pd.period_range(last + 1, periods=steps, freq=self.freq)
            return np.asarray(periods.to_timestamp(how="start").to_numpy().astype("datetime64[us]"))
        dates = pd.date_range(pd.Timestamp(self.times[-1]), periods=steps + 1, freq=self.freq)
        return np.asarray(dates[-steps:].to_numpy().astype("datetime64[us]"))

    def extended(self, new: Index) -> Index:
        """The index with that of later steps at the end."""
        times = None if self.times is None or new.times is None else np.concatenate([self.times, new.times])
        return replace(self, steps=self.steps + new.steps, times=times)

    def last(self, steps: int) -> Index:
        """The same with the times of the last steps only."""
        return replace(self, times=None if self.times is None else self.times[-steps:])

    def ahead(self, steps: int) -> pd.Index:
        """The index of the next steps, as pandas has it; positions if times are irregular."""
        import pandas as pd

        times = self.future(steps)
        if times is None:
            return pd.RangeIndex(self.steps, self.steps + steps)
        if self.kind == "periods":
            return pd.PeriodIndex(pd.DatetimeIndex(times), freq=self.freq, name=self.name)
        if self.kind == "dates":
            dates = pd.DatetimeIndex(times, name=self.name).as_unit(self.unit)
            if self.zone is None:
                return pd.DatetimeIndex(dates, freq=self.freq)
            if self.utc:
                return dates.tz_localize("UTC").tz_convert(self.zone)
            return dates.tz_localize(self.zone, ambiguous=False, nonexistent="shift_forward")
        numbers = pd.Index(times, name=self.name)
        step = int(times[1] - times[0]) if len(times) > 1 and times.dtype.kind == "i" else 1
        if times.dtype.kind == "i" and step > 0:
            return pd.RangeIndex(int(times[0]), int(times[-1]) + step, step, name=self.name)
        return numbers


def _dates(index: Any, steps: int, name: str | None) -> Index:
    """Read an index of dates. In a time zone, hours are regular in UTC, and days in local time."""
    between = np.diff(np.unique(index.asi8)) / 10 ** {"s": 0, "ms": 3, "us": 6, "ns": 9}[index.unit]
    utc = index.tz is not None and bool((between < 23 * 3600).any())
    naive = index if index.tz is None else index.tz_convert("UTC").tz_localize(None) if utc else index.tz_localize(None)
    zone = None if index.tz is None else str(index.tz)
    times = naive.to_numpy().astype("datetime64[us]")
    freq = index.freq if index.freq is None or index.freq.n > 0 else -index.freq  # newest first: it counts back
    return Index("dates", steps, times, None if freq is None else freq.freqstr, index.unit, zone, utc, name)
