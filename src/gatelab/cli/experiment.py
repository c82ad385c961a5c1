"""Shared by `gatelab bench` and `gatelab ablate`: options that override a config, execution, and the report."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gatelab.cli.settings import WHOLE
from gatelab.errors import GatelabError

if TYPE_CHECKING:
    from gatelab.cli.execution import Execution
    from gatelab.experiments.config import BenchSpec
    from gatelab.training.config import Key

QUICK = {"runs": 2, "num_epochs": 2, "limit": 1000, "trials": 4}

Config = Annotated[Path | None, typer.Argument(help="Config file (YAML), such as those in configs/.")]
TaskName = Annotated[str | None, typer.Option("--task", help="Task: digits, or mnist:order=pixels.")]
HiddenSize = Annotated[
    int | None, typer.Option("--hidden-size", **WHOLE, help="Hidden units per layer, for all models.")
]
Epochs = Annotated[int | None, typer.Option("--epochs", **WHOLE, help="Maximum number of epochs.")]
Device = Annotated[str | None, typer.Option("--device", help="Device of all runs: auto, cpu, cuda or mps.")]
Runs = Annotated[int | None, typer.Option("--runs", **WHOLE, help="Number of runs (seeds) per model.")]
Quick = Annotated[bool, typer.Option("--quick", help="Quick trial: at most 2 runs, 2 epochs and 1,000 images.")]
DataDir = Annotated[
    Path | None, typer.Option("--data-dir", metavar="DIR", help="Directory with one subdirectory per data set.")
]
Change = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the config: training.patience=5."),
]
OutputDir = Annotated[Path | None, typer.Option("--output-dir", metavar="DIR", help="Directory for the experiment.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print errors only.")]


def specs(config: Path | None, changes: dict[Key, Any], quick: bool, data_dir: Path | None) -> dict[str, BenchSpec]:
    """The studies of a config or of the command line, with all overrides."""
    from gatelab.experiments import config as configs
    from gatelab.training.config import changed

    studies = configs.load(config, changes) if config else {"": configs.parse(changed({}, changes), "the command line")}
    return {name: _overridden(spec, quick, data_dir) for name, spec in studies.items()}


def _overridden(spec: BenchSpec, quick: bool, data_dir: Path | None) -> BenchSpec:
    task, training, runs = spec.task.with_data_dir(data_dir), spec.training, spec.runs
    if quick:
        runs = min(QUICK["runs"], runs)
        training = training.model_copy(update={"num_epochs": min(QUICK["num_epochs"], training.num_epochs)})
        if "limit" in task.options():
            task = task.with_options(limit=min(QUICK["limit"], task.options()["limit"] or QUICK["limit"]))
        if spec.tune is not None:
            few = {"trials": min(QUICK["trials"], spec.tune.trials), "num_epochs": training.num_epochs}
            spec = spec.model_copy(update={"tune": spec.tune.model_copy(update=few)})
    return spec.model_copy(update={"task": task, "training": training, "runs": runs})


def execute(studies: dict[str, BenchSpec], directory: Path, execution: Execution, quiet: bool) -> None:
    """Execute the studies, write the reports, and exit with 1 if a run failed."""
    from gatelab.cli.terminal.experiment import watcher
    from gatelab.experiments import bench
    from gatelab.experiments import studies as experiments
    from gatelab.experiments.experiment import planned_family
    from gatelab.report.write_report import write_reports

    if directory.exists() and not directory.is_dir():
        raise GatelabError(f"{directory} is a file: expected a new directory, or that of an experiment to resume")
    executor, tests = execution.make(), planned_family(studies).tests
    for remark in {r: None for spec in studies.values() for r in bench.remarks(spec, tests)} if not quiet else ():
        typer.echo(f"note: {remark}", err=True)
    if execution.dry_run:
        for name, runs in experiments.checked_plans(studies, directory).items():
            list(executor.execute(runs, directory / name, lambda: None))
        return
    if execution.plan_only or executor.detached:
        if execution.plan_only:
            plans = experiments.plan_only(studies, directory, executor.threads_for)
        else:
            plans = experiments.submit(studies, directory, executor)
        place = shlex.quote(str(directory))
        if not quiet:
            count = sum(map(len, plans.values()))
            typer.echo(f"The plan of {count} runs is in {directory}.", err=True)
            if execution.plan_only:
                typer.echo(f"Execute it, on any number of machines: gatelab worker {place}", err=True)
            typer.echo(f"Follow it: gatelab status {place} --watch", err=True)
            typer.echo(f"Write the report: gatelab report {place}", err=True)
        return
    try:
        results = experiments.execute(studies, directory, executor, watcher(quiet))
    except KeyboardInterrupt:
        typer.echo(f"interrupted; the same command resumes it, in {shlex.quote(str(directory))}", err=True)
        raise typer.Exit(130) from None
    report = write_reports(directory, experiments.directories(directory))
    if not quiet:
        typer.echo((directory / "results_summary.md").read_text())
        typer.echo(f"The report is in {report}")
    statuses = {run.status for result in results for model in result.models.values() for run in model.runs}
    raise typer.Exit(0 if "done" in statuses <= {"done", "diverged"} else 1)
