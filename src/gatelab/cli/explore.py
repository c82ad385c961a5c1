"""`gatelab explore`: a trained run on a page, to play with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gatelab.cli.settings import AcceptChanges
from gatelab.errors import GatelabError


def explore(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(help="Run directory; a second one is shown beside the first.", metavar="RUN [RUN2]"),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The page; by default RUN/explorer.html, of two runs explorer.html."),
    ] = None,
    gallery: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Train small networks on five tasks, and make a page of each in DIR."),
    ] = None,
    accept_changes: AcceptChanges = False,
) -> None:
    """Make a page in which a trained network runs: draw or type its input, stop time, set its gates, see its memory.

    The page is one file that needs no server and no network.
    """
    from gatelab.explorer import write_explorer, write_gallery
    from gatelab.report.links import link_reports
    from gatelab.training.run import EXPLORER

    paths = runs or []
    if gallery is not None:
        if paths or out is not None:
            raise GatelabError("--gallery trains its own runs: leave out RUN and --out")
        typer.echo(f"The gallery is {write_gallery(gallery)}")
        return
    if not 1 <= len(paths) <= 2:
        raise GatelabError(f"{len(paths)} runs: expected one run directory, two to compare, or --gallery DIR")
    page = out or (paths[0] / EXPLORER if len(paths) == 1 else Path(EXPLORER))
    if page.is_dir():
        raise GatelabError(f"{page} is a folder: expected a file, such as {page / EXPLORER}")
    typer.echo(f"The page is {write_explorer(paths, page, accept_changes)}")
    for path in paths:
        link_reports(path)
