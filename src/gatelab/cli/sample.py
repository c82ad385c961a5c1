"""`gatelab sample`: text from a model of text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gatelab.cli.settings import WHOLE


def sample(
    run: Annotated[Path, typer.Argument(help="Directory of a run of the task text.")],
    length: Annotated[int, typer.Option(**WHOLE, help="Number of characters.")] = 500,
    temperature: Annotated[
        float, typer.Option(help="1 samples from the model, lower values prefer what is likely, 0 takes the likeliest.")
    ] = 0.8,
    prompt: Annotated[str, typer.Option(help="The text to continue.")] = "",
    seed: Annotated[int, typer.Option(**WHOLE, help="Random seed.")] = 0,
) -> None:
    """Write text in the manner of the text that a model was trained on."""
    from gatelab.use import load
    from gatelab.use.sampling import sample as sampled

    pieces = sampled(load(run), length, temperature=temperature, prompt=prompt, seed=seed)
    typer.echo(prompt, nl=False)
    for piece in pieces:
        typer.echo(piece, nl=False)
    typer.echo()
