"""User data as a task: a series in a table, sequences in a table, an .npz, a .ts file or a folder."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import Field, field_validator
from typing_extensions import Self

from gatelab.data import column_roles, layouts, series_tables, sources, timestamps
from gatelab.data.formats import TABLES, archives, read_table
from gatelab.data.formats.csv_files import prose
from gatelab.data.learnable import learnable
from gatelab.data.reading import Aggregate, Layout, Reading
from gatelab.data.sequences import Sequences
from gatelab.data.series import Series
from gatelab.data.table import Table
from gatelab.errors import DataError, first_of, short
from gatelab.tasks.own.data import OwnData
from gatelab.tasks.series import least_steps, window_counts

OF_TABLES = ("columns", "inputs", "length", "difference", "header", "layout", "id", "time", "label", "aggregate")
OF_SERIES = ("inputs", "length", "difference")


class Files(OwnData):
    """Your own data: a series to forecast or sequences with targets, in a table, an .npz, a .ts file or a folder."""

    name = "files"
    source = "your own files"
    from_disk = True

    path: Path = Field(description="a .csv, .tsv, .parquet, .ts or .npz file, or a folder")
    layout: Layout = Field(
        "auto",
        description="tables: series (rows are steps of one series), long (steps of many), wide (each row is "
        "one sequence); recognised by default",
    )
    columns: tuple[str, ...] = Field(
        (), description="tables: columns to forecast, or to read in long tables, a+b; by default all numeric columns"
    )
    inputs: tuple[str, ...] = Field((), description="series: exogenous inputs, read but not forecast, a+b")
    id: str | None = Field(None, description="long tables: the column that tells sequences apart")
    time: str | None = Field(
        None,
        description="tables: the column of the times, or year+month+day; it sorts the rows; none: rows as they are",
    )
    label: str | None = Field(None, description="long and wide tables: the column of the targets")
    split: str | None = Field(
        None,
        description="a column or .npz array of train, validation, test; by default one called split; none ignores it",
    )
    group: str | None = Field(
        None, description="a column or .npz array (speaker, patient) whose members stay in one part of the split"
    )
    header: bool | None = Field(
        None, description="CSV only: whether the first line has column names; detected by default"
    )
    aggregate: Aggregate | None = Field(
        None, description="tables: mean, first, last or sum of rows with the same time; refused by default"
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
    def table(self) -> Table | None:
        """The file, if it is a table; read once."""
        is_table = self.path.suffix.lower() in TABLES and self.path.is_file()
        return read_table(self.path, self.header) if is_table else None

    def understood_as(self, **changes: Any) -> Self:
        """The file as other options understand it: its table is not read again."""
        task = self.with_options(**changes)
        if (task.path, task.header) == (self.path, self.header) and "table" in self.__dict__:
            task.__dict__["table"] = self.table
        return task

    @cached_property
    def content(self) -> Sequences | Series:
        """The content of the file or folder, read on first use."""
        if self.table is not None:
            if layouts.recognise(self.table, self.reading, self.columns) == "series":
                return self._series(self.table)
            read = sources.from_table(self.table, self.reading, self.columns, self.tokens)
        else:
            if archives.published_pair(self.path) is None:
                self._refuse_options_for_tables()
            read = sources.read(self.path, self.reading, self.columns, self.tokens)
        for name in OF_SERIES:
            if self._is_given(name):
                raise DataError(f"{read.source} has sequences with targets: {name} is for a series, leave it out")
        return learnable(read, self.classify)

    def _is_given(self, option: str) -> bool:
        return bool(getattr(self, option) != type(self).model_fields[option].default)

    @property
    def reading(self) -> Reading:
        """How the file is read, as far as the options say."""
        names = [name for name in Reading.model_fields if name not in ("tokens", "columns")]
        options = {name: getattr(self, name) for name in names}
        return Reading(**options, tokens="text" if self.tokens else None)

    def _series(self, table: Table) -> Series:
        """A series with its target columns and exogenous inputs."""
        path = self.path
        for option in ("id", "label", "group", "classify"):
            if getattr(self, option) is not None:
                raise DataError(f"{path} is read as one series to forecast: {option} is for sequences, leave it out")
        if self.tokens:
            raise DataError(f"{path} is read as one series to forecast: tokens are for sequences, leave them out")
        split = column_roles.split_column(table, self.split)
        names = self.columns or series_tables.forecast_columns(table, self.inputs, (split,))
        if not names:
            raise DataError(
                f"{path} has no numeric column to forecast; its columns: {first_of(table.names)}"
                f"{_with_digits(table)}{prose(path)}"
            )
        given = (*self.columns, *self.inputs)
        if repeated := [name for name in given if given.count(name) > 1]:
            raise DataError(f"{path}: {repeated[0]!r} is named twice in columns and inputs: name each column once")
        series = series_tables.from_table(table, (*names, *self.inputs), self.reading.resolved(split=split))
        if series.parts is None:
            self._refuse_short(len(series.values))
        times = series_tables.times_of(table, series.columns, self.time)
        ignored = table.without(*series.columns, split, *(times.names if times else ()))
        notes = {
            **series.notes,
            **({} if self.columns else series_tables.counters(series)),
            **sources.overlooked(table, ignored, split or self.split),
        }
        kept = self.reading.resolved(header=None)
        return replace(series, num_targets=len(names), ignored=ignored, notes=notes, reading=kept)

    def _refuse_short(self, steps: int) -> None:
        """Refuse a series that has no window in one of its parts."""
        if min(window_counts(steps, self.length)) >= 1:
            return
        longest = min(window_counts(steps, 0)) - 1
        advice = f"choose length={longest} or less" if longest > 0 else "choose a smaller length"
        raise DataError(
            f"{self.path} has {steps:,} rows: expected at least {least_steps(self.length)} for windows of "
            f"{self.length} steps in training, validation and test set; {advice}"
        )

    def _refuse_options_for_tables(self) -> None:
        suffix = self.path.suffix.lower()
        kind = "a folder" if self.path.is_dir() else {".npz": "an .npz", ".ts": "a .ts file"}.get(suffix)
        if not self.path.exists() or kind is None:
            return
        for name in OF_TABLES:
            if self._is_given(name):
                raise DataError(f"{self.path} is {kind}: {name} is for tables, leave it out")
        for name in ("split", "group", "tokens"):
            if suffix != ".npz" and self._is_given(name):
                raise DataError(f"{self.path} is {kind}: {name} is for tables and .npz files, leave it out")

    def is_here(self) -> bool:
        """Whether the file or folder exists."""
        return self.path.exists() or archives.published_pair(self.path) is not None

    @property
    def user_path(self) -> Path:
        """The user's file or folder."""
        return self.path


def _with_digits(table: Table) -> str:
    """The first cell of text that has digits and is no time: a number with separators or a unit, perhaps."""
    for name, cells in table.texts.items():
        row = next((i for i, cell in enumerate(cells) if any(sign.isdigit() for sign in cell)), None)
        if row is not None and timestamps.parse(cells) is None:
            return (
                f"; line {table.lines[row]}, column {name!r}: {short(cells[row], 40)} is no number: expected no "
                "thousands separators, units or signs such as %"
            )
    return ""
