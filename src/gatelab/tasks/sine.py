"""A noisy sine wave, to be continued."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field, model_validator

from gatelab.tasks import pictures, series
from gatelab.tasks.baseline import Baseline, persistence
from gatelab.tasks.chance import stream
from gatelab.tasks.examples import Parts
from gatelab.tasks.preparation import Numbers
from gatelab.tasks.task import Task

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Sine(Task):
    """Windows of one long noisy sine wave; at every step, what comes next?"""

    name = "sine"
    source = "made up"
    rule = series.RULE
    per_step = True
    forecasts = True

    length: int = Field(50, ge=2, description="steps of a window")
    duration: int = Field(3000, ge=20, description="steps of the whole wave")
    period: float = Field(25.0, gt=2, description="steps of one oscillation")
    noise: float = Field(0.1, ge=0, description="deviation of the noise, where the wave has amplitude 1")

    @model_validator(mode="after")
    def _long_enough(self) -> Sine:
        if min(self.sizes) < 1:
            raise ValueError(
                f"a wave of {self.duration} steps has no window of {self.length} in each part: the duration must be at "
                f"least {series.least_steps(self.length)}"
            )
        return self

    @property
    def input_size(self) -> int:
        return 1

    @property
    def steps(self) -> int:
        return self.length

    @property
    def sizes(self) -> tuple[int, int, int]:
        return series.window_counts(self.duration, self.length)

    @cached_property
    def wave(self) -> np.ndarray:
        """All of it, (duration, 1), before it is scaled."""
        random = stream(self.seed, self.name)
        wave = np.sin(2 * np.pi * (np.arange(self.duration) / self.period + random.uniform()))
        return (wave + self.noise * random.standard_normal(self.duration))[:, None]

    @property
    def target_scaling(self) -> series.Scaling:
        return series.Scaling.of(self.wave[: series.cuts(self.duration)[1]])

    def load(self) -> Parts:
        return series.windows(self.target_scaling.apply(self.wave), self.length, targets=1)

    def _prepared(self) -> dict[str, Any]:
        return {**super()._prepared(), "columns": ("wave",), "scaling": Numbers.of(self.target_scaling)}

    def ending(self) -> series.Ending:
        return series.Ending(self.wave[-self.length :])

    def baseline(self) -> Baseline:
        return persistence(self)

    def picture(self) -> Figure:
        return pictures.windows(self, ("wave",))
