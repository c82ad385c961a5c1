"""What the training loop reports, for a terminal, a log, or a file that somebody watches."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gatelab.training.checkpoint import Place
    from gatelab.training.manifest import Manifest
    from gatelab.training.objective import Tally
    from gatelab.training.recorder import Outcome
    from gatelab.training.spec import RunSpec


# Before each epoch, with the validation scores of all epochs so far: whether to give up.
Pruner = Callable[[list[float]], bool]


class Reporter:
    """Called by the loop with what happens, and decides nothing; this one is silent."""

    def start(self, spec: RunSpec, manifest: Manifest, place: Place) -> None:
        """Before the first batch."""

    def batch(self, epoch: int, batch: int, batches: int, examples: int, tally: Tally) -> None:
        """After each batch, with the number of examples seen in this epoch."""

    def epoch(self, line: dict[str, Any], better: bool) -> None:
        """After each epoch, with its line of metrics."""

    def note(self, text: str) -> None:
        """Something that the user should know."""

    def close(self) -> None:
        """When nothing more will come, even after an error."""

    def end(self, outcome: Outcome, manifest: Manifest) -> None:
        """At the end, after `close`."""

    def known(self, outcome: Outcome, manifest: Manifest) -> None:
        """Instead of all that: the run had ended before."""


class Reporters(Reporter):
    """Several, in their order."""

    def __init__(self, several: Iterable[Reporter]) -> None:
        self.several = tuple(several)

    def start(self, spec: RunSpec, manifest: Manifest, place: Place) -> None:
        """Before the first batch."""
        for one in self.several:
            one.start(spec, manifest, place)

    def batch(self, epoch: int, batch: int, batches: int, examples: int, tally: Tally) -> None:
        """After each batch."""
        for one in self.several:
            one.batch(epoch, batch, batches, examples, tally)

    def epoch(self, line: dict[str, Any], better: bool) -> None:
        """After each epoch."""
        for one in self.several:
            one.epoch(line, better)

    def note(self, text: str) -> None:
        """Something that the user should know."""
        for one in self.several:
            one.note(text)

    def close(self) -> None:
        """When nothing more will come: all are closed, even if one of them cannot be."""
        with ExitStack() as stack:
            for one in reversed(self.several):  # the last one pushed is called first
                stack.callback(one.close)

    def end(self, outcome: Outcome, manifest: Manifest) -> None:
        """At the end."""
        for one in self.several:
            one.end(outcome, manifest)

    def known(self, outcome: Outcome, manifest: Manifest) -> None:
        """The run had ended before."""
        for one in self.several:
            one.known(outcome, manifest)
