"""`gatelab bench`: models compared over seeds."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gatelab.cli.settings import settings

if TYPE_CHECKING:
    from gatelab.experiments.config import BenchSpec
    from gatelab.training.config import Key

QUICK = {"runs": 2, "num_epochs": 2, "limit": 1000}


def bench(
    config: Annotated[Path | None, typer.Argument(help="A YAML file; those in configs/ are ready to run.")] = None,
    task: Annotated[str | None, typer.Option(help="What to learn: digits, or mnist:order=pixels.")] = None,
    cells: Annotated[str | None, typer.Option(help="Cells to compare: lstm,gru,agru")] = None,
    hidden_size: Annotated[int | None, typer.Option(help="Units of a layer, for all models.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Times through the training data, at most.")] = None,
    runs: Annotated[int | None, typer.Option(help="Runs of each model, with one seed after the other.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A trial: 2 runs, 2 epochs, 1,000 images.")] = False,
    jobs: Annotated[int | None, typer.Option(help="Processes at a time; as many as cores unless said.")] = None,
    data_dir: Annotated[Path | None, typer.Option(metavar="DIR", help="A folder with one folder per data set.")] = None,
    change: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any key of the config: training.patience=5")
    ] = None,
    output_dir: Annotated[Path | None, typer.Option(metavar="DIR", help="Where the experiment goes.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing unless something goes wrong.")] = False,
) -> None:
    """Train every model with every seed, and compare them. The same command goes on where it was stopped."""
    from gatelab.cli.watching import watcher
    from gatelab.experiments import bench as experiments
    from gatelab.experiments.executor import LocalExecutor
    from gatelab.report.write import write_report

    changes: dict[Key, Any] = {
        ("task",): task,
        ("training", "num_epochs"): epochs,
        ("runs",): runs,
        ("models",): {name: {} for name in cells.split(",")} if cells else None,
        ("model", "hidden_size"): hidden_size,
    }
    changes = {key: value for key, value in changes.items() if value is not None} | settings(change or [])
    spec = _spec(config, changes, quick, data_dir)
    name = f"{config.stem if config else spec.task.name}{'-quick' if quick else ''}"
    where = output_dir or Path("experiments") / name
    for remark in experiments.remarks(spec) if not quiet else ():
        typer.echo(f"note: {remark}", err=True)
    try:
        results = experiments.bench(spec, where, LocalExecutor(jobs), watcher(quiet))
    except KeyboardInterrupt:
        typer.echo(f"stopped; the same command goes on, in {shlex.quote(str(where))}", err=True)
        raise typer.Exit(130) from None
    summary = write_report(where)
    if not quiet:
        typer.echo((where / "results_summary.md").read_text())
        typer.echo(f"The report is in {summary}")
    failed = sum(run["status"] not in ("done", "diverged") for m in results["models"].values() for run in m["runs"])
    raise typer.Exit(1 if failed else 0)


def _spec(config: Path | None, changes: dict[Key, Any], quick: bool, data_dir: Path | None) -> BenchSpec:
    from gatelab.experiments import config as configs
    from gatelab.training.config import changed

    if config is None and ("models",) not in changes:
        raise ValueError("there is nothing to compare: name a config, or cells as in --cells lstm,gru,agru")
    spec = configs.load(config, changes) if config else configs.parse(changed({}, changes), "the command line")
    task, training, runs = spec.task.looked_for_in(data_dir), spec.training, spec.runs
    if quick:
        runs = min(QUICK["runs"], runs)
        training = training.model_copy(update={"num_epochs": min(QUICK["num_epochs"], training.num_epochs)})
        if "limit" in task.options():
            task = task.with_options(limit=min(QUICK["limit"], task.options()["limit"] or QUICK["limit"]))
    return spec.model_copy(update={"task": task, "training": training, "runs": runs})
