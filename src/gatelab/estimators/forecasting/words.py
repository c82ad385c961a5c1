"""A fitted forecaster in words: what was assumed and chosen, and where a naive forecast is better."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from gatelab import formatting
from gatelab.estimators.forecasting.intervals import conformal_rank
from gatelab.formatting import counted

if TYPE_CHECKING:
    from gatelab.estimators.forecasting.forecaster import RecurrentForecaster

NAIVE = ("persistence", "seasonal naive")
LEVEL = 0.9  # of the intervals that a summary is about


def listed(names: Iterable[Any]) -> str:
    """Names as text."""
    return formatting.listed([str(name) for name in names])


def verdict(ours: float, naive: Mapping[str, float], metric: str = "MASE") -> str:
    """Whether the best naive forecast is better or worse than ours, and by how much."""
    best = min(naive, key=naive.__getitem__)
    theirs = naive[best]
    if not theirs:
        return f"{best} is exact ({metric} 0), ours is not ({ours:.3g}): use {best}" if ours else "both are exact"
    share = 100 * abs(ours / theirs - 1)
    if ours < theirs:
        return f"better than {best} ({metric} {theirs:.3g}) by {share:.0f} %"
    return f"{best} is better: {metric} {theirs:.3g}, ours is {share:.0f} % higher; use {best}, or a longer series"


def summary(forecaster: RecurrentForecaster) -> str:
    """Describe a fitted forecaster."""
    return "\n".join([repr(forecaster), *(f"  {name:<14} {fact}" for name, fact in facts(forecaster).items())])


def facts(forecaster: RecurrentForecaster) -> dict[str, str]:
    """What was assumed and chosen, by name."""
    ensemble, errors = forecaster.ensemble_, forecaster.validation_
    combination, members = ensemble.combination, sum(map(len, ensemble.networks.values()))
    found = {
        "networks": f"{counted(members, 'network')} ({forecaster.cell}, {forecaster.hidden_size} units), read "
        f"{counted(combination.first.length, 'step')}, forecast {counted(ensemble.horizon, 'step')} ahead",
        "season": counted(forecaster.season_, "step") if forecaster.season_ > 1 else "none",
        "calendar": listed(f"phase of the {cycle}" for cycle in forecaster.history_.cycles) or "none",
        "transform": str(combination),
    }
    if forecaster.covariate_names_:
        found["covariates"] = listed(forecaster.covariate_names_)
    if errors:
        networks = {name: error for name, error in errors.items() if name not in NAIVE}
        compared = "; ".join(f"{name} {error:.3g}" for name, error in errors.items())
        found["held out"] = f"MASE with one network per transform: {compared}"
        naive = {name: error for name, error in errors.items() if name in NAIVE}
        found["verdict"] = verdict(min(networks.values()), naive)
    found["intervals"] = _intervals(forecaster)
    if bounds := _bounds(forecaster):
        found["bounds"] = bounds
    return found | forecaster.notes_


def _bounds(forecaster: RecurrentForecaster) -> str:
    """The bounds of the series; that there is none where intervals of held-out forecasts go below 0."""
    lower, upper = forecaster.lower, forecaster.upper
    if lower is not None or upper is not None:
        ends = [] if lower is None else [f"from {lower:g} up"] if upper is None else [f"from {lower:g}"]
        ends += [] if upper is None else [f"up to {upper:g}" if lower is None else f"to {upper:g}"]
        return f"forecasts and intervals are cut off {' '.join(ends)}"
    scores = forecaster.scores_
    widths = scores.scales * scores.widths(LEVEL, forecaster.adaptive, forecaster.behind_)
    return unbounded(forecaster, forecaster.in_units(scores.forecasts - widths))


def unbounded(forecaster: RecurrentForecaster, lower: np.ndarray, setting: str = "lower=0") -> str:
    """What to do about intervals below 0, if the series has never been negative; "" if there is nothing to do."""
    if forecaster.lowest_ < 0 or not (lower < 0).any():
        return ""
    return f"intervals go below 0, where the series has never been: {setting} cuts them off there"


def _intervals(forecaster: RecurrentForecaster) -> str:
    """Say how many errors there are, and where they are too few."""
    counts = forecaster.scores_.counts()
    fewest, most = int(counts.min()), int(counts.max())
    errors = f"from {fewest} held-out errors per step ahead" if fewest == most else (
        f"from {most} held-out errors one step ahead, {fewest} at the farthest step"
    )  # fmt: skip
    infinite = [step for step, count in enumerate(counts.tolist(), 1) if conformal_rank(count, LEVEL) is None]
    if not infinite:
        return errors + (", adaptive" if forecaster.adaptive else "")
    needed = round(LEVEL / (1 - LEVEL))
    return (
        f"{errors}: fewer than {needed}, so that those of {LEVEL:.0%} are infinite from step {infinite[0]} on; a "
        "longer series, a smaller fh or a lower coverage makes them finite"
    )
