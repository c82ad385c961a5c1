"""Facts about cells and data, stored for reports, which are written from the directory alone."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from gatelab.experiments.config import resolved
from gatelab.tasks import Task, summary
from gatelab.training.spec import ModelSpec


def of_cells(models: dict[str, ModelSpec]) -> dict[str, dict[str, str]]:
    """The equations of every model, with removed gates replaced, in all notations."""
    return {name: _equations(model) for name, model in models.items()}


def _equations(model: ModelSpec) -> dict[str, str]:
    cell = model.equations()
    return {
        "cell": cell.name,
        "text": cell.text(),
        "latex": cell.latex(),
        "typst": cell.typst(),
        "reference": model.cell.cell.reference,
    }


def of_hyperparameters(models: dict[str, ModelSpec]) -> dict[str, dict[str, Any]]:
    """The hyperparameters of every model's cell: their values, and whether they are learned."""
    return {name: {n: asdict(option) for n, option in resolved(model)[1].items()} for name, model in models.items()}


def of_task(task: Task) -> dict[str, Any]:
    """The task in numbers, and its trivial baseline."""
    return {
        "what": summary(type(task)),
        "steps": task.steps,
        "input_size": task.input_size,
        "per_step": task.per_step,
        "scaled_targets": task.preparation.target_scaling is not None,
        "differenced": task.preparation.differenced,
        "sizes": list(task.sizes),
        "split": task.split_text(),
        "source": type(task).source,
        "vocabulary_size": len(task.vocabulary),
        "in_bits": task.bits_metric is not None,
        "default_bptt": task.default_bptt,
        "baseline": task.baseline().document() if task.is_here() else None,
    }
