"""The choice between transforms, by forecasts of the last part of the series from networks that have not seen it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gatelab.errors import DataError
from gatelab.estimators.forecasting import baselines
from gatelab.estimators.forecasting.ensemble import Ensemble, Material
from gatelab.estimators.forecasting.transforms import Combination, Kind, Transform

KINDS: tuple[Kind, ...] = ("window", "difference", "seasonal")  # that are compared by default
LEAST_WINDOWS = 8  # for training
LEAST_ERRORS = 9  # at every step ahead, for intervals of 90 %


@dataclass(frozen=True)
class ChosenTransforms:
    """The best transforms, and where the held-out part begins."""

    combination: Combination
    cut: int
    errors: dict[str, float]  # by combination, and of naive forecasts, on the held-out part, scaled as MASE is
    ensemble: Ensemble | None  # a network each that was trained before the cut; None if nothing could be held out


def choose(
    material: Material, candidates: list[Transform], try_log: bool, season: int, holdout: float, seed: int
) -> ChosenTransforms:
    """Train one network per transform without the held-out part, and compare their errors there.

    Compared are the transforms, and all of them combined; then, with `try_log` and a positive series, the best of these
    with its logarithmic form. A series that is too short for a held-out part gets the last value as its reference, or
    the only candidate.
    """
    values = material.values
    shortest = min(each.context for each in candidates)
    if len(values) < shortest + LEAST_WINDOWS:
        raise DataError(
            f"y has {len(values)} steps: expected at least {shortest + LEAST_WINDOWS}, for {LEAST_WINDOWS} windows of "
            f"{candidates[0].length} steps; choose a smaller window"
        )
    cut = _cut(material, candidates, holdout)
    if cut is None:
        fallback = next((each for each in candidates if each.kind == "difference"), candidates[0])
        return ChosenTransforms(Combination((fallback,)), len(values), {}, None)
    candidates = [each for each in candidates if each.context + LEAST_WINDOWS <= cut]
    trained = material.train(candidates, cut, [seed])
    compared = [Combination((each,)) for each in candidates]
    compared += [Combination(tuple(candidates))] if len(candidates) > 1 else []
    errors = {each: _error(material, trained, each, cut, season) for each in compared}
    best = min(errors, key=errors.__getitem__)
    if try_log and (values > 0).all():
        logarithmic = best.with_log()
        trained = trained.joined(material.train(logarithmic.transforms, cut, [seed]))
        errors[logarithmic] = _error(material, trained, logarithmic, cut, season)
        best = min(errors, key=errors.__getitem__)
    named = {str(each): error for each, error in errors.items()} | _naive(material, cut, season)
    return ChosenTransforms(best, cut, named, trained.part(best))


def _cut(material: Material, candidates: list[Transform], holdout: float) -> int | None:
    """Where the held-out part begins: before it, there have to be windows to train on; None if there is no room.

    It is longer than `holdout` says where intervals need it; seasonal transforms are given up where they do not fit.
    """
    steps, H = len(material.values), material.horizon
    wanted = steps - max(round(holdout * steps), H + LEAST_ERRORS)
    for context in sorted({each.context for each in candidates}, reverse=True):
        cut = max(wanted, context + LEAST_WINDOWS)
        if cut + H <= steps:
            return cut
    return None


def _error(material: Material, ensemble: Ensemble, combination: Combination, cut: int, season: int) -> float:
    forecasts, _ = material.held_out(ensemble.part(combination), cut)
    return material.error(combination.first.backwards(forecasts), cut, season)


def _naive(material: Material, cut: int, season: int) -> dict[str, float]:
    """The errors of naive forecasts on the same windows."""
    origins = np.arange(cut - 1, len(material.values) - material.behind)
    forecasts = {"persistence": baselines.persistence(material.values, origins, material.horizon)}
    if 1 < season <= cut:
        forecasts["seasonal naive"] = baselines.seasonal_naive(material.values, origins, material.horizon, season)
    return {name: material.error(forecast, cut, season) for name, forecast in forecasts.items()}
