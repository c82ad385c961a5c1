"""The subject of an analysis: a run, its model with the best weights, one layer, and test examples."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import torch
from torch import Tensor

from gatelab.engine.parameters import CellParameters
from gatelab.engine.recurrent import Recurrent
from gatelab.engine.unroll import Change, Trajectory, unroll
from gatelab.errors import DataError, GatelabError
from gatelab.lang import Cell
from gatelab.models import Model
from gatelab.tasks import Batch, Task
from gatelab.training import Run, kept
from gatelab.training.identity import changed_cell, changed_data, refuse
from gatelab.training.run import ESTIMATOR, REPORT, no_run

PROBED, VALUES = 64, 20_000_000  # at most this many examples, and values of their gates and states


@dataclass(frozen=True)
class Subject:
    """A trained model and the layer to analyse, in its forward direction."""

    run: Run
    task: Task
    model: Model  # in float64, so that tiny derivatives are not lost
    layer: int
    note: str = ""  # if the data has changed since the run, or is not available

    @property
    def recurrent(self) -> Recurrent:
        """The stacked recurrent layers of the model."""
        return self.model.recurrent

    @property
    def cell(self) -> Cell:
        """The cell of all layers."""
        return self.recurrent.cell

    @property
    def index(self) -> int:
        """The index of the layer's forward direction among all layers and directions."""
        return self.layer * len(self.recurrent.directions)

    @property
    def parameters(self) -> CellParameters:
        """The parameters of the layer's forward direction."""
        return list(self.recurrent.cell_parameters())[self.index]

    @property
    def hyperparameters(self) -> dict[str, float]:
        """The values of the cell's hyperparameters, fixed or learned."""
        return {name: float(value) for name, value in self.parameters.scalars().items()}

    def examples(self, count: int, first: int = 0) -> Batch:
        """At most `count` test examples from index `first` on, in float64."""
        if count < 1 or not 0 <= first < len(self.task.test):
            raise GatelabError(
                f"{count} test examples from index {first} on: expected at least one example, and an index from 0 to "
                f"{len(self.task.test) - 1}"
            )
        return in_float64(self.task.test.batch(torch.arange(first, min(first + count, len(self.task.test)))))

    def probe(self) -> Batch:
        """The first test examples, as many as statistics are computed over."""
        recorded = len(self.cell.gates) + len(self.cell.states)
        return self.examples(max(4, min(PROBED, VALUES // (self.task.steps * self.recurrent.hidden_size * recorded))))

    @torch.no_grad()
    def history(
        self, x: Tensor, lengths: Tensor | None, watch: bool = False, change: Change | None = None
    ) -> tuple[Trajectory, Tensor]:
        """States of the layer at every step (with `watch` also gates), and the predictions of the model."""
        features, ends = self.model.inputs(x, lengths)
        unrolled = unroll(self.recurrent, features, ends, watch=watch, change=change)
        return unrolled.histories[self.index], self.model.answer(unrolled.output, unrolled.state, ends)


def in_float64(batch: Batch) -> Batch:
    """The batch in float64; tokens and classes stay integers."""
    x, y = (values.double() if values.is_floating_point() else values for values in (batch.x, batch.y))
    return batch._replace(x=x, y=y)


def load(path: Path | str, layer: int | None = None, accept_changes: bool = False) -> Subject:
    """A run with its best weights, and one of its layers, by default the last."""
    run = Run(Path(path))
    if not run.exists():
        raise no_run(run.path)
    if run.best_epoch() is None:
        status = run.manifest().status
        what_to_do = "train it with a smaller learning rate" if status == "diverged" else (
            f"resume it: gatelab train --resume {run.path}"
        )  # fmt: skip
        raise DataError(
            f"{run.path} has no finished epoch (its status is {status}): expected a run with at least one finished "
            f"epoch; {what_to_do}"
        )
    model = cast(Model, run.model()).double().requires_grad_(False)
    if getattr(model, "stem", None) is not None:
        raise GatelabError(
            f"{run.path} has a stem: its layers read sequences that convolutions have shortened, whose steps are not "
            f"those of the data; expected a run with model.stem none, as {_without_stem(run)} makes it"
        )
    layers = model.recurrent.num_layers
    if layer is not None and not 0 <= layer < layers:
        expected = "0, since there is one layer" if layers == 1 else f"0 to {layers - 1}, counted from the input"
        raise GatelabError(f"layer is {layer}: expected {expected}")
    task, note = _data(run, accept_changes)
    return Subject(run, task, model, layers - 1 if layer is None else layer, note)


def _without_stem(run: Run) -> str:
    """The command that makes such a run without a stem."""
    if run.file(ESTIMATOR).is_file():
        return 'an estimator with stem="none"'
    path = run.spec().task.user_path
    if run.file(REPORT).is_file() and path is not None:
        return f"`gatelab fit {shlex.quote(str(path))} … --set model.stem=none --output-dir NEW`"
    return "`gatelab train … --set model.stem=none`"


def _data(run: Run, accept_changes: bool) -> tuple[Task, str]:
    """The data of the run, and a note; if the data is missing or has changed, the examples that the run has kept."""
    task = run.spec().task
    current = task.with_options()
    changes = list(changed_data(run, current))
    if not accept_changes:
        refuse(run.path, [*changed_cell(run), *changes], "to use the cell and the examples that the run has kept")
    if current.is_here() and not changes:
        return current, ""
    parts = kept.parts(run.file(kept.FILE), run.preparation)
    why = "has changed" if current.is_here() else "is not available"
    if parts is None or not len(parts.test):
        raise DataError(f"the data of {run.path} {why}, and the run has kept no test examples: restore the data")
    note = f"The data {why}: examples are the first {len(parts.test)} of the test set, which the run has kept."
    return task.reopened(run.preparation, parts), note


def checked_sample(subject: Subject, sample: int) -> int:
    """The index of a test example, if there is one with this index."""
    size = len(subject.task.test)
    if not 0 <= sample < size:
        raise GatelabError(
            f"sample is {sample}: expected 0 to {size - 1}, the index of a test example of {subject.task.name}"
        )
    return sample
