"""People's own data in one form, whatever kind of file it comes from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gatelab.errors import DataError
from gatelab.tasks import readers, series, tables


@dataclass(frozen=True)
class Own:
    """What was read, in one form for all kinds of files."""

    inputs: np.ndarray  # float64: a series (S, D), or sequences (N, T, D), zero beyond their ends
    answers: np.ndarray | None  # None for a series: what comes next
    per_step: bool
    names: tuple[str, ...]  # of the columns
    lengths: np.ndarray | None = None
    classes: tuple[str, ...] | None = None
    columns: int = 0  # of a series: how many are forecast, the first ones
    left_out: tuple[str, ...] = ()  # of a table: columns that are not read
    stamps: np.ndarray | None = None  # of a series: the times of its last lines, datetime64[s]
    label_type: str = "text"  # of classes


def from_table(path: Path, columns: tuple[str, ...], inputs: tuple[str, ...], length: int, header: bool | None) -> Own:
    table = tables.read_table(path, header)
    names = columns or tuple(name for name in table.columns if name not in inputs)
    if not names:
        raise DataError(
            f"{path} has no column of numbers to forecast; its columns: {', '.join(table.others) or 'none'}"
        )
    if double := [name for name in (*columns, *inputs) if (*columns, *inputs).count(name) > 1]:
        raise DataError(f"{path}: {double[0]!r} is named twice among the columns to forecast and the further inputs")
    values = table.pick((*names, *inputs))
    if min(series.window_counts(len(values), length)) < 1:
        raise DataError(
            f"{path} has {len(values):,} lines: windows of {length} in each of the three parts need at least "
            f"{series.least_steps(length)}; ask for shorter ones with length=, or bring more"
        )
    left_out = (*table.others, *(name for name in table.columns if name not in (*names, *inputs)))
    return Own(values, None, True, (*names, *inputs), columns=len(names), left_out=left_out, stamps=table.stamps)


def from_npz(path: Path) -> Own:
    arrays = readers.read_npz(path)
    if missing := [name for name in ("X", "y") if name not in arrays]:
        raise DataError(f"{path} has the arrays {', '.join(arrays) or 'none'}: {' and '.join(missing)} missing")
    X, y = arrays["X"], arrays["y"]
    X = X[..., None] if X.ndim == 2 else X
    if X.ndim != 3 or 0 in X.shape or X.dtype.kind not in "iufb":
        raise DataError(f"{path}: X is {X.dtype} of shape {X.shape}: expected numbers (N, T, D) or (N, T)")
    if y.ndim == 0 or len(y) != len(X):
        raise DataError(f"{path}: y has shape {y.shape} and X {X.shape}: expected an answer for each of the {len(X)}")
    if len(X) < 3:
        raise DataError(f"{path} has {len(X)} sequences: expected three at least, to train, to validate and to test")
    lengths = npz_lengths(path, arrays, X)
    X = X.astype(np.float64)
    inside = np.ones(X.shape[:2], bool) if lengths is None else np.arange(X.shape[1]) < lengths[:, None]
    if not np.isfinite(X[inside]).all():
        place = np.argwhere(inside[..., None] & ~np.isfinite(X))[0]
        raise DataError(f"{path}: X[{', '.join(map(str, place))}] is {X[tuple(place)]}: expected finite numbers")
    X[~inside] = 0
    names = tuple(str(i + 1) for i in range(X.shape[2]))
    if y.dtype.kind in "iubUS":
        if y.ndim > 2 or (y.ndim == 2 and y.shape[1] != X.shape[1]):
            raise DataError(
                f"{path}: y has classes of shape {y.shape}: expected ({len(X)},), or {X.shape[:2]} for one a step"
            )
        known, numbers = np.unique(y if y.ndim == 1 else y[inside], return_inverse=True)
        if len(known) < 2:
            raise DataError(f"{path}: y has {len(known)} class: expected two at least")
        answers = np.zeros(y.shape, np.int64)
        answers[... if y.ndim == 1 else inside] = numbers
        classes = tuple(c.decode(errors="replace") if isinstance(c, bytes) else str(c) for c in known)
        label_type = {"i": "integer", "u": "integer", "b": "boolean"}.get(y.dtype.kind, "text")
        return Own(X, answers, y.ndim == 2, names, lengths, classes, label_type=label_type)
    if y.ndim == 2 and y.shape[1] == X.shape[1]:
        y = y[..., None]  # one number at every step
    if y.dtype.kind != "f" or y.ndim > 3 or (y.ndim == 3 and y.shape[1] != X.shape[1]):
        raise DataError(
            f"{path}: y is {y.dtype} of shape {y.shape}: expected classes (integers or texts), or floats of shape "
            f"({len(X)},), ({len(X)}, K), or ({len(X)}, {X.shape[1]}, K) for one a step"
        )
    y = y.astype(np.float64)[:, None] if y.ndim == 1 else y.astype(np.float64)
    if y.ndim == 3:
        y = np.where(inside[..., None], y, 0)
    if not np.isfinite(y).all():
        raise DataError(
            f"{path}: y has values that are not finite numbers, the first in row {np.argwhere(~np.isfinite(y))[0][0]}"
        )
    return Own(X, y, y.ndim == 3, names, lengths)


def npz_lengths(path: Path, arrays: dict[str, np.ndarray], X: np.ndarray) -> np.ndarray | None:
    """Where each sequence ends, if the file says so."""
    lengths = arrays.get("lengths")
    if lengths is None:
        return None
    if lengths.shape != (len(X),) or lengths.dtype.kind not in "iu" or lengths.min() < 1 or lengths.max() > X.shape[1]:
        raise DataError(f"{path}: lengths must be {len(X)} integers from 1 to {X.shape[1]}")
    return lengths.astype(np.int64)


def from_folder(path: Path) -> Own:
    sequences, labels, classes, names = readers.read_folder(path)
    lengths = np.array([len(sequence) for sequence in sequences], np.int64)
    padded = np.zeros((len(sequences), int(lengths.max()), sequences[0].shape[1]))
    for row, sequence in zip(padded, sequences, strict=True):
        row[: len(sequence)] = sequence
    return Own(padded, labels, False, names, lengths, classes)
