"""Arrays of an .npz: X with y, and optionally lengths, split, groups and classes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from gatelab import floats, memory
from gatelab.data import gaps, splits
from gatelab.data.advice import Location, RefusalError, use
from gatelab.data.formats.sequence_files import read_npz
from gatelab.data.learnable import read_as_quantities
from gatelab.data.reading import Reading
from gatelab.data.sequences import COPIES, Sequences, texts, token_type
from gatelab.data.splits import VALUES
from gatelab.errors import DataError, first_of


def read(path: Path, reading: Reading, tokens: bool, need_target: bool) -> Sequences:
    """Read the sequences of an .npz."""
    arrays = read_npz(path)
    split_by = f"by the array {reading.split or 'split'!r}"
    if "X" not in arrays and (parts := _part_names(arrays)):
        arrays = _joined(path, arrays, parts)
        split_by = f"by the arrays {', '.join(f'X_{part}' for part in parts)}"
    if missing := [name for name in (("X", "y") if need_target else ("X",)) if name not in arrays]:
        raise DataError(
            f"{path} has the arrays {first_of(arrays) or 'none'}: expected X and y, {' and '.join(missing)} missing"
        )
    X = arrays["X"]
    used = {"X", "y", "lengths", "classes", reading.split or "split", reading.group}
    split = _array(path, arrays, reading.split, "split", need_target, len(X) if X.ndim else 0)
    group = _array(path, arrays, reading.group, None, need_target, len(X) if X.ndim else 0)
    classes = arrays.get("classes")
    if classes is not None and (classes.ndim != 1 or classes.dtype.kind not in "iubUS" or not len(classes)):
        raise DataError(
            f"{path}: classes is {classes.dtype} of shape {classes.shape}: expected the names of the classes"
        )
    read = from_arrays(
        str(path), X, arrays.get("y"), arrays.get("lengths"), reading, tokens=tokens, split=split, groups=group,
        classes=None if classes is None else tuple(texts(classes)), layout=".npz: arrays of sequences",
    )  # fmt: skip
    ignored = tuple(name for name in arrays if name not in used)
    if split is None and reading.split is None:
        unused = {name: texts(arrays[name]) for name in ignored if arrays[name].shape == X.shape[:1]}
        read = replace(read, notes={**read.notes, **splits.overlooked(unused)})
    return replace(read, split_by=split_by, ignored=ignored)


def _part_names(arrays: dict[str, np.ndarray]) -> list[str]:
    """The parts of X_train, X_val, X_test, or x_train, …; the first is for training."""
    names = [name[2:] for name in arrays if name[:2] in ("X_", "x_") and name[2:].lower() in VALUES]
    return sorted(names, key=lambda name: VALUES[name.lower()])


def _joined(path: Path, arrays: dict[str, np.ndarray], parts: list[str]) -> dict[str, np.ndarray]:
    """The arrays of all parts in one, with their split."""
    joined: dict[str, np.ndarray] = {}
    for name in ("X", "y", "lengths"):
        spelled = [next((key for key in (f"{name}_{p}", f"{name.lower()}_{p}") if key in arrays), None) for p in parts]
        pieces = [arrays[key] for key in spelled if key is not None]
        if pieces and (
            len(pieces) < len(parts) or any(p.ndim == 0 or p.shape[1:] != pieces[0].shape[1:] for p in pieces)
        ):
            raise DataError(
                f"{path}: {name} of {', '.join(parts)} has the shapes {', '.join(str(p.shape) for p in pieces)}: "
                "expected one array for each part, all with the same steps and features"
            )
        if pieces:
            joined[name] = np.concatenate(pieces)
    lengths = [len(arrays.get(f"X_{part}", arrays.get(f"x_{part}", ()))) for part in parts]
    joined["split"] = np.repeat(parts, lengths)
    used = ("X", "y", "lengths")
    others = {n: a for n, a in arrays.items() if n not in used and n.rpartition("_")[2] not in parts}
    return {**others, **joined}


def _array(
    path: Path, arrays: dict[str, np.ndarray], option: str | None, usual: str | None, needed: bool, count: int
) -> np.ndarray | None:
    """The array of the split or the groups."""
    name = usual if option is None else option
    if name is None or name.lower() == "none" or (name not in arrays and (option is None or not needed)):
        return None
    if name not in arrays:
        raise DataError(f"{path} has no array {name!r}; its arrays: {first_of(arrays)}")
    return labels_of_sequences(str(path), name, arrays[name], count)


def labels_of_sequences(source: str, name: str, values: np.ndarray, count: int) -> np.ndarray:
    """One text per sequence."""
    if values.shape != (count,) or values.dtype.kind not in "iubUS":
        raise DataError(
            f"{source}: {name} is {values.dtype} of shape {values.shape}: expected text or integers of shape ({count},)"
        )
    return np.array(texts(values))


def from_arrays(
    source: str,
    X: np.ndarray,
    y: np.ndarray | None,
    lengths: np.ndarray | None,
    reading: Reading,
    *,
    tokens: bool = False,
    split: np.ndarray | None = None,
    groups: np.ndarray | None = None,
    classes: tuple[str, ...] | None = None,
    columns: tuple[str, ...] = (),
    layout: str = "arrays in memory",
) -> Sequences:
    """Check sequences X with targets y, and fill missing values."""
    if tokens:
        if X.ndim != 2 or 0 in X.shape or X.dtype.kind not in "iuUS":
            raise DataError(f"{source}: X is {X.dtype} of shape {X.shape}: expected tokens (N, T), integers or text")
        values = np.array(texts(X.ravel())).reshape(X.shape) if X.dtype.kind in "US" else X.astype(np.int64)
    else:
        values = X[..., None] if X.ndim == 2 else X
        if values.ndim != 3 or 0 in values.shape or values.dtype.kind not in "iufb":
            advice = ("; ", use(tokens="true"), " reads text as tokens") if X.dtype.kind in "US" else ()
            found = f": X is {X.dtype} of shape {X.shape}: expected numbers (N, T, D) or (N, T)"
            raise RefusalError(Location(source), found, *advice)
    ends = checked_lengths(source, lengths, values)
    memory.refuse(8 * COPIES * values.size, f"{source} with X of shape {X.shape}", "split it")
    filled = 0
    notes: dict[str, str] = {}
    if not tokens:
        if X.ndim == 2 and X.dtype.kind in "iu":
            notes["steps"] = read_as_quantities(len(np.unique(X)))
        values, filled = gaps.fill_sequences(floats.floats(values, f"{source}: X"), ends, reading.fill, source)
    names = columns or (("token",) if tokens else tuple(str(i + 1) for i in range(values.shape[2])))
    if not tokens and len(names) != values.shape[2]:
        raise DataError(f"{source}: {len(names)} names of columns: expected {values.shape[2]}, one per feature of X")
    if filled:
        notes["missing values"] = f"{filled:,} filled ({reading.fill})"
    return Sequences(
        values,
        ends,
        source=source,
        layout=layout,
        names=[str(i) for i in range(len(values))],
        columns=names,
        targets=y,
        per_step=is_per_step(y, values),
        split=split,
        groups=groups,
        classes=classes,
        are_labels=True if classes is not None else None,
        notes=notes,
        reading=reading.resolved(tokens=token_type(X) if tokens else None),
    )


def is_per_step(y: np.ndarray | None, X: np.ndarray) -> bool:
    """Whether targets have one value, or several, for each step of X."""
    return y is not None and (y.ndim == 3 or (y.ndim == 2 and y.shape[1] == X.shape[1]))


def checked_lengths(source: str, lengths: np.ndarray | None, X: np.ndarray) -> np.ndarray | None:
    """The lengths of the sequences, if there are any."""
    if lengths is None:
        return None
    if lengths.shape != (len(X),) or lengths.dtype.kind not in "iu" or lengths.min() < 1 or lengths.max() > X.shape[1]:
        raise DataError(
            f"{source}: lengths is {lengths.dtype} of shape {lengths.shape}: expected {len(X)} integers from 1 to "
            f"{X.shape[1]}"
        )
    return lengths.astype(np.int64)
