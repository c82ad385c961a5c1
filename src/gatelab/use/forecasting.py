"""Forecasts of a series in its original units, with timestamps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from gatelab.data import series_tables, timestamps
from gatelab.data.index import Index
from gatelab.data.reading import Reading
from gatelab.data.series import Series
from gatelab.errors import DataError, GatelabError
from gatelab.models import StepPredictor
from gatelab.training import kept
from gatelab.training.process import denormals_flushed
from gatelab.use import inputs

if TYPE_CHECKING:
    from gatelab.use.trained_model import TrainedModel

MOST_STEPS = 100_000  # of a forecast; each is a call of the model


@dataclass(frozen=True)
class Forecast:
    """The forecast values, and the window that they follow."""

    columns: tuple[str, ...]  # the target columns
    before: Series  # the last window
    values: np.ndarray  # (steps, K)
    stamps: np.ndarray | None  # (steps,) datetime64[s]; None without timestamps, or if they are irregular
    lower: np.ndarray | None = None  # (steps, K) of prediction intervals, if the model has them; NaN where it has none
    upper: np.ndarray | None = None
    coverage: float | None = None  # their probability
    advice: str = ""  # on the intervals; "" for none


def forecast(trained: TrainedModel, steps: int, data: Any = None, future: Any = None) -> Forecast:
    """Forecast the next steps of the training series, or of newer data."""
    prepared = trained.preparation
    if not prepared.forecasts:
        instead = "gatelab sample" if prepared.text is not None else "gatelab predict"
        raise GatelabError(f"{trained.run.path} was not trained on a series, which forecast needs: use {instead}")
    check_steps(steps)
    before = kept.ending(trained.run.file(kept.FILE), prepared) if data is None else _last_window(trained, data)
    times = before.index.dates_ahead(steps)
    exogenous = _exogenous(trained, steps, future, times)
    values = _iterated(trained, before.values, steps, exogenous)
    return Forecast(prepared.columns[: prepared.output_size], before, values, times)


def check_steps(steps: object) -> None:
    """Refuse a number of steps that no forecast has."""
    if isinstance(steps, bool) or not isinstance(steps, int) or not 1 <= steps <= MOST_STEPS:
        raise GatelabError(f"steps is {steps!r}: expected an integer from 1 to {MOST_STEPS:,}")


def _last_window(trained: TrainedModel, data: Any) -> Series:
    """The last window of newer values of the series."""
    prepared = trained.preparation
    if isinstance(data, (str, Path)):
        reading = (prepared.reading or Reading()).resolved(split=None, header=prepared.header)
        series = series_tables.read(Path(data), prepared.columns, reading)
    else:
        sequences = inputs.read(data, prepared)
        if len(sequences.values) != 1:
            raise GatelabError(f"data has the shape {np.shape(data)}: expected one series, (S, {prepared.input_size})")
        inputs.check_finite(replace(sequences, single=True), prepared)
        values = sequences.values[0]
        series = Series(values, prepared.columns, Index.at(None, len(values)), num_targets=prepared.output_size)
    return series if trained.is_stream else series.last(prepared.steps)


def _exogenous(trained: TrainedModel, steps: int, future: Any, times: np.ndarray | None) -> np.ndarray:
    """The future values of the exogenous inputs, (steps − 1, inputs): the last step needs none. A file with
    times has those of the forecast.
    """
    prepared = trained.preparation
    names = prepared.columns[prepared.output_size :]
    if not names:
        if future is not None:
            raise GatelabError("future was given, but this model has no exogenous inputs: leave it out")
        return np.empty((steps - 1, 0))
    if future is None and steps > 1:
        raise GatelabError(
            f"this model has exogenous inputs ({', '.join(names)}): give their values for {steps - 1} future steps "
            "(future, or --future FILE.csv), or forecast 1 step"
        )
    if future is None:
        return np.empty((0, len(names)))
    if isinstance(future, (str, Path)):
        reading = (prepared.reading or Reading()).resolved(split=None, header=prepared.header)
        given = series_tables.read(Path(future), names, reading)
        values = given.values
        if times is not None and given.stamps is not None and len(given.stamps) == len(values):
            values = _at(times[: steps - 1], given.stamps, values, str(future))
    else:
        exogenous = prepared.model_copy(update={"columns": names, "input_size": len(names)})
        sequences = inputs.read(future, exogenous)
        if len(sequences.values) != 1:
            raise GatelabError(f"future has the shape {np.shape(future)}: expected one series, (steps, {len(names)})")
        values = sequences.values[0]
    if not np.isfinite(values).all():
        raise GatelabError("future has values that are not finite: expected numbers for all future steps")
    if len(values) < steps - 1:
        raise GatelabError(f"future has {len(values)} steps: expected at least {steps - 1}")
    return values[: steps - 1]


def _at(times: np.ndarray, stamps: np.ndarray, values: np.ndarray, source: str) -> np.ndarray:
    """The rows of these times."""
    row = {stamp: i for i, stamp in enumerate(stamps.tolist())}
    if absent := [i for i, time in enumerate(times.tolist()) if time not in row]:
        first, last = timestamps.format_times(stamps[[0, -1]])
        raise DataError(
            f"{source} has no row for {timestamps.format_times(times[absent[:1]])[0]}: it has {first} to {last}; "
            "expected the times of the forecast"
        )
    return values[[row[time] for time in times.tolist()]]


@torch.no_grad()
def _iterated(trained: TrainedModel, window: np.ndarray, steps: int, exogenous: np.ndarray) -> np.ndarray:
    """Read the window, then feed the model its own predictions together with the exogenous inputs."""
    prepared, model = trained.preparation, trained.module
    assert isinstance(model, StepPredictor)
    values, state, last = [], None, window[-1]
    with denormals_flushed():
        x = prepared.encode(window[None])  # (1, T, D)
        for step in range(steps):
            output, state = model.process(x, state)
            values.append(prepared.decode(output[0, -1].numpy(), last))
            if step < len(exogenous):
                last = np.concatenate([values[-1], exogenous[step]])
                x = prepared.encode(last[None, None])
                x[0, 0, : prepared.output_size] = output[0, -1]  # its own prediction, bit for bit
    return np.stack(values)
