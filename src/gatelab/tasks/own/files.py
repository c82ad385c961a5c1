"""User data as a task: a series in a table, sequences in a table, an .npz, a .ts file or a folder."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field, field_validator

from gatelab.errors import DataError, first_of, short
from gatelab.tasks import timestamps
from gatelab.tasks.own import (
    archives,
    folders,
    layouts,
    long_tables,
    npz_files,
    roles,
    series_files,
    splits,
    ts_files,
    wide_tables,
)
from gatelab.tasks.own.data import OwnData
from gatelab.tasks.own.reading import Aggregate, Layout, Reading
from gatelab.tasks.own.recordings import Recordings, padded
from gatelab.tasks.own.table_files import Table, prose, read_table
from gatelab.tasks.own.user_data import UserData, assembled
from gatelab.tasks.series import least_steps, window_counts

TABLES = (".csv", ".tsv", ".txt", ".parquet")
KNOWN = (*TABLES, ".ts", ".npz")
COLUMNS = ("columns", "inputs", "length", "difference", "header", "layout", "id", "time", "label", "aggregate")


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
    def content(self) -> UserData:
        """The content of the file or folder, read on first use."""
        if not self.path.is_dir() and self.path.suffix.lower() in TABLES and self.path.is_file():
            table = read_table(self.path, self.header)
            if layouts.recognise(table, self.reading, self.columns) == "series":
                return self._series_content(table)
            read = _not_used(self.path, _table(table, self.reading, self.columns, self.tokens, True, None))
        else:
            if archives.published_pair(self.path) is None:
                self._refuse_options_for_tables()
            read = recordings(self.path, self.reading, self.columns, self.tokens)
        self._refuse_options_for_series(read)
        return assembled(read, self.classify)

    @property
    def reading(self) -> Reading:
        """How the file is read, as far as the options say."""
        names = [name for name in Reading.model_fields if name not in ("tokens", "columns")]
        options = {name: getattr(self, name) for name in names}
        return Reading(**options, tokens="text" if self.tokens else None)

    def _series_content(self, table: Table) -> UserData:
        """Return a series with its target columns and exogenous inputs."""
        path, columns, inputs = self.path, self.columns, self.inputs
        for option in ("id", "label", "group", "classify"):
            if getattr(self, option) is not None:
                raise DataError(f"{path} is read as one series to forecast: {option} is for sequences, leave it out")
        if self.tokens:
            raise DataError(f"{path} is read as one series to forecast: tokens are for sequences, leave them out")
        split = roles.split_column(table, self.split)
        names = columns or series_files.forecast_columns(table, inputs, (split,))
        if not names:
            raise DataError(
                f"{path} has no numeric column to forecast; its columns: {first_of(table.names)}"
                f"{_with_digits(table)}{prose(path)}"
            )
        if repeated := [name for name in (*columns, *inputs) if (*columns, *inputs).count(name) > 1]:
            raise DataError(f"{path}: {repeated[0]!r} is named twice in columns and inputs: name each column once")
        steps = series_files.from_table(table, (*names, *inputs), self.reading.resolved(split=split))
        longest = min(window_counts(len(steps.values), 0)) - 1
        advice = f"choose length={longest} or less" if longest > 0 else "choose a smaller length"
        if steps.parts is None and min(window_counts(len(steps.values), self.length)) < 1:
            raise DataError(
                f"{path} has {len(steps.values):,} rows: expected at least {least_steps(self.length)} for windows of "
                f"{self.length} steps in training, validation and test set; {advice}"
            )
        used = {*names, *inputs, split, *(steps.times.names if steps.times else ())}
        ignored = tuple(name for name in (*table.others, *table.columns) if name not in used)
        return UserData(
            steps.values,
            None,
            True,
            (*names, *inputs),
            num_targets=len(names),
            ignored=ignored,
            stamps=steps.stamps,
            source=str(path),
            layout="series: one row per step",
            parts=steps.parts,
            split_by=f"by the column {split!r}",
            filled=steps.filled,
            notes={
                **steps.notes,
                **({} if columns else series_files.counters(steps)),
                **_overlooked(table, ignored, split or self.split),
            },
            reading=self.reading.resolved(header=None),
        )

    def _refuse_options_for_tables(self) -> None:
        kind = "a folder" if self.path.is_dir() else f"an {self.path.suffix.lower()[1:]}"
        kind = {"an npz": "an .npz", "an ts": "a .ts file"}.get(kind, kind)
        fields = type(self).model_fields
        if not self.path.exists() or (not self.path.is_dir() and self.path.suffix.lower() not in (".npz", ".ts")):
            return
        for name in COLUMNS:
            if getattr(self, name) != fields[name].default:
                raise DataError(f"{self.path} is {kind}: {name} is for tables, leave it out")
        for name in ("split", "group", "tokens"):
            if self.path.suffix.lower() != ".npz" and getattr(self, name) != fields[name].default:
                raise DataError(f"{self.path} is {kind}: {name} is for tables and .npz files, leave it out")

    def _refuse_options_for_series(self, read: Recordings) -> None:
        fields = type(self).model_fields
        for name in ("inputs", "length", "difference"):
            if getattr(self, name) != fields[name].default:
                raise DataError(f"{read.source} has sequences with targets: {name} is for a series, leave it out")

    def is_here(self) -> bool:
        """Return whether the file or folder exists."""
        return self.path.exists() or archives.published_pair(self.path) is not None

    @property
    def user_path(self) -> Path:
        """The user's file or folder."""
        return self.path


def _with_digits(table: Table) -> str:
    """Return the first cell of text that has digits and is no time: a number with separators or a unit, perhaps."""
    for name, cells in table.texts.items():
        row = next((i for i, cell in enumerate(cells) if any(sign.isdigit() for sign in cell)), None)
        if row is not None and timestamps.parse(cells) is None:
            return (
                f"; line {table.lines[row]}, column {name!r}: {short(cells[row], 40)} is no number: expected no "
                "thousands separators, units or signs such as %"
            )
    return ""


def recordings(
    path: Path,
    reading: Reading,
    columns: tuple[str, ...] = (),
    tokens: bool = False,
    need_target: bool = True,
    classes: tuple[str, ...] | None = None,
) -> Recordings:
    """Read the sequences of a file or folder of any kind; for predictions no targets are needed."""
    if (pair := archives.published_pair(path)) is not None:
        return _published(path, pair, reading, need_target, classes)
    if path.is_dir():
        return folders.read(path, reading, () if need_target else columns, need_target)
    suffix = path.suffix.lower()
    if suffix == ".arff":
        raise DataError(f"{path}: .arff files are not read: use the .ts or .tsv file of the same data set")
    if path.exists() and not path.is_file():
        raise DataError(f"{path} is a pipe or a device: expected a regular file; save its content as one first")
    if not path.is_file():
        raise DataError(
            f"there is no file or folder {path}: expected a .csv, .parquet, .ts or .npz file, or a folder with one "
            "subfolder per class"
        )
    if suffix not in KNOWN:
        raise DataError(f"{path} ends in {path.suffix!r}: expected {', '.join(KNOWN)}, or a folder")
    if suffix == ".npz":
        return npz_files.read(path, reading, tokens, need_target)
    if suffix == ".ts":
        read = ts_files.read(path, reading, need_target)
    else:
        read = _table(read_table(path, reading.header), reading, columns, tokens, need_target, classes)
    return _not_used(path, read) if need_target else read


def _not_used(path: Path, read: Recordings) -> Recordings:
    """Add a remark if this is the training file of a published split."""
    test = archives.other_half(path)
    if test is None or read.split is not None:
        return read
    advice = f"{test.name} beside this file is the published test set: path={path.parent / path.stem[:-6]} uses both"
    return replace(read, notes={**read.notes, "not used": advice})


def _table(
    table: Table,
    reading: Reading,
    columns: tuple[str, ...],
    tokens: bool,
    need_target: bool,
    classes: tuple[str, ...] | None,
) -> Recordings:
    if layouts.recognise(table, reading, columns) == "long":
        read = long_tables.read(table, reading, columns, tokens, need_target)
    else:
        read = wide_tables.read(table, reading, need_target, classes)
    return replace(read, notes={**read.notes, **_overlooked(table, read.ignored, read.reading.split)})


def _overlooked(table: Table, ignored: tuple[str, ...], split: str | None) -> dict[str, str]:
    """Return a caution if no split was named or found, and there is a column of one."""
    return {} if split else splits.overlooked({name: table.cells(name) for name in ignored if name in table.texts})


def _published(
    path: Path, pair: tuple[Path, Path], reading: Reading, need_target: bool, classes: tuple[str, ...] | None
) -> Recordings:
    """Read the training and the test file of an archive."""
    wide = (
        reading if pair[0].suffix.lower() == ".ts" else reading.resolved(layout="wide", header=reading.header or False)
    )
    train, test = (
        ts_files.read(file, wide, need_target)
        if file.suffix.lower() == ".ts"
        else wide_tables.read(read_table(file, wide.header), wide, need_target, classes)
        for file in pair
    )
    if train.columns != test.columns:
        raise DataError(
            f"{pair[1]} has {len(test.columns)} dimensions: expected {len(train.columns)}, as in {pair[0].name}"
        )
    if train.split is not None or test.split is not None:
        raise DataError(
            f"{path}: the files {pair[0].name} and {pair[1].name} are a split: expected no split inside them"
        )
    values, lengths = padded([*train.rows(), *test.rows()])
    targets = None
    if train.targets is not None and test.targets is not None:
        targets = np.concatenate([train.targets, test.targets])
    names = [f"{file.name}, {name}" for file, part in zip(pair, (train, test), strict=True) for name in part.names]
    return replace(
        train,
        source=str(path),
        layout=f"{pair[0].name} and {pair[1].name}, one sequence per line",
        values=values,
        lengths=lengths,
        targets=targets,
        names=names,
        split=np.array(["train"] * len(train.values) + ["test"] * len(test.values)),
        split_by="published",
    )
