"""Tasks whose shapes and classes follow from data: what their inputs and outputs mean is in their preparation."""

from __future__ import annotations

from gatelab.tasks.task import Task


class Prepared(Task):
    """A task that has its shapes and classes from its preparation, instead of the other way round."""

    @property
    def input_size(self) -> int:
        """D: the number of features per step, or the size of the vocabulary."""
        return self.preparation.input_size

    @property
    def steps(self) -> int:
        """T: the number of steps of the longest sequence, or the window of a series."""
        return self.preparation.steps

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The text of each token; empty for numbers."""
        return self.preparation.vocabulary

    @property
    def classes(self) -> tuple[str, ...] | None:
        """The class names; None for regression."""
        return self.preparation.classes

    @property
    def output_size(self) -> int:
        """The number of classes, or of target values."""
        return self.preparation.output_size

    @property
    def per_step(self) -> bool:  # type: ignore[override]
        """Whether there is a target at every step."""
        return self.preparation.per_step

    @property
    def forecasts(self) -> bool:  # type: ignore[override]
        """Whether the target at a step is the input at the next step."""
        return self.preparation.forecasts
