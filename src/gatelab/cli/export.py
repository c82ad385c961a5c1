"""`gatelab export`: a trained run for another language or runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gatelab.cli.settings import WHOLE


def export(
    run: Annotated[Path, typer.Argument(help="Run directory, or a JSON file that was exported before.", metavar="RUN")],
    to: Annotated[str, typer.Option("--to", metavar="TARGET", help="onnx, c, js, torch, keras or json.")],
    out: Annotated[
        Path,
        typer.Option("--out", metavar="PATH", help="A file for onnx, keras and json, a folder for c, js and torch."),
    ],
    name: Annotated[
        str | None, typer.Option("--name", help="Name of functions and files; the run directory's by default.")
    ] = None,
    chunk: Annotated[
        int | None, typer.Option("--chunk", help="onnx: fix the time axis at N steps per call.", **WHOLE)
    ] = None,
    int8: Annotated[
        bool, typer.Option("--int8", help="c: store weights as 8-bit integers; reports the error.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check/--no-check", help="Compare with the model in the target's runtime.")
    ] = True,
) -> None:
    """Export a trained run: scaling, layers and head, with the state as input and output.

    The export is run in the target's own runtime, where that is installed, and compared with the model on random
    sequences, whole and in pieces; if it differs, nothing is written.
    """
    from gatelab.export import Settings
    from gatelab.export import export as exported_to
    from gatelab.export.write_export import TARGETS

    done = exported_to(run, to, out, name=name, with_check=check, settings=Settings(chunk=chunk, int8=int8))
    for file in done.files:
        typer.echo(f"{file}  {file.stat().st_size / 1000:,.0f} kB")
    if done.checked is not None:
        typer.echo(f"checked in {TARGETS[to].runtime}: {done.checked}")
    else:
        typer.echo(f"not checked: {done.unchecked}")
