"""Networks as an estimator keeps them: trained through `gatelab.training`, run directories as bytes of their files."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from gatelab import tasks
from gatelab.disk import read_regular
from gatelab.errors import DataError, GatelabError
from gatelab.estimators.fitted import RunFiles
from gatelab.training import ModelSpec, OptimizationSpec, RunSpec, TrainingSpec, train
from gatelab.training.run import BEST, CELL, MANIFEST, METRICS, MODEL, TIMING

KEPT = (MANIFEST, MODEL, CELL, METRICS, BEST, TIMING)  # what a model is loaded from, and what people want to see
PER_EPOCH = 2048  # windows; an epoch ends with files on the disk, so that those of a short series are repeated
WATCHED = 256  # training windows on which the end of training is checked


class Network(RunFiles):
    """A trained network of a forecaster."""

    def predict(self, X: np.ndarray) -> np.ndarray:
        """(N, T, D) → (N, outputs), in the units of the targets."""
        model = self.model
        values: np.ndarray = model.preparation.decode(model.output(X), X)
        return values

    @classmethod
    def read(cls, folder: Path) -> Network:
        """Read a run directory, which is checked when the model is loaded."""
        try:
            return cls({name: read_regular(folder / name) for name in KEPT})
        except OSError as error:
            raise DataError(f"{folder} cannot be read ({error}): expected a run directory; restore it") from None


def trained(
    X: np.ndarray,
    y: np.ndarray,
    model: ModelSpec,
    optimization: OptimizationSpec,
    steps: int,
    batch: int,
    seed: int,
    threads: int = 1,
) -> Network:
    """Train on windows (N, T, D) with targets (N, outputs) for a number of optimizer steps.

    All windows are trained on: how long is given, not found by early stopping. What the run calls validation is a part
    of the training windows, and its best epoch is, with a learning rate that ends near 0, one of the last.
    """
    passes = max(1, round(steps * batch / len(X)))  # over all windows
    repeated = np.tile(np.arange(len(X)), min(passes, -(-PER_EPOCH // len(X))))
    watched = np.linspace(0, len(X) - 1, min(len(X), WATCHED)).round().astype(int)
    order = np.concatenate([repeated, watched, watched[:1]])
    split = np.repeat(["train", "validation", "test"], [len(repeated), len(watched), 1])
    task = tasks.from_arrays(X[order], y[order], split=split, classify=False)
    epochs = max(1, round(steps * batch / len(repeated)))
    training = TrainingSpec(num_epochs=epochs, batch_size=batch, seed=seed, threads=threads, test=False, device="cpu")
    spec = RunSpec(task=task, model=model, optimization=optimization, training=training)
    with tempfile.TemporaryDirectory() as folder:
        outcome = train(spec, Path(folder) / "run")
        if outcome.status != "done":
            raise GatelabError(
                f"training ended as {outcome.status}: expected a smaller learning_rate (it is "
                f"{optimization.learning_rate:g}), or fewer extreme values in the series"
            )
        return Network.read(Path(folder) / "run")
