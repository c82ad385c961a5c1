"""User data in one form, whatever it comes from: numbers or tokens, classes by index, parts and groups."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from gatelab import floats
from gatelab.errors import DataError
from gatelab.tasks.examples import PADDING
from gatelab.tasks.own import splits
from gatelab.tasks.own.npz_files import texts
from gatelab.tasks.own.reading import LabelType, Reading
from gatelab.tasks.own.recordings import Recordings
from gatelab.tasks.own.table_files import number_text

ONE_HOT = "they are one-hot, a single 1 each; y.argmax(-1) are labels, which are learned as classes"
LABEL_TYPES: dict[str, LabelType] = {"i": "integer", "u": "integer", "b": "boolean"}  # by kind of array
FEW = 20  # distinct whole numbers that may be classes or tokens


@dataclass(frozen=True)
class UserData:
    """The content of a table, an .npz, a folder, or arrays in memory."""

    inputs: np.ndarray  # float64: a series (S, D), or sequences (N, T, D), padded with zeros; tokens (N, T)
    targets: np.ndarray | None  # None for a series, whose targets are the next values
    per_step: bool
    names: tuple[str, ...]  # of the columns; target columns of a series come first
    lengths: np.ndarray | None = None
    classes: tuple[str, ...] | None = None
    num_targets: int = 0  # of a series: number of columns to forecast
    ignored: tuple[str, ...] = ()  # of a table: columns that are not used
    stamps: np.ndarray | None = None  # of a series: the times of its last steps, datetime64[s]
    label_type: LabelType = "text"
    vocabulary: tuple[str, ...] = ()  # of tokens
    source: str = "the data"
    layout: str = ""
    parts: np.ndarray | None = None  # (N,), or (S,) of a series: 0, 1, 2 for training, validation and test
    groups: np.ndarray | None = None  # (N,) text
    weights: np.ndarray | None = None  # (N,) float64, how much each sequence counts in training
    split_by: str = ""
    filled: np.ndarray | None = None  # (S, D) of a series: which values were missing, and are filled
    notes: dict[str, str] = field(default_factory=dict)
    reading: Reading = field(default_factory=Reading)

    @property
    def is_series(self) -> bool:
        """Whether this is a series to forecast."""
        return self.targets is None

    @property
    def ends(self) -> np.ndarray:
        """The length of each sequence, (N,)."""
        return np.full(len(self.inputs), self.inputs.shape[1]) if self.lengths is None else self.lengths


def assembled(recordings: Recordings, classify: bool | None) -> UserData:
    """Return sequences to train on."""
    source, X, y = recordings.source, recordings.values, recordings.targets
    assert y is not None
    if y.ndim == 0 or len(y) != len(X):
        raise DataError(
            f"{source}: y has shape {y.shape} and X {X.shape}: expected a target for each of the {len(X)} sequences"
        )
    if len(X) < 3 and recordings.split is None:
        raise DataError(
            f"{source} has {len(X)} sequences: expected at least three, for training, validation and test set"
        )
    inside = np.arange(X.shape[1]) < recordings.ends[:, None]
    notes = dict(recordings.notes)
    vocabulary: tuple[str, ...] = ()
    if recordings.reading.tokens is not None:
        inputs, vocabulary = _tokens(X, inside)
    else:
        inputs = np.where(inside[..., None], X, 0.0)
        if _might_be_tokens(X, inside):
            notes["steps"] = (
                f"{len(np.unique(X[inside]))} distinct integers, read as quantities; tokens=true reads tokens"
            )
    parts = None
    if recordings.split is not None:
        where = [f"sequence {name}" for name in recordings.names]
        parts = splits.codes(recordings.split.tolist(), source, where, recordings.needs_test)
        if recordings.groups is not None:
            splits.check_groups(recordings.groups, parts, source, "group")
    data = UserData(
        inputs,
        None,
        False,
        recordings.columns,
        recordings.lengths,
        ignored=recordings.ignored,
        vocabulary=vocabulary,
        source=source,
        layout=recordings.layout,
        parts=parts,
        groups=recordings.groups,
        split_by=recordings.split_by,
        notes=notes,
        reading=recordings.reading,
    )
    y = _typed(source, y, recordings, classify)
    if y.dtype.kind in "iubUS":
        targets, classes, label_type = _labels(source, y, X, inside, recordings)
        return replace(data, targets=targets, per_step=y.ndim == 2, classes=classes, label_type=label_type)
    targets = _numbers(source, y, X, inside, recordings.per_step)
    if classify is None:
        notes |= _like_classes(targets[inside] if targets.ndim == 3 else targets)
    return replace(data, targets=targets, per_step=targets.ndim == 3)


def _typed(source: str, y: np.ndarray, recordings: Recordings, classify: bool | None) -> np.ndarray:
    """Return labels as integers or text, and numbers as floats, as the option or the file says."""
    wanted = recordings.are_labels if classify is None else classify
    if wanted is None or wanted == (y.dtype.kind in "iubUS"):
        return y
    if not wanted:
        if y.dtype.kind in "US":
            try:
                return y.astype(np.float64)
            except ValueError as error:
                raise DataError(f"{source}: classify=false, but the targets are text: {error}") from None
        return floats.floats(y, f"{source}: y")
    if y.dtype.kind != "f" or not np.isfinite(y).all() or (y % 1 != 0).any():
        raise DataError(
            f"{source}: the targets are to be classes, but are {y.dtype} with fractions: expected text or whole numbers"
        )
    return y.astype(np.int64)


def _labels(
    source: str, y: np.ndarray, X: np.ndarray, inside: np.ndarray, recordings: Recordings
) -> tuple[np.ndarray, tuple[str, ...], LabelType]:
    """Return the class of each target, the names of the classes, and the type of the labels."""
    if 0 in y.shape:
        raise DataError(f"{source}: y has no labels, its shape is {y.shape}: expected one for each sequence or step")
    if y.ndim > 2 or (y.ndim == 2 and y.shape[1] != X.shape[1]):
        scope = "step" if y.shape[:2] == X.shape[:2] else "sequence"
        advice = (
            f"several labels per {scope} (multi-label) cannot be learned as classes; classify=false learns each of "
            "them as a number, with the mean squared error"
        )
        raise DataError(
            f"{source}: y has labels of shape {y.shape}: expected ({len(X)},), or {X.shape[:2]} for one per step; "
            f"{ONE_HOT if _is_one_hot(y.reshape(-1, y.shape[-1])) else advice}"
        )
    labels, indices = np.unique(y if y.ndim == 1 else y[inside], return_inverse=True)
    names = texts(labels)
    label_type: LabelType = LABEL_TYPES.get(y.dtype.kind, "text")
    classes = tuple(names)
    if recordings.classes is not None:
        classes, order = class_order(source, recordings.classes, labels)
        indices = order[indices]
        label_type = label_type if set(classes) >= set(names) and label_type == "integer" else "text"
        if label_type == "integer" and not all(name.lstrip("-").isdigit() for name in classes):
            label_type = "text"
    if len(labels) < 2:
        raise DataError(f"{source}: y has {len(labels)} class: expected at least two")
    targets = np.zeros(y.shape, np.int64)
    targets[... if y.ndim == 1 else inside] = indices
    return targets, classes, label_type


def class_order(source: str, classes: tuple[str, ...], labels: np.ndarray) -> tuple[tuple[str, ...], np.ndarray]:
    """Return the classes that a file names, and the index of each label: by its text, or 0, 1, … by position."""
    if len(set(classes)) < len(classes):
        raise DataError(f"{source}: the classes {', '.join(classes[:10])} are not unique: expected each name once")
    index = {name: i for i, name in enumerate(classes)}
    names = texts(labels)
    if all(name in index for name in names):
        return classes, np.array([index[name] for name in names])
    if labels.dtype.kind in "iu" and labels.min() >= 0 and labels.max() < len(classes):
        return classes, labels.astype(np.int64)
    unknown = next(name for name in names if name not in index)
    raise DataError(
        f"{source}: the label {unknown!r} is not one of the classes {', '.join(classes[:10])}: expected their names, "
        f"or integers from 0 to {len(classes) - 1}"
    )


def _numbers(source: str, y: np.ndarray, X: np.ndarray, inside: np.ndarray, per_step: bool) -> np.ndarray:
    """Return targets as (N, K), or (N, T, K) per step."""
    if y.ndim == 2 and per_step:
        y = y[..., None]  # one value per step
    if y.dtype.kind != "f" or 0 in y.shape or y.ndim > 3 or (y.ndim == 3 and y.shape[1] != X.shape[1]):
        raise DataError(
            f"{source}: y is {y.dtype} of shape {y.shape}: expected labels (integers or text), or floats of shape "
            f"({len(X)},), ({len(X)}, K), or ({len(X)}, {X.shape[1]}, K) for targets per step"
        )
    y = y.astype(np.float64)[:, None] if y.ndim == 1 else y.astype(np.float64)
    if y.ndim == 3:
        y = np.where(inside[..., None], y, 0)
    if not np.isfinite(y).all():
        raise DataError(
            f"{source}: y has NaN or infinity, first in row {np.argwhere(~np.isfinite(y))[0][0]}: expected finite "
            "numbers"
        )
    return y


def _tokens(X: np.ndarray, inside: np.ndarray) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return the index of each token, padded, and the vocabulary."""
    values, indices = np.unique(X[inside], return_inverse=True)
    dtype, padding = token_storage(len(values))
    tokens: np.ndarray = np.full(X.shape, padding, dtype)
    tokens[inside] = indices
    return tokens, tuple(texts(values))


def token_storage(size: int) -> tuple[type, int]:
    """Return the type of stored tokens and their padding: a token of at least the vocabulary's size is padding."""
    return (np.uint8, PADDING) if size <= PADDING else (np.int32, size)


def _might_be_tokens(X: np.ndarray, inside: np.ndarray) -> bool:
    if X.shape[2] != 1 or X.shape[1] < 2:
        return False
    values = X[inside]
    return bool((values % 1 == 0).all() and values.min() >= 0 and len(np.unique(values)) <= FEW)


def _is_one_hot(y: np.ndarray) -> bool:
    """Return whether each row (M, K) is one-hot."""
    if y.shape[1] < 2 or y.dtype.kind not in "iufb":
        return False
    return bool(((y == 0) | (y == 1)).all() and (y.sum(1) == 1).all())


def _like_classes(y: np.ndarray) -> dict[str, str]:
    """Return a remark on numbers (M, K) that may be labels, and are not learned as such."""
    if _is_one_hot(y):
        return {
            "caution": f"{y.shape[1]} targets, learned as numbers: {ONE_HOT}; classify=false says that this is meant"
        }
    if y.shape[1] > 1 and ((y == 0) | (y == 1)).all():
        text = (
            f"{y.shape[1]} targets that are 0 or 1, as if several labels could be true at once (multi-label): they are "
            "learned as numbers, with the mean squared error, and predictions are no probabilities; classify=false "
            "says that this is meant"
        )
        return {"caution": text}
    if y.shape[1] > 1 or (y % 1 != 0).any() or (distinct := len(np.unique(y))) > min(FEW, len(y) // 3):
        return {}
    return {"targets": f"{distinct} distinct whole numbers, read as quantities; classify=true reads classes"}


def label_texts(y: np.ndarray) -> list[str]:
    """Return labels as text; whole floats without a decimal point."""
    return [number_text(v) for v in y.tolist()] if y.dtype.kind == "f" else texts(y)
