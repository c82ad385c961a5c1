"""Times: how people write them, and how they are written here."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

import numpy as np

from gatelab.data import time_intervals

DATES = ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%Y-%m", "%d-%m-%Y")
TIMES = ("", " %H:%M", " %H:%M:%S")
MONTHS = ("%Y %b", "%b %Y", "%Y-%b", "%b-%Y", "%d-%b-%Y", "%d %b %Y", "%b %d, %Y", "%Y %B", "%B %Y")
QUARTER = re.compile(r"(\d{4})[ -]?Q([1-4])", re.IGNORECASE)
QUARTERS = "quarters"  # 1970 Q1
FORMATS = (None, *(date + time for date in DATES for time in TIMES), *MONTHS, QUARTERS)  # the first is ISO 8601
YEAR = re.compile(r"\b\d{4}")  # in every format
CHECKED = 500  # number of last timestamps by which the format is detected


def parse(texts: Sequence[str]) -> np.ndarray | None:
    """Parse texts as times, to the second; if the first ones have another format, only the last ones are returned.

    Returns None unless the last texts are increasing times in one format. If day and month are ambiguous, the format
    with regular intervals is used; if both are regular, None is returned: no date is better than a wrong one.
    """
    last = texts[-CHECKED:]
    candidates = {form: times for form in FORMATS if (times := _increasing(last, form)) is not None}
    regular = {form: times for form, times in candidates.items() if time_intervals.future(times, 1) is not None}
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
    return _zoned(text, form).replace(tzinfo=None)


def parse_column(texts: Sequence[str]) -> np.ndarray | None:
    """Parse a whole column as times in any order, datetime64[us]; None unless all of it has one format.

    If several formats fit, as 01/02 does, one that puts the times in order with regular intervals is used, if there is
    only one. Times with different offsets from UTC are converted to UTC; otherwise they stay local.
    """
    if len(texts) < 2:
        return None
    some = [*texts[:CHECKED], *texts[-CHECKED:]]
    if not all(map(YEAR.search, some)):
        return None
    candidates = [times for form in FORMATS if _times(some, form) is not None
                  if (times := _times(texts, form)) is not None]  # fmt: skip
    candidates = list({times.tobytes(): times for times in candidates}.values())  # May is short and long
    if len(candidates) > 1:
        disorder = [int((np.diff(times) < np.timedelta64(0, "us")).sum()) for times in candidates]
        candidates = [times for times, count in zip(candidates, disorder, strict=True) if count == min(disorder)]
    if len(candidates) > 1:
        candidates = [times for times in candidates if time_intervals.regular(np.unique(times)) is not None]
    return candidates[0] if len(candidates) == 1 else None


def share(texts: Sequence[str]) -> float:
    """The fraction of the texts that are times, in whatever format, by the first and the last of them."""
    some = [*texts[:CHECKED], *texts[-CHECKED:]]
    return sum(any(_fits(text, form) for form in FORMATS) for text in some) / max(1, len(some))


def first_misfit(texts: Sequence[str]) -> int | None:
    """The position of the first text that is not a time in the format of most of them."""
    some = [*texts[:CHECKED], *texts[-CHECKED:]]
    usual = max(FORMATS, key=lambda form: sum(_fits(text, form) for text in some))
    return next((i for i, text in enumerate(texts) if not _fits(text, usual)), None)


def _fits(text: str, form: str | None) -> bool:
    if not YEAR.search(text):
        return False
    try:
        _zoned(text.strip(), form)
    except (ValueError, OverflowError):
        return False
    return True


def is_ordered(texts: Sequence[str]) -> bool:
    """Whether the times increase in some format: then it does not matter which one they have."""
    found = (_times(texts, form) for form in FORMATS)
    return any(times is not None and (np.diff(times) > np.timedelta64(0, "us")).all() for times in found)


def _times(texts: Sequence[str], form: str | None) -> np.ndarray | None:
    """Parse texts in one format; None if one does not fit."""
    try:
        times = [_zoned(text.strip(), form) for text in texts]
    except (ValueError, OverflowError):
        return None
    offsets = {time.utcoffset() for time in times}
    if len(offsets) > 1:
        if None in offsets:
            return None
        times = [time.astimezone(timezone.utc) for time in times]
    return np.array([time.replace(tzinfo=None) for time in times], "datetime64[us]")


def _zoned(text: str, form: str | None) -> datetime:
    if form is None:
        return datetime.fromisoformat(text.replace("Z", "+00:00"))
    if form != QUARTERS:
        return datetime.strptime(text, form)
    match = QUARTER.fullmatch(text)
    if match is None:
        raise ValueError(text)  # as strptime does
    return datetime(int(match[1]), 3 * int(match[2]) - 2, 1)


def to_seconds(times: np.ndarray) -> np.ndarray | None:
    """Times in seconds, as forecasts have them; None if there are fractions of seconds."""
    seconds = times.astype("datetime64[s]")
    return seconds if (seconds == times).all() else None


def format_times(stamps: np.ndarray, others: np.ndarray | None = None) -> list[str]:
    """Format as ISO 8601; without the time of day if all are at midnight, as years if all are on January 1.

    `others` are further times of the same series, which have a say in the format.
    """
    known = stamps if others is None else np.concatenate([stamps, others])
    unit = "s"
    if (known == known.astype("datetime64[D]")).all():
        unit = "D"
        if len(known) > 1 and (known == known.astype("datetime64[Y]")).all():
            unit = "Y"
    return [str(stamp).replace("T", " ") for stamp in stamps.astype(f"datetime64[{unit}]")]


@dataclass(frozen=True)
class Times:
    """The times of all rows, and the columns that they come from."""

    names: tuple[str, ...]
    values: np.ndarray  # (N,) datetime64[us], float64 or int64

    @property
    def name(self) -> str:
        """The columns, as the option `time` names them."""
        return "+".join(self.names)

    @property
    def are_dates(self) -> bool:
        """Whether the times are dates, not numbers."""
        return self.values.dtype.kind == "M"

    @property
    def seconds(self) -> np.ndarray | None:
        """Dates in seconds; None for numbers, and for dates with fractions of seconds."""
        return to_seconds(self.values) if self.are_dates else None

    def format(self, time: np.generic) -> str:
        """Any time as text, as short as the times of the first and last rows allow."""
        if isinstance(time, np.integer):
            return str(time)
        if not isinstance(time, np.datetime64):
            return f"{float(time):.10g}"
        seconds = to_seconds(np.array([time, *self.values[:3], *self.values[-3:]]))
        if seconds is None:
            return str(time).replace("T", " ").rstrip("0").rstrip(".")
        text = format_times(seconds[:1], seconds)[0]
        return text.removesuffix(":00") if text.count(":") == 2 else text
