"""Reading people's own sequences: arrays, and folders with a folder for each class."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gatelab.errors import DataError
from gatelab.sealed import UNREADABLE, plain_arrays
from gatelab.tasks.tables import read_table

SEQUENCES = (".csv", ".tsv", ".txt", ".npy")


def read_npz(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an .npz. Pickled objects are refused: reading them could run anything."""
    try:
        return plain_arrays(path)
    except UNREADABLE as error:
        raise DataError(f"{path} cannot be read as an .npz of plain arrays: {error}") from error


def read_sequence(path: Path, columns: tuple[str, ...] = ()) -> tuple[np.ndarray, tuple[str, ...]]:
    """One sequence (T, D) in float64 from a CSV of T lines or an .npy of shape (T, D) or (T,), and its columns' names.

    With `columns`, a CSV must have just these, in whatever order.
    """
    if path.suffix.lower() != ".npy":
        table = read_table(path)
        if table.others:
            raise DataError(f"{path}: the column {table.others[0]!r} does not hold numbers")
        if columns and set(columns) != set(table.columns):
            raise DataError(f"{path} has the columns {table.known()}, and the first sequence {', '.join(columns)}")
        names = columns or tuple(table.columns)
        return table.pick(names), names
    try:
        with path.open("rb") as raw:
            values = np.load(raw, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path} cannot be read as an .npy of a plain array: {error}") from error
    if (
        not isinstance(values, np.ndarray)
        or values.ndim not in (1, 2)
        or values.size == 0
        or values.dtype.kind not in "iufb"
    ):
        raise DataError(
            f"{path} holds {getattr(values, 'shape', values)}: expected numbers of shape (steps, numbers) or (steps,)"
        )
    values = values.astype(np.float64).reshape(len(values), -1)
    if not np.isfinite(values).all():
        step, column = np.argwhere(~np.isfinite(values))[0]
        raise DataError(f"{path}, step {step}, number {column}: {values[step, column]}: expected finite numbers")
    return values, tuple(str(i + 1) for i in range(values.shape[1]))


def read_folder(path: Path) -> tuple[list[np.ndarray], np.ndarray, tuple[str, ...], tuple[str, ...]]:
    """The sequences of a folder that has a folder for each class, their classes by number, the names of the classes and
    of the columns.
    """
    folders = sorted(f for f in path.iterdir() if f.is_dir() and not f.name.startswith("."))
    if len(folders) < 2:
        raise DataError(f"{path} has {len(folders)} folders: expected one for each class, at least two")
    files: list[Path] = []
    labels: list[int] = []
    for number, folder in enumerate(folders):
        found = sequence_files(folder)
        if len(found) < 3:
            raise DataError(f"{folder} has {len(found)} sequences ({', '.join(SEQUENCES)}): expected three at least")
        files += found
        labels += [number] * len(found)
    sequences, names = read_sequences(files)
    return sequences, np.array(labels), tuple(f.name for f in folders), names


def sequence_files(folder: Path) -> list[Path]:
    return sorted(f for f in folder.iterdir() if f.suffix.lower() in SEQUENCES and not f.name.startswith("."))


def read_sequences(files: list[Path], columns: tuple[str, ...] = ()) -> tuple[list[np.ndarray], tuple[str, ...]]:
    """A sequence from each file, all with the same columns, and what those are called."""
    sequences: list[np.ndarray] = []
    for file in files:
        sequence, names = read_sequence(file, columns)
        if sequences and sequence.shape[1] != sequences[0].shape[1]:
            raise DataError(
                f"{file} has {sequence.shape[1]} numbers in a step, and the first sequence "
                f"has {sequences[0].shape[1]}: all must have the same"
            )
        if file.suffix.lower() != ".npy":
            columns = names
        sequences.append(sequence)
    return sequences, columns or tuple(str(i + 1) for i in range(sequences[0].shape[1]))
