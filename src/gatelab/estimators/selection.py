"""The choice between transforms, by forecasts of the last part of the series from networks that have not seen it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gatelab.errors import DataError
from gatelab.estimators import baselines
from gatelab.estimators.ensemble import Ensemble, Material
from gatelab.estimators.transforms import Kind, Transform

KINDS: tuple[Kind, ...] = ("window", "difference", "seasonal")  # that are compared by default
LEAST_WINDOWS = 8  # for training
LEAST_ERRORS = 9  # at every step ahead, for intervals of 90 %


@dataclass(frozen=True)
class Choice:
    """The best transform, and where the held-out part begins."""

    transform: Transform
    cut: int
    errors: dict[str, float]  # by transform, and of naive forecasts, on the held-out part, scaled as MASE is
    ensemble: Ensemble | None  # one network that was trained before the cut; None if nothing could be held out


def choose(
    material: Material, candidates: list[Transform], try_log: bool, season: int, holdout: float, seed: int
) -> Choice:
    """Train one network per transform without the held-out part, and compare their errors there.

    First the kinds are compared, then, with `try_log` and a positive series, the best one with its logarithmic form. A
    series that is too short for a held-out part gets the last value as its reference, or the only candidate.
    """
    values, H = material.values, material.horizon
    shortest = min(each.context for each in candidates)
    if len(values) < shortest + H:
        raise DataError(
            f"y has {len(values)} steps: expected at least {shortest + H} for windows of {candidates[0].length} steps and "
            f"{H} steps ahead; choose a smaller window or fh"
        )
    wanted = len(values) - max(round(holdout * len(values)), H + LEAST_ERRORS)
    for context in sorted({each.context for each in candidates}, reverse=True):
        cut = max(wanted, context + H + LEAST_WINDOWS - 1)
        if cut + H <= len(values):
            break
    else:
        fallback = next((each for each in candidates if each.kind == "difference"), candidates[0])
        return Choice(fallback, len(values), {}, None)
    candidates = [each for each in candidates if each.context + H + LEAST_WINDOWS - 1 <= cut]
    ensembles = {each: material.trained(each, cut, [seed]) for each in candidates}
    errors = {each: _error(material, ensemble, cut, season) for each, ensemble in ensembles.items()}
    best = min(errors, key=errors.__getitem__)
    if try_log and not best.log and (values > 0).all():
        logarithmic = replace(best, log=True)
        ensembles[logarithmic] = material.trained(logarithmic, cut, [seed])
        errors[logarithmic] = _error(material, ensembles[logarithmic], cut, season)
        best = min(errors, key=errors.__getitem__)
    named = {str(each): error for each, error in errors.items()} | _naive(material, cut, season)
    return Choice(best, cut, named, ensembles[best])


def _error(material: Material, ensemble: Ensemble, cut: int, season: int) -> float:
    forecasts, _ = material.held_out(ensemble, cut)
    return material.error(ensemble.windows.transform.backwards(forecasts), cut, season)


def _naive(material: Material, cut: int, season: int) -> dict[str, float]:
    """Return the errors of naive forecasts on the same windows."""
    origins = np.arange(cut - 1, len(material.values) - material.behind)
    forecasts = {"persistence": baselines.persistence(material.values, origins, material.horizon)}
    if season > 1:
        forecasts["seasonal naive"] = baselines.seasonal_naive(material.values, origins, material.horizon, season)
    return {name: material.error(forecast, cut, season) for name, forecast in forecasts.items()}
