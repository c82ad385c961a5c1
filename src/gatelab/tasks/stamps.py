"""Time stamps of a series: recognised in a table, and continued."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import numpy as np

DATES = ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%Y-%m", "%d-%m-%Y")
TIMES = ("", " %H:%M", " %H:%M:%S")
FORMATS = (None, *(date + time for date in DATES for time in TIMES))  # the first is ISO 8601
LOOKED_AT = 500  # of the last stamps


def recognised(texts: Sequence[str]) -> np.ndarray | None:
    """These texts as times, to the second; of a column that is in another format at its beginning, only the last ones.

    None unless all of the last are times in one format, each later than the one before. Where day and month could be
    either way round the regular reading is taken, and none if both are regular: a wrong date is worse than no date.
    """
    last = texts[-LOOKED_AT:]
    readings = {form: found for form in FORMATS if (found := _increasing(last, form)) is not None}
    regular = {form: found for form, found in readings.items() if continued(found, 1) is not None}
    possible = regular or readings
    if len(possible) != 1:
        return None
    ((form, found),) = possible.items()
    everything = _increasing(texts, form)
    return found if everything is None else everything


def _increasing(texts: Sequence[str], form: str | None) -> np.ndarray | None:
    try:
        found = np.array([_time(text.strip(), form) for text in texts], "datetime64[s]")
    except (ValueError, OverflowError):
        return None
    return found if len(found) > 1 and (np.diff(found) > np.timedelta64(0, "s")).all() else None


def _time(text: str, form: str | None) -> datetime:
    time = datetime.fromisoformat(text.replace("Z", "+00:00")) if form is None else datetime.strptime(text, form)
    return time.replace(tzinfo=None)


def continued(stamps: np.ndarray, steps: int) -> np.ndarray | None:
    """The times of the next steps, (steps,); None where the last stamps have no regular distance."""
    if len(stamps) < 2:
        return None
    distances = np.diff(stamps)
    if (distances == distances[0]).all():
        return np.asarray(stamps[-1] + distances[0] * np.arange(1, steps + 1))
    days = stamps.astype("datetime64[D]")
    # Monday to Friday.
    if (days == stamps).all() and np.is_busday(days).all() and (np.busday_count(days[:-1], days[1:]) == 1).all():
        return np.asarray(
            np.busday_offset(days[-1], np.arange(1, steps + 1)).astype("datetime64[s]")
        )  # Monday to Friday
    months = stamps.astype("datetime64[M]")
    between = np.diff(months).astype(int)
    within = stamps - months.astype("datetime64[s]")
    if not ((between == between[0]).all() and between[0] > 0):
        return None
    following = months[-1] + between[0] * np.arange(1, steps + 1)
    if (within == within[0]).all():  # the same day of every month, quarter or year
        return np.asarray(following.astype("datetime64[s]") + within[0])
    ends = (months + 1).astype("datetime64[s]") - stamps
    if (ends == ends[0]).all():  # the last day of it
        return np.asarray((following + 1).astype("datetime64[s]") - ends[0])
    return None


def shown(stamps: np.ndarray) -> list[str]:
    """As ISO 8601 has them; without the time where all are at midnight."""
    midnight = (stamps == stamps.astype("datetime64[D]")).all()
    return [str(stamp).replace("T", " ") for stamp in (stamps.astype("datetime64[D]") if midnight else stamps)]
