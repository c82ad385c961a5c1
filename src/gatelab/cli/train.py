"""`gatelab train`: train one run, or resume it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gatelab.cli.settings import WHOLE, AcceptChanges, settings
from gatelab.errors import GatelabError

if TYPE_CHECKING:
    from gatelab.training.spec import RunSpec

DIVERGED, INTERRUPTED = 3, 130  # exit codes; shells expect 130 after Ctrl-C


def train(
    config: Annotated[Path | None, typer.Argument(help="Config file (YAML); `gatelab config` prints one.")] = None,
    task: Annotated[str | None, typer.Option(help="Task: mnist, or mnist:order=pixels,limit=1000.")] = None,
    cell: Annotated[str | None, typer.Option(help="Cell, or FILE.py:NAME for your own.")] = None,
    hidden_size: Annotated[int | None, typer.Option(**WHOLE, help="Hidden units per layer.")] = None,
    layers: Annotated[int | None, typer.Option(**WHOLE, help="Number of layers.")] = None,
    epochs: Annotated[int | None, typer.Option(**WHOLE, help="Number of epochs.")] = None,
    batch_size: Annotated[int | None, typer.Option(**WHOLE, help="Batch size.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Learning rate.")] = None,
    seed: Annotated[int | None, typer.Option(**WHOLE, help="Random seed (initialization, order, dropout).")] = None,
    engine: Annotated[str | None, typer.Option(help="Engine: auto, fused, native, compiled or eager.")] = None,
    threads: Annotated[int | None, typer.Option(**WHOLE, help="Number of CPU threads.")] = None,
    device: Annotated[str | None, typer.Option(help="Device: auto, cpu, cuda or mps.")] = None,
    data_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Directory with one subdirectory per data set.")
    ] = None,
    change: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the config: optimization.schedule=cosine."),
    ] = None,
    output_dir: Annotated[Path | None, typer.Option(metavar="RUN", help="Run directory.")] = None,
    resume: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="Resume an interrupted run; with --epochs, train it for more epochs."),
    ] = None,
    accept_changes: AcceptChanges = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print errors only.")] = False,
) -> None:
    """Train one model on one task. Ctrl-C stops after the current batch; --resume continues bit for bit."""
    from gatelab.report.progress import reporter
    from gatelab.tasks import find
    from gatelab.tasks.recorded import Recorded
    from gatelab.training import Run, TrainingSpec
    from gatelab.training import train as run_training
    from gatelab.training.spec import made

    flags = {
        ("task",): task,
        ("model", "cell"): cell,
        ("model", "hidden_size"): hidden_size,
        ("model", "num_layers"): layers,
        ("model", "engine"): engine,
        ("training", "num_epochs"): epochs,
        ("training", "batch_size"): batch_size,
        ("training", "seed"): seed,
        ("training", "threads"): threads,
        ("training", "device"): device,
        ("optimization", "learning_rate"): learning_rate,
    }
    changes = {key: value for key, value in flags.items() if value is not None} | settings(change or [])
    if resume is not None:
        kept = GatelabError(f"--resume {resume} keeps the settings of the run: leave out all settings but --epochs")
        if config is not None or output_dir is not None or changes.keys() - {("training", "num_epochs"), ("task",)}:
            raise kept
        spec, directory = Run(resume).spec(), resume
        if task is not None:  # code of a run is executed only where it is named
            if not isinstance(spec.task, Recorded):
                raise kept
            spec = spec.model_copy(update={"task": find(task).make(spec.task.options())})
        if epochs is not None:
            training = made(TrainingSpec, {**spec.training.document(), "num_epochs": epochs}, "--epochs")
            spec = spec.model_copy(update={"training": training})
    else:
        spec = _spec(config, changes)
        name = f"{spec.task.short_name}-{Path(spec.model.cell.name).name}-seed{spec.training.seed}"
        directory = output_dir or Path("runs") / name
    spec = spec.model_copy(update={"task": spec.task.with_data_dir(data_dir)})
    extend = resume is not None and epochs is not None
    try:
        status = run_training(spec, directory, reporter(quiet), extend=extend, accept_changes=accept_changes).status
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    raise typer.Exit(DIVERGED if status == "diverged" else 0)


def _spec(config: Path | None, changes: dict[Any, Any]) -> RunSpec:
    from gatelab.training import config as configs

    if config is not None:
        return configs.load(config, changes)
    return configs.parse(configs.changed({}, changes), "the command line")
