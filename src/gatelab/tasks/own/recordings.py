"""Sequences as a file has them: before labels become classes and words become tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from gatelab import memory
from gatelab.errors import DataError
from gatelab.tasks.own.reading import Reading
from gatelab.tasks.own.table_files import Table

COPIES = 3  # of the values: as read, scaled, and in the three parts


@dataclass(frozen=True)
class Recordings:
    """Sequences with names, targets and whatever the file says about their split."""

    source: str  # the file or folder, for messages
    layout: str  # in words
    values: np.ndarray  # (N, T, D) float64, or (N, T) tokens: integers or text
    names: list[str]  # of the sequences
    columns: tuple[str, ...]  # names of the D features
    lengths: np.ndarray | None = None  # (N,); None if all are equal
    targets: np.ndarray | None = None  # numbers or labels, (N,), (N, K), (N, T) or (N, T, K)
    per_step: bool = False
    are_labels: bool | None = None  # whether the targets are classes, if the file says so
    classes: tuple[str, ...] | None = None  # names or order of the classes, if the file has them
    split: np.ndarray | None = None  # (N,) text
    groups: np.ndarray | None = None  # (N,) text
    split_by: str = ""  # where the split comes from, in words
    needs_test: bool = True  # whether a split without a test part is an error
    ignored: tuple[str, ...] = ()  # columns that are not used
    notes: dict[str, str] = field(default_factory=dict)
    reading: Reading = field(default_factory=Reading)

    @property
    def ends(self) -> np.ndarray:
        """The length of each sequence, (N,)."""
        return np.full(len(self.values), self.values.shape[1]) if self.lengths is None else self.lengths

    def rows(self) -> list[np.ndarray]:
        """Return the sequences without padding."""
        return [row[:end] for row, end in zip(self.values, self.ends, strict=True)]


def padded(sequences: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray | None]:
    """Return sequences of any length in one array, and their lengths; None if all are equal."""
    lengths = np.array([len(sequence) for sequence in sequences], np.int64)
    kinds = np.result_type(*{sequence.dtype for sequence in sequences})
    shape = (len(sequences), int(lengths.max()), *sequences[0].shape[1:])
    memory.refuse(
        COPIES * kinds.itemsize * math.prod(shape),
        f"{shape[0]:,} sequences, padded to the longest of {shape[1]:,} steps,",
        "shorten the longest ones, or use fewer",
    )
    values = np.zeros(shape, kinds)
    for row, sequence in zip(values, sequences, strict=True):
        row[: len(sequence)] = sequence
    return values, None if (lengths == lengths[0]).all() else lengths


def target_column(table: Table, name: str, needed: bool) -> np.ndarray | None:
    """Return a column of labels or numbers: text, int64 or float64; None if it is empty and not needed."""
    cells = table.cells(name)
    if not any(cells) and not needed:
        return None
    if "" in cells:
        row = cells.index("")
        raise DataError(
            f"{table.path}, line {table.lines[row]}, column {name!r}: the label is missing ({cells.count(''):,} of "
            f"{len(cells):,} rows): expected a label in every row; remove these rows"
        )
    if name in table.texts:
        return np.array(cells)
    if name in table.integers:
        return table.whole_numbers(name)
    table.refuse_rounded(name)
    return table.columns[name]


def token_column(table: Table, name: str) -> np.ndarray:
    """Return a column of tokens: integers, or text."""
    cells = table.cells(name)
    if "" in cells:
        raise DataError(f"{table.path}, line {table.lines[cells.index('')]}, column {name!r}: the token is missing")
    if name in table.texts:
        return np.array(cells)
    if name not in table.integers:
        raise DataError(f"{table.path}: the column {name!r} has fractions: expected tokens, integers or text")
    return table.whole_numbers(name)


def token_type(values: np.ndarray) -> str:
    """Return "integer" or "text"."""
    return "integer" if values.dtype.kind in "iu" else "text"
