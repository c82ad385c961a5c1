"""User data in one form, whatever file it comes from."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gatelab import memory
from gatelab.errors import DataError
from gatelab.tasks import readers, series, table_files

FLOAT64_COPIES = 8 * 3  # bytes per value: as read, scaled, and in the three parts


@dataclass(frozen=True)
class UserData:
    """The content of a table, an .npz or a folder."""

    inputs: np.ndarray  # float64: a series (S, D), or sequences (N, T, D), padded with zeros
    targets: np.ndarray | None  # None for a series, whose targets are the next values
    per_step: bool
    names: tuple[str, ...]  # of the columns; target columns of a series come first
    lengths: np.ndarray | None = None
    classes: tuple[str, ...] | None = None
    num_targets: int = 0  # of a series: number of columns to forecast
    ignored: tuple[str, ...] = ()  # of a table: columns that are not used
    stamps: np.ndarray | None = None  # of a series: the times of its last steps, datetime64[s]
    label_type: str = "text"  # type of the labels in the file


def from_table(
    path: Path, columns: tuple[str, ...], inputs: tuple[str, ...], length: int, header: bool | None
) -> UserData:
    """Read a series with its target columns and exogenous inputs."""
    table = table_files.read_table(path, header)
    names = columns or tuple(name for name in table.columns if name not in inputs)
    if not names:
        raise DataError(f"{path} has no numeric column to forecast; its columns: {table_files.listed(table.others)}")
    if repeated := [name for name, count in Counter((*columns, *inputs)).items() if count > 1]:
        raise DataError(f"{path}: {repeated[0]!r} is named twice in columns and inputs: name each column once")
    values = table.pick((*names, *inputs))
    if min(series.window_counts(len(values), length)) < 1:
        raise DataError(
            f"{path} has {len(values):,} rows: expected at least {series.least_steps(length)} for windows of {length} "
            "steps in training, validation and test set; choose a smaller length"
        )
    used = {*names, *inputs}
    ignored = (*table.others, *(name for name in table.columns if name not in used))
    return UserData(values, None, True, (*names, *inputs), num_targets=len(names), ignored=ignored, stamps=table.stamps)


def from_npz(path: Path) -> UserData:
    """Read sequences X with targets y: labels or numbers, per sequence or per step."""
    arrays = readers.read_npz(path)
    if missing := [name for name in ("X", "y") if name not in arrays]:
        raise DataError(
            f"{path} has the arrays {', '.join(arrays) or 'none'}: expected X and y, {' and '.join(missing)} missing"
        )
    X, y = arrays["X"], arrays["y"]
    X = X[..., None] if X.ndim == 2 else X
    if X.ndim != 3 or 0 in X.shape or X.dtype.kind not in "iufb":
        raise DataError(f"{path}: X is {X.dtype} of shape {X.shape}: expected numbers (N, T, D) or (N, T)")
    if y.ndim == 0 or len(y) != len(X):
        raise DataError(
            f"{path}: y has shape {y.shape} and X {X.shape}: expected a target for each of the {len(X)} sequences"
        )
    if len(X) < 3:
        raise DataError(
            f"{path} has {len(X)} sequences: expected at least three, for training, validation and test set"
        )
    lengths = npz_lengths(path, arrays, X)
    memory.refuse(FLOAT64_COPIES * X.size, f"{path} with X of shape {X.shape}", "split it")
    X = X.astype(np.float64)
    inside = np.ones(X.shape[:2], bool) if lengths is None else np.arange(X.shape[1]) < lengths[:, None]
    if not np.isfinite(X[inside]).all():
        index = np.argwhere(inside[..., None] & ~np.isfinite(X))[0]
        raise DataError(f"{path}: X[{', '.join(map(str, index))}] is {X[tuple(index)]}: expected finite numbers")
    X[~inside] = 0
    names = tuple(str(i + 1) for i in range(X.shape[2]))
    if y.dtype.kind in "iubUS":
        if y.ndim > 2 or (y.ndim == 2 and y.shape[1] != X.shape[1]):
            raise DataError(
                f"{path}: y has labels of shape {y.shape}: expected ({len(X)},), or {X.shape[:2]} for one per step"
            )
        labels, indices = np.unique(y if y.ndim == 1 else y[inside], return_inverse=True)
        if len(labels) < 2:
            raise DataError(f"{path}: y has {len(labels)} class: expected at least two")
        targets = np.zeros(y.shape, np.int64)
        targets[... if y.ndim == 1 else inside] = indices
        classes = tuple(c.decode(errors="replace") if isinstance(c, bytes) else str(c) for c in labels)
        label_type = {"i": "integer", "u": "integer", "b": "boolean"}.get(y.dtype.kind, "text")
        return UserData(X, targets, y.ndim == 2, names, lengths, classes, label_type=label_type)
    if y.ndim == 2 and y.shape[1] == X.shape[1]:
        y = y[..., None]  # one value per step
    if y.dtype.kind != "f" or y.ndim > 3 or (y.ndim == 3 and y.shape[1] != X.shape[1]):
        raise DataError(
            f"{path}: y is {y.dtype} of shape {y.shape}: expected labels (integers or text), or floats of shape "
            f"({len(X)},), ({len(X)}, K), or ({len(X)}, {X.shape[1]}, K) for targets per step"
        )
    y = y.astype(np.float64)[:, None] if y.ndim == 1 else y.astype(np.float64)
    if y.ndim == 3:
        y = np.where(inside[..., None], y, 0)
    if not np.isfinite(y).all():
        raise DataError(
            f"{path}: y has NaN or infinity, first in row {np.argwhere(~np.isfinite(y))[0][0]}: expected finite numbers"
        )
    return UserData(X, y, y.ndim == 3, names, lengths)


def npz_lengths(path: Path, arrays: dict[str, np.ndarray], X: np.ndarray) -> np.ndarray | None:
    """Return the lengths of the sequences, if the file has them."""
    lengths = arrays.get("lengths")
    if lengths is None:
        return None
    if lengths.shape != (len(X),) or lengths.dtype.kind not in "iu" or lengths.min() < 1 or lengths.max() > X.shape[1]:
        raise DataError(
            f"{path}: lengths is {lengths.dtype} of shape {lengths.shape}: expected {len(X)} integers from 1 to "
            f"{X.shape[1]}"
        )
    return lengths.astype(np.int64)


def from_folder(path: Path) -> UserData:
    """Read a folder with one subfolder per class and pad its sequences."""
    sequences, labels, classes, names = readers.read_folder(path)
    lengths = np.array([len(sequence) for sequence in sequences], np.int64)
    shape = (len(sequences), int(lengths.max()), sequences[0].shape[1])
    memory.refuse(
        FLOAT64_COPIES * math.prod(shape),
        f"{path} with {shape[0]:,} sequences, padded to the longest of {shape[1]:,} steps,",
        "cut the longest ones",
    )
    padded = np.zeros((len(sequences), int(lengths.max()), sequences[0].shape[1]))
    for row, sequence in zip(padded, sequences, strict=True):
        row[: len(sequence)] = sequence
    return UserData(padded, labels, False, names, lengths, classes)
