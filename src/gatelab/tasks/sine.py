"""Forecasting of a noisy sine wave."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field, model_validator

from gatelab.data.index import Index
from gatelab.data.series import Series
from gatelab.errors import GatelabError
from gatelab.tasks import pictures, series
from gatelab.tasks.baseline import Baseline, persistence
from gatelab.tasks.examples import Parts
from gatelab.tasks.sampling import stream
from gatelab.tasks.scaling import Scaling
from gatelab.tasks.task import Task

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Sine(Task):
    """Windows of one long noisy sine wave; the target at every step is the next value."""

    name = "sine"
    source = "synthetic"
    synthetic = True
    split_rule = series.SPLIT_RULE
    per_step = True
    forecasts = True

    length: int = Field(50, ge=2, lt=2**31, description="steps per window")
    duration: int = Field(3000, ge=20, lt=2**53, description="steps of the whole wave")
    period: float = Field(25.0, gt=2, description="steps per period")
    noise: float = Field(
        0.1, ge=0, le=1e100, description="standard deviation of the noise; the amplitude of the wave is 1"
    )

    @model_validator(mode="after")
    def _long_enough(self) -> Sine:
        if min(self.sizes) < 1:
            raise GatelabError(
                f"duration is {self.duration}: expected at least {series.least_steps(self.length)} for windows of "
                f"{self.length} steps in training, validation and test set; choose a smaller length"
            )
        return self

    @property
    def input_size(self) -> int:
        """D: the number of features per step."""
        return 1

    @property
    def steps(self) -> int:
        """T: the number of steps."""
        return self.length

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The number of training, validation and test examples."""
        return series.window_counts(self.duration, self.length)

    def data_bytes(self) -> int:
        """The memory of the wave, its noise, and the scaled copies."""
        return 32 * self.duration

    @cached_property
    def wave(self) -> np.ndarray:
        """The whole series (duration, 1) before scaling."""
        self.refuse_size()
        random = stream(self.seed, self.name)
        wave = np.sin(2 * np.pi * (np.arange(self.duration) / self.period + random.uniform()))
        return (wave + self.noise * random.standard_normal(self.duration))[:, None]

    @property
    def target_scaling(self) -> Scaling:
        """The scaling of the wave, fitted on the training part."""
        return Scaling.of(self.wave[: series.cuts(self.duration)[1]])

    def load(self) -> Parts:
        """Scale the wave and cut it into windows."""
        return series.windows(self.target_scaling.apply(self.wave), self.length, targets=1)

    def streams(self) -> Parts:
        """Each part of the wave as one sequence."""
        return series.streams(self.target_scaling.apply(self.wave), targets=1)

    def _preparation_fields(self) -> dict[str, Any]:
        return {
            **super()._preparation_fields(),
            "columns": ("wave",),
            "scaling": self.target_scaling,
        }

    def ending(self, steps: int | None = None) -> Series:
        """The last window before scaling, or as many steps."""
        values = self.wave[-(steps or self.length) :]
        return Series(values, ("wave",), Index.at(None, len(values)), num_targets=1)

    def baseline(self) -> Baseline:
        """The persistence baseline."""
        return persistence(self)

    def picture(self) -> Figure:
        """Draw a few training examples."""
        return pictures.windows(self, ("wave",))
