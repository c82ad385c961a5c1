"""The user's own data as a task, whether it comes from files or from arrays in memory."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from gatelab.data import splits
from gatelab.data.reading import Fill, Reading
from gatelab.data.sequences import Sequences
from gatelab.data.series import Series
from gatelab.errors import DataError
from gatelab.tasks import series
from gatelab.tasks.baseline import Baseline, persistence
from gatelab.tasks.examples import Examples, Floats, Parts, TokenIndices
from gatelab.tasks.own import division, figures, overview
from gatelab.tasks.preparation import Preparation
from gatelab.tasks.prepared import Prepared
from gatelab.tasks.scaling import Scaling
from gatelab.tasks.task import Description

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DRIFT = 0.1  # fraction of validation values outside the training range above which a series is differenced


class OwnData(Prepared):
    """Data of the user's own. A subclass reads it: `content` has it in one form."""

    from_disk = True
    split_rule = "70 / 15 / 15 %: chronological for a series; random for sequences, stratified by their labels"

    length: int = Field(50, ge=1, description="series: steps per window")
    difference: bool | None = Field(
        None,
        description="series: forecast differences instead of levels, for series that drift; by default if more "
        f"than {100 * DRIFT:.0f} % of the validation values are outside the range of the training values",
    )
    classify: bool | None = Field(
        None, description="whether targets are classes; by default text and integers are, and floats are not"
    )
    tokens: bool = Field(False, description="whether each step is a token, an integer or text, and not a quantity")
    fill: Fill | None = Field(
        None,
        description="missing values and steps: interpolate (which looks ahead to the next value), previous (which does "
        "not), none (missing steps are passed over); refused by default",
    )

    @cached_property
    def content(self) -> Sequences | Series:
        """The data in one form, read on first use."""
        raise NotImplementedError

    # Shapes and classes come from the data, or from the record of a run.

    @property
    def series(self) -> Series | None:
        """The data, if it is a series to forecast."""
        return self.content if isinstance(self.content, Series) else None

    @property
    def sequences(self) -> Sequences:
        """The data, if it is sequences with targets."""
        assert isinstance(self.content, Sequences)
        return self.content

    @cached_property
    def preparation(self) -> Preparation:
        """The preprocessing, fitted on the training set."""
        content = self.content
        common: dict[str, Any] = {
            "header": getattr(self, "header", None),
            "target_scaling": self.target_scaling,
            "reading": content.reading if content.reading != Reading() else None,
        }
        if isinstance(content, Series):
            return Preparation(
                kind="numbers",
                input_size=len(content.columns),
                steps=self.length,
                columns=content.columns,
                scaling=self.scaling,
                per_step=True,
                forecasts=True,
                output_size=content.num_targets,
                differenced=self.is_differenced,
                **common,
            )
        assert content.targets is not None
        is_tokens = bool(content.vocabulary)
        return Preparation(
            kind="tokens" if is_tokens else "numbers",
            input_size=len(content.vocabulary) if is_tokens else content.values.shape[-1],
            steps=content.values.shape[1],
            columns=() if is_tokens else content.columns,
            vocabulary=content.vocabulary,
            scaling=None if is_tokens else self.scaling,
            per_step=content.per_step,
            classes=content.classes,
            label_type=content.label_type,
            output_size=content.targets.shape[-1] if content.classes is None else len(content.classes),
            **common,
        )

    @cached_property
    def is_differenced(self) -> bool:
        """Whether differences are forecast: as the option says, or by default if the validation values drift."""
        if self.series is None:
            return False
        return self._drift(self.series) > DRIFT if self.difference is None else self.difference

    def _drift(self, given: Series) -> float:
        return series.outside_training_range(given.values, given.num_targets, self.cuts)

    @cached_property
    def cuts(self) -> tuple[int, int, int, int]:
        """The boundaries of the parts of a series: its own, or 70 / 15 / 15 %."""
        content = self.content
        if content.parts is None:
            return series.cuts(len(content.values))
        cuts = splits.boundaries(content.parts, np.arange(len(content.parts)) + 1, content.source)
        shortest = min(b - a for a, b in itertools.pairwise(cuts))
        if shortest <= self.length:
            raise DataError(
                f"{content.source}: the shortest part of its split has {shortest:,} steps: expected at least "
                f"{self.length + 1} for windows of {self.length} steps; choose a smaller length"
            )
        return cuts

    def _levels(self, given: Series) -> np.ndarray:
        """The whole series before scaling: levels, or differences of the target columns."""
        return series.differenced(given.values, given.num_targets) if self.is_differenced else given.values

    def ending(self, steps: int | None = None) -> Series | None:
        """The last window of a series in its original units, or as many steps."""
        return None if self.series is None else self.series.last(steps or self.length)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The number of training, validation and test examples."""
        if self.series is not None:
            train, validation, test = (b - a - self.length for a, b in itertools.pairwise(self.cuts))
        else:
            train, validation, test = map(len, self.indices)
        return train, validation, test

    @cached_property
    def scaling(self) -> Scaling:
        """The scaling of the inputs, fitted on the training set."""
        if self.series is not None:
            return Scaling.of(self._levels(self.series)[: self.cuts[1]])
        return Scaling.of(*self._training_steps(self.content.values))

    @cached_property
    def target_scaling(self) -> Scaling | None:
        """The scaling of regression targets, fitted on the training set; a series uses that of its inputs."""
        if self.series is not None:
            return self.scaling.first(self.series.num_targets)
        content = self.sequences
        if content.classes is not None or content.targets is None:
            return None
        if not content.per_step:
            return Scaling.of(content.targets[self.indices[0]], self._weights(self.indices[0]))
        return Scaling.of(*self._training_steps(content.targets))

    def _training_steps(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """The steps of all training sequences without padding, (M, D), and their weights, (M,)."""
        train, steps, weights = self.indices[0], np.arange(values.shape[1]), self._weights(self.indices[0])
        ends = self.sequences.ends[train]
        return values[train][steps < ends[:, None]], None if weights is None else np.repeat(weights, ends)

    @cached_property
    def indices(self) -> list[np.ndarray]:
        """The sequences of training, validation and test set."""
        content = self.sequences
        labels = content.targets if content.classes is not None and not content.per_step else None
        return division.indices(len(content), labels, content.parts, content.groups, self.seed, content.source)

    def load(self) -> Parts:
        """Scale, pad and split the data."""
        if self.series is not None:
            scaled = self._scaled(self.scaling, self._levels(self.series))
            prepared = self.preparation
            return series.windows(scaled, self.length, prepared.output_size, prepared.encoding, self.cuts)
        content = self.sequences
        targets = content.targets
        assert targets is not None
        if self.target_scaling is not None:
            targets = self._scaled(self.target_scaling, targets)
        x, y = torch.from_numpy(self._stored()), torch.from_numpy(targets)
        encoding = TokenIndices() if content.vocabulary else Floats()
        lengths = None if content.lengths is None else torch.from_numpy(content.lengths)
        ends = [None if lengths is None else lengths[indices] for indices in self.indices]
        found = [*map(self._weights, self.indices[:2]), None]  # every test sequence counts the same
        weights = [None if part is None else torch.from_numpy(part.astype(np.float32)) for part in found]
        return Parts(
            *(
                Examples(x[i], y[i], encoding=encoding, lengths=end, per_step=self.per_step, weights=weight)
                for i, end, weight in zip(self.indices, ends, weights, strict=True)
            )
        )

    def _weights(self, indices: np.ndarray) -> np.ndarray | None:
        """The weights of some sequences, of mean 1."""
        if self.sequences.weights is None or not len(indices):
            return None
        weights = self.sequences.weights[indices]
        if not weights.any():
            raise DataError(
                f"{self.content.source}: all weights of the training or validation set are zero: expected some that "
                "are not"
            )
        relative: np.ndarray = weights / weights.mean()
        return relative

    def streams(self) -> Parts | None:
        """For a series: return each part as one sequence."""
        if self.series is None:
            return None
        scaled = self._scaled(self.scaling, self._levels(self.series))
        return series.streams(scaled, self.series.num_targets, self.cuts)

    def first_levels(self, index: int) -> np.ndarray:
        """For a series: return its target columns (K,) at the first step of a test window."""
        levels: np.ndarray = self.content.values[self.cuts[2] + index, : self.output_size]
        return levels

    def _stored(self) -> np.ndarray:
        """The inputs of all sequences: tokens, or scaled numbers padded with zeros."""
        content = self.sequences
        if content.vocabulary:
            return content.values
        inputs = self._scaled(self.scaling, content.values)
        if content.lengths is not None:
            inputs[~content.inside] = 0
        return inputs

    def _scaled(self, scaling: Scaling, values: np.ndarray) -> np.ndarray:
        scaled = scaling.apply(values)
        if not np.isfinite(scaled).all():
            raise DataError(
                f"{self.content.source}: scaled values exceed the range of float32: expected values of similar "
                "magnitude"
            )
        return scaled

    # Description.

    def describe(self) -> Description:
        """The description of the base class, which says whether sequences are of unequal length."""
        is_whole = not self.is_here() or self.series is not None
        ends = np.zeros(1) if is_whole else self.sequences.ends
        return replace(super().describe(), varies=bool((ends != ends[0]).any()))

    def split_text(self) -> str:
        """How the data is split."""
        return overview.split_text(self)

    def remarks(self) -> dict[str, str]:
        """What was understood: layout, columns, lengths, classes, times and gaps."""
        return overview.remarks(self)

    def drift_remark(self, given: Series) -> str:
        """Whether levels or differences of a series are forecast, and why."""
        quantity = "differences" if self.is_differenced else "levels"
        quantity += "" if self.difference is None else ", as set by the option difference"
        outside = f"{100 * self._drift(given):.0f} % of the validation values"
        return f"{quantity} ({outside} are outside the range of the training values)"

    def persistence_forecast(self, x: Tensor) -> Tensor:
        """The current values, or a difference of 0."""
        if not self.is_differenced:
            return super().persistence_forecast(x)
        return torch.tensor(self.preparation.no_change).expand(*x.shape[:2], -1)

    def baseline(self) -> Baseline:
        """The persistence baseline of a series, or that of the base class."""
        return persistence(self) if self.series is not None else super().baseline()

    def picture(self) -> Figure:
        """Draw windows of a series, or examples of each class."""
        return figures.draw(self)
