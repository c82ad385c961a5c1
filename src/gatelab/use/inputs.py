"""Conversion of user input to arrays: arrays, lists of unequal sequences, named columns, words, images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gatelab.data.arrays import by_name, depth, is_table, numbers, plain
from gatelab.data.sequences import Sequences, padded, token_storage
from gatelab.errors import GatelabError, first_of, unknown
from gatelab.tasks.images import permutation
from gatelab.tasks.preparation import Preparation
from gatelab.tasks.text import encode


def read(X: Any, preparation: Preparation, lengths: Any = None) -> Sequences:
    """Convert X and check it against the preprocessing of the model."""
    convert = {"numbers": _numbers, "image": _image, "tokens": _tokens}[preparation.kind]
    converted = convert(plain(X), preparation)
    if not isinstance(converted, list):
        values, single = converted
        return _with_lengths(Sequences(values, single=single), lengths)
    if lengths is not None:
        raise GatelabError("lengths were given with a list of sequences, which have their own lengths: leave them out")
    return _padded(converted, preparation)


def _padded(sequences: list[np.ndarray], preparation: Preparation) -> Sequences:
    """Pad sequences of unequal length."""
    if not sequences:
        raise GatelabError("X has no sequences: expected at least one")
    for index, sequence in enumerate(sequences):
        if not len(sequence):
            raise GatelabError(f"sequence {index} of X has no steps: expected at least one")
    tokens = preparation.kind == "tokens"
    return Sequences(*padded(sequences, *(token_storage(preparation.input_size) if tokens else (np.float64, 0))))


def _with_lengths(sequences: Sequences, lengths: Any) -> Sequences:
    """Check the lengths and add them."""
    values = sequences.values
    if 0 in values.shape:
        raise GatelabError(f"X has the shape {values.shape}: expected at least one sequence of one step")
    if lengths is None:
        return sequences
    ends = np.atleast_1d(np.asarray(plain(lengths)))
    N, T = values.shape[:2]
    if ends.shape != (N,) or ends.dtype.kind not in "iu" or ends.min() < 1 or ends.max() > T:
        raise GatelabError(f"lengths are {str(lengths)[:80]}: expected {N} integers from 1 to {T}")
    return replace(sequences, lengths=ends.astype(np.int64))


# Numbers.


def _numbers(X: Any, preparation: Preparation) -> list[np.ndarray] | tuple[np.ndarray, bool]:
    if is_table(X):
        return _columns(X, preparation)[None], True
    if isinstance(X, (list, tuple)) and X and any(is_table(one) or np.ndim(plain(one)) for one in X):
        return _listed(X, preparation)
    array, D = numbers(X, "X"), preparation.input_size
    if array.ndim == 1 and D == 1:
        return array[None, :, None], True
    if array.ndim == 2:
        # (T, D), or (N, T) if there is one feature per step.
        return (array[None], True) if array.shape[1] == D else (_fitting(array[..., None], preparation), False)
    return _fitting(array, preparation), False


def _listed(X: Sequence[Any], preparation: Preparation) -> list[np.ndarray] | tuple[np.ndarray, bool]:
    """Convert a list of sequences; nested lists of numbers may also be a single sequence."""
    D = preparation.input_size
    if D > 1 and not any(map(is_table, X)) and all(depth(plain(one)) == 1 and len(one) == D for one in X):
        return numbers(X, "X")[None], True  # the steps of a single sequence
    sequences = []
    for index, one in enumerate(map(plain, X)):
        if is_table(one):
            sequences.append(_columns(one, preparation))
            continue
        name = f"sequence {index} of X"
        array = numbers(one, name)
        sequences.append(_fitting(array[:, None] if array.ndim == 1 else array, preparation, name, 2))
    return sequences


def _fitting(array: np.ndarray, preparation: Preparation, name: str = "X", dimensions: int = 3) -> np.ndarray:
    D, expected = preparation.input_size, "(T, D) or (N, T, D)" if dimensions == 3 else "(T, D)"
    if array.ndim != dimensions or array.shape[-1] != D:
        order = f": {first_of(preparation.columns)}, in this order" if _has_column_names(preparation) else ""
        raise GatelabError(f"{name} has the shape {array.shape}: expected {expected} with D = {D}{order}")
    return array


def _has_column_names(preparation: Preparation) -> bool:
    """Whether the columns have names, not only numbers."""
    return bool(preparation.columns) and preparation.columns != tuple(str(i + 1) for i in range(preparation.input_size))


def _columns(table: Any, preparation: Preparation) -> np.ndarray:
    """The columns in the order of training, (T, D)."""
    given = by_name(table)
    names, expected = tuple(given), preparation.columns
    if not _has_column_names(preparation):
        if len(names) != preparation.input_size:
            raise GatelabError(f"X has {len(names)} columns ({first_of(names)}): expected {preparation.input_size}")
        expected = names
    for name in names:
        if name not in expected:
            raise unknown("column of X:", name, expected)
    if missing := [name for name in expected if name not in names]:
        raise GatelabError(f"X has no column {missing[0]!r}: expected {first_of(expected)}")
    return np.stack([numbers(given[name], f"the column {name!r}") for name in expected], -1)


def check_finite(sequences: Sequences, preparation: Preparation | None = None) -> None:
    """Raise an error if X has NaN or infinity; padding is not checked."""
    if sequences.values.dtype.kind != "f":
        return
    invalid = np.argwhere(sequences.inside[..., None] & ~np.isfinite(sequences.values))
    if len(invalid):
        sequence, step, column = invalid[0]
        names = () if preparation is None or not _has_column_names(preparation) else preparation.columns
        name = f" ({names[column]})" if names else ""
        where = f"step {step}" if sequences.single else f"sequence {sequence}, step {step}"
        value = sequences.values[sequence, step, column]
        found = "NaN" if np.isnan(value) else value
        raise GatelabError(
            f"X has {found} in {where}, feature {column}{name} ({len(invalid):,} such values): expected finite "
            "numbers; fill missing values first"
        )


# Images.


def _image(X: Any, preparation: Preparation) -> list[np.ndarray] | tuple[np.ndarray, bool]:
    """Convert images to sequences in the order that the model reads; accept sequences in that order."""
    side, array = preparation.side, numbers(X, "X")
    assert side is not None
    by_rows = preparation.order == "rows"
    channels = preparation.input_size // (side if by_rows else 1)
    sequence = (side, side * channels) if by_rows else (side * side, channels)
    shapes = {sequence, (side, side, channels), *([(side, side)] if channels == 1 else [])}
    for single in (True, False):
        shape = array.shape if single else array.shape[1:]
        if shape in shapes:
            values = array.reshape(1 if single else len(array), *sequence)
            if preparation.order == "permuted" and shape != sequence:
                values = values.take(permutation(side * side), axis=1)
            return _checked_bytes(values), single
    expected = " or ".join(str(shape) for shape in sorted(shapes))
    raise GatelabError(f"X has the shape {array.shape}: expected images of shape {expected}, one or several")


def _checked_bytes(values: np.ndarray) -> np.ndarray:
    if np.isfinite(values).all() and (values.min(initial=0) < 0 or values.max(initial=0) > 255):
        raise GatelabError(
            f"X has values from {values.min():g} to {values.max():g}: expected unscaled pixels from 0 to 255"
        )
    if np.isfinite(values).all() and values.max(initial=0) <= 1 and (values != np.round(values)).any():
        raise GatelabError("X has fractions from 0 to 1: expected unscaled pixels from 0 to 255")
    return values


# Tokens.


def _tokens(X: Any, preparation: Preparation) -> list[np.ndarray] | tuple[np.ndarray, bool]:
    """Convert words, their indices in the vocabulary, or one-hot vectors."""
    if isinstance(X, str):
        return _text(X, preparation)[None], True
    if isinstance(X, (list, tuple, np.ndarray)) and len(X) and all(isinstance(one, str) for one in X):
        return _strings(list(X), preparation)
    if isinstance(X, (list, tuple)) and X and np.ndim(X[0]):
        rows = [list(plain(row)) for row in X]
        return [(_words if row and isinstance(row[0], str) else _indices)(row, preparation) for row in rows]
    array = np.asarray(X)
    is_one_hot = array.dtype.kind == "f" and array.ndim in (2, 3) and array.shape[-1] == preparation.input_size
    if not is_one_hot and array.ndim not in (1, 2):
        raise GatelabError(f"X has the shape {array.shape}: expected words, or their indices as (T,) or (N, T)")
    indices = _stored(_from_one_hot(array), preparation) if is_one_hot else _indices(array, preparation)
    return (indices[None], True) if indices.ndim == 1 else (indices, False)


def _text(text: str, preparation: Preparation) -> np.ndarray:
    """The characters of a text, or the words of a sentence, by what the model reads."""
    if preparation.text is not None:
        return encode(text, preparation.vocabulary, preparation.text)
    return _words(text.split(), preparation)


def _strings(strings: list[str], preparation: Preparation) -> list[np.ndarray] | tuple[np.ndarray, bool]:
    """The words of one sentence, or several sentences or texts."""
    if preparation.text is None and all(word in preparation.vocabulary for word in strings):
        return _words(strings, preparation)[None], True
    return [_text(text, preparation) for text in strings]


def _words(words: list[Any], preparation: Preparation) -> np.ndarray:
    index = {word: i for i, word in enumerate(preparation.vocabulary)}
    for word in words:
        if word not in index:
            raise unknown("word in X:", word, preparation.vocabulary)
    return _stored(np.array([index[word] for word in words]), preparation)


def _indices(tokens: Any, preparation: Preparation) -> np.ndarray:
    array = np.asarray(tokens)
    if preparation.reading is not None and preparation.reading.tokens == "integer":
        return _values(array, preparation)
    if array.dtype.kind not in "iu" or (array.size and not (array.min() >= 0 and array.max() < preparation.input_size)):
        raise GatelabError(
            f"X has {str(tokens)[:80]}: expected words, or their indices in the vocabulary, integers from 0 to "
            f"{preparation.input_size - 1}"
        )
    return _stored(array, preparation)


def _values(array: np.ndarray, preparation: Preparation) -> np.ndarray:
    """The indices of integer tokens, which need not count from 0."""
    vocabulary = np.array([int(name) for name in preparation.vocabulary])  # in order
    if array.dtype.kind not in "iu" or not np.isin(array, vocabulary).all():
        strange = array[~np.isin(array, vocabulary)][:1] if array.dtype.kind in "iu" else array.ravel()[:1]
        raise GatelabError(
            f"X has {str(strange)[:80]}: expected the integers of training, {', '.join(preparation.vocabulary[:20])}"
            f"{', …' if len(vocabulary) > 20 else ''}"
        )
    return _stored(np.searchsorted(vocabulary, array), preparation)


def _stored(indices: np.ndarray, preparation: Preparation) -> np.ndarray:
    """Tokens in the type that training stores."""
    return indices.astype(token_storage(preparation.input_size)[0])


def _from_one_hot(array: np.ndarray) -> np.ndarray:
    if not (((array == 0) | (array == 1)).all() and (array.sum(-1) == 1).all()):
        raise GatelabError("X has vectors that are not one-hot: expected a single 1 per step")
    indices: np.ndarray = array.argmax(-1)
    return indices
