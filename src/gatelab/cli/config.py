"""`gatelab config`: every key of a config file, with default and meaning."""

from __future__ import annotations

import typer


def config() -> None:
    """Print a config file with every key at its default: save it, change it, run it with `gatelab train FILE`."""
    from gatelab.training.config import example

    typer.echo(example(), nl=False)
