"""A trained network in memory: what a run directory holds of it, and how it becomes one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from typing_extensions import Self

from gatelab import cells
from gatelab.cells import Choice
from gatelab.errors import DataError
from gatelab.tasks.preparation import Preparation
from gatelab.training import build, checkpoint, kept
from gatelab.training.manifest import Manifest, read_manifest
from gatelab.training.run import PREDICTIONS, Run, spec_of
from gatelab.training.spec import RunSpec


@dataclass
class Trained:
    """A network that was trained, with the record of its training: what `Run` reads. Pickled, it is plain data."""

    record: Manifest
    cell: Choice
    preparation: Preparation
    weights: dict[str, Tensor]  # those that were kept
    history: list[dict[str, Any]]  # a line per epoch
    examples: dict[str, np.ndarray]  # a few, as a run keeps them
    predictions: dict[str, np.ndarray]  # for the test set, if it was tested

    @classmethod
    def read(cls, path: Path) -> Self:
        """That of a run directory."""
        run = Run(path)
        model = run.model()
        return cls(
            record=run.manifest(),
            cell=run.cell,
            preparation=run.preparation,
            weights=dict(model.state_dict()),
            history=run.metrics(),
            examples=kept.read(run.file(kept.FILE)),
            predictions=run.predictions() if run.file(PREDICTIONS).is_file() else {},
        )

    def manifest(self) -> Manifest:
        """The spec, the machine and the outcome."""
        return self.record

    def best_epoch(self) -> int | None:
        """The epoch whose weights are kept."""
        return self.record.best_epoch

    def spec(self) -> RunSpec:
        """The spec, whose data is not there any more."""
        return spec_of(self.record.spec, self.cell, self.preparation, "the record of a training")

    def model(self) -> nn.Module:
        """A new model with the kept weights, in evaluation mode."""
        if not self.weights:
            raise DataError("no epoch was finished: there are no weights")
        spec = self.spec()
        model = build.model(spec.model, spec.task, spec.training.seed)
        model.load_state_dict(self.weights)
        return model.eval()

    def write(self, folder: Path) -> None:
        """Write the run directory; the manifest, with which the run exists, comes last."""
        run = Run(folder)
        folder.mkdir(parents=True, exist_ok=True)
        checkpoint.write_weights(run.best_path, self.weights, self.record.best_epoch or 0)
        run.write_metrics(self.history)
        run.write_timing(self.history)
        if self.predictions:
            run.write_predictions(self.predictions)
        run.begin(self.record, self.cell, self.preparation, self.examples)

    def __getstate__(self) -> dict[str, Any]:
        documents = {name: getattr(self, name).document() for name in ("record", "cell", "preparation")}
        weights = {name: value.numpy() for name, value in self.weights.items()}
        return {**vars(self), **documents, "weights": weights}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.record = read_manifest(state["record"], "a pickled network")
        self.cell = cells.choose(state["cell"])
        self.preparation = Preparation.read(state["preparation"], "a pickled network")
        self.weights = {name: torch.from_numpy(value) for name, value in state["weights"].items()}
