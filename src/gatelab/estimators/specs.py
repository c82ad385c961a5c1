"""The spec of a run with an estimator's parameters: one for the estimators and for `gatelab fit`."""

from __future__ import annotations

from typing import Any

import numpy as np
from pydantic import ValidationError

from gatelab.errors import GatelabError, invalid
from gatelab.estimators import defaults
from gatelab.estimators.parameters import NetworkParameters
from gatelab.tasks import Task
from gatelab.training import ModelSpec, OptimizationSpec, RunSpec, TrainingSpec

RENAMED = {"num_epochs": "max_epochs", "patience": "n_iter_no_change", "options": "cell_options"}


def run_spec(parameters: NetworkParameters, task: Task, **training: Any) -> RunSpec:
    """Return the spec; `training` has further fields of its `TrainingSpec`. Errors have the names of the parameters."""
    epochs, batch_size = parameters.max_epochs, parameters.batch_size
    if isinstance(batch_size, (int, np.integer)) and batch_size > 0:  # otherwise the spec refuses it
        epochs = defaults.num_epochs(task.sizes[0], int(batch_size)) if epochs is None else epochs
        batch_size = defaults.even_batches(task.sizes[0], int(batch_size))
    try:
        return RunSpec(
            task=task,
            model=ModelSpec(
                cell=parameters.cell, hidden_size=parameters.hidden_size, num_layers=parameters.num_layers,
                stem=parameters.stem, bidirectional=parameters.bidirectional, pool=parameters.pool,
                dropout=parameters.dropout, head_dropout=parameters.head_dropout,
                options=parameters.cell_options or {},
            ),
            optimization=OptimizationSpec(
                optimizer=parameters.optimizer, learning_rate=parameters.learning_rate,
                weight_decay=parameters.weight_decay, schedule=parameters.schedule, clip_norm=parameters.clip_norm,
            ),
            training=TrainingSpec(
                num_epochs=epochs, batch_size=batch_size, device=parameters.device,
                label_smoothing=parameters.label_smoothing, **training
            ),
        )  # fmt: skip
    except ValidationError as error:
        message = str(invalid(type(parameters).__name__, error, parameters.get_params()))
    for field, parameter in RENAMED.items():
        message = message.replace(f": {field} ", f": {parameter} ")
    raise GatelabError(message)
