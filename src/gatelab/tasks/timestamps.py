"""Timestamps of a series: parsing, extrapolation and formatting."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import numpy as np

DATES = ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%Y-%m", "%d-%m-%Y")
TIMES = ("", " %H:%M", " %H:%M:%S")
FORMATS = (None, *(date + time for date in DATES for time in TIMES))  # the first is ISO 8601
CHECKED = 500  # number of last timestamps by which the format is detected


def parse(texts: Sequence[str]) -> np.ndarray | None:
    """Parse texts as times, to the second; if the first ones have another format, only the last ones are returned.

    Returns None unless the last texts are increasing times in one format. If day and month are ambiguous, the format
    with regular intervals is used; if both are regular, None is returned: no date is better than a wrong one.
    """
    last = texts[-CHECKED:]
    candidates = {form: times for form in FORMATS if (times := _increasing(last, form)) is not None}
    regular = {form: times for form, times in candidates.items() if extrapolate(times, 1) is not None}
    possible = regular or candidates
    if len(possible) != 1:
        return None
    ((form, last_times),) = possible.items()
    all_times = _increasing(texts, form)
    return last_times if all_times is None else all_times


def _increasing(texts: Sequence[str], form: str | None) -> np.ndarray | None:
    try:
        times = np.array([_time(text.strip(), form) for text in texts], "datetime64[s]")
    except (ValueError, OverflowError):
        return None
    return times if len(times) > 1 and (np.diff(times) > np.timedelta64(0, "s")).all() else None


def _time(text: str, form: str | None) -> datetime:
    time = datetime.fromisoformat(text.replace("Z", "+00:00")) if form is None else datetime.strptime(text, form)
    return time.replace(tzinfo=None)


def extrapolate(stamps: np.ndarray, steps: int) -> np.ndarray | None:
    """Return the times of the next steps, (steps,); None if the intervals are irregular."""
    if len(stamps) < 2:
        return None
    intervals = np.diff(stamps)
    if (intervals == intervals[0]).all():
        return np.asarray(stamps[-1] + intervals[0] * np.arange(1, steps + 1))
    days = stamps.astype("datetime64[D]")
    # Business days, Monday to Friday.
    if (days == stamps).all() and np.is_busday(days).all() and (np.busday_count(days[:-1], days[1:]) == 1).all():
        return np.asarray(np.busday_offset(days[-1], np.arange(1, steps + 1)).astype("datetime64[s]"))
    months = stamps.astype("datetime64[M]")
    between = np.diff(months).astype(int)
    within = stamps - months.astype("datetime64[s]")
    if not ((between == between[0]).all() and between[0] > 0):
        return None
    following = months[-1] + between[0] * np.arange(1, steps + 1)
    if (within == within[0]).all():  # the same day of every month, quarter or year
        return np.asarray(following.astype("datetime64[s]") + within[0])
    ends = (months + 1).astype("datetime64[s]") - stamps
    if (ends == ends[0]).all():  # the last day of every month, quarter or year
        return np.asarray((following + 1).astype("datetime64[s]") - ends[0])
    return None


def format_times(stamps: np.ndarray) -> list[str]:
    """Format as ISO 8601; without the time of day if all are at midnight."""
    midnight = (stamps == stamps.astype("datetime64[D]")).all()
    return [str(stamp).replace("T", " ") for stamp in (stamps.astype("datetime64[D]") if midnight else stamps)]
