"""Standardization of columns: in tasks, runs and exports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import BeforeValidator, InstanceOf, PlainSerializer, WithJsonSchema

from gatelab.errors import GatelabError

if TYPE_CHECKING:
    from typing_extensions import Self


def _vector(value: Any) -> Any:
    """A list of a file as an array."""
    if not isinstance(value, list):
        return value
    if not all(type(number) in (int, float) for number in value) or not np.isfinite(value).all():
        raise ValueError("expected finite numbers")
    return np.array(value, np.float64)


Vector = Annotated[
    InstanceOf[np.ndarray],
    BeforeValidator(_vector),
    PlainSerializer(np.ndarray.tolist),
    WithJsonSchema({"type": "array", "items": {"type": "number"}}),
]


@dataclass(frozen=True, eq=False)
class Scaling:
    """(value − mean) / deviation, for each feature."""

    mean: Vector  # (D,) float64
    deviation: Vector

    def __post_init__(self) -> None:
        if self.mean.ndim != 1 or self.mean.shape != self.deviation.shape or not (self.deviation > 0).all():
            raise GatelabError("expected one positive deviation per mean")

    @classmethod
    def of(cls, values: np.ndarray, weights: np.ndarray | None = None) -> Self:
        """Fit to values (N, D) in float64, weighted by `weights` (N,); constant columns get deviation 1."""
        values = np.asarray(values, np.float64)
        middle = values.min(0) / 2 + values.max(0) / 2  # sums stay small for values that are huge or far from 0
        size = np.maximum(np.abs(values - middle).max(0), np.finfo(np.float64).tiny)
        relative = (values - middle) / size
        if weights is None:
            mean, deviation = relative.mean(0), relative.std(0) * size
        else:
            mean = np.average(relative, 0, weights)
            deviation = np.sqrt(np.average((relative - mean) ** 2, 0, weights)) * size
        return cls(mean * size + middle, np.where(deviation > 0, deviation, 1.0))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Scaling)
            and np.array_equal(self.mean, other.mean)
            and np.array_equal(self.deviation, other.deviation)
        )

    def __hash__(self) -> int:
        return hash((self.mean.tobytes(), self.deviation.tobytes()))

    def first(self, count: int) -> Scaling:
        """That of the first columns."""
        return Scaling(self.mean[:count], self.deviation[:count])

    def apply(self, values: np.ndarray) -> np.ndarray:
        """Scale to float32; values outside its range become infinite."""
        with np.errstate(over="ignore"):
            scaled: np.ndarray = ((values - self.mean) / self.deviation).astype(np.float32)
        return scaled

    def undo(self, scaled: np.ndarray) -> np.ndarray:
        """Values in the original units."""
        values: np.ndarray = scaled * self.deviation + self.mean
        return values
