"""What a case of the hostile campaign is: a command, the files it finds, and what it must answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

REFUSED = "refused"  # exit code 2, in words
SAME = "same"  # as the command answers without the mutation
MEANING = "other meaning"  # a success, and what it must have read is known
SOUND = "either"  # a refusal, or a success that was read right


@dataclass(frozen=True)
class Answer:
    """What a command said, and what it was about to compute."""

    code: int
    output: str
    errors: str
    record: dict[str, Any]  # specs, data and first loss of the trainings it began
    seconds: float
    hung: bool = False


@dataclass(frozen=True)
class Expected:
    """What an answer must be."""

    kind: str
    words: tuple[str, ...] = ()  # all of them are in the words of a refusal
    wrong: Callable[[Answer], str] | None = None  # how a success is wrong; empty if it is right


def refused(*words: str) -> Expected:
    return Expected(REFUSED, words)


def means(wrong: Callable[[Answer], str]) -> Expected:
    return Expected(MEANING, (), wrong)


@dataclass(frozen=True)
class Case:
    """A command with hostile input. It runs in an empty folder, in which `write` puts its files."""

    kind: str
    name: str
    command: tuple[str, ...]
    expected: Expected
    write: Callable[[Path], None] = field(default=lambda folder: None)
    base: Case | None = None  # the same without the mutation, for what must stay the same


def in_record(key: str, value: Any) -> Callable[[Answer], str]:
    """The spec of every training has this value, `model.hidden_size`."""

    def wrong(answer: Answer) -> str:
        for spec in answer.record.get("specs", {}).values():
            found = spec
            for part in key.split("."):
                found = found.get(part, "nothing") if isinstance(found, dict) else "nothing"
            if found != value:
                return f"{key} was read as {found!r}, expected {value!r}"
        return "" if answer.record.get("specs") else "no training began"

    return wrong
