"""Autoregressive forecasting, with prediction intervals."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor, nn

from gatelab.engine import Recurrent
from gatelab.engine.recurrent import State
from gatelab.errors import GatelabError
from gatelab.lang import Cell
from gatelab.models.predictor import StepPredictor


def conformal_rank(windows: int, level: float) -> int | None:
    """Return which of the sorted held-out errors bounds the next one with probability `level`, 1 for the smallest.

    If all are exchangeable, the coverage is at least `level`. That takes at least level / (1 − level) windows; None if
    there are fewer.
    """
    rank = math.ceil((windows + 1) * level - 1e-9)  # + 1 for the window to be predicted
    return rank if rank <= windows else None


class Forecast(NamedTuple):
    """A point forecast and a prediction interval."""

    mean: Tensor  # (B, steps_ahead, D)
    lower: Tensor
    upper: Tensor


class Forecaster(nn.Module):
    """A `StepPredictor` of the next input, which forecasts by feeding back its own predictions.

    Args:
        cell, hidden_size, num_layers and options: as in `StepPredictor`.
        series: D, the number of variables of the series.
    """

    residuals: Tensor  # (held-out windows, steps ahead, D), absolute errors, sorted along the windows

    def __init__(self, cell: str | Cell, series: int, hidden_size: int, num_layers: int = 1, **options: Any) -> None:
        super().__init__()
        if options.get("bidirectional"):
            raise GatelabError("a Forecaster cannot be bidirectional: the backward direction would see the target")
        self.predictor = StepPredictor(cell, series, hidden_size, series, num_layers, **options)
        self.register_buffer("residuals", torch.empty(0, 0, series), persistent=False)

    @property
    def recurrent(self) -> Recurrent:
        """The recurrent layers of the underlying predictor."""
        return self.predictor.recurrent

    def reset_parameters(self, generator: Generator | None = None) -> None:
        """Initialize all parameters again, from `generator` or torch's default one."""
        self.predictor.reset_parameters(generator)

    def inputs(self, x: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """What the recurrent layers read, and its lengths."""
        return self.predictor.inputs(x, lengths)

    def process(self, x: Tensor, state: State | None, *, lengths: Tensor | None = None) -> tuple[Tensor, State]:
        """`forward` from an initial state; also returns the final state, for processing series in chunks."""
        return self.predictor.process(x, state, lengths=lengths)

    def step(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """One step of a stream: (B, D) or (D,) → a prediction of the next input, and the state for the next step."""
        return self.predictor.step(x, state)

    def forward(self, x: Tensor, *, lengths: Tensor | None = None) -> Tensor:
        """(B, T, D) → (B, T, D): at every step, a prediction of the next input."""
        prediction: Tensor = self.predictor(x, lengths=lengths)
        return prediction

    def answer(self, output: Tensor, state: State, lengths: Tensor | None) -> Tensor:
        """The predictions (B, T, D), given the output of the layers."""
        return self.predictor.answer(output, state, lengths)

    @torch.no_grad()
    def predict_future(self, x: Tensor, steps_ahead: int) -> Tensor:
        """(B, T, D) → (B, steps_ahead, D). The window is processed once, then the state is carried along."""
        if not isinstance(steps_ahead, int) or steps_ahead < 1:
            raise GatelabError(f"steps_ahead is {steps_ahead!r}: expected an integer of at least 1")
        training, _ = self.training, self.eval()
        try:
            predictions, state = self.predictor.process(x, None)
            future = [predictions[:, -1].contiguous()]  # (B, D)
            while len(future) < steps_ahead:
                prediction, state = self.predictor.step(future[-1], state)
                future.append(prediction)
        finally:
            self.train(training)
        return torch.stack(future, 1)

    @torch.no_grad()
    def calibrate(self, x: Tensor, future: Tensor) -> Forecaster:
        """Store the forecast errors on held-out windows, for prediction intervals.

        x is (N, T, D), `future` (N, steps_ahead, D). Errors are kept separately for each step ahead and each variable.
        """
        if future.dim() != 3 or len(future) != len(x) or future.shape[2] != x.shape[2] or len(x) < 2:
            raise GatelabError(
                f"calibrate was given windows {tuple(x.shape)} and futures {tuple(future.shape)}: expected (N, T, D) "
                "and (N, steps_ahead, D) with N ≥ 2"
            )
        errors = (future - self.predict_future(x, future.shape[1])).abs()
        self.residuals = errors.sort(0).values
        return self

    def forecast(self, x: Tensor, steps_ahead: int, level: float = 0.9) -> Forecast:
        """`predict_future` with prediction intervals from the held-out errors (split conformal prediction).

        If the windows of `calibrate` and this one are exchangeable, the coverage is at least `level`, whatever the
        model. That takes at least level / (1 − level) windows; with fewer the interval is infinite. Overlapping windows
        of one series are not exchangeable; the coverage is then only approximate.
        """
        if not 0 < level < 1:
            raise GatelabError(f"level is {level!r}: expected a probability between 0 and 1")
        windows, calibrated = self.residuals.shape[:2]
        if not windows:
            raise GatelabError("prediction intervals need held-out errors, and there are none: call calibrate first")
        if steps_ahead > calibrated:
            raise GatelabError(
                f"steps_ahead is {steps_ahead}, and held-out errors reach {calibrated} steps ahead: call calibrate "
                "with longer futures"
            )
        mean = self.predict_future(x, steps_ahead)
        rank = conformal_rank(windows, level)
        width = (
            torch.full_like(mean[0], torch.inf) if rank is None else self.residuals[rank - 1, :steps_ahead]
        )  # (steps_ahead, D)
        return Forecast(mean, mean - width, mean + width)
