"""`gatelab doctor`: check whether the fused engine works on this machine."""

from __future__ import annotations

import os

import typer


def doctor() -> None:
    """Check the compiler, the kernels that exist, and a cell against the eager engine; exit code 1 if a check fails."""
    import torch

    import gatelab
    from gatelab.engine import diagnosis

    typer.echo(f"gatelab {gatelab.__version__}, torch {torch.__version__}, {torch.get_num_threads()} threads")
    if override := os.environ.get("GATELAB_ENGINE"):
        typer.echo(f"GATELAB_ENGINE={override} overrides the engine of all layers")
    findings = diagnosis.findings()
    width = max(len(finding.what) for finding in findings)
    for finding in findings:
        typer.echo(f"  {'ok ' if finding.good else 'NO '} {finding.what:<{width}}  {finding.message}")
    remedies = [finding.remedy for finding in findings if not finding.good]
    for remedy in remedies:
        typer.echo(f"\nWhat to do: {remedy}", err=True)
    if remedies:
        typer.echo("Until then all layers use the eager engine.", err=True)
        raise typer.Exit(1)
    if diagnosis.has_compiler():
        typer.echo("The fused engine works.")
    else:
        typer.echo("The fused engine works for cells that have a kernel; without a compiler the others use eager.")
