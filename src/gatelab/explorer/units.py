"""Facts about every unit over many test examples: means of its gates and states, and time constants."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from gatelab.analysis import Subject, time_constants
from gatelab.analysis.gates import traces_of
from gatelab.engine.unroll import unroll
from gatelab.tasks.examples import inside


@torch.no_grad()
def units(subject: Subject) -> list[dict[str, Any]]:
    """One record for each layer and direction, in the order of the network."""
    batch, model, cell = subject.probe(), subject.model, subject.cell
    features, ends = model.inputs(batch.x, batch.lengths)
    histories = unroll(subject.recurrent, features, ends, watch=True).histories
    exists = inside(batch.x, batch.lengths)
    directions = subject.recurrent.directions
    records = []
    for index, parameters in enumerate(subject.recurrent.cell_parameters()):
        seen = traces_of(cell, histories[index], exists)
        hyperparameters = {name: float(value) for name, value in parameters.scalars().items()}
        constants = time_constants(cell, seen, hyperparameters)
        means = {name: values[seen.inside].mean(0, dtype=np.float64) for name, values in seen.all.items()}
        records.append(
            {
                "layer": index // len(directions),
                "direction": directions[index % len(directions)],
                "means": {name: [_rounded(mean) for mean in values] for name, values in means.items()},
                "constants": {name: [_rounded(value) for value in values] for name, values in constants.items()},
            }
        )
    return records


def _rounded(value: float) -> float | None:
    """With six digits; None for the time constant of a unit that forgets nothing."""
    return None if math.isinf(value) else float(f"{value:.6g}")
