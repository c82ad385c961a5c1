"""`gatelab config`: every key of a config file, with default and meaning."""

from __future__ import annotations

from typing import Annotated

import typer


def config(
    task: Annotated[str, typer.Option(help="The task whose options are shown.")] = "digits",
) -> None:
    """Print a config file with every key at its default: save it, change it, run it with `gatelab train FILE`."""
    from gatelab.training.config import example

    typer.echo(example(task), nl=False)
