"""`gatelab config`: print all keys of a config file."""

from __future__ import annotations

from typing import Annotated

import typer


def config(
    task: Annotated[str, typer.Option(help="Task whose options are included.")] = "digits",
) -> None:
    """Print a config file with all keys at their defaults, for `gatelab train FILE`."""
    from gatelab.training.config import example

    typer.echo(example(task), nl=False)
