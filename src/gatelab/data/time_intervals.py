"""Regular intervals: whether times follow a clock or a calendar, which steps are missing, and which come next."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

UNITS = (("week", 604_800), ("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1))
TOLERANCE = 1e-3  # of an interval, for times that are floating-point numbers
LARGEST = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Regular:
    """Times at a regular interval, of which some may be missing."""

    interval: str  # in words: 1 hour, 1 business day
    step: Any  # an offset of pandas, or a number
    positions: np.ndarray  # (S,) int64: the number of intervals since the first time
    complete: np.ndarray  # all times from the first to the last

    @property
    def missing(self) -> int:
        """The number of missing steps."""
        return len(self.complete) - len(self.positions)

    def in_words(self) -> str:
        """The interval as a fact: one step per hour, interval 0.5."""
        if self.complete.dtype.kind != "M":
            return f"interval {self.interval}"
        return f"one step every {self.interval}".replace("every 1 ", "per ")

    def future(self, steps: int) -> np.ndarray | None:
        """The times of the next steps, (steps,); None where integers end."""
        last = self.complete[-1]
        if self.complete.dtype.kind == "M":
            return _dates(last, self.step, steps + 1)[1:]
        if self.complete.dtype.kind == "i" and int(last) + steps * int(self.step) > LARGEST:
            return None
        return np.asarray(last + np.arange(1, steps + 1) * self.complete.dtype.type(self.step))


def regular(times: np.ndarray, base: float | None = None) -> Regular | None:
    """The interval of increasing times, datetime64 or numbers; None if they are irregular.

    At least half of the times follow one interval after the one before, and no more are missing than are there. Of
    several calendars (days or business days), the one with the fewest missing steps counts. `base` is the interval of
    many sequences, if that is known to be regular; of one sequence, any number of steps may be missing then.
    """
    if len(times) < 2:
        return None
    is_date = times.dtype.kind == "M"
    found = [*_clock(times, base), *(_calendar(times) if is_date else ())]
    return min(found, key=lambda each: each.missing, default=None)


def future(times: np.ndarray, steps: int) -> np.ndarray | None:
    """The times of the next steps, (steps,); None if there are gaps, or if the intervals are irregular."""
    found = regular(times)
    return None if found is None or found.missing else found.future(steps)


def typical_interval(intervals: np.ndarray) -> float:
    """The lower median, which is the interval of a regular series with gaps."""
    return float(np.sort(intervals)[(len(intervals) - 1) // 2])


def _clock(times: np.ndarray, base: float | None) -> Iterator[Regular]:
    """A fixed interval."""
    import pandas as pd

    is_date = times.dtype.kind == "M"
    numbers = times.astype("datetime64[us]").astype(np.int64) if is_date else times
    few = base is None
    base = typical_interval(np.diff(numbers)) if base is None else base
    positions = _positions((numbers - numbers[0]) / base, TOLERANCE, few)
    if positions is None:
        return
    count = int(positions[-1]) + 1
    if is_date:
        step = pd.Timedelta(int(base), "us")
        yield Regular(duration(base), step, positions, _dates(times[0], step, count))
    else:
        ahead = np.arange(count) * base
        complete = times[0] + (ahead.astype(np.int64) if times.dtype.kind == "i" else ahead)
        yield Regular(f"{base:.6g}", base, positions, complete)


def _calendar(times: np.ndarray) -> Iterator[Regular]:
    """Business days, and months, quarters or years: the same day of every month, or its last one."""
    import pandas as pd

    days = times.astype("datetime64[D]")
    if (days == times).all() and np.is_busday(days).all():
        yield from _at_offsets(times, "1 business day", pd.offsets.BDay(), np.busday_count(days[0], days))
    months = times.astype("datetime64[M]")
    since = (months - months[0]).astype(np.int64)
    if (np.diff(since) < 1).any():
        return
    base = int(typical_interval(np.diff(since)))
    interval = _count(base // 12, "year") if base % 12 == 0 else _count(base, "month")
    for within, offset in (
        (times - months.astype("datetime64[us]"), pd.DateOffset(months=base)),
        ((months + 1).astype("datetime64[us]") - times, pd.offsets.MonthEnd(base)),
    ):
        if (within == within[0]).all():
            yield from _at_offsets(times, interval, offset, since / base)
            return


def _at_offsets(times: np.ndarray, interval: str, offset: Any, ratios: np.ndarray) -> Iterator[Regular]:
    positions = _positions(ratios)
    if positions is None:
        return
    complete = _dates(times[0], offset, int(positions[-1]) + 1)
    if (complete[positions] == times).all():  # not the 31st, which some months do not have
        yield Regular(interval, offset, positions, complete)


def _positions(ratios: np.ndarray, tolerance: float = 0.0, few: bool = True) -> np.ndarray | None:
    """The whole numbers of intervals since the first time, if they are regular; `few`: with few gaps."""
    positions = np.round(ratios).astype(np.int64)
    steps = np.diff(positions)
    if (np.abs(ratios - positions) > tolerance * np.maximum(1, positions * 1e-3)).any() or (steps < 1).any():
        return None
    if few and (2 * (steps == 1).sum() < len(steps) or positions[-1] + 1 > 2 * len(positions)):
        return None
    return positions


def _dates(first: np.datetime64, step: pd.DateOffset, count: int) -> np.ndarray:
    """So many dates from the first on, datetime64[us]."""
    import pandas as pd

    dates = pd.date_range(pd.Timestamp(first).as_unit("us"), periods=count, freq=step, unit="us")
    return np.asarray(dates.to_numpy().astype("datetime64[us]"))


def duration(microseconds: float) -> str:
    """A time span in its largest whole unit: 15 minutes."""
    seconds = microseconds / 1e6
    for name, size in UNITS:
        if seconds >= size and seconds % size == 0:
            return _count(round(seconds / size), name)
    return f"{seconds:g} seconds"


def _count(number: int, unit: str) -> str:
    return f"{number:,} {unit}{'' if number == 1 else 's'}"
