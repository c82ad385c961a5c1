"""Sequences as people have them, in one form: arrays, unequal lists, tables with named columns, words, images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gatelab.errors import unknown
from gatelab.tasks.examples import PADDING
from gatelab.tasks.images import permutation
from gatelab.tasks.preparation import Preparation


class Sequences(NamedTuple):
    """Some sequences, before they are scaled."""

    values: np.ndarray  # (N, T, D) numbers, or (N, T) tokens
    lengths: np.ndarray | None  # (N,) where they differ
    single: bool  # whether one sequence was given by itself


def read(X: Any, preparation: Preparation, lengths: Any = None) -> Sequences:
    """Whatever was given, checked against what the model was trained on."""
    reader = {"numbers": _numbers, "image": _image, "tokens": _tokens}[preparation.kind]
    found = reader(_plain(X), preparation)
    if not isinstance(found, list):
        values, single = found
        return _ended(Sequences(values, None, single), lengths)
    if lengths is not None:
        raise ValueError("lengths were given with a list of sequences: each has its own length, leave them out")
    return _padded(found, preparation)


def _plain(X: Any) -> Any:
    """Tensors as arrays; the rest as it is."""
    return X.detach().cpu().numpy() if hasattr(X, "detach") else X


def _padded(sequences: list[np.ndarray], preparation: Preparation) -> Sequences:
    """One array of sequences of unequal length."""
    if not sequences:
        raise ValueError("X has no sequences: expected one at least")
    lengths = np.array([len(sequence) for sequence in sequences], np.int64)
    if lengths.min() < 1:
        raise ValueError(f"sequence {lengths.argmin()} of X has no steps: expected one at least")
    tokens = preparation.kind == "tokens"
    shape = (len(sequences), int(lengths.max()), *sequences[0].shape[1:])
    values = np.full(shape, PADDING if tokens else 0, np.uint8 if tokens else np.float64)
    for row, sequence in zip(values, sequences, strict=True):
        row[: len(sequence)] = sequence
    return Sequences(values, None if (lengths == lengths[0]).all() else lengths, False)


def _ended(given: Sequences, lengths: Any) -> Sequences:
    """With the ends that were given beside the array."""
    values = given.values
    if 0 in values.shape:
        raise ValueError(f"X has the shape {values.shape}: expected one sequence of one step at least")
    if lengths is None:
        return given
    ends = np.atleast_1d(np.asarray(_plain(lengths)))
    N, T = values.shape[:2]
    if ends.shape != (N,) or ends.dtype.kind not in "iu" or ends.min() < 1 or ends.max() > T:
        raise ValueError(f"lengths are {str(lengths)[:80]}: expected {N} integers from 1 to {T}")
    return given._replace(lengths=ends.astype(np.int64))


# Numbers.


def _numbers(X: Any, preparation: Preparation) -> list[np.ndarray] | tuple[np.ndarray, bool]:
    if _is_table(X):
        return _columns(X, preparation)[None], True
    if isinstance(X, (list, tuple)) and X and any(_is_table(one) or np.ndim(_plain(one)) for one in X):
        return _listed(X, preparation)
    array, D = _array(X, "X"), preparation.input_size
    if array.ndim == 1 and D == 1:
        return array[None, :, None], True
    if array.ndim == 2:
        # (T, D), or where a step has one number also (N, T).
        return (array[None], True) if array.shape[1] == D else (_fitting(array[..., None], preparation), False)
    return _fitting(array, preparation), False


def _listed(X: Sequence[Any], preparation: Preparation) -> list[np.ndarray] | tuple[np.ndarray, bool]:
    """A list of sequences; nested lists of numbers may also be one sequence."""
    D = preparation.input_size
    if D > 1 and not any(map(_is_table, X)) and all(_depth(_plain(one)) == 1 and len(one) == D for one in X):
        return _array(X, "X")[None], True  # the steps of one
    made = []
    for place, one in enumerate(map(_plain, X)):
        if _is_table(one):
            made.append(_columns(one, preparation))
            continue
        array = _array(one, f"sequence {place} of X")
        made.append(_fitting(array[:, None] if array.ndim == 1 else array, preparation, f"sequence {place} of X", 2))
    return made


def _depth(one: Any) -> int:
    return 1 + _depth(one[0]) if isinstance(one, (list, tuple)) and one else np.ndim(one)


def _array(given: Any, what: str) -> np.ndarray:
    try:
        array = np.asarray(given, np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{what} is {str(given)[:80]}: expected numbers, (T, D) or (N, T, D)") from None
    return array


def _fitting(array: np.ndarray, preparation: Preparation, what: str = "X", dimensions: int = 3) -> np.ndarray:
    D, expected = preparation.input_size, "(T, D) or (N, T, D)" if dimensions == 3 else "(T, D)"
    if array.ndim != dimensions or array.shape[-1] != D:
        named = f": {', '.join(preparation.columns)}, in this order" if _named(preparation) else ""
        raise ValueError(f"{what} has the shape {array.shape}: expected {expected} with D = {D}{named}")
    return array


def _named(preparation: Preparation) -> bool:
    """Whether the columns have names of their own, and are not only counted."""
    return bool(preparation.columns) and preparation.columns != tuple(str(i + 1) for i in range(preparation.input_size))


def _is_table(given: Any) -> bool:
    """Columns by name: a dictionary, or a data frame of any library that has `columns` and items."""
    return isinstance(given, Mapping) or (hasattr(given, "columns") and hasattr(given, "__getitem__"))


def _columns(table: Any, preparation: Preparation) -> np.ndarray:
    """The columns in the order of training, (T, D)."""
    there = [str(name) for name in (table if isinstance(table, Mapping) else table.columns)]
    keys = dict(zip(there, table if isinstance(table, Mapping) else table.columns, strict=True))
    wanted = preparation.columns
    if not _named(preparation):
        if len(there) != preparation.input_size:
            raise ValueError(f"X has {len(there)} columns ({', '.join(there)}): expected {preparation.input_size}")
        wanted = tuple(there)
    for name in there:
        if name not in wanted:
            raise unknown("column of X:", name, wanted)
    if missing := [name for name in wanted if name not in there]:
        raise ValueError(f"X lacks the column {missing[0]!r}: expected {', '.join(wanted)}")
    return np.stack([_array(table[keys[name]], f"the column {name!r}") for name in wanted], -1)


def refuse_gaps(given: Sequences, preparation: Preparation) -> None:
    """NaN and infinity are no input; beyond the end of a sequence nothing counts."""
    if given.values.dtype.kind != "f":
        return
    N, T = given.values.shape[:2]
    inside = np.ones((N, T), bool) if given.lengths is None else np.arange(T) < given.lengths[:, None]
    bad = np.argwhere(inside[..., None] & ~np.isfinite(given.values))
    if len(bad):
        sequence, step, column = bad[0]
        name = f" ({preparation.columns[column]})" if _named(preparation) else ""
        where = f"step {step}" if given.single else f"sequence {sequence}, step {step}"
        value = given.values[sequence, step, column]
        raise ValueError(
            f"X has {value} in {where}, number {column}{name}, and {len(bad):,} such values in all: expected finite "
            "numbers; fill the gaps first"
        )


# Images.


def _image(X: Any, preparation: Preparation) -> list[np.ndarray] | tuple[np.ndarray, bool]:
    """Images of the right side, put into the order that the model reads; or sequences that are in that order."""
    side, array = preparation.side, _array(X, "X")
    assert side is not None
    by_rows = preparation.order == "rows"
    channels = preparation.input_size // (side if by_rows else 1)
    read = (side, side * channels) if by_rows else (side * side, channels)
    shapes = {read, (side, side, channels), *([(side, side)] if channels == 1 else [])}
    for single in (True, False):
        shape = array.shape if single else array.shape[1:]
        if shape in shapes:
            values = array.reshape(1 if single else len(array), *read)
            if preparation.order == "permuted" and shape != read:
                values = values.take(permutation(side * side), axis=1)
            return _checked_bytes(values), single
    listed = " or ".join(str(shape) for shape in sorted(shapes))
    raise ValueError(f"X has the shape {array.shape}: expected images of shape {listed}, one or several")


def _checked_bytes(values: np.ndarray) -> np.ndarray:
    if np.isfinite(values).all() and (values.min(initial=0) < 0 or values.max(initial=0) > 255):
        raise ValueError(
            f"X has values from {values.min():g} to {values.max():g}: expected pixels from 0 to 255, as files have them"
        )
    if np.isfinite(values).all() and values.max(initial=0) <= 1 and (values != np.round(values)).any():
        raise ValueError("X looks scaled to 0…1: expected the pixels as files have them, from 0 to 255")
    return values


# Tokens.


def _tokens(X: Any, preparation: Preparation) -> list[np.ndarray] | tuple[np.ndarray, bool]:
    """Words, or their places in the vocabulary."""
    if isinstance(X, str):
        return _words(X.split(), preparation)[None], True
    if isinstance(X, (list, tuple, np.ndarray)) and len(X) and isinstance(X[0], str):
        if all(word in preparation.vocabulary for word in X):
            return _words(list(X), preparation)[None], True
        return [_words(str(sentence).split(), preparation) for sentence in X]
    if isinstance(X, (list, tuple)) and X and np.ndim(X[0]):
        rows = [list(_plain(row)) for row in X]
        return [(_words if row and isinstance(row[0], str) else _places)(row, preparation) for row in rows]
    array = np.asarray(X)
    if array.dtype.kind == "f" and array.ndim in (2, 3) and array.shape[-1] == preparation.input_size:
        array = _from_one_hot(array)
    if array.ndim not in (1, 2):
        raise ValueError(f"X has the shape {array.shape}: expected words, or their numbers as (T,) or (N, T)")
    places = _places(array, preparation)
    return (places[None], True) if array.ndim == 1 else (places, False)


def _words(words: list[Any], preparation: Preparation) -> np.ndarray:
    places = {word: place for place, word in enumerate(preparation.vocabulary)}
    for word in words:
        if word not in places:
            raise unknown("word in X:", word, preparation.vocabulary)
    return np.array([places[word] for word in words], np.uint8)


def _places(given: Any, preparation: Preparation) -> np.ndarray:
    array = np.asarray(given)
    if array.dtype.kind not in "iu" or (array.size and not (array.min() >= 0 and array.max() < preparation.input_size)):
        raise ValueError(
            f"X has {str(given)[:80]}: expected words, or their places in the vocabulary, integers from 0 to "
            f"{preparation.input_size - 1}"
        )
    return array.astype(np.uint8)


def _from_one_hot(array: np.ndarray) -> np.ndarray:
    if not (((array == 0) | (array == 1)).all() and (array.sum(-1) == 1).all()):
        raise ValueError("X has vectors that are not one-hot: expected a single 1 in each step")
    places: np.ndarray = array.argmax(-1)
    return places
