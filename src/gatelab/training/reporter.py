"""What the training loop reports, for a terminal, a log, or a file that somebody watches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gatelab.training.checkpoint import Place
    from gatelab.training.loop import Outcome
    from gatelab.training.manifest import Manifest
    from gatelab.training.objective import Tally
    from gatelab.training.spec import RunSpec


class Reporter:
    """Called by the loop; this one is silent."""

    def start(self, spec: RunSpec, manifest: Manifest, place: Place) -> None:
        """Before the first batch."""

    def batch(self, epoch: int, batch: int, batches: int, examples: int, tally: Tally) -> None:
        """After each batch, with the number of examples seen in this epoch."""

    def epoch(self, line: dict[str, Any], better: bool) -> None:
        """After each epoch, with its line of metrics."""

    def wants_more(self, scores: list[float]) -> bool:
        """Before each epoch, with the validation scores of all epochs so far: whether to go on."""
        return True

    def note(self, text: str) -> None:
        """Something that the user should know."""

    def close(self) -> None:
        """When nothing more will come, even after an error."""

    def end(self, outcome: Outcome, manifest: Manifest) -> None:
        """At the end, after `close`."""

    def known(self, outcome: Outcome, manifest: Manifest) -> None:
        """Instead of all that: the run had ended before."""
