"""`gatelab bench`: compare models over seeds."""

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
def bench(
    config: experiment.Config = None,
    task: experiment.TaskName = None,
    cells: Annotated[str | None, typer.Option(help="Cells to compare: lstm,gru,agru or FILE.py:NAME.")] = None,
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
    """Train every model with every seed, and compare them. The same command resumes an interrupted experiment."""
    changes: dict[Key, Any] = {
        ("task",): task,
        ("training", "num_epochs"): epochs,
        ("training", "device"): device,
        ("runs",): runs,
        ("models",): _models(cells) if cells else None,
        ("model", "hidden_size"): hidden_size,
    }
    changes = {key: value for key, value in changes.items() if value is not None} | settings(change or [])
    if config is None and ("models",) not in changes:
        raise GatelabError("no models to compare: give a config, or cells as in --cells lstm,gru,agru")
    studies = experiment.specs(config, changes, quick, data_dir)
    name = config.stem if config else studies[""].task.short_name
    directory = output_dir or Path("experiments") / f"{name}{'-quick' if quick else ''}"
    experiment.execute(studies, directory, execution, quiet)


def _models(cells: str) -> dict[str, dict[str, str]]:
    """One model per cell, named after it: NAME for FILE.py:NAME."""
    models: dict[str, dict[str, str]] = {}
    for cell in filter(None, map(str.strip, cells.split(","))):
        name = cell.rpartition(":")[2]
        if name in models:
            raise GatelabError(f"--cells {cells} has two models named {name}: give them different names in a config")
        models[name] = {"cell": cell} if ":" in cell else {}
    return models
