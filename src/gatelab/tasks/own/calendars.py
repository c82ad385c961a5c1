"""Regular intervals: whether times follow a clock or a calendar, and which steps are missing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

UNITS = (("week", 604_800), ("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1))
TOLERANCE = 1e-3  # of an interval, for times that are floating-point numbers


@dataclass(frozen=True)
class Regular:
    """Times at a regular interval, of which some may be missing."""

    interval: str  # in words: 1 hour, 1 business day
    positions: np.ndarray  # (S,) int64: the number of intervals since the first time
    complete: np.ndarray  # all times from the first to the last

    @property
    def missing(self) -> int:
        """The number of missing steps."""
        return len(self.complete) - len(self.positions)


def regular(times: np.ndarray, base: float | None = None) -> Regular | None:
    """Return the interval of increasing times, datetime64 or numbers; None if they are irregular.

    At least half of the times follow one interval after the one before, and no more are missing than are there. Of
    several calendars (days or business days), the one with the fewest missing steps counts. `base` is the interval of
    many sequences, if that is known to be regular; of one sequence, any number of steps may be missing then.
    """
    if len(times) < 2:
        return None
    is_date = times.dtype.kind == "M"
    found = [*_clock(times, base), *(_calendar(times) if is_date else ())]
    return min(found, key=lambda each: each.missing, default=None)


def typical_interval(intervals: np.ndarray) -> float:
    """Return the lower median, which is the interval of a regular series with gaps."""
    return float(np.sort(intervals)[(len(intervals) - 1) // 2])


def _clock(times: np.ndarray, base: float | None) -> Iterator[Regular]:
    """Yield a fixed interval."""
    is_date = times.dtype.kind == "M"
    numbers = times.astype("datetime64[us]").astype(np.int64) if is_date else times
    few = base is None
    base = typical_interval(np.diff(numbers)) if base is None else base
    positions = _positions((numbers - numbers[0]) / base, TOLERANCE, few)
    if positions is None:
        return
    steps = np.arange(positions[-1] + 1)
    ahead = (steps * int(base)).astype("timedelta64[us]") if is_date else steps * base
    complete = times[0] + (ahead.astype(np.int64) if times.dtype.kind == "i" else ahead)
    yield Regular(duration(base) if is_date else f"{base:.6g}", positions, complete)


def _positions(ratios: np.ndarray, tolerance: float = 0.0, few: bool = True) -> np.ndarray | None:
    """Return the whole numbers of intervals since the first time, if they are regular; `few`: with few gaps."""
    positions = np.round(ratios).astype(np.int64)
    steps = np.diff(positions)
    if (np.abs(ratios - positions) > tolerance * np.maximum(1, positions * 1e-3)).any() or (steps < 1).any():
        return None
    if few and (2 * (steps == 1).sum() < len(steps) or positions[-1] + 1 > 2 * len(positions)):
        return None
    return positions


def _calendar(times: np.ndarray) -> Iterator[Regular]:
    """Yield business days, and months, quarters or years."""
    days = times.astype("datetime64[D]")
    if (days == times).all() and np.is_busday(days).all():
        positions = _positions(np.busday_count(days[0], days))
        if positions is not None:
            complete = np.busday_offset(days[0], np.arange(positions[-1] + 1))
            yield Regular("1 business day", positions, complete.astype("datetime64[us]"))
    months = times.astype("datetime64[M]")
    since = (months - months[0]).astype(np.int64)
    between = np.diff(since)
    if (between < 1).any():
        return
    base = int(typical_interval(between))
    positions = _positions(since / base)
    if positions is None:
        return
    all_months = months[0] + base * np.arange(positions[-1] + 1)
    interval = _count(base // 12, "year") if base % 12 == 0 else _count(base, "month")
    within = times - months.astype("datetime64[us]")
    ends = (months + 1).astype("datetime64[us]") - times
    if (within == within[0]).all():  # the same day of every month
        yield Regular(interval, positions, all_months.astype("datetime64[us]") + within[0])
    elif (ends == ends[0]).all():  # the last day of every month
        yield Regular(interval, positions, (all_months + 1).astype("datetime64[us]") - ends[0])


def in_words(times: Regular, are_dates: bool) -> str:
    """Return the interval as a fact: one step per hour, interval 0.5."""
    if not are_dates:
        return f"interval {times.interval}"
    return f"one step every {times.interval}".replace("every 1 ", "per ")


def duration(microseconds: float) -> str:
    """Return a time span in its largest whole unit: 15 minutes."""
    seconds = microseconds / 1e6
    for name, size in UNITS:
        if seconds >= size and seconds % size == 0:
            return _count(round(seconds / size), name)
    return f"{seconds:g} seconds"


def _count(number: int, unit: str) -> str:
    return f"{number:,} {unit}{'' if number == 1 else 's'}"
