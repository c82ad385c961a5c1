"""`gatelab verify`: is a run or an experiment whole?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from gatelab.training.verify import Finding


def verify(
    directory: Annotated[Path, typer.Argument(help="The directory of a run or an experiment.", metavar="DIR")],
) -> None:
    """Read every file of a run or an experiment, compare it with its checksum and with the others, and say so in words.

    Exit code 0 only if all of it is whole.
    """
    from gatelab.training.verify import shown

    broken = 0
    for place, findings in _found(directory):
        typer.echo(str(place))
        for line in shown(findings):
            typer.echo(line)
        broken += sum(not finding.good for finding in findings)
    if broken:
        typer.echo(f"{broken} finding{'s are' if broken > 1 else ' is'} bad: {directory} is not whole", err=True)
        raise typer.Exit(1)
    typer.echo(f"{directory} is whole.")


def _found(directory: Path) -> list[tuple[Path, list[Finding]]]:
    from gatelab.errors import DataError
    from gatelab.experiments.verify import verify_experiment
    from gatelab.training import Run
    from gatelab.training.verify import verify as verify_run

    if not directory.is_dir():
        raise DataError(f"there is no directory {directory}: expected that of a run or an experiment")
    if (directory / "experiment.json").exists() or (directory / "studies.json").exists():
        return list(verify_experiment(directory))
    run = Run(directory)
    if not run.exists():
        raise DataError(f"{directory} holds neither a run nor an experiment")
    return [(directory, verify_run(run))]
