"""What `verbose` shows: the usual progress bar, without the directory of a run that is temporary."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gatelab.training.reporter import Reporter

if TYPE_CHECKING:
    from gatelab.training.loop import Outcome
    from gatelab.training.manifest import Manifest


def reporter(verbose: int) -> Reporter:
    """Return a reporter: a bar on a terminal, a line per epoch elsewhere, or nothing."""
    if not verbose:
        return Reporter()
    from rich.console import Console

    from gatelab.report.progress import Bar, Lines

    class FitLines(Lines):
        def end(self, outcome: Outcome, manifest: Manifest) -> None:
            pass  # the run is temporary, and `fit` raises what went wrong

    class FitBar(FitLines, Bar):
        pass

    console = Console(highlight=False)
    return FitBar(console) if console.is_terminal else FitLines(console)
