"""Readers of user data: .npz arrays, and one sequence per .csv or .npy file."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gatelab import floats
from gatelab.data.advice import Location, RefusalError
from gatelab.data.formats import read_table
from gatelab.data.gaps import FILLS, fill_missing
from gatelab.data.reading import Fill
from gatelab.data.table import Table
from gatelab.errors import DataError, first_of
from gatelab.sealed import UNREADABLE, plain_array, plain_arrays

SEQUENCES = (".csv", ".tsv", ".txt", ".npy")


def read_npz(path: Path) -> dict[str, np.ndarray]:
    """Read the arrays of an .npz. Pickled objects are rejected: they can execute code."""
    try:
        return plain_arrays(path)
    except UNREADABLE as error:
        raise DataError(f"{path} cannot be read as an .npz of plain arrays: {error}") from error


def sequence_of(table: Table, columns: tuple[str, ...] = (), fill: Fill | None = None) -> np.ndarray:
    """A table of numbers as one sequence (T, D); with `columns`, it must have exactly these, in any order."""
    if table.texts:
        raise DataError(
            f"{table.path}: the column {next(iter(table.texts))!r} is not numeric: expected numeric columns only"
        )
    if columns and set(columns) != set(table.names):
        raise DataError(
            f"{table.path} has the columns {table.known()}: expected {first_of(columns)}, as in the first sequence"
        )
    names = columns or table.names
    values = fill_missing(table.number_columns(names), fill)
    return table.pick(names) if np.isnan(values).any() else values


def read_sequence(
    path: Path, columns: tuple[str, ...] = (), fill: Fill | None = None
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Read a sequence (T, D) in float64 and its column names, from a CSV of T rows or an .npy of shape (T, D) or (T,).

    With `columns`, a CSV must have exactly these columns, in any order. `fill` is for missing values.
    """
    if path.suffix.lower() != ".npy":
        table = read_table(path)
        return sequence_of(table, columns, fill), columns or table.names
    try:
        values = plain_array(path)
    except UNREADABLE as error:
        raise DataError(f"{path} cannot be read as an .npy array: {error}") from error
    if values.ndim not in (1, 2) or values.size == 0 or values.dtype.kind not in "iufb":
        raise DataError(
            f"{path} holds {values.dtype} of shape {values.shape}: expected numbers of shape (T, D) or (T,)"
        )
    values = fill_missing(floats.floats(values, str(path)).reshape(len(values), -1), fill)
    if not np.isfinite(values).all():
        step, column = np.argwhere(~np.isfinite(values))[0]
        where = f", step {step}, feature {column}"
        raise RefusalError(Location(path), f"{where}: {values[step, column]}: expected finite numbers; ", FILLS)
    return values, tuple(str(i + 1) for i in range(values.shape[1]))


def sequence_files(folder: Path) -> list[Path]:
    """The sequence files of a folder in alphabetical order."""
    return sorted(f for f in folder.iterdir() if f.suffix.lower() in SEQUENCES and not f.name.startswith("."))


def read_sequences(
    files: list[Path], columns: tuple[str, ...] = (), fill: Fill | None = None
) -> tuple[list[np.ndarray], tuple[str, ...]]:
    """Read one sequence per file, all with the same columns, and the column names."""
    sequences: list[np.ndarray] = []
    for file in files:
        sequence, names = read_sequence(file, columns, fill)
        if sequences and sequence.shape[1] != sequences[0].shape[1]:
            raise DataError(
                f"{file} has {sequence.shape[1]} features per step: expected {sequences[0].shape[1]}, as in the first "
                "sequence"
            )
        if file.suffix.lower() != ".npy":
            columns = names
        sequences.append(sequence)
    return sequences, columns or tuple(str(i + 1) for i in range(sequences[0].shape[1]))
