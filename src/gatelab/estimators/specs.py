"""The spec of a run with an estimator's parameters: one for the estimators and for `gatelab fit`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from pydantic import ValidationError

from gatelab.errors import invalid
from gatelab.estimators import defaults, parameters
from gatelab.estimators.parameters import NetworkParameters
from gatelab.tasks import Task
from gatelab.training import ModelSpec, OptimizationSpec, RunSpec, TrainingSpec


def run_spec(
    estimator: NetworkParameters,
    task: Task,
    owner: str | None = None,
    names: Mapping[str, str] | None = None,
    **training: Any,
) -> RunSpec:
    """The spec; `training` has further fields of its `TrainingSpec`. Errors name the parameters of the estimator, or
    what other `names` an `owner` has for fields of the spec.
    """
    given = parameters.values(estimator)
    given["model"]["options"] = given["model"]["options"] or {}
    if not estimator.early_stopping:
        del given["training"]["patience"]
    batch_size = estimator.batch_size
    if isinstance(batch_size, (int, np.integer)) and batch_size > 0:  # otherwise the spec refuses it
        if estimator.max_epochs is None:
            given["training"]["num_epochs"] = defaults.num_epochs(task.sizes[0], int(batch_size))
        given["training"]["batch_size"] = defaults.even_batches(task.sizes[0], int(batch_size))
    try:
        return RunSpec(
            task=task,
            model=ModelSpec(**given["model"]),
            optimization=OptimizationSpec(**given["optimization"]),
            training=TrainingSpec(**{**given["training"], **training}),
        )
    except ValidationError as error:
        own = {place.partition(".")[2]: name for place, name in parameters.names(estimator).items()}
        kind = type(estimator).__name__ if owner is None else owner
        raise invalid(kind, error, estimator.get_params(), {**own, **(names or {})}) from None
