"""Sequences of any file or folder, and those of a published split in two files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from gatelab.data import layouts, long_tables, splits, wide_tables
from gatelab.data.advice import Advice, use
from gatelab.data.formats import TABLES, archives, folders, npz_files, read_table, ts_files
from gatelab.data.reading import Reading
from gatelab.data.sequences import Sequences, padded
from gatelab.data.table import Table
from gatelab.errors import DataError

KNOWN = (*TABLES, ".ts", ".npz")


def read(
    path: Path,
    reading: Reading,
    columns: tuple[str, ...] = (),
    tokens: bool = False,
    need_target: bool = True,
    classes: tuple[str, ...] | None = None,
) -> Sequences:
    """Read the sequences of a file or folder of any kind; for predictions no targets are needed."""
    if (pair := archives.published_pair(path)) is not None:
        return _published(path, pair, reading, need_target, classes)
    if path.is_dir():
        return folders.read(path, reading, () if need_target else columns, need_target)
    _refuse_unknown(path)
    suffix = path.suffix.lower()
    if suffix == ".npz":
        return npz_files.read(path, reading, tokens, need_target)
    if suffix != ".ts":
        return from_table(read_table(path, reading.header), reading, columns, tokens, need_target, classes)
    found = ts_files.read(path, reading, need_target)
    return _not_used(path, found) if need_target else found


def _refuse_unknown(path: Path) -> None:
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


def from_table(
    table: Table,
    reading: Reading,
    columns: tuple[str, ...] = (),
    tokens: bool = False,
    need_target: bool = True,
    classes: tuple[str, ...] | None = None,
) -> Sequences:
    """The sequences of a long or wide table."""
    if layouts.recognise(table, reading, columns) == "long":
        read = long_tables.read(table, reading, columns, tokens, need_target)
    else:
        read = wide_tables.read(table, reading, need_target, classes)
    read = replace(read, notes={**read.notes, **overlooked(table, read.ignored, read.reading.split)})
    return _not_used(table.path, read) if need_target else read


def overlooked(table: Table, ignored: tuple[str, ...], split: str | None) -> dict[str, str]:
    """A caution if no split was named or found, and there is a column of one."""
    return {} if split else splits.overlooked({name: table.cells(name) for name in ignored if name in table.texts})


def _not_used(path: Path, read: Sequences) -> Sequences:
    """Add a remark if this is the training file of a published split."""
    test = archives.other_half(path)
    if test is None or read.split is not None:
        return read
    both = use(path=path.parent / path.stem[:-6])
    advice = Advice(f"{test.name} beside this file is the published test set: ", both, " uses both")
    return replace(read, notes={**read.notes, "not used": advice})


def _published(
    path: Path, pair: tuple[Path, Path], reading: Reading, need_target: bool, classes: tuple[str, ...] | None
) -> Sequences:
    """Read the training and the test file of an archive."""
    wide = reading.resolved(layout="wide", header=reading.header or False)
    train, test = (
        ts_files.read(file, reading, need_target)
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
