"""User data as a task: a series in a table, arrays in an .npz, or a folder with one subfolder per class."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from pydantic import Field, field_validator
from torch import Tensor

from gatelab.errors import DataError
from gatelab.tasks import pictures, series, user_data
from gatelab.tasks.baseline import Baseline, persistence
from gatelab.tasks.examples import Examples, Floats, Parts
from gatelab.tasks.preparation import Preparation, ScalingParameters
from gatelab.tasks.sampling import split, stream
from gatelab.tasks.task import Task

if TYPE_CHECKING:
    from matplotlib.figure import Figure


TABLES = (".csv", ".tsv", ".txt", ".parquet")
DRIFT = 0.1  # fraction of validation values outside the training range above which a series is differenced


class Files(Task):
    """Your own data: a table with a series to forecast, an .npz with X and y, or a folder of class folders."""

    name = "files"
    source = "your own files"
    from_disk = True
    split_rule = "70 / 15 / 15 %: chronological for a series; random for sequences, stratified by their labels"

    path: Path = Field(description="a .csv, .parquet or .npz file, or a folder")
    columns: tuple[str, ...] = Field(
        (), description="tables only: columns to forecast, a+b; by default all numeric columns"
    )
    inputs: tuple[str, ...] = Field((), description="tables only: exogenous inputs, read but not forecast, a+b")
    length: int = Field(50, ge=1, lt=2**31, description="tables only: steps per window")
    difference: bool | None = Field(
        None,
        description="tables only: forecast differences instead of levels, for series that drift; by default if more "
        f"than {100 * DRIFT:.0f} % of the validation values are outside the range of the training values",
    )
    header: bool | None = Field(
        None, description="CSV only: whether the first line has column names; detected by default"
    )

    @field_validator("columns", "inputs", mode="before")
    @classmethod
    def _split_names(cls, value: Any) -> Any:
        return tuple(value.split("+")) if isinstance(value, str) else value

    @field_validator("path")
    @classmethod
    def _absolute(cls, path: Path) -> Path:
        return path.expanduser().absolute()  # a run may be resumed from another folder

    @cached_property
    def content(self) -> user_data.UserData:
        """The content of the file or folder, read on first use."""
        path = self.path
        if path.is_dir():
            self._only_for_tables("a folder")
            return user_data.from_folder(path)
        if not path.is_file():
            raise DataError(
                f"there is no file or folder {path}: expected a .csv, .parquet or .npz file, or a folder with one "
                "subfolder per class"
            )
        if path.suffix.lower() == ".npz":
            self._only_for_tables("an .npz")
            return user_data.from_npz(path)
        if path.suffix.lower() in TABLES:
            return user_data.from_table(path, self.columns, self.inputs, self.length, self.header)
        raise DataError(f"{path} ends in {path.suffix!r}: expected {', '.join(TABLES)}, .npz, or a folder")

    def _only_for_tables(self, kind: str) -> None:
        fields = type(self).model_fields
        for name in ("columns", "inputs", "length", "difference", "header"):
            if getattr(self, name) != fields[name].default:
                raise DataError(f"{self.path} is {kind}: {name} is for tables, leave it out")

    # Shapes and classes come from the files, or from the record of a run.

    @cached_property
    def preparation(self) -> Preparation:
        """The preprocessing, fitted on the training set."""
        content, is_series = self.content, self.content.targets is None
        values = content.num_targets if content.targets is None else content.targets.shape[-1]
        scaling = self.target_scaling
        return Preparation(
            kind="numbers",
            input_size=content.inputs.shape[-1],
            steps=self.length if is_series else content.inputs.shape[1],
            header=self.header,
            columns=content.names,
            scaling=ScalingParameters.of(self.scaling),
            per_step=content.per_step,
            forecasts=is_series,
            classes=content.classes,
            label_type=content.label_type,
            output_size=values if content.classes is None else len(content.classes),
            target_scaling=scaling and ScalingParameters.of(scaling),
            differenced=self.is_differenced,
        )

    @cached_property
    def is_differenced(self) -> bool:
        """Whether differences are forecast: as the option says, or by default if the validation values drift."""
        content = self.content
        if content.targets is not None:
            return False
        if self.difference is not None:
            return self.difference
        return series.outside_training_range(content.inputs, content.num_targets) > DRIFT

    @cached_property
    def _series(self) -> np.ndarray:
        """The whole series before scaling: levels, or differences of the target columns."""
        content = self.content
        return series.differenced(content.inputs, content.num_targets) if self.is_differenced else content.inputs

    @property
    def input_size(self) -> int:
        """D: the number of features per step."""
        return self.preparation.input_size

    @property
    def steps(self) -> int:
        """T: the window of a series, or the longest sequence."""
        return self.preparation.steps

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
        """Whether the data is a series to forecast."""
        return self.preparation.forecasts

    def is_here(self) -> bool:
        """Return whether the file or folder exists."""
        return self.path.exists()

    @property
    def user_path(self) -> Path:
        """The user's file or folder."""
        return self.path

    def ending(self) -> series.Ending | None:
        """Return the last window of a series in its original units."""
        content = self.content
        if content.targets is not None:
            return None
        return series.Ending(
            content.inputs[-self.length :], None if content.stamps is None else content.stamps[-self.length :]
        )

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The number of training, validation and test examples."""
        if self.content.targets is None:
            return series.window_counts(len(self.content.inputs), self.length)
        count = len(self.content.inputs)
        held_out = max(1, round(0.15 * count))
        return count - 2 * held_out, held_out, held_out

    @cached_property
    def scaling(self) -> series.Scaling:
        """The scaling of the inputs, fitted on the training set."""
        if self.content.targets is None:
            return series.Scaling.of(self._series[: series.cuts(len(self._series))[1]])
        return series.Scaling.of(self._training_steps(self.content.inputs))

    @cached_property
    def target_scaling(self) -> series.Scaling | None:
        """The scaling of regression targets, fitted on the training set; a series uses that of its inputs."""
        content = self.content
        if content.classes is not None:
            return None
        if content.targets is None:
            return series.Scaling(
                self.scaling.mean[: content.num_targets], self.scaling.deviation[: content.num_targets]
            )
        if not content.per_step:
            return series.Scaling.of(content.targets[self._indices[0]])
        return series.Scaling.of(self._training_steps(content.targets))

    def _training_steps(self, values: np.ndarray) -> np.ndarray:
        """Return the steps of all training sequences without padding, (M, D)."""
        train, steps = self._indices[0], np.arange(values.shape[1])
        ends = np.full(len(values), len(steps)) if self.content.lengths is None else self.content.lengths
        inside: np.ndarray = values[train][steps < ends[train][:, None]]
        return inside

    @cached_property
    def _indices(self) -> list[np.ndarray]:
        """The sequences of training, validation and test set."""
        stratified = self.content.classes is not None and not self.content.per_step
        return split(
            self.content.targets if stratified else None,
            len(self.content.inputs),
            self.sizes,
            stream(self.seed, "division"),
        )

    def load(self) -> Parts:
        """Scale, pad and split the data."""
        content = self.content
        if content.targets is None:
            scaled = self._scaled(self.scaling, self._series)
            return series.windows(scaled, self.length, content.num_targets, self.preparation.encoding)
        inputs = self._scaled(self.scaling, content.inputs)
        targets = content.targets
        if self.target_scaling is not None:
            targets = self._scaled(self.target_scaling, targets)
        if content.lengths is not None:
            inputs[np.arange(inputs.shape[1]) >= content.lengths[:, None]] = 0
        x, y = torch.from_numpy(inputs), torch.from_numpy(targets)
        lengths = None if content.lengths is None else torch.from_numpy(content.lengths)
        ends = [None if lengths is None else lengths[indices] for indices in self._indices]
        return Parts(
            *(Examples(x[i], y[i], Floats(), end, self.per_step) for i, end in zip(self._indices, ends, strict=True))
        )

    def _scaled(self, scaling: series.Scaling, values: np.ndarray) -> np.ndarray:
        scaled = scaling.apply(values)
        if not np.isfinite(scaled).all():
            raise DataError(
                f"{self.path}: scaled values exceed the range of float32: expected values of similar magnitude"
            )
        return scaled

    def remarks(self) -> dict[str, str]:
        """Return how the columns of a table are used."""
        content = self.content
        if content.targets is not None:
            return {}
        by_use = {
            "forecast": content.names[: content.num_targets],
            "exogenous inputs": content.names[content.num_targets :],
            "ignored": content.ignored,
        }
        columns = [f"{use}: {', '.join(names)}" for use, names in by_use.items() if names]
        drift = series.outside_training_range(content.inputs, content.num_targets)
        quantity = "differences" if self.is_differenced else "levels"
        quantity += "" if self.difference is None else ", as set by the option difference"
        reason = f"{100 * drift:.0f} % of the validation values are outside the range of the training values"
        return {"columns": "; ".join(columns), "forecast of": f"{quantity} ({reason})"}

    def persistence_forecast(self, x: Tensor) -> Tensor:
        """Return the current values, or a difference of 0."""
        if not self.is_differenced:
            return super().persistence_forecast(x)
        return torch.tensor(self.preparation.no_change).expand(*x.shape[:2], -1)

    def baseline(self) -> Baseline:
        """Return the persistence baseline of a series, or that of the base class."""
        return persistence(self) if self.content.targets is None else super().baseline()

    def picture(self) -> Figure:
        """Draw windows of a series, or examples of each class."""
        return pictures.windows(self, self.content.names) if self.classes is None else pictures.signals(self)
