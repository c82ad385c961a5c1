"""The network of a fitted estimator."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from gatelab.training import Trained
from gatelab.use.trained_model import TrainedModel


@dataclass
class FittedRun:
    """The record of a training in memory, and the model that it made. Pickled, it is plain data."""

    trained: Trained
    is_double: bool = True  # in double precision a prediction does not depend on what else is predicted

    @cached_property
    def model(self) -> TrainedModel:
        """The model, made on first use."""
        model = TrainedModel(self.trained)
        return model.double() if self.is_double else model

    def __getstate__(self) -> dict[str, Any]:
        return {"trained": self.trained, "is_double": self.is_double}
