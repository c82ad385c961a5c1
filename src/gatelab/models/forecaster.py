"""Series continued: a predictor that reads its own predictions, and how far off it may be."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor, nn

from gatelab.engine import Recurrent
from gatelab.engine.recurrent import State
from gatelab.lang import Cell
from gatelab.models.predictor import StepPredictor


class Forecast(NamedTuple):
    """What comes next, and an interval that holds it with the asked-for probability."""

    mean: Tensor  # (B, steps_ahead, D)
    lower: Tensor
    upper: Tensor


class Forecaster(nn.Module):
    """A `StepPredictor` whose answer at a step is the next input, so that it can go on from there.

    Args:
        cell, hidden_size, num_layers and options: as of `StepPredictor`.
        series: D, the number of series that are forecast together.
    """

    residuals: Tensor  # (held-out windows, steps ahead, D), sorted by size along the windows

    def __init__(self, cell: str | Cell, series: int, hidden_size: int, num_layers: int = 1, **options: Any) -> None:
        super().__init__()
        if options.get("bidirectional"):
            raise ValueError("a Forecaster cannot be bidirectional: reading from the end, it would see the answer")
        self.predictor = StepPredictor(cell, series, hidden_size, series, num_layers, **options)
        self.register_buffer("residuals", torch.empty(0, 0, series), persistent=False)

    @property
    def recurrent(self) -> Recurrent:
        return self.predictor.recurrent

    def reset_parameters(self, generator: Generator | None = None) -> None:
        self.predictor.reset_parameters(generator)

    def forward(self, x: Tensor, *, lengths: Tensor | None = None) -> Tensor:
        """(B, T, D) → (B, T, D): at every step, the input of the next one."""
        prediction: Tensor = self.predictor(x, lengths=lengths)
        return prediction

    def answer(self, output: Tensor, state: State, x: Tensor, lengths: Tensor | None) -> Tensor:
        return self.predictor.answer(output, state, x, lengths)

    @torch.no_grad()
    def predict_future(self, x: Tensor, steps_ahead: int) -> Tensor:
        """(B, T, D) → (B, steps_ahead, D). The window is read once; from then on the state is carried along."""
        if not isinstance(steps_ahead, int) or steps_ahead < 1:
            raise ValueError(f"steps_ahead is {steps_ahead!r}: expected an integer of at least 1")
        training, _ = self.training, self.eval()
        try:
            seen, state = self.predictor.step(x, None)
            future = [seen[:, -1:]]  # (B, 1, D)
            while len(future) < steps_ahead:
                following, state = self.predictor.step(future[-1], state)
                future.append(following)
        finally:
            self.train(training)
        return torch.cat(future, 1)

    @torch.no_grad()
    def calibrate(self, x: Tensor, future: Tensor) -> Forecaster:
        """Learn how far off forecasts are, from windows that were not trained on and what came after them.

        x is (N, T, D), `future` (N, steps_ahead, D). Errors are kept for each step ahead and each series by itself.
        """
        if future.dim() != 3 or len(future) != len(x) or future.shape[2] != x.shape[2] or len(x) < 2:
            raise ValueError(
                f"calibrate was given windows {tuple(x.shape)} and futures {tuple(future.shape)}: expected (N, T, D) "
                "and (N, steps_ahead, D) with N of 2 at least"
            )
        errors = (future - self.predict_future(x, future.shape[1])).abs()
        self.residuals = errors.sort(0).values
        return self

    def forecast(self, x: Tensor, steps_ahead: int, level: float = 0.9) -> Forecast:
        """`predict_future` with an interval from the held-out errors (split conformal prediction).

        If the windows of `calibrate` and this one are exchangeable, the interval holds the truth with probability
        `level` or more, whatever the model is. That takes at least level / (1 − level) windows; with fewer the
        interval is infinite. Windows of one series that overlap are not exchangeable, and the promise is then only
        approximate.
        """
        if not 0 < level < 1:
            raise ValueError(f"level is {level!r}: expected a probability between 0 and 1")
        windows, calibrated = self.residuals.shape[:2]
        if not windows:
            raise ValueError("an interval comes from held-out errors, and there are none: call calibrate first")
        if steps_ahead > calibrated:
            raise ValueError(
                f"an interval {steps_ahead} steps ahead needs errors that far ahead, and {calibrated} are known: call "
                "calibrate with longer futures"
            )
        mean = self.predict_future(x, steps_ahead)
        rank = math.ceil((windows + 1) * level - 1e-9)  # one more than the windows: the one to come counts as well
        width = (
            self.residuals[rank - 1, :steps_ahead] if rank <= windows else torch.full_like(mean[0], torch.inf)
        )  # (steps_ahead, D)
        return Forecast(mean, mean - width, mean + width)
