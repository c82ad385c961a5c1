"""The forecasting horizon `fh`: which steps ahead are wanted."""

from __future__ import annotations

from typing import Any

import numpy as np

from gatelab.data.index import Index
from gatelab.errors import GatelabError, short

EXPECTED = "expected steps ahead, as fh=12 or fh=[1, 2, 3], or the stamps of future steps"
FARTHEST = 10_000  # steps ahead


def read(fh: Any) -> np.ndarray:
    """The steps ahead, increasing: 1 is the next. An integer is one step; `sktime`'s horizons are understood."""
    given = fh.to_pandas() if hasattr(fh, "to_pandas") else fh
    try:
        steps = np.atleast_1d(np.asarray(given))
    except ValueError:
        raise GatelabError(f"fh is {short(fh, 80)}: {EXPECTED}") from None
    if steps.ndim != 1 or not len(steps) or steps.dtype.kind not in "iu":
        raise GatelabError(f"fh is {short(fh, 80)}: {EXPECTED}")
    if steps.min() < 1 or steps.max() > FARTHEST:
        raise GatelabError(
            f"fh has the step {steps.min() if steps.min() < 1 else steps.max()}: expected steps ahead of the series, "
            f"from 1 to {FARTHEST:,}; forecasts of past steps are what backtest is for"
        )
    return np.unique(steps.astype(np.int64))


def relative(fh: Any, stamps: Index) -> np.ndarray:
    """The steps ahead, from steps or from future stamps."""
    import pandas as pd

    given = fh.to_pandas() if hasattr(fh, "to_pandas") else fh
    if isinstance(given, (pd.Timestamp, pd.Period)):
        given = pd.Index([given])
    if not isinstance(given, (pd.DatetimeIndex, pd.PeriodIndex)):
        return read(given)
    ahead = stamps.ahead(FARTHEST)
    steps = np.sort(ahead.get_indexer(given)) + 1
    if not len(steps) or steps[0] == 0:
        absent = next((str(stamp) for stamp in given if stamp not in ahead), "no stamp")
        raise GatelabError(
            f"fh has {absent}, which is no future step of the series: expected {ahead[0]}, {ahead[1]}, and so on"
        )
    return steps
