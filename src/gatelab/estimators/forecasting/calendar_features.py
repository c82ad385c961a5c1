"""Where a step is in the day, the week and the year, as sine and cosine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gatelab.data.time_intervals import typical_interval


class Cycle(NamedTuple):
    """A cycle of the calendar."""

    unit: str  # of datetime64: the cycle begins where a unit begins
    seconds: float


CYCLES = {
    "minute": Cycle("m", 60),
    "hour": Cycle("h", 3_600),
    "day": Cycle("D", 86_400),
    "week": Cycle("W", 604_800),  # NumPy's weeks begin on a Thursday, which is a constant phase
    "year": Cycle("Y", 31_556_952),
}
LEAST_CYCLES = 2  # in a series: of a cycle that is seen once, a network learns a trend


def chosen(times: np.ndarray | None) -> tuple[str, ...]:
    """The cycles of which regular times (S,), datetime64, have several steps, and that they cover twice."""
    if times is None or len(times) < 3:
        return ()
    seconds = times.astype("datetime64[us]").astype(np.int64) / 1e6
    interval, span = typical_interval(np.diff(seconds)), seconds[-1] - seconds[0]
    return tuple(
        name
        for name, cycle in CYCLES.items()
        # An interval of a quarter, 92 days, is a little more than a quarter of some years.
        if 1.9 * interval < cycle.seconds and span + interval >= 0.99 * LEAST_CYCLES * cycle.seconds
    )


def features(times: np.ndarray | None, cycles: Sequence[str], steps: int) -> np.ndarray:
    """Sine and cosine of the phase in each cycle, (S, 2 × cycles); without times (steps, 0)."""
    if times is None or not cycles:
        return np.empty((steps, 0))
    columns = list[np.ndarray]()
    for name in cycles:
        angle = 2 * np.pi * phase(times, name)
        columns += [np.sin(angle), np.cos(angle)]
    return np.stack(columns, 1)


def phase(times: np.ndarray, name: str) -> np.ndarray:
    """The fraction of the cycle that has passed at each time, from 0 to below 1."""
    begin = times.astype(f"datetime64[{CYCLES[name].unit}]")
    length = (begin + 1).astype("datetime64[us]") - begin.astype("datetime64[us]")  # years differ
    passed: np.ndarray = (times.astype("datetime64[us]") - begin.astype("datetime64[us]")) / length
    return passed
