"""What resolves a refusal, as data: sentences that name options, which every surface spells in its own way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from gatelab.errors import DataError


@dataclass(frozen=True)
class Use:
    """Options with their values, which are given together."""

    options: tuple[tuple[str, str], ...]


Part = str | Use
Spelling = Callable[[Use], str]


def use(**options: object) -> Use:
    """Options of the task `files` with their values."""
    return Use(tuple((name, str(value)) for name, value in options.items()))


def as_task(given: Use) -> str:
    """Options as in `files:path=FILE,id=patient,label=diagnosis`."""
    return ",".join(f"{name}={value}" for name, value in given.options)


def as_python(given: Use) -> str:
    """Options as the arguments of a call."""
    return ", ".join(f"{name}={value!r}" for name, value in given.options)


class Advice(str):
    """A sentence that names options. As text it has them as a task does."""

    parts: tuple[Part, ...]

    def __new__(cls, *parts: Part) -> Advice:
        """Join the parts of the sentence, which may be sentences themselves."""
        flat = tuple(_flat(parts))
        sentence = super().__new__(cls, "".join(_written(flat, as_task)))
        sentence.parts = flat
        return sentence

    def spelled(self, spelling: Spelling) -> str:
        """The sentence with its options in another spelling."""
        return "".join(_written(self.parts, spelling))


def spelled(sentence: str, spelling: Spelling) -> str:
    """A sentence with its options, if it names any, in another spelling."""
    return sentence.spelled(spelling) if isinstance(sentence, Advice) else sentence


def joined(sentences: Iterable[str], separator: str = "; ") -> Advice:
    """Several sentences as one."""
    parts: list[Part] = []
    for sentence in sentences:
        parts += [separator, sentence] if parts else [sentence]
    return Advice(*parts)


def _flat(parts: Iterable[Part]) -> Iterator[Part]:
    for part in parts:
        yield from part.parts if isinstance(part, Advice) else (part,)


def _written(parts: Iterable[Part], spelling: Spelling) -> Iterator[str]:
    return (spelling(part) if isinstance(part, Use) else part for part in parts)


@dataclass(frozen=True)
class Location:
    """Where something was found: in a file or an argument, in a line or a row, in a column."""

    source: object
    line: object = None  # of a file, from 1
    column: object = None
    row: object = None  # of an array, from 0

    def __str__(self) -> str:
        line = "" if self.line is None else f", line {self.line}"
        row = "" if self.row is None else f", row {self.row}"
        column = "" if self.column is None else f", column {self.column!r}"
        return f"{self.source}{line}{row}{column}"


class RefusalError(DataError):
    """Data that is not understood: where, what was found there, and the options that say how to read it."""

    def __init__(self, place: Location, *found: Part) -> None:
        self.place = place
        self.advice = Advice(str(place), *found)
        super().__init__(self.advice)

    def __reduce__(self) -> tuple[type[RefusalError], tuple[object, ...]]:
        return type(self), (self.place, *self.advice.parts[1:])


@contextmanager
def options_spelled(spelling: Spelling) -> Iterator[None]:
    """Errors from here on name options in this spelling."""
    try:
        yield
    except RefusalError as refusal:
        raise DataError(refusal.advice.spelled(spelling)) from None
