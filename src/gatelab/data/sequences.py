"""Sequences in one form, whatever they come from: numbers or tokens, targets, parts and groups."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field

import numpy as np

from gatelab import memory
from gatelab.data.reading import LabelType, Reading

COPIES = 3  # of the values: as read, scaled, and in the three parts
PADDING = 255  # the token of steps after the end of a sequence, in bytes; any token beyond the vocabulary is padding


@dataclass(frozen=True)
class Sequences:
    """Sequences before scaling, and what is known of them. `learnable` turns their tokens and labels into indices."""

    values: np.ndarray  # (N, T, D) float64, or (N, T) tokens: integers, text, or indices of the vocabulary
    lengths: np.ndarray | None = None  # (N,); None if all are equal
    _: KW_ONLY
    single: bool = False  # whether one sequence was given, without the axis N
    source: str = "X"  # the file, folder or argument, for messages
    layout: str = ""  # in words
    names: Sequence[str] = ()  # of the sequences
    columns: tuple[str, ...] = ()  # names of the D features
    targets: np.ndarray | None = None  # numbers or labels, (N,), (N, K), (N, T) or (N, T, K)
    per_step: bool = False
    are_labels: bool | None = None  # whether the targets are classes, if the source says so
    classes: tuple[str, ...] | None = None  # names or order of the classes, if the source has them
    label_type: LabelType = "text"
    vocabulary: tuple[str, ...] = ()  # of tokens
    split: np.ndarray | None = None  # (N,) text, the parts as the source names them
    parts: np.ndarray | None = None  # (N,): 0, 1, 2 for training, validation and test
    split_by: str = ""  # where the split comes from, in words
    needs_test: bool = True  # whether a split without a test part is an error
    groups: np.ndarray | None = None  # (N,) text or integers
    weights: np.ndarray | None = None  # (N,) float64, how much each sequence counts in training
    ignored: tuple[str, ...] = ()  # columns that are not used
    notes: Mapping[str, str] = field(default_factory=dict)
    reading: Reading = field(default_factory=Reading)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def ends(self) -> np.ndarray:
        """The length of each sequence, (N,)."""
        return np.full(len(self.values), self.values.shape[1]) if self.lengths is None else self.lengths

    @property
    def inside(self) -> np.ndarray:
        """Whether a step belongs to its sequence, (N, T), and not to the padding."""
        inside: np.ndarray = np.arange(self.values.shape[1]) < self.ends[:, None]
        return inside

    def rows(self) -> list[np.ndarray]:
        """The sequences without padding."""
        return [row[:end] for row, end in zip(self.values, self.ends, strict=True)]


def padded(
    sequences: Sequence[np.ndarray], dtype: type | np.dtype | None = None, padding: float = 0
) -> tuple[np.ndarray, np.ndarray | None]:
    """Sequences of any length in one array, and their lengths; None if all are equal."""
    lengths = np.array([len(sequence) for sequence in sequences], np.int64)
    kind = np.result_type(*{sequence.dtype for sequence in sequences}) if dtype is None else np.dtype(dtype)
    shape = (len(sequences), int(lengths.max()), *sequences[0].shape[1:])
    memory.refuse(
        COPIES * kind.itemsize * math.prod(shape),
        f"{shape[0]:,} sequences, padded to the longest of {shape[1]:,} steps,",
        "shorten the longest ones, or use fewer",
    )
    values = np.full(shape, padding, kind) if padding else np.zeros(shape, kind)
    for row, sequence in zip(values, sequences, strict=True):
        row[: len(sequence)] = sequence
    return values, None if (lengths == lengths[0]).all() else lengths


def token_type(values: np.ndarray) -> str:
    """Whether tokens are integers or text."""
    return "integer" if values.dtype.kind in "iu" else "text"


def token_storage(size: int) -> tuple[type, int]:
    """The type of stored tokens and their padding: a token of at least the vocabulary's size is padding."""
    return (np.uint8, PADDING) if size <= PADDING else (np.int32, size)


def texts(values: np.ndarray) -> list[str]:
    """Labels as text."""
    return [value.decode(errors="replace") if isinstance(value, bytes) else str(value) for value in values.tolist()]
