"""What a network reads and answers in place of values: differences from a simple forecast, in units of the window."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from gatelab.errors import DataError, GatelabError
from gatelab.formatting import listed

Kind = Literal["window", "difference", "seasonal", "seasonal+difference"]
KINDS: tuple[Kind, ...] = get_args(Kind)
ZERO = 1e-9  # relative to the values: a window that varies less is constant


@dataclass(frozen=True)
class Transform:
    """How a window of history and its future become inputs and targets, and back.

    Every kind has a reference forecast, from which the targets are differences: for `window` the mean of the window,
    for `difference` the last value, for `seasonal` the value of the last season, for `seasonal+difference` that value
    plus the change since the season before. The inputs are differenced the same way. Inputs and targets are divided by
    the scale of the window, so that a series may grow. With `log`, all of this is done with logarithms: `history` and
    `future` are values after `forwards`.
    """

    kind: Kind
    length: int  # T, the steps that the network reads
    season: int = 1
    log: bool = False

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise GatelabError(f"transform is {self.kind!r}: expected one of {', '.join(KINDS)}")
        if self.seasonal and self.season < 2:
            raise GatelabError(
                f"the transform {self.kind!r} needs a season of at least 2 steps, and season is {self.season}: pass "
                "season, or use 'difference'"
            )

    def __str__(self) -> str:
        return f"log, {self.kind}" if self.log else self.kind

    @property
    def seasonal(self) -> bool:
        """Whether the reference forecast repeats the last season."""
        return self.kind.startswith("seasonal")

    @property
    def context(self) -> int:
        """The steps of history that a forecast needs: those that are read, and those that they are compared with."""
        before = {"window": 0, "difference": 1, "seasonal": self.season, "seasonal+difference": self.season + 1}
        return max(2, self.length + before[self.kind])  # a change takes two steps

    def forwards(self, values: np.ndarray) -> np.ndarray:
        """The values or their logarithms."""
        if not self.log:
            return values
        if not (values > 0).all():
            raise DataError(
                f"the series has the value {values.min():g}, which has no logarithm: expected positive values; "
                "log=False works with any"
            )
        logarithms: np.ndarray = np.log(values)
        return logarithms

    def backwards(self, values: np.ndarray) -> np.ndarray:
        """Values in the units of the series."""
        if not self.log:
            return values
        with np.errstate(over="ignore"):  # an interval may be unbounded
            undone: np.ndarray = np.exp(values)
        return undone

    def inputs(self, history: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """What the network reads of the values, (N, context, K) → (N, T, K)."""
        differences = history
        if self.kind == "window":
            differences = history[:, -self.length :] - self._mean(history)
        if self.seasonal:
            differences = differences[:, self.season :] - differences[:, : -self.season]
        if self.kind.endswith("difference"):
            differences = np.diff(differences, axis=1)
        scaled: np.ndarray = differences / scale
        return scaled

    def _mean(self, history: np.ndarray) -> np.ndarray:
        mean: np.ndarray = history[:, -self.length :].mean(1, keepdims=True)
        return mean

    def scale(self, history: np.ndarray) -> np.ndarray:
        """The mean absolute change per step in the last T steps, (N, 1, K); 1 for constant windows."""
        read = history[:, -max(self.length, 2) :]  # the same steps for all kinds
        change = np.abs(np.diff(read, axis=1)).mean(1, keepdims=True)
        size = np.abs(read).max(1, keepdims=True)
        return np.where(change > ZERO * size, change, 1.0)

    def reference(self, history: np.ndarray, horizon: int = 1) -> np.ndarray:
        """The forecast from which targets are differences, (N, horizon, K)."""
        if self.kind == "window":
            return np.repeat(self._mean(history), horizon, 1)
        if self.kind == "difference":
            return np.repeat(history[:, -1:], horizon, 1)
        forecast: np.ndarray = history[:, np.arange(horizon) % self.season - self.season]
        if self.kind == "seasonal+difference":
            seasons = 1 + np.arange(horizon)[:, None] // self.season
            forecast = forecast + seasons * (history[:, -1:] - history[:, -1 - self.season, None])
        return forecast

    def targets(self, history: np.ndarray, scale: np.ndarray, future: np.ndarray) -> np.ndarray:
        """What the network has to answer, (N, horizon, K), given the future."""
        scaled: np.ndarray = (future - self.reference(history, future.shape[1])) / scale
        return scaled

    def forecast(self, history: np.ndarray, scale: np.ndarray, answer: np.ndarray) -> np.ndarray:
        """The forecast for an answer (N, horizon, K): `targets` inverted."""
        values: np.ndarray = self.reference(history, answer.shape[1]) + scale * answer
        return values


@dataclass(frozen=True)
class Combination:
    """One or several transforms, each with networks of its own, whose forecasts are averaged.

    They differ in their kind alone: length, season and logarithms are the same, and so is the scale of a window.
    """

    transforms: tuple[Transform, ...]

    def __str__(self) -> str:
        kinds = listed([each.kind for each in self.transforms])
        return f"log, {kinds}" if self.first.log else kinds

    @property
    def first(self) -> Transform:
        """One of the transforms, for what they have in common."""
        return self.transforms[0]

    @property
    def context(self) -> int:
        """The steps of history that a forecast needs."""
        return max(each.context for each in self.transforms)

    def with_log(self) -> Combination:
        """The same with logarithms."""
        return Combination(tuple(replace(each, log=True) for each in self.transforms))
