"""Arrays in memory as a task: NumPy, PyTorch, lists or data frames."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from pydantic import Field
from typing_extensions import Self

from gatelab import floats
from gatelab.data import gaps, splits
from gatelab.data.arrays import columns_of, is_table, numbers_or_text, plain
from gatelab.data.formats import npz_files
from gatelab.data.index import Index
from gatelab.data.learnable import learnable
from gatelab.data.reading import Fill, Reading
from gatelab.data.sequences import Sequences, padded
from gatelab.data.series import Series
from gatelab.errors import DataError, first_of
from gatelab.tasks import series
from gatelab.tasks.own.data import OwnData

SOURCE = "the arrays"


class Arrays(OwnData):
    """Your own data in memory: `tasks.from_arrays(X, y)`."""

    name = "arrays"
    source = "arrays in memory"
    in_memory = True

    sha256: str = Field(description="checksum of the arrays: equal arrays are equal tasks")
    columns: tuple[str, ...] = Field((), description="names of the features, or of the columns of a series")
    per_sequence: bool = Field(
        False,
        description="read y (N, K) as K values per sequence even if X has K steps; by default as one value per step",
    )

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays; only the program that passed them has them."""
        raise DataError(
            "the data of this task was passed as arrays, which are not stored: pass them again, as "
            "tasks.from_arrays(X, y)"
        )

    def is_here(self) -> bool:
        """Whether the arrays are in memory."""
        return "arrays" in self.__dict__

    def with_options(self, **changes: Any) -> Self:
        """The same task with some options changed, and the same arrays."""
        task = super().with_options(**changes)
        if self.is_here():
            task.__dict__["arrays"] = self.arrays
        return task

    @cached_property
    def content(self) -> Sequences | Series:
        """The data in one form."""
        arrays = self.arrays
        if "y" not in arrays:
            return self._series(arrays)
        count = len(arrays["X"])
        split, groups = (
            None if name not in arrays else npz_files.labels_of_sequences(SOURCE, name, arrays[name], count)
            for name in ("split", "groups")
        )
        read = npz_files.from_arrays(
            SOURCE, arrays["X"], arrays["y"], arrays.get("lengths"), Reading(fill=self.fill), tokens=self.tokens,
            split=split, groups=groups, columns=self.columns,
        )  # fmt: skip
        per_step = read.per_step and not self.per_sequence
        read = replace(read, split_by="by the argument split", needs_test=False, per_step=per_step)
        weights = _checked_weights(arrays.get("weights"), count)
        return replace(learnable(read, self.classify), weights=weights)

    def _series(self, arrays: dict[str, np.ndarray]) -> Series:
        """A series to forecast."""
        X = arrays["X"]
        X = X[:, None] if X.ndim == 1 else X
        if X.ndim != 2 or 0 in X.shape or X.dtype.kind not in "iufb":
            raise DataError(
                f"X is {X.dtype} of shape {X.shape} without y: expected a series to forecast, (S,) or (S, D); "
                "sequences need targets, from_arrays(X, y)"
            )
        if refused := [name for name in ("lengths", "groups", "weights") if name in arrays]:
            raise DataError(f"{refused[0]} are for sequences with targets: leave them out, or pass y")
        names = self.columns or tuple(str(i + 1) for i in range(X.shape[1]))
        if len(names) != X.shape[1]:
            raise DataError(f"{len(names)} names of columns: expected {X.shape[1]}, one per column of X")
        values = gaps.fill_missing(floats.floats(X, "X"), self.fill)
        if not np.isfinite(values).all():
            row, column = np.argwhere(~np.isfinite(values))[0]
            advice = gaps.unfilled(self.fill) if np.isnan(values[row, column]) else "expected finite numbers"
            raise DataError(f"X[{row}, {column}] is {values[row, column]}: {advice}")
        parts = None
        if "split" in arrays:
            texts = npz_files.labels_of_sequences(SOURCE, "split", arrays["split"], len(X)).tolist()
            parts = splits.codes(texts, SOURCE, [f"step {i}" for i in range(len(X))])
            splits.boundaries(parts, np.arange(len(X)), SOURCE)
        elif min(series.window_counts(len(values), self.length)) < 1:
            raise DataError(
                f"X has {len(values):,} steps: expected at least {series.least_steps(self.length)} for windows of "
                f"{self.length} steps in training, validation and test set; choose a smaller length"
            )
        return Series(
            values, names, Index("positions", len(values)), num_targets=len(names), source=SOURCE, parts=parts,
            split_by="by the argument split", reading=Reading(fill=self.fill),
        )  # fmt: skip


def from_arrays(
    X: Any,
    y: Any = None,
    *,
    lengths: Any = None,
    split: Any = None,
    groups: Any = None,
    weights: Any = None,
    per_sequence: bool = False,
    classify: bool | None = None,
    tokens: bool = False,
    columns: Sequence[str] = (),
    length: int = 50,
    difference: bool | None = None,
    fill: Fill | None = None,
    seed: int = 0,
) -> Arrays:
    """Arrays in memory as a task, to train on or to look at.

    X: sequences (N, T, D) or (N, T), or a list of sequences (T, D) of any length; tensors, lists and data frames are
       converted. With `tokens`, integers or text (N, T), or a list of them.
    y: labels or numbers, per sequence (N,), (N, K) or per step (N, T), (N, T, K), or a list of one array per sequence.
       Without y, X is one series (S,) or (S, D) to forecast.
    lengths: of padded sequences (N,). split: train, validation or test for each sequence or step; sequences may all be
       for training. groups: sequences of one group (a speaker, a patient) stay in one part.
    weights: how much each sequence counts (N,): in the scaling of inputs and targets, in the training loss and in the
       validation metrics. Test metrics count every sequence the same.
    per_sequence: whether y (N, K) has K values per sequence even if X has K steps.
    The other arguments are options of the task `files`.
    """
    inputs, ends, names = _inputs(X, y is not None, tokens)
    arrays: dict[str, np.ndarray] = {"X": inputs}
    if ends is not None and lengths is not None:
        raise DataError("lengths were given with a list of sequences, which have their own lengths: leave them out")
    if y is not None:
        arrays["y"] = _targets(y, inputs)
    given = {"lengths": ends if ends is not None else lengths, "split": split, "groups": groups, "weights": weights}
    for name, values in given.items():
        if values is not None:
            arrays[name] = numbers_or_text(values, name)
    task = Arrays.make(
        {
            "sha256": _digest(arrays), "columns": tuple(columns) or names, "classify": classify, "tokens": tokens,
            "length": length, "difference": difference, "fill": fill, "seed": seed, "per_sequence": per_sequence,
        }
    )  # fmt: skip
    task.__dict__["arrays"] = arrays  # fills the cached property
    return task


def _inputs(X: Any, are_sequences: bool, tokens: bool) -> tuple[np.ndarray, np.ndarray | None, tuple[str, ...]]:
    """X as one array, the lengths of a list of sequences, and the names of the columns of data frames."""
    if is_table(X):
        values, names = columns_of(X)
        return values, None, names
    if are_sequences and isinstance(X, (list, tuple)) and len(X):
        if all(is_table(one) for one in X):
            read = [columns_of(one) for one in X]
            different = [names for _, names in read if names != read[0][1]]
            if different:
                raise DataError(
                    f"X has data frames with the columns {first_of(different[0])} and {first_of(read[0][1])}: "
                    "expected the same in all"
                )
            return *_listed([values for values, _ in read], tokens), read[0][1]
        return *_listed([numbers_or_text(one, f"sequence {i} of X") for i, one in enumerate(X)], tokens), ()
    return numbers_or_text(X, "X"), None, ()


def _listed(sequences: list[np.ndarray], tokens: bool) -> tuple[np.ndarray, np.ndarray | None]:
    """Pad a list of sequences."""
    depth = 1 if tokens else sequences[0].ndim
    for index, one in enumerate(sequences):
        wrong_size = one.ndim == 2 and one.shape[1:] != sequences[0].shape[1:]
        if one.ndim != depth or one.ndim not in (1, 2) or not len(one) or wrong_size:
            expected = "(T,)" if tokens else "(T, D) or (T,), with the same D in all"
            raise DataError(f"sequence {index} of X has the shape {one.shape}: expected {expected}, at least one step")
    kinds = {"text" if one.dtype.kind in "US" else "numbers" for one in sequences}
    if len(kinds) > 1:
        raise DataError("X has sequences of text and of numbers: expected one kind")
    return padded(sequences)


def _targets(y: Any, X: np.ndarray) -> np.ndarray:
    """Y as one array; a list with the targets of each step is padded."""
    if isinstance(y, (list, tuple)) and len(y) and not isinstance(y[0], (str, bytes)) and np.ndim(plain(y[0])):
        rows = [numbers_or_text(one, f"y[{i}]") for i, one in enumerate(y)]
        if any(len(row) > X.shape[1] for row in rows):
            raise DataError(f"y has {max(map(len, rows))} targets in a sequence: expected at most {X.shape[1]} steps")
        values = padded(rows)[0] if all(row.shape[1:] == rows[0].shape[1:] for row in rows) else numbers_or_text(y, "y")
        if len({len(row) for row in rows}) > 1 and values.shape[1] < X.shape[1]:
            values = np.concatenate([values, np.zeros_like(values[:, :1]).repeat(X.shape[1] - values.shape[1], 1)], 1)
        return values
    return numbers_or_text(y, "y")


def _checked_weights(weights: np.ndarray | None, count: int) -> np.ndarray | None:
    """The weights of sequences as float64."""
    if weights is None:
        return None
    if weights.shape != (count,) or weights.dtype.kind not in "iufb":
        raise DataError(f"weights are {weights.dtype} of shape {weights.shape}: expected numbers of shape ({count},)")
    values = floats.floats(weights, "weights")
    if not np.isfinite(values).all() or values.min() < 0:
        raise DataError(f"weights are from {values.min():g} to {values.max():g}: expected finite numbers from 0 up")
    return values


def _digest(arrays: dict[str, np.ndarray]) -> str:
    """A checksum of all arrays."""
    total = hashlib.sha256()
    for name, values in arrays.items():
        plain = np.char.encode(values, "utf-8") if values.dtype.kind == "U" else values
        total.update(f"{name} {plain.dtype.str} {plain.shape} ".encode())
        total.update(np.ascontiguousarray(plain).tobytes())
    return total.hexdigest()
