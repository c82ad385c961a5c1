"""A fitted forecaster as a directory: run directories of its networks, and the rest as sealed JSON and arrays.

forecaster.json   parameters, index, transform, choices
forecaster.npz    the last steps of the series, covariates, held-out errors
window-0, …       run directories, as `gatelab train` writes them, by transform
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from gatelab import sealed
from gatelab.data.index import Index, Kind
from gatelab.data.series import Form, Series
from gatelab.disk import whole_folder, within
from gatelab.errors import DataError, GatelabError, first_problem, short
from gatelab.estimators.fitted import FittedRun
from gatelab.estimators.forecasting import parameters as checks
from gatelab.estimators.forecasting.ensemble import Ensemble
from gatelab.estimators.forecasting.history import History
from gatelab.estimators.forecasting.horizons import FARTHEST
from gatelab.estimators.forecasting.intervals import Scores
from gatelab.estimators.forecasting.transforms import Transform
from gatelab.training import Trained
from gatelab.training.run import BACKTEST, BEST, FORECASTER, MODEL

if TYPE_CHECKING:
    from gatelab.estimators.forecasting.forecaster import RecurrentForecaster

SCHEMA = 1
MOST_STEPS = 10**12  # of any series
RECORD, ARRAYS = FORECASTER, "forecaster.npz"
Name = int | float | str | None


class TransformRecord(BaseModel):
    """A `Transform` as JSON."""

    model_config = ConfigDict(extra="forbid")
    kind: Literal["window", "difference", "seasonal", "seasonal+difference"]
    length: int = Field(ge=1, le=MOST_STEPS)
    season: int = Field(ge=1, le=MOST_STEPS)
    log: bool


class IndexRecord(BaseModel):
    """An `Index` as JSON, without the times."""

    model_config = ConfigDict(extra="forbid")
    kind: Kind
    steps: int = Field(ge=1, le=MOST_STEPS)
    freq: str | None
    unit: Literal["s", "ms", "us", "ns"]
    zone: str | None
    utc: bool
    name: str | None


class ForecasterRecord(BaseModel):
    """The JSON of a forecaster, checked when it is read: a forged file has a right checksum."""

    model_config = ConfigDict(extra="forbid")
    version: int
    parameters: dict[str, Any]
    names: tuple[Name, ...] = Field(min_length=1)
    form: Form
    stamps: IndexRecord
    transforms: tuple[TransformRecord, ...] = Field(min_length=1)
    horizon: int = Field(ge=1, le=FARTHEST)
    fh: tuple[Annotated[int, Field(ge=1, le=FARTHEST)], ...] = Field(min_length=1)
    fitted_steps: int = Field(ge=0, le=MOST_STEPS)
    season: int = Field(ge=1, le=MOST_STEPS)
    cycles: tuple[Literal["minute", "hour", "day", "week", "year"], ...]
    covariates: tuple[Name, ...]
    validation: dict[str, FiniteFloat]
    notes: dict[str, str]
    networks: int = Field(ge=1)
    lowest: FiniteFloat | None = None  # None if it is not known


@contextmanager
def saved(forecaster: RecurrentForecaster, path: Path) -> Iterator[Path]:
    """Write a new directory, complete or not at all. Yields the unfinished one, for files beside the forecaster's."""
    with whole_folder(path, RECORD, (RECORD, ARRAYS, MODEL, BEST), [BACKTEST]) as made:
        _write(forecaster, made)
        yield made


def _write(forecaster: RecurrentForecaster, path: Path) -> None:
    history, scores = forecaster.history_, forecaster.scores_
    frame, stamps = history.frame, history.frame.index
    ensemble = forecaster.ensemble_
    parameters = forecaster.get_params()
    if not isinstance(parameters["cell"], str):
        parameters["cell"] = None  # the run directories have its equations
    if not isinstance(parameters["random_state"], (int, np.integer, type(None))):
        parameters["random_state"] = None  # a generator has no JSON; the networks are kept
    record = {
        "version": SCHEMA,
        "parameters": json.loads(json.dumps(parameters, default=_plain)),
        "names": [_name(name) for name in frame.columns],
        "form": frame.form,
        "stamps": {key: value for key, value in vars(stamps).items() if key != "times"},
        "transforms": [asdict(each) for each in ensemble.networks],
        "horizon": forecaster.horizon_,
        "fh": forecaster.fh_.tolist(),
        "fitted_steps": forecaster.fitted_steps_,
        "season": forecaster.season_,
        "cycles": list(history.cycles),
        "covariates": [_name(name) for name in forecaster.covariate_names_],
        "validation": forecaster.validation_,
        "notes": forecaster.notes_,
        "networks": len(next(iter(ensemble.networks.values()))),
        "lowest": forecaster.lowest_ if np.isfinite(forecaster.lowest_) else None,
    }
    arrays = {
        "values": frame.values,
        "covariates": history.covariates,
        "forecasts": scores.forecasts,
        "scales": scores.scales,
        "errors": scores.errors,
    }
    if stamps.times is not None:
        times = stamps.times
        arrays["times"] = times.astype(np.int64) if stamps.are_dates else times
    for transform, members in ensemble.networks.items():
        for number, network in enumerate(members):
            network.trained.write(path / _folder(transform, number))
    sealed.write_arrays(path / ARRAYS, arrays)
    sealed.write_json(path / RECORD, record)


def load(path: Path) -> RecurrentForecaster:
    """Read what `save` wrote; every file is checked, and none is executed."""
    from gatelab.estimators.forecasting.forecaster import RecurrentForecaster

    if not (path / RECORD).is_file():
        raise DataError(
            f"{path} holds no forecaster: expected a folder with a {RECORD}, as RecurrentForecaster.save writes"
        )
    try:
        record = ForecasterRecord.model_validate(sealed.read_json(within(path, path / RECORD)))
        transforms = [Transform(**each.model_dump()) for each in record.transforms]
    except (ValidationError, GatelabError) as error:
        why = first_problem(error) if isinstance(error, ValidationError) else str(error)
        raise DataError(f"{path / RECORD} cannot be read: {why}") from None
    arrays = sealed.read_arrays(within(path, path / ARRAYS))
    _check(path / ARRAYS, arrays, record)
    networks = {
        each: tuple(_network(within(path, path / _folder(each, i))) for i in range(record.networks))
        for each in transforms
    }
    try:
        forecaster = RecurrentForecaster(**record.parameters)
    except TypeError as error:
        raise sealed.damaged(path / RECORD, error) from None
    times = arrays.get("times")
    if times is not None and record.stamps.kind in ("dates", "periods"):
        times = times.astype("datetime64[us]")
    stamps = Index(times=times, **record.stamps.model_dump())
    _check_stamps(path / RECORD, stamps, record)
    frame = Series(arrays["values"], record.names, stamps, record.form, num_targets=len(record.names))
    forecaster.history_ = History(frame, arrays["covariates"], record.cycles)
    forecaster.covariate_names_, forecaster.season_ = record.covariates, record.season
    forecaster.fitted_steps_ = record.fitted_steps
    forecaster.lowest_ = -np.inf if record.lowest is None else record.lowest
    forecaster.horizon_, forecaster.fh_ = record.horizon, np.array(record.fh)
    forecaster.ensemble_ = Ensemble(networks, record.horizon)
    forecaster.scores_ = Scores(arrays["forecasts"], arrays["scales"], arrays["errors"])
    forecaster.validation_, forecaster.notes_ = record.validation, record.notes
    sizes = (len(record.names) + 2 * len(record.cycles) + len(record.covariates), len(record.names))
    for transform, members in networks.items():
        for number, network in enumerate(members):
            found = (network.model.preparation.input_size, network.model.preparation.output_size)
            if found != sizes:
                raise sealed.damaged(
                    path / _folder(transform, number),
                    f"a network reads {found[0]} numbers and answers {found[1]}: expected {sizes[0]} and {sizes[1]}",
                )
    _check_parameters(path / RECORD, forecaster)
    forecaster.cell = networks[transforms[0]][0].model.cell if forecaster.cell is None else forecaster.cell
    return forecaster


def _network(folder: Path) -> FittedRun:
    try:
        return FittedRun(Trained.read(folder), is_double=False)
    except OSError as error:
        raise DataError(f"{folder} cannot be read ({error}): expected a run directory; restore it") from None


def _folder(transform: Transform, number: int) -> str:
    return f"{transform.kind}-{number}"


def _check_parameters(path: Path, forecaster: RecurrentForecaster) -> None:
    """Refuse parameters that a forecast depends on, and which make no sense."""
    try:
        checks.bounds(forecaster)
    except GatelabError as error:
        raise sealed.damaged(path, error) from None
    if not isinstance(forecaster.adaptive, bool):
        raise sealed.damaged(path, f"adaptive is {short(forecaster.adaptive)}: expected true or false")


def _check_stamps(path: Path, stamps: Index, record: ForecasterRecord) -> None:
    """Refuse times that cannot be continued as far as forecasts go: pandas has its own errors for each reason."""
    farthest = max(record.horizon, *record.fh)
    try:
        ahead = stamps.future(farthest)
        if ahead is not None and stamps.times is not None and not (np.diff(ahead, prepend=stamps.times[-1:]) > 0).all():
            raise ValueError(f"with the frequency {short(stamps.freq)} they do not increase")
        stamps.ahead(farthest)
    except sealed.UNREADABLE as error:
        raise sealed.damaged(path, f"its times do not continue: {error}") from None
    if record.cycles and not (stamps.are_dates and ahead is not None):
        raise sealed.damaged(path, f"cycles are {', '.join(record.cycles)}, and the steps have no regular dates")


def _check(path: Path, arrays: dict[str, np.ndarray], record: ForecasterRecord) -> None:
    """Refuse arrays that do not fit the record."""
    H, K, E = record.horizon, len(record.names), len(record.covariates)
    S, N = len(arrays.get("values", ())), len(arrays.get("errors", ()))
    expected = {
        "values": (S, K),
        "covariates": (S, E),
        "forecasts": (N, H, K),
        "scales": (N, 1, K),
        "errors": (N, H, K),
    }
    for name, shape in expected.items():
        if name not in arrays or arrays[name].shape != shape or arrays[name].dtype != np.float64:
            raise sealed.damaged(path, f"expected {name} of shape {shape}")
    least = max(Transform(**each.model_dump()).context for each in record.transforms)
    if not least <= S <= record.stamps.steps:
        raise sealed.damaged(path, f"expected {least:,} to {record.stamps.steps:,} steps, and it has {S:,}")
    finite, known = [arrays[name] for name in ("values", "covariates", "scales")], ~np.isnan(arrays["errors"])
    if not all(np.isfinite(each).all() for each in finite) or (arrays["scales"] <= 0).any():
        raise sealed.damaged(path, "expected finite values, and scales above 0")
    if (arrays["errors"][known] < 0).any() or not np.isfinite(arrays["forecasts"][known]).all():
        raise sealed.damaged(path, "expected errors from 0 up, of finite forecasts")
    if record.transforms[0].log and (arrays["values"] <= 0).any():
        raise sealed.damaged(path, "expected positive values, which have logarithms")
    if (record.stamps.kind == "positions") != ("times" not in arrays):
        raise sealed.damaged(path, f"expected {'no' if 'times' in arrays else S} times")
    if (times := arrays.get("times")) is not None and (
        times.shape != (S,)
        or times.dtype not in ((np.int64,) if record.stamps.kind != "numbers" else (np.int64, np.float64))
        or not np.isfinite(times).all()
        or (times[1:] <= times[:-1]).any()
    ):
        raise sealed.damaged(path, f"expected {S} times, integers or finite numbers that increase")


def _name(name: Any) -> Name:
    """The name of a column as JSON has it."""
    return name if isinstance(name, (int, float, str, type(None))) else str(name)


def _plain(value: Any) -> Any:
    """NumPy's numbers as Python's."""
    if isinstance(value, np.generic):
        return value.item()
    raise GatelabError(f"the parameter {value!r} cannot be saved: expected numbers or text")
