"""Sequences to learn from: labels become classes, words become tokens, by index."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gatelab import floats
from gatelab.data import splits
from gatelab.data.advice import Advice, Location, RefusalError, use
from gatelab.data.reading import LabelType
from gatelab.data.sequences import Sequences, texts, token_storage
from gatelab.data.table import number_text
from gatelab.errors import DataError

ONE_HOT = "they are one-hot, a single 1 each; y.argmax(-1) are labels, which are learned as classes"
LABEL_TYPES: dict[str, LabelType] = {"i": "integer", "u": "integer", "b": "boolean"}  # by kind of array
FEW = 20  # distinct whole numbers that may be classes or tokens
AS_NUMBERS = use(classify="false")


def learnable(given: Sequences, classify: bool | None) -> Sequences:
    """Sequences to train on: tokens and labels are indices, and padding is 0."""
    source, X, y = given.source, given.values, given.targets
    assert y is not None
    if y.ndim == 0 or len(y) != len(X):
        raise DataError(
            f"{source}: y has shape {y.shape} and X {X.shape}: expected a target for each of the {len(X)} sequences"
        )
    if len(X) < 3 and given.split is None:
        raise DataError(
            f"{source} has {len(X)} sequences: expected at least three, for training, validation and test set"
        )
    notes = dict(given.notes)
    inside = given.inside
    if given.reading.tokens is not None:
        values, vocabulary = _tokens(X, inside)
        given = replace(given, values=values, vocabulary=vocabulary)
    else:
        given = replace(given, values=np.where(inside[..., None], X, 0.0))
        if _might_be_tokens(X, inside):
            count = len(np.unique(X[inside]))
            notes["steps"] = read_as_quantities(count)
    y = _typed(source, y, given, classify)
    if y.dtype.kind in "iubUS":
        targets, classes, label_type = _labels(y, given)
        given = replace(given, targets=targets, per_step=y.ndim == 2, classes=classes, label_type=label_type)
    else:
        targets = _numbers(source, y, X, inside, given.per_step)
        if classify is None:
            notes |= _like_classes(targets[inside] if targets.ndim == 3 else targets)
        given = replace(given, targets=targets, per_step=targets.ndim == 3, classes=None)
    return replace(given, parts=_parts(given), notes=notes)


def read_as_quantities(distinct: int) -> Advice:
    """The remark on integers that may be tokens."""
    return Advice(f"{distinct:,} distinct integers, read as quantities; ", use(tokens="true"), " reads tokens")


def _parts(given: Sequences) -> np.ndarray | None:
    """The part of each sequence, if the source has a split."""
    if given.split is None:
        return None
    where = [f"sequence {name}" for name in given.names]
    parts = splits.codes(given.split.tolist(), given.source, where, given.needs_test)
    if given.groups is not None:
        splits.check_groups(given.groups, parts, given.source, "group")
    return parts


def _typed(source: str, y: np.ndarray, given: Sequences, classify: bool | None) -> np.ndarray:
    """Labels as integers or text, and numbers as floats, as the option or the file says."""
    wanted = given.are_labels if classify is None else classify
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


def _labels(y: np.ndarray, given: Sequences) -> tuple[np.ndarray, tuple[str, ...], LabelType]:
    """The class of each target, the names of the classes, and the type of the labels."""
    source, X, inside = given.source, given.values, given.inside
    if 0 in y.shape:
        raise DataError(f"{source}: y has no labels, its shape is {y.shape}: expected one for each sequence or step")
    if y.ndim > 2 or (y.ndim == 2 and y.shape[1] != X.shape[1]):
        scope = "step" if y.shape[:2] == X.shape[:2] else "sequence"
        several = Advice(
            f"several labels per {scope} (multi-label) cannot be learned as classes; ",
            AS_NUMBERS,
            " learns each of them as a number, with the mean squared error",
        )
        raise RefusalError(
            Location(source),
            f": y has labels of shape {y.shape}: expected ({len(X)},), or {X.shape[:2]} for one per step; ",
            ONE_HOT if _is_one_hot(y.reshape(-1, y.shape[-1])) else several,
        )
    labels, indices = np.unique(y if y.ndim == 1 else y[inside], return_inverse=True)
    names = texts(labels)
    label_type: LabelType = LABEL_TYPES.get(y.dtype.kind, "text")
    classes = tuple(names)
    if given.classes is not None:
        classes, order = class_order(source, given.classes, labels)
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
    """The classes that a file names, and the index of each label: by its text, or 0, 1, … by position."""
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
    """Targets as (N, K), or (N, T, K) per step."""
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
    """The index of each token, padded, and the vocabulary."""
    values, indices = np.unique(X[inside], return_inverse=True)
    dtype, padding = token_storage(len(values))
    tokens: np.ndarray = np.full(X.shape, padding, dtype)
    tokens[inside] = indices
    return tokens, tuple(texts(values))


def _might_be_tokens(X: np.ndarray, inside: np.ndarray) -> bool:
    if X.shape[2] != 1 or X.shape[1] < 2:
        return False
    values = X[inside]
    return bool((values % 1 == 0).all() and values.min() >= 0 and len(np.unique(values)) <= FEW)


def _is_one_hot(y: np.ndarray) -> bool:
    """Whether each row (M, K) is one-hot."""
    if y.shape[1] < 2 or y.dtype.kind not in "iufb":
        return False
    return bool(((y == 0) | (y == 1)).all() and (y.sum(1) == 1).all())


def _like_classes(y: np.ndarray) -> dict[str, str]:
    """A remark on numbers (M, K) that may be labels, and are not learned as such."""
    if _is_one_hot(y):
        learned = f"{y.shape[1]} targets, learned as numbers: {ONE_HOT}; "
        return {"caution": Advice(learned, AS_NUMBERS, " says that this is meant")}
    if y.shape[1] > 1 and ((y == 0) | (y == 1)).all():
        several = (
            f"{y.shape[1]} targets that are 0 or 1, as if several labels could be true at once (multi-label): they are "
            "learned as numbers, with the mean squared error, and predictions are no probabilities; "
        )
        return {"caution": Advice(several, AS_NUMBERS, " says that this is meant")}
    if y.shape[1] > 1 or (y % 1 != 0).any() or (distinct := len(np.unique(y))) > min(FEW, len(y) // 3):
        return {}
    read = f"{distinct} distinct whole numbers, read as quantities; "
    return {"targets": Advice(read, use(classify="true"), " reads classes")}


def label_texts(y: np.ndarray) -> list[str]:
    """Labels as text; whole floats without a decimal point."""
    return [number_text(v) for v in y.tolist()] if y.dtype.kind == "f" else texts(y)
