"""A series continued, in its own units and with its own times."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from gatelab.models import Forecaster, StepPredictor
from gatelab.tasks import stamps, tables
from gatelab.tasks.series import Ending
from gatelab.training import kept
from gatelab.training.process import denormals_flushed
from gatelab.use import inputs

if TYPE_CHECKING:
    from gatelab.use.trained import Trained


@dataclass(frozen=True)
class Continuation:
    """What comes next, and what it was read off."""

    columns: tuple[str, ...]  # that are forecast
    before: Ending  # the last window
    values: np.ndarray  # (steps, K)
    stamps: np.ndarray | None  # (steps,) datetime64[s]; None where there are no times, or no regular ones


def continuation(trained: Trained, steps: int, data: Any = None, future: Any = None) -> Continuation:
    """The next steps of the series of training, or of newer data."""
    prepared = trained.preparation
    if not prepared.forecasts:
        raise ValueError(
            f"{trained.run.path} does not forecast a series: its answers are of whole sequences; use predict"
        )
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise ValueError(f"steps is {steps!r}: expected an integer of at least 1")
    before = kept.ending(trained.run.file(kept.FILE), prepared) if data is None else _newer(trained, data)
    further = _further(trained, steps, future)
    values = _continued(trained, before.values, steps, further)
    times = None if before.stamps is None else stamps.continued(before.stamps, steps)
    return Continuation(prepared.columns[: prepared.output_size], before, values, times)


def _newer(trained: Trained, data: Any) -> Ending:
    """The last window of newer values of the series."""
    prepared = trained.preparation
    if isinstance(data, (str, Path)):
        table = tables.read_table(Path(data), prepared.header)
        values, times = table.pick(prepared.columns), table.stamps
    else:
        given = inputs.read(data, prepared)
        if len(given.values) != 1:
            raise ValueError(f"data has the shape {np.shape(data)}: expected one series, (S, {prepared.input_size})")
        inputs.refuse_gaps(given._replace(single=True), prepared)
        values, times = given.values[0], None
    return Ending(values[-prepared.steps :], None if times is None else times[-prepared.steps :])


def _further(trained: Trained, steps: int, future: Any) -> np.ndarray:
    """The further inputs at the steps to come, (steps − 1, inputs): the first step needs none."""
    prepared = trained.preparation
    names = prepared.columns[prepared.output_size :]
    if not names:
        if future is not None:
            raise ValueError("future was given, and this model reads nothing beside what it forecasts: leave it out")
        return np.empty((steps - 1, 0))
    if future is None and steps > 1:
        raise ValueError(
            f"this model has exogenous inputs ({', '.join(names)}): give their values for {steps - 1} future steps "
            "(future, or --future FILE.csv), or forecast 1 step"
        )
    if future is None:
        return np.empty((0, len(names)))
    if isinstance(future, (str, Path)):
        values = tables.read_table(Path(future)).pick(names)
    else:
        own = prepared.model_copy(update={"columns": names, "input_size": len(names)})
        values = inputs.read(future, own).values[0]
    if len(values) < steps - 1 or not np.isfinite(values).all():
        raise ValueError(f"future has {len(values)} steps: expected {steps - 1} at least, of finite numbers")
    return values[: steps - 1]


@torch.no_grad()
def _continued(trained: Trained, window: np.ndarray, steps: int, further: np.ndarray) -> np.ndarray:
    """The window is read once; then the model reads its own predictions, beside the further inputs."""
    prepared, module = trained.preparation, trained.module
    model = module.predictor if isinstance(module, Forecaster) else module
    assert isinstance(model, StepPredictor)
    values, state, last = [], None, window[-1]
    with denormals_flushed():
        x = prepared.encode(window[None])  # (1, T, D)
        for step in range(steps):
            output, state = model.step(x, state)
            values.append(prepared.decode(output[0, -1].numpy(), last))
            if step < len(further):
                last = np.concatenate([values[-1], further[step]])
                x = prepared.encode(last[None, None])
                x[0, 0, : prepared.output_size] = output[0, -1]  # its own prediction, bit for bit
    return np.stack(values)
