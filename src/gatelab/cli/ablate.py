"""`gatelab ablate`: ablations of a model, over seeds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gatelab.cli import experiment
from gatelab.cli.execution import Execution, with_execution
from gatelab.cli.settings import settings
from gatelab.errors import GatelabError

if TYPE_CHECKING:
    from gatelab.training.config import Key


@with_execution
def ablate(
    config: experiment.Config = None,
    task: experiment.TaskName = None,
    cell: Annotated[
        str | None, typer.Option(help="Cell. Without a config each of its gates is removed, one at a time.")
    ] = None,
    hidden_size: experiment.HiddenSize = None,
    epochs: experiment.Epochs = None,
    runs: experiment.Runs = None,
    device: experiment.Device = None,
    quick: experiment.Quick = False,
    data_dir: experiment.DataDir = None,
    change: experiment.Change = None,
    output_dir: experiment.OutputDir = None,
    quiet: experiment.Quiet = False,
    *,
    execution: Execution,
) -> None:
    """Train a model and its arms with every seed, and compare them.

    In an arm, parts of the model are frozen, removed or initialized differently.

    Without a config each gate is removed, one at a time: gatelab ablate --task recall --cell gru
    """
    changes: dict[Key, Any] = {
        ("task",): task,
        ("model", "cell"): cell,
        ("model", "hidden_size"): hidden_size,
        ("training", "num_epochs"): epochs,
        ("training", "device"): device,
        ("runs",): runs,
    }
    changes = {key: value for key, value in changes.items() if value is not None} | settings(change or [])
    cell = changes.get(("model", "cell"), "gru")
    if config is None and not {("arms",), ("factors",)} & changes.keys():
        changes[("arms",)] = _every_gate(cell)
    studies = experiment.specs(config, changes, quick, data_dir)
    for study in studies.values():
        if not study.ablation:
            raise GatelabError(f"{config} has neither arms nor factors: use gatelab bench to compare models")
    name = config.stem if config else f"{cell}-{studies[''].task.short_name}"
    directory = output_dir or Path("experiments") / f"{name}{'-quick' if quick else ''}"
    experiment.execute(studies, directory, execution, quiet)


def _every_gate(name: str) -> dict[str, Any]:
    from gatelab import cells
    from gatelab.experiments.ablation import every_gate

    if not (arms := every_gate(cells.get(name))):
        raise GatelabError(f"cell {name!r} has no gate to remove: choose another cell, or write a config with arms")
    return arms
