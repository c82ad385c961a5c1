"""The forecasting horizon `fh`: which steps ahead are wanted."""

from __future__ import annotations

from typing import Any

import numpy as np

from gatelab.errors import GatelabError, short
from gatelab.estimators.stamps import Stamps

EXPECTED = "expected steps ahead, as fh=12 or fh=[1, 2, 3], or the stamps of future steps"
FARTHEST = 10_000  # steps ahead


def read(fh: Any) -> np.ndarray:
    """Return the steps ahead, increasing: 1 is the next. An integer is one step; `sktime`'s horizons are understood."""
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


def relative(fh: Any, stamps: Stamps, horizon: int) -> np.ndarray:
    """Return the steps ahead up to `horizon`, from steps or from future stamps."""
    import pandas as pd

    given = fh.to_pandas() if hasattr(fh, "to_pandas") else fh
    if not isinstance(given, (pd.DatetimeIndex, pd.PeriodIndex, pd.Timestamp, pd.Period)):
        steps = read(given)
    else:
        wanted = pd.Index([given]) if isinstance(given, (pd.Timestamp, pd.Period)) else given
        ahead = stamps.index(horizon)
        steps = np.sort(ahead.get_indexer(wanted)) + 1
        if steps[0] == 0:
            absent = next(stamp for stamp in wanted if stamp not in ahead)
            raise GatelabError(
                f"fh has {absent}, which is not among the {horizon} steps that are forecast, {ahead[0]} to "
                f"{ahead[-1]}: expected stamps of the series' frequency; fit with a larger fh for later ones"
            )
    if steps[-1] > horizon:
        raise GatelabError(
            f"fh has the step {steps[-1]}, and the networks were fitted for {horizon} steps ahead: fit with "
            f"fh=range(1, {steps[-1] + 1})"
        )
    return steps
