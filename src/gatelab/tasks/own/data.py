"""The user's own data as a task, whether it comes from files or from arrays in memory."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from gatelab.errors import DataError
from gatelab.tasks import series
from gatelab.tasks.baseline import Baseline, persistence
from gatelab.tasks.examples import Examples, Floats, Parts, TokenIndices
from gatelab.tasks.own import figures, overview, splits
from gatelab.tasks.own.reading import Fill, Reading
from gatelab.tasks.preparation import Preparation
from gatelab.tasks.prepared import Prepared
from gatelab.tasks.scaling import Scaling
from gatelab.tasks.task import Description

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gatelab.tasks.own.user_data import UserData

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
    def content(self) -> UserData:
        """The data in one form, read on first use."""
        raise NotImplementedError

    # Shapes and classes come from the data, or from the record of a run.

    @cached_property
    def preparation(self) -> Preparation:
        """The preprocessing, fitted on the training set."""
        content = self.content
        values = content.num_targets if content.targets is None else content.targets.shape[-1]
        is_tokens = bool(content.vocabulary)
        reading = content.reading if content.reading != Reading() else None
        return Preparation(
            kind="tokens" if is_tokens else "numbers",
            input_size=len(content.vocabulary) if is_tokens else content.inputs.shape[-1],
            steps=self.length if content.is_series else content.inputs.shape[1],
            header=getattr(self, "header", None),
            columns=() if is_tokens else content.names,
            vocabulary=content.vocabulary,
            scaling=None if is_tokens else self.scaling,
            per_step=content.per_step,
            forecasts=content.is_series,
            classes=content.classes,
            label_type=content.label_type,
            output_size=values if content.classes is None else len(content.classes),
            target_scaling=self.target_scaling,
            differenced=self.is_differenced,
            reading=reading,
        )

    @cached_property
    def is_differenced(self) -> bool:
        """Whether differences are forecast: as the option says, or by default if the validation values drift."""
        if not self.content.is_series:
            return False
        return self._drift > DRIFT if self.difference is None else self.difference

    @property
    def _drift(self) -> float:
        return series.outside_training_range(self.content.inputs, self.content.num_targets, self.cuts)

    @cached_property
    def cuts(self) -> tuple[int, int, int, int]:
        """The boundaries of the parts of a series: its own, or 70 / 15 / 15 %."""
        content = self.content
        if content.parts is None:
            return series.cuts(len(content.inputs))
        cuts = splits.boundaries(content.parts, np.arange(len(content.parts)) + 1, content.source)
        shortest = min(b - a for a, b in itertools.pairwise(cuts))
        if shortest <= self.length:
            raise DataError(
                f"{content.source}: the shortest part of its split has {shortest:,} steps: expected at least "
                f"{self.length + 1} for windows of {self.length} steps; choose a smaller length"
            )
        return cuts

    @cached_property
    def _series(self) -> np.ndarray:
        """The whole series before scaling: levels, or differences of the target columns."""
        content = self.content
        return series.differenced(content.inputs, content.num_targets) if self.is_differenced else content.inputs

    def ending(self, steps: int | None = None) -> series.Ending | None:
        """Return the last window of a series in its original units, or as many steps."""
        content, last = self.content, slice(-(steps or self.length), None)
        if content.targets is not None:
            return None
        return series.Ending(content.inputs[last], None if content.stamps is None else content.stamps[last])

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The number of training, validation and test examples."""
        if self.content.is_series:
            train, validation, test = (b - a - self.length for a, b in itertools.pairwise(self.cuts))
        else:
            train, validation, test = map(len, self.indices)
        return train, validation, test

    @cached_property
    def scaling(self) -> Scaling:
        """The scaling of the inputs, fitted on the training set."""
        if self.content.is_series:
            return Scaling.of(self._series[: self.cuts[1]])
        return Scaling.of(*self._training_steps(self.content.inputs))

    @cached_property
    def target_scaling(self) -> Scaling | None:
        """The scaling of regression targets, fitted on the training set; a series uses that of its inputs."""
        content = self.content
        if content.classes is not None:
            return None
        if content.targets is None:
            return self.scaling.first(content.num_targets)
        if not content.per_step:
            return Scaling.of(content.targets[self.indices[0]], self._weights(self.indices[0]))
        return Scaling.of(*self._training_steps(content.targets))

    def _training_steps(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the steps of all training sequences without padding, (M, D), and their weights, (M,)."""
        train, steps, weights = self.indices[0], np.arange(values.shape[1]), self._weights(self.indices[0])
        ends = self.content.ends[train]
        return values[train][steps < ends[:, None]], None if weights is None else np.repeat(weights, ends)

    @cached_property
    def indices(self) -> list[np.ndarray]:
        """The sequences of training, validation and test set."""
        content = self.content
        labels = content.targets if content.classes is not None and not content.per_step else None
        return splits.indices(len(content.inputs), labels, content.parts, content.groups, self.seed, content.source)

    def load(self) -> Parts:
        """Scale, pad and split the data."""
        content = self.content
        if content.targets is None:
            scaled = self._scaled(self.scaling, self._series)
            return series.windows(scaled, self.length, content.num_targets, self.preparation.encoding, self.cuts)
        targets = content.targets
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
        """Return the weights of some sequences, of mean 1."""
        if self.content.weights is None or not len(indices):
            return None
        weights = self.content.weights[indices]
        if not weights.any():
            raise DataError(
                f"{self.content.source}: all weights of the training or validation set are zero: expected some that "
                "are not"
            )
        relative: np.ndarray = weights / weights.mean()
        return relative

    def streams(self) -> Parts | None:
        """For a series: return each part as one sequence."""
        content = self.content
        if not content.is_series:
            return None
        return series.streams(self._scaled(self.scaling, self._series), content.num_targets, self.cuts)

    def first_levels(self, index: int) -> np.ndarray:
        """For a series: return its target columns (K,) at the first step of a test window."""
        levels: np.ndarray = self.content.inputs[self.cuts[2] + index, : self.content.num_targets]
        return levels

    def _stored(self) -> np.ndarray:
        """Return the inputs of all sequences: tokens, or scaled numbers padded with zeros."""
        content = self.content
        if content.vocabulary:
            return content.inputs
        inputs = self._scaled(self.scaling, content.inputs)
        if content.lengths is not None:
            inputs[np.arange(inputs.shape[1]) >= content.lengths[:, None]] = 0
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
        """Return the description of the base class, which says whether sequences are of unequal length."""
        ends = self.content.ends if self.is_here() and not self.content.is_series else np.zeros(1)
        return replace(super().describe(), varies=bool((ends != ends[0]).any()))

    def split_text(self) -> str:
        """Return how the data is split."""
        return overview.split_text(self)

    def remarks(self) -> dict[str, str]:
        """Return what was understood: layout, columns, lengths, classes, times and gaps."""
        return overview.remarks(self)

    def drift_remark(self) -> str:
        """Return whether levels or differences of a series are forecast, and why."""
        quantity = "differences" if self.is_differenced else "levels"
        quantity += "" if self.difference is None else ", as set by the option difference"
        reason = f"{100 * self._drift:.0f} % of the validation values are outside the range of the training values"
        return f"{quantity} ({reason})"

    def persistence_forecast(self, x: Tensor) -> Tensor:
        """Return the current values, or a difference of 0."""
        if not self.is_differenced:
            return super().persistence_forecast(x)
        return torch.tensor(self.preparation.no_change).expand(*x.shape[:2], -1)

    def baseline(self) -> Baseline:
        """Return the persistence baseline of a series, or that of the base class."""
        return persistence(self) if self.content.is_series else super().baseline()

    def picture(self) -> Figure:
        """Draw windows of a series, or examples of each class."""
        return figures.draw(self)
