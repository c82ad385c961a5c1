"""What is looked at: a run, the model with its best weights, one of its layers, and a few test examples."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import cast

import torch
from torch import Tensor

from gatelab.engine.parameters import CellParameters
from gatelab.engine.recurrent import Recurrent
from gatelab.engine.unroll import Change, History, unroll
from gatelab.errors import DataError
from gatelab.lang import Cell
from gatelab.models import Model
from gatelab.tasks import Batch, Task
from gatelab.training import Run, kept
from gatelab.training.identity import changed_cell, changed_data, refuse

PROBED, NUMBERS = 64, 20_000_000  # at most so many examples, and so many numbers that their gates and states are


@dataclass(frozen=True)
class Subject:
    """A trained model and the layer of it that is looked at, in its forward direction."""

    run: Run
    task: Task
    model: Model  # in float64, so that what is tiny is not lost
    layer: int
    note: str = ""  # where the data is not what the run was made with, or not here

    @property
    def recurrent(self) -> Recurrent:
        return self.model.recurrent

    @property
    def cell(self) -> Cell:
        return self.recurrent.cell

    @property
    def number(self) -> int:
        """The place of the layer's forward direction among all runs of the stack."""
        return self.layer * len(self.recurrent.directions)

    @property
    def parameters(self) -> CellParameters:
        return list(self.recurrent.runs())[self.number]

    @property
    def numbers(self) -> dict[str, float]:
        """The cell's own numbers, as given or learned."""
        return {name: float(value) for name, value in self.parameters.scalars().items()}

    def examples(self, count: int, first: int = 0) -> Batch:
        """So many test examples, or as many as there are, in float64."""
        if count < 1 or not 0 <= first < len(self.task.test):
            raise ValueError(
                f"asked for {count} test examples from {first} on: expected one at least, from 0 to "
                f"{len(self.task.test) - 1}"
            )
        return doubled(self.task.test.batch(torch.arange(first, min(first + count, len(self.task.test)))))

    def probe(self) -> Batch:
        """As many of the first test examples as are looked at together."""
        kept = len(self.cell.gates) + len(self.cell.states)
        return self.examples(max(4, min(PROBED, NUMBERS // (self.task.steps * self.recurrent.hidden_size * kept))))

    @torch.no_grad()
    def history(
        self, x: Tensor, lengths: Tensor | None, watch: bool = False, change: Change | None = None
    ) -> tuple[History, Tensor]:
        """What the layer went through on these examples, and what the model answered."""
        run = unroll(self.recurrent, x, lengths, watch=watch, change=change)
        return run.histories[self.number], self.model.answer(run.output, run.state, x, lengths)


def doubled(batch: Batch) -> Batch:
    """The same in float64; classes stay the integers they are."""
    return batch._replace(x=batch.x.double(), y=batch.y.double() if batch.y.is_floating_point() else batch.y)


def load(path: Path | str, layer: int | None = None, accept_changes: bool = False) -> Subject:
    """The best weights of a run, and its layer of that number; the last one, if none is given."""
    run = Run(Path(path))
    if not run.exists():
        inside = sorted(path.parent for path in run.path.glob("**/runs/*/*/manifest.json"))
        what = f"an experiment: look at one of its runs, as {inside[0]}" if inside else "not a run directory"
        raise DataError(f"{run.path} is {what}; expected a folder with a manifest.json, as `gatelab train` writes it")
    if run.best_epoch() is None:
        status = run.manifest()["status"]
        what_to_do = "train it with a smaller learning rate" if status == "diverged" else (
            f"resume it: gatelab train --resume {run.path}"
        )  # fmt: skip
        raise DataError(
            f"{run.path} has no finished epoch (its status is {status}): expected a run that was trained for one epoch "
            f"at least; {what_to_do}"
        )
    model = cast(Model, run.model()).double().requires_grad_(False)
    layers = model.recurrent.num_layers
    if layer is not None and not 0 <= layer < layers:
        there = "0, since there is one layer" if layers == 1 else f"0 to {layers - 1}, counted from the input"
        raise ValueError(f"the layer asked for is {layer}: expected {there}")
    task, note = _data(run, accept_changes)
    return Subject(run, task, model, layers - 1 if layer is None else layer, note)


def _data(run: Run, accept_changes: bool) -> tuple[Task, str]:
    """The data that the run was made with; where it is gone or another now, what was kept of it."""
    task = run.spec().task
    live = task.with_options()
    differs = list(changed_data(run, live))
    if not accept_changes:
        refuse(run.path, [*changed_cell(run), *differs], "to look at what the run itself has kept")
    if live.is_here() and not differs:
        return live, ""
    parts = kept.parts(run.file(kept.FILE), run.preparation)
    why = "has changed" if live.is_here() else "is not here"
    if parts is None:
        raise DataError(f"the data of {run.path} {why}, and the run has kept no examples of it")
    note = f"The data {why}: examples are the first {len(parts.test)} of the test set, which the run has kept."
    return task.reopened(run.preparation, parts), note


def checked_sample(subject: Subject, sample: int) -> int:
    there = len(subject.task.test)
    if not 0 <= sample < there:
        raise ValueError(
            f"the sample asked for is {sample}: expected 0 to {there - 1}, a test example of {subject.task.name}"
        )
    return sample
