"""The networks of a forecaster: a window of a series in, the steps after it out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gatelab import tasks
from gatelab.errors import GatelabError
from gatelab.estimators.fitted import FittedRun
from gatelab.training import ModelSpec, OptimizationSpec, RunSpec, TrainingSpec, train_in_memory


@dataclass(frozen=True)
class Recipe:
    """How a network is trained."""

    model: ModelSpec
    optimization: OptimizationSpec
    steps: int  # of the optimizer
    batch: int
    threads: int = 1


def fit(X: np.ndarray, y: np.ndarray, recipe: Recipe, seed: int) -> FittedRun:
    """Train on windows (N, T, D) with targets (N, outputs), on all of them: how long is given, not found by early
    stopping.
    """
    task = tasks.from_arrays(X, y, split=np.full(len(X), "train"), classify=False)
    training = TrainingSpec(
        num_epochs=max(1, round(recipe.steps * recipe.batch / len(X))), batch_size=recipe.batch, seed=seed,
        threads=recipe.threads, test=False, device="cpu", keep="last",
    )  # fmt: skip
    optimization = recipe.optimization
    trained = train_in_memory(RunSpec(task=task, model=recipe.model, optimization=optimization, training=training))
    if trained.record.status != "done":
        raise GatelabError(
            f"training ended as {trained.record.status}: expected a smaller learning_rate (it is "
            f"{optimization.learning_rate:g}), or fewer extreme values in the series"
        )
    return FittedRun(trained, is_double=False)


def predict(network: FittedRun, X: np.ndarray) -> np.ndarray:
    """(N, T, D) → (N, outputs), in the units of the targets."""
    model = network.model
    values: np.ndarray = model.preparation.decode(model.output(X), X)
    return values
