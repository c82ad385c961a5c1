"""Time stamps of a series: recognised in a table, and continued."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import numpy as np

FORMATS = ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%Y-%m", "%d-%m-%Y", "%Y%m%d")
TIMES = ("", " %H:%M", " %H:%M:%S")
LOOKED_AT = 500  # of the last stamps


def recognised(texts: Sequence[str]) -> np.ndarray | None:
    """The last of these texts as times, to the second; None unless all are, in one format, each later than the last.

    Where day and month could be either way round, the order of the lines decides.
    """
    last = [text.strip() for text in texts[-LOOKED_AT:]]
    for form in (None, *(date + time for date in FORMATS for time in TIMES)):
        try:
            found = np.array([_time(text, form) for text in last], "datetime64[s]")
        except (ValueError, OverflowError):
            continue
        if len(found) > 1 and (np.diff(found) > np.timedelta64(0, "s")).all():
            return found
    return None


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
