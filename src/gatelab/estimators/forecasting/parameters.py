"""The parameters of a forecaster, and what each may be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from joblib import effective_n_jobs
from pydantic import ValidationError
from sklearn.base import BaseEstimator

from gatelab.data.reading import Aggregate, Fill
from gatelab.errors import DataError, GatelabError, invalid
from gatelab.estimators.forecasting import selection
from gatelab.estimators.forecasting.networks import Recipe
from gatelab.estimators.forecasting.transforms import Kind, Transform
from gatelab.estimators.parameters import parameter, values, with_parameters
from gatelab.formatting import counted
from gatelab.lang import Cell
from gatelab.training import ModelSpec, OptimizationSpec

if TYPE_CHECKING:
    from gatelab.estimators.forecasting.forecaster import RecurrentForecaster

BATCH = 32
SHORTEST, LONGEST = 12, 96  # of default windows, in steps
HORIZON = 8  # steps ahead by default, for series without a season
LARGEST_SEASON = 52  # that is the default horizon


@with_parameters
class ForecasterParameters(BaseEstimator):  # type: ignore[misc]
    """Parameters of a forecaster, stored as they are; a fit checks them."""

    cell: str | Cell = parameter(
        default="gru",
        sets="model.cell",
        text="The name of a library cell, or a function decorated with `@gatelab.cell`.",
        kw_only=False,
    )
    hidden_size: int = parameter(default=32, sets="model.hidden_size", text="H, the number of units.", kw_only=False)
    window: int | None = parameter(
        default=None, text="T, the steps that a network reads; by default two seasons, at least 12 and at most 96."
    )
    horizon: int | None = parameter(
        default=None,
        text="The steps ahead that errors and intervals are for, if `fit` gets no fh; by default a season, or 8.",
    )
    season: int | None = parameter(
        default=None,
        text="The steps of a season; by default that of the index's frequency (12 for months), 1 for none.",
    )
    transform: Kind | Literal["auto"] = parameter(
        default="auto",
        text='What is taken out of the window; "auto" chooses between the first three and all of them combined.',
        kind='{"window", "difference", "seasonal", "seasonal+difference", "auto"}',
    )
    log: bool | Literal["auto"] = parameter(
        default="auto",
        text='Whether to work with logarithms; "auto" chooses, for positive series.',
        kind='bool or "auto"',
    )
    calendar: bool = parameter(
        default=True,
        text="Whether the networks read where a step is in the day, week and year, if the index has dates.",
    )
    num_networks: int = parameter(
        default=2, text="Networks per transform, with different seeds, whose forecasts are averaged."
    )
    num_steps: int = parameter(default=200, text=f"Optimizer steps for each network, with batches of {BATCH} windows.")
    learning_rate: float = parameter(
        default=5e-3, sets="optimization.learning_rate", text="The largest of one cycle, with AdamW."
    )
    weight_decay: float = parameter(default=1e-2, sets="optimization.weight_decay")
    head_dropout: float = parameter(default=0.0, sets="model.head_dropout")
    holdout: float = parameter(
        default=0.25,
        text="The fraction of the series, at its end, on which choices are made and intervals are calibrated.",
    )
    adaptive: bool = parameter(
        default=True, text="Whether intervals adapt to how often recent ones missed (quantile tracking)."
    )
    fill: Fill | None = parameter(
        default=None,
        text="Missing values and steps; none: missing steps are passed over. They are refused by default.",
        kind='{"interpolate", "previous", "none"} or None',
    )
    aggregate: Aggregate | None = parameter(
        default=None,
        text="What becomes of rows of the same time; refused by default.",
        kind='{"mean", "first", "last", "sum"} or None',
    )
    lower: float | None = parameter(
        default=None,
        text="The value that the series cannot go below, as 0 for counts: forecasts and intervals are cut off there; "
        "of several series, that of all.",
    )
    upper: float | None = parameter(default=None, text="The value that the series cannot go above.")
    random_state: Any = parameter(
        default=None,
        text="Seed of initialization and order; the same gives the same forecaster, bit for bit.",
        kind="int, RandomState instance or None",
    )
    n_jobs: int | None = parameter(
        default=None,
        text="CPU threads of the training; None for one, which is enough for small networks, -1 for all cores.",
    )


def recipe(forecaster: RecurrentForecaster) -> Recipe:
    """How networks are trained; parameters that make no sense are refused."""
    whole("num_networks", forecaster.num_networks)
    steps = whole("num_steps", forecaster.num_steps)
    if isinstance(forecaster.holdout, bool) or not 0 < forecaster.holdout < 1:
        raise GatelabError(f"holdout is {forecaster.holdout!r}: expected a fraction of the series between 0 and 1")
    _one_of("log", forecaster.log, ("auto", True, False))
    _one_of("fill", forecaster.fill, (None, *get_args(Fill)))
    _one_of("aggregate", forecaster.aggregate, (None, *get_args(Aggregate)))
    given = values(forecaster)
    try:
        return Recipe(
            ModelSpec(**given["model"]),
            OptimizationSpec(**given["optimization"], optimizer="adamw", schedule="one_cycle"),
            steps or 1,
            BATCH,
            effective_n_jobs(forecaster.n_jobs),
        )
    except ValidationError as error:
        raise invalid("RecurrentForecaster", error, forecaster.get_params()) from None


def horizon(forecaster: RecurrentForecaster, season: int) -> int:
    """The steps ahead, if `fit` gets no fh: the parameter, a season, or a few."""
    return whole("horizon", forecaster.horizon) or (season if 1 < season <= LARGEST_SEASON else HORIZON)


def candidates(forecaster: RecurrentForecaster, season: int, steps: int) -> list[Transform]:
    """The transforms to choose from, with windows that are shorter where the series is short."""
    length = whole("window", forecaster.window) or min(LONGEST, max(SHORTEST, 2 * season), max(2, steps // 4))
    kinds = selection.KINDS if forecaster.transform == "auto" else (forecaster.transform,)
    if forecaster.transform == "auto" and season == 1:
        kinds = tuple(kind for kind in kinds if not kind.startswith("seasonal"))
    return [Transform(kind, length, season, forecaster.log is True) for kind in kinds]


def whole(name: str, value: Any) -> int | None:
    """A parameter that is a whole number of at least 1, or None."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise GatelabError(f"{name} is {value!r}: expected an integer of at least 1")
    return int(value)


def bounds(forecaster: RecurrentForecaster) -> tuple[float, float]:
    """The values that the series cannot go below and above; infinite by default."""
    for name in ("lower", "upper"):
        value = getattr(forecaster, name)
        is_number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
        if value is not None and not (is_number and np.isfinite(value)):
            raise GatelabError(f"{name} is {value!r}: expected a number that the series cannot go beyond, or None")
    lower, upper = forecaster.lower, forecaster.upper
    if lower is not None and upper is not None and lower >= upper:
        raise GatelabError(f"lower is {lower!r} and upper {upper!r}: expected a lower bound that is below the upper")
    return -np.inf if lower is None else float(lower), np.inf if upper is None else float(upper)


def refuse_outside(forecaster: RecurrentForecaster, values: np.ndarray) -> None:
    """Refuse a series with values beyond its bounds."""
    lower, upper = bounds(forecaster)
    for name, bound, outside in (("lower", lower, values < lower), ("upper", upper, values > upper)):
        if count := int(outside.sum()):
            raise DataError(
                f"{name} is {bound:g}, and the series has the value {values[outside][0]:g} "
                f"({counted(count, 'such value')}): expected a bound that no value is beyond; leave {name} out, or "
                "correct the series"
            )


def probabilities(name: str, value: Any) -> list[float]:
    """One or several probabilities."""
    given = [value] if np.ndim(value) == 0 else list(value)
    if not given or not all(isinstance(each, (float, np.floating)) and 0 < each < 1 for each in given):
        raise GatelabError(f"{name} is {value!r}: expected a probability between 0 and 1, or several")
    return [float(each) for each in given]


def _one_of(name: str, value: Any, known: tuple[Any, ...]) -> None:
    if not any(value is each or (isinstance(value, str) and value == each) for each in known):
        raise GatelabError(f"{name} is {value!r}: expected one of {', '.join(map(repr, known))}")
