"""`gatelab doctor`: can the fused engine work here?"""

from __future__ import annotations

import os

import typer


def doctor() -> None:
    """Check the compiler, the machine and one compiled cell against the eager engine; exit code 1 if it cannot work."""
    import torch

    import gatelab
    from gatelab.engine import diagnosis

    typer.echo(f"gatelab {gatelab.__version__}, torch {torch.__version__}, {torch.get_num_threads()} threads")
    if override := os.environ.get("GATELAB_ENGINE"):
        typer.echo(f"GATELAB_ENGINE={override} decides over what layers are made with")
    findings = diagnosis.findings()
    width = max(len(finding.what) for finding in findings)
    for finding in findings:
        typer.echo(f"  {'ok ' if finding.good else 'NO '} {finding.what:<{width}}  {finding.said}")
    remedies = [finding.remedy for finding in findings if not finding.good]
    for remedy in remedies:
        typer.echo(f"\nWhat to do: {remedy}", err=True)
    if remedies:
        typer.echo("Until then everything runs on the eager engine.", err=True)
        raise typer.Exit(1)
    typer.echo("The fused engine works.")
