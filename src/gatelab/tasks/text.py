"""Plain text as a task: predict the next character."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import torch
from pydantic import Field, field_validator

from gatelab.disk import read_regular
from gatelab.errors import DataError, GatelabError, bad_byte
from gatelab.formatting import counted, visible
from gatelab.tasks import ngrams, pictures
from gatelab.tasks.baseline import Baseline
from gatelab.tasks.examples import Examples, Parts, TokenIndices
from gatelab.tasks.task import Task

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Unit = Literal["characters", "bytes"]
WINDOW = 100  # tokens per example, and per chunk of truncated back-propagation by default
SHARES = (0.9, 0.95, 1.0)  # where training, validation and test part end
TEXT_FACTOR = 12  # bytes of memory per byte of a file: as read, as text, and as tokens
BLOCK = 1 << 20  # characters that are converted at once, so that memory stays near the size of the text
CODES = {"characters": 0x110000, "bytes": 256}  # how many there can be


class Text(Task):
    """Plain text: predict the next character from all before it.

    The text is one long sequence. The network reads it in order, in `training.batch_size` places at once, and keeps its
    state from chunk to chunk; gradients reach back `training.bptt` characters. The result is measured in bits per
    character on the last part of the text.
    """

    name = "text"
    source = "your own file"
    from_disk = True
    per_step = True
    default_bptt = WINDOW
    split_rule = "by position: first 90 % training, next 5 % validation, last 5 % test"

    path: Path = Field(description="a text file in UTF-8, or any file with unit=bytes")
    unit: Unit = Field("characters", description="what a step is: a character, or a byte of the file")

    @field_validator("path")
    @classmethod
    def _absolute(cls, path: Path) -> Path:
        return path.expanduser().absolute()  # a run may be resumed from another folder

    @cached_property
    def content(self) -> Tokenized:
        """The whole text as tokens, read on first use."""
        content = tokenize(self.path, self.unit)
        least = round((WINDOW + 1) / (SHARES[1] - SHARES[0])) + 2
        if len(content.tokens) < least:
            raise DataError(
                f"{self.path} has {counted(len(content.tokens), self.unit[:-1])}: expected at least {least:,}, so that "
                f"validation and test part have {WINDOW} each"
            )
        if len(content.vocabulary) < 2:
            raise DataError(f"{self.path} repeats one {self.unit[:-1]}: expected at least two different ones")
        return content

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The characters or bytes that occur in the text, in order."""
        prepared = self.__dict__.get("preparation")  # of a reopened run
        return prepared.vocabulary if prepared is not None else self.content.vocabulary

    @property
    def classes(self) -> tuple[str, ...]:
        """The next token is one of the vocabulary."""
        return self.vocabulary

    @property
    def input_size(self) -> int:
        """The size of the vocabulary."""
        return len(self.vocabulary)

    @property
    def steps(self) -> int:
        """T: the tokens of an example, which `inspect` shows."""
        return WINDOW

    @property
    def bits_metric(self) -> str:
        """The cross-entropy in bits."""
        return f"bits_per_{self.unit[:-1]}"

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The number of training, validation and test examples, which do not overlap."""
        train, validation, test = ((len(part) - 1) // WINDOW for part in self._texts())
        return train, validation, test

    def _texts(self) -> list[np.ndarray]:
        """The tokens of training, validation and test part."""
        tokens = self.content.tokens
        edges = [round(share * len(tokens)) for share in (0.0, *SHARES)]
        return [tokens[a:b] for a, b in itertools.pairwise(edges)]

    def load(self) -> Parts:
        """Cut the text into examples of `steps` characters, as views of it."""
        parts = []
        for text in map(torch.from_numpy, self._texts()):
            inputs, targets = (part.unfold(0, WINDOW, WINDOW) for part in (text[:-1], text[1:]))  # (N, T)
            parts.append(Examples(inputs, targets, encoding=TokenIndices(), per_step=True))
        return Parts(*parts)

    def streams(self) -> Parts:
        """Each part as one sequence (1, S), a view of the text."""
        texts = map(torch.from_numpy, self._texts())
        encoding = TokenIndices()
        return Parts(*(Examples(t[None, :-1], t[None, 1:], encoding=encoding, per_step=True) for t in texts))

    def _preparation_fields(self) -> dict[str, Any]:
        return {**super()._preparation_fields(), "text": self.unit}

    @property
    def user_path(self) -> Path:
        """The user's file."""
        return self.path

    def is_here(self) -> bool:
        """Whether the file exists."""
        return self.path.exists()

    @cached_property
    def _baseline(self) -> Baseline:
        train, validation, test = self._texts()
        order, bits = ngrams.best_order(train, validation, test, len(self.vocabulary))
        rule = f"frequencies of {order}-grams in the training text; the order is chosen on the validation text"
        return Baseline(rule, self.bits_metric, bits)

    def baseline(self) -> Baseline:
        """The cross-entropy of n-gram frequencies."""
        return self._baseline

    def remarks(self) -> dict[str, str]:
        """The size of the text and of its parts, and the vocabulary."""
        sizes = [len(part) for part in self._texts()]
        shown = " ".join(visible(token) for token in self.vocabulary[:60])
        return {
            "text": f"{counted(sum(sizes), self.unit[:-1])}: "
            + "{:,} training, {:,} validation, {:,} test".format(*sizes),
            "vocabulary": f"{len(self.vocabulary)}: {shown}{' …' if len(self.vocabulary) > 60 else ''}",
        }

    def picture(self) -> Figure:
        """Draw a few lines of the training text, and the frequencies of characters."""
        return pictures.text(self)


class Tokenized(NamedTuple):
    """A text as numbers."""

    tokens: np.ndarray  # (S,), a byte each where there are at most 255 different ones
    vocabulary: tuple[str, ...]


def tokenize(path: Path, unit: Unit) -> Tokenized:
    """Read a file as characters or bytes, numbered in the order of their codes."""
    text = read_text(path, unit)
    blocks = CodePoints(text) if isinstance(text, str) else [np.frombuffer(text, np.uint8)]
    counts = np.zeros(CODES[unit], np.int64)
    for block in blocks:
        counts += np.bincount(block, minlength=len(counts))
    used = np.flatnonzero(counts)
    index = np.zeros(len(counts), np.uint8 if len(used) <= 255 else np.int32)
    index[used] = np.arange(len(used))
    tokens = np.concatenate([index[block] for block in blocks])
    return Tokenized(tokens, tuple(token_name(code, unit) for code in used.tolist()))


def read_text(path: Path, unit: Unit) -> str | bytes:
    """Read a file as text, without a byte order mark, or as bytes."""
    if not path.exists() or path.is_dir():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise DataError(f"{path} {what}: expected a text file")
    content = read_regular(path, factor=TEXT_FACTOR)
    if not content:
        raise DataError(f"{path} is empty: expected text")
    if unit == "bytes":
        return content
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line, byte = bad_byte(error)
        raise DataError(
            f"{path}, line {line}: byte {byte} is not UTF-8: expected text in UTF-8; convert it, "
            "or read its bytes with unit=bytes"
        ) from None


class CodePoints(Sequence[np.ndarray]):
    """The code points of a text in blocks, converted when they are asked for: in all they are four times the text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __len__(self) -> int:
        return -(-len(self.text) // BLOCK)

    def __getitem__(self, index: Any) -> Any:
        if not 0 <= index < len(self):
            raise IndexError(index)
        return np.frombuffer(self.text[index * BLOCK : (index + 1) * BLOCK].encode("utf-32-le"), np.uint32)


def token_name(code: int, unit: Unit) -> str:
    """A character, or a byte: ASCII as it is, others as \\x80."""
    return chr(code) if unit == "characters" or code < 128 else f"\\x{code:02x}"


def encode(text: str | bytes, vocabulary: Sequence[str], unit: Unit) -> np.ndarray:
    """A text as tokens of a vocabulary, int64 (S,)."""
    try:
        if isinstance(text, str) and unit == "bytes":
            text = text.encode("utf-8", "surrogateescape")  # bytes of a command line that are no text
        blocks = CodePoints(text) if isinstance(text, str) else [np.frombuffer(text, np.uint8)]
        codes = np.concatenate([np.empty(0, np.uint32), *blocks])
    except UnicodeEncodeError:
        raise GatelabError(f"{text!r} is not text: expected characters") from None
    names = {token: i for i, token in enumerate(vocabulary)}
    index = np.full(CODES[unit], -1, np.int64)
    used = np.unique(codes)
    index[used] = [names.get(token_name(code, unit), -1) for code in used.tolist()]
    tokens: np.ndarray = index[codes]
    if (tokens < 0).any():
        foreign = token_name(int(codes[np.argmin(tokens)]), unit)
        listed = " ".join(map(visible, vocabulary[:80])) + (" …" if len(vocabulary) > 80 else "")
        raise GatelabError(f"{foreign!r} is not in the text that the model was trained on; it has {listed}")
    return tokens
