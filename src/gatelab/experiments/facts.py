"""Facts about cells and data, stored for reports, which are written from the directory alone."""

from __future__ import annotations

from dataclasses import dataclass

from gatelab.experiments.config import resolved
from gatelab.lang import Option
from gatelab.record import Record
from gatelab.tasks import Baseline, Task, summary
from gatelab.tasks.preparation import Preparation
from gatelab.training.spec import ModelSpec


@dataclass(frozen=True)
class Equations:
    """The equations of a model in all notations."""

    cell: str
    text: str
    typst: str
    reference: str


class TaskFacts(Record):
    """The task: what its inputs and outputs mean, and how much there is of it."""

    what: str
    preparation: Preparation
    sizes: tuple[int, int, int]
    split: str
    source: str
    in_bits: bool  # whether models are compared by the cross-entropy in bits, as for text
    default_bptt: int | None  # steps of truncated back-propagation unless the config says otherwise
    baseline: Baseline | None


def equations(model: ModelSpec) -> Equations:
    """The equations of a model, with removed gates replaced."""
    cell = model.equations()
    return Equations(cell.name, cell.text(), cell.typst(), model.cell.cell.reference)


def hyperparameters(model: ModelSpec) -> dict[str, Option]:
    """The hyperparameters of a model's cell: their values, and whether they are learned."""
    options: dict[str, Option] = resolved(model)[1]
    return options


def of_task(task: Task) -> TaskFacts:
    """That of a task, with its trivial baseline."""
    return TaskFacts(
        what=summary(type(task)),
        preparation=task.preparation,
        sizes=task.sizes,
        split=task.split_text(),
        source=type(task).source,
        in_bits=task.bits_metric is not None,
        default_bptt=task.default_bptt,
        baseline=task.baseline() if task.is_here() else None,
    )
