"""`gatelab verify`: check the files of a run or an experiment."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from gatelab.training.verify import Finding


def verify(
    directory: Annotated[
        Path, typer.Argument(help="Directory of a run, a forecaster or an experiment.", metavar="DIR")
    ],
) -> None:
    """Check every file of a run, a forecaster or an experiment against its checksum and against the other files.

    The exit code is 0 only if all files are intact.
    """
    from gatelab.formatting import counted
    from gatelab.training.verify import shown

    damaged = 0
    for path, findings in _findings(directory):
        typer.echo(str(path))
        for line in shown(findings):
            typer.echo(line)
        damaged += sum(not finding.good for finding in findings)
    if damaged:
        typer.echo(f"{counted(damaged, 'check')} failed: {directory} is not intact", err=True)
        raise typer.Exit(1)
    typer.echo(f"{directory} is intact.")


def _findings(directory: Path) -> list[tuple[Path, list[Finding]]]:
    from gatelab.errors import DataError
    from gatelab.estimators.forecasting.verify_forecaster import verify_forecaster
    from gatelab.experiments.verify_experiment import verify_experiment
    from gatelab.training import Run
    from gatelab.training.run import FORECASTER
    from gatelab.training.verify import verify as verify_run

    if not directory.is_dir():
        raise DataError(f"there is no directory {directory}: expected that of a run or an experiment")
    if (directory / "experiment.json").exists() or (directory / "studies.json").exists():
        return list(verify_experiment(directory))
    if (directory / FORECASTER).is_file():
        return list(verify_forecaster(directory))
    run = Run(directory)
    if not run.exists():
        raise DataError(
            f"{directory} holds neither a run nor an experiment: expected manifest.json, experiment.json, "
            "studies.json or forecaster.json in it"
        )
    return [(directory, verify_run(run))]
