"""Your own sequences: a series in a table, arrays in an .npz, or a folder with a folder for each class."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from pydantic import Field, field_validator
from torch import Tensor

from gatelab.errors import DataError
from gatelab.tasks import own, pictures, series
from gatelab.tasks.baseline import Baseline, persistence
from gatelab.tasks.chance import divide, stream
from gatelab.tasks.examples import Examples, Floats, Parts
from gatelab.tasks.preparation import Numbers, Preparation
from gatelab.tasks.task import Task

if TYPE_CHECKING:
    from matplotlib.figure import Figure


TABLES = (".csv", ".tsv", ".txt", ".parquet")
DRIFT = 0.1  # the share of validation values outside the training range from which on a series is differenced


class Files(Task):
    """Your own sequences: a table with a series to forecast, an .npz with X and y, or a folder of class folders."""

    name = "files"
    source = "your own files"
    from_disk = True
    rule = (
        f"70 / 15 / 15 %: a series {series.RULE.partition(':')[0]}; sequences by chance, each class in the same share"
    )

    path: Path = Field(description="a .csv or .parquet, an .npz, or a folder")
    columns: tuple[str, ...] = Field(
        (), description="of a table: the columns to forecast, a+b; without it all of numbers"
    )
    inputs: tuple[str, ...] = Field((), description="of a table: further columns to read but not to forecast, a+b")
    length: int = Field(50, ge=1, description="of a table: steps of a window")
    difference: bool | None = Field(
        None,
        description="of a table: forecast changes instead of levels, for series that drift; by default where more than "
        f"{100 * DRIFT:.0f} % of the validation values lie outside the range of the training values",
    )
    header: bool | None = Field(None, description="of a CSV: whether the first line names the columns; else it is seen")

    @field_validator("columns", "inputs", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        return tuple(value.split("+")) if isinstance(value, str) else value

    @field_validator("path")
    @classmethod
    def _absolute(cls, path: Path) -> Path:
        return path.expanduser().absolute()  # a run may be gone on with from another folder

    @cached_property
    def content(self) -> own.Own:
        path = self.path
        if path.is_dir():
            self._only_for_tables("a folder")
            return own.from_folder(path)
        if not path.is_file():
            raise DataError(
                f"there is no file or folder {path}: expected a .csv, .parquet or .npz, or a folder of class folders"
            )
        if path.suffix.lower() == ".npz":
            self._only_for_tables("an .npz")
            return own.from_npz(path)
        if path.suffix.lower() in TABLES:
            return own.from_table(path, self.columns, self.inputs, self.length, self.header)
        raise DataError(f"{path} ends in {path.suffix!r}: expected {', '.join(TABLES)}, .npz, or a folder")

    def _only_for_tables(self, given: str) -> None:
        if self.columns or self.inputs:
            raise DataError(f"{self.path} is {given}: columns and inputs are for tables, leave them out")

    # What it is only its files can tell, or the record of a run.

    @cached_property
    def preparation(self) -> Preparation:
        content, series_ = self.content, self.content.answers is None
        numbers = content.columns if content.answers is None else content.answers.shape[-1]
        scaling = self.target_scaling
        return Preparation(
            kind="numbers",
            input_size=content.inputs.shape[-1],
            steps=self.length if series_ else content.inputs.shape[1],
            header=self.header,
            columns=content.names,
            scaling=Numbers.of(self.scaling),
            per_step=content.per_step,
            forecasts=series_,
            classes=content.classes,
            label_type=content.label_type,
            output_size=numbers if content.classes is None else len(content.classes),
            target_scaling=scaling and Numbers.of(scaling),
            differenced=self.is_differenced,
        )

    @cached_property
    def is_differenced(self) -> bool:
        """Whether changes are forecast: as asked for, or as the validation part shows."""
        content = self.content
        if content.answers is not None:
            return False
        if self.difference is not None:
            return self.difference
        return series.outside_training_range(content.inputs, content.columns) > DRIFT

    @cached_property
    def _series(self) -> np.ndarray:
        """The whole series as it is scaled: levels, or changes of the columns to forecast."""
        content = self.content
        return series.differenced(content.inputs, content.columns) if self.is_differenced else content.inputs

    @property
    def input_size(self) -> int:
        return self.preparation.input_size

    @property
    def steps(self) -> int:
        return self.preparation.steps

    @property
    def classes(self) -> tuple[str, ...] | None:
        return self.preparation.classes

    @property
    def output_size(self) -> int:
        return self.preparation.output_size

    @property
    def per_step(self) -> bool:  # type: ignore[override]
        return self.preparation.per_step

    @property
    def forecasts(self) -> bool:  # type: ignore[override]
        return self.preparation.forecasts

    def is_here(self) -> bool:
        return self.path.exists()

    @property
    def own_path(self) -> Path:
        return self.path

    def ending(self) -> series.Ending | None:
        content = self.content
        if content.answers is not None:
            return None
        return series.Ending(
            content.inputs[-self.length :], None if content.stamps is None else content.stamps[-self.length :]
        )

    @property
    def sizes(self) -> tuple[int, int, int]:
        if self.content.answers is None:
            return series.window_counts(len(self.content.inputs), self.length)
        count = len(self.content.inputs)
        few = max(1, round(0.15 * count))
        return count - 2 * few, few, few

    @cached_property
    def scaling(self) -> series.Scaling:
        """Of the inputs, from the training part."""
        if self.content.answers is None:
            return series.Scaling.of(self._series[: series.cuts(len(self._series))[1]])
        return series.Scaling.of(self._training_steps(self.content.inputs))

    @cached_property
    def target_scaling(self) -> series.Scaling | None:
        """Of answers that are numbers, from the training part; a series is forecast on the scale of its inputs."""
        content = self.content
        if content.classes is not None:
            return None
        if content.answers is None:
            return series.Scaling(self.scaling.mean[: content.columns], self.scaling.deviation[: content.columns])
        if not content.per_step:
            return series.Scaling.of(content.answers[self._places[0]])
        return series.Scaling.of(self._training_steps(content.answers))

    def _training_steps(self, values: np.ndarray) -> np.ndarray:
        """The steps of all training sequences in one row, (M, D), without what lies beyond their ends."""
        place, steps = self._places[0], np.arange(values.shape[1])
        ends = np.full(len(values), len(steps)) if self.content.lengths is None else self.content.lengths
        inside: np.ndarray = values[place][steps < ends[place][:, None]]
        return inside

    @cached_property
    def _places(self) -> list[np.ndarray]:
        one_class = self.content.classes is not None and not self.content.per_step
        return divide(
            self.content.answers if one_class else None,
            len(self.content.inputs),
            self.sizes,
            stream(self.seed, "division"),
        )

    def load(self) -> Parts:
        content = self.content
        if content.answers is None:
            scaled = self._scaled(self.scaling, self._series)
            return series.windows(scaled, self.length, content.columns, self.preparation.encoding)
        inputs = self._scaled(self.scaling, content.inputs)
        answers = content.answers
        if self.target_scaling is not None:
            answers = self._scaled(self.target_scaling, answers)
        if content.lengths is not None:
            inputs[np.arange(inputs.shape[1]) >= content.lengths[:, None]] = 0
        x, y = torch.from_numpy(inputs), torch.from_numpy(answers)
        lengths = None if content.lengths is None else torch.from_numpy(content.lengths)
        ends = [None if lengths is None else lengths[indices] for indices in self._places]
        return Parts(
            *(Examples(x[p], y[p], Floats(), end, self.per_step) for p, end in zip(self._places, ends, strict=True))
        )

    def _scaled(self, scaling: series.Scaling, values: np.ndarray) -> np.ndarray:
        scaled = scaling.apply(values)
        if not np.isfinite(scaled).all():
            raise DataError(f"{self.path}: values differ so much in size that they cannot be scaled to float32")
        return scaled

    def remarks(self) -> dict[str, str]:
        content = self.content
        if content.answers is not None:
            return {}
        split = content.names[: content.columns], content.names[content.columns :], content.left_out
        verbs = ("forecast", "only read", "left out")
        columns = [f"{verb}: {', '.join(names)}" for verb, names in zip(verbs, split, strict=True) if names]
        drift = series.outside_training_range(content.inputs, content.columns)
        how = "changes from step to step" if self.is_differenced else "levels"
        why = f"{100 * drift:.0f} % of the validation values lie outside the range of the training values"
        return {"columns": "; ".join(columns), "forecast of": f"{how} ({why})"}

    def unchanged(self, x: Tensor) -> Tensor:
        if not self.is_differenced:
            return super().unchanged(x)
        return torch.tensor(self.preparation.no_change).expand(*x.shape[:2], -1)

    def baseline(self) -> Baseline:
        return persistence(self) if self.content.answers is None else super().baseline()

    def picture(self) -> Figure:
        return pictures.windows(self, self.content.names) if self.classes is None else pictures.signals(self)
