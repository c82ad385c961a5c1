"""Subject and verb that agree across a gap: "the cat that saw the dogs in the garden … was"."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field, model_validator

from gatelab.tasks import pictures
from gatelab.tasks.examples import PADDING
from gatelab.tasks.synthetic import Drawn, Tokens

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NOUNS = {
    "cat": "cats", "dog": "dogs", "bird": "birds", "mouse": "mice", "child": "children", "woman": "women",
    "farmer": "farmers", "teacher": "teachers",
}  # fmt: skip
# Verbs of the past tense and places do not tell a number, so nothing in the gap gives the answer away.
SAW = ("saw", "heard", "chased", "found", "followed", "liked")
SLEPT = ("slept", "waited", "laughed", "ran")
NEAR = ("near", "with", "behind", "without")
PLACES = ("garden", "house", "snow", "city")
ADVERBS = ("yesterday", "often", "quietly", "again", "there", "still")
FUNCTION = ("the", "that", "in")
SINGULAR, PLURAL = tuple(NOUNS), tuple(NOUNS.values())


class Agreement(Tokens):
    """Sentences that stop before "was" or "were": the number of the subject decides, many words back.

    `the SUBJECT`, then a gap of filler words: mostly a relative clause (`that saw the dogs`), phrases (`near the
    child`, `in the garden`) and adverbs. The nouns in the gap have a number of their own, drawn apart from the
    subject's, so that only the subject tells. The length of the gap is drawn evenly from `shortest_gap` to `gap`,
    as far as there are different sentences so short.
    """

    name = "agreement"
    source = "made up; after Elman 1991 and Linzen, Dupoux & Goldberg 2016"

    gap: int = Field(12, ge=0, description="words between subject and verb, at most")
    shortest_gap: int = Field(4, ge=0, description="and at least")

    @model_validator(mode="after")
    def _in_order(self) -> Agreement:
        if self.shortest_gap > self.gap:
            raise ValueError(
                f"shortest_gap is {self.shortest_gap} and gap is {self.gap}: expected no more than the gap"
            )
        return self

    @property
    def vocabulary(self) -> tuple[str, ...]:
        return (*FUNCTION, *SINGULAR, *PLURAL, *SAW, *SLEPT, *NEAR, *PLACES, *ADVERBS)

    @property
    def classes(self) -> tuple[str, ...]:
        return ("was", "were")

    @property
    def steps(self) -> int:
        return self.gap + 2

    def words(self, tokens: Any, length: int) -> list[str]:
        """The words that a row of tokens stands for."""
        return [self.vocabulary[int(token)] for token in tokens[:length]]

    def draw(self, count: int, random: np.random.RandomState) -> Drawn:
        number = random.randint(0, 2, count).astype(np.int64)
        gaps = random.randint(self.shortest_gap, self.gap + 1, count)
        token = {word: i for i, word in enumerate(self.vocabulary)}
        inputs = np.full((count, self.steps), PADDING, np.uint8)
        for row, plural, gap in zip(inputs, number, gaps, strict=True):
            sentence = ["the", _one(PLURAL if plural else SINGULAR, random), *_filler(int(gap), random)]
            row[: len(sentence)] = [token[word] for word in sentence]
        return inputs, number, (gaps + 2).astype(np.int64)

    def picture(self) -> Figure:
        return pictures.sentences(self)


def _filler(words: int, random: np.random.RandomState) -> list[str]:
    """Exactly so many words that could follow a subject."""
    filler: list[str] = []
    if words >= 4:
        filler += ["that", _one(SAW, random), "the", _noun(random)]
    elif words == 2:
        filler += ["that", _one(SLEPT, random)]
    while (left := words - len(filler)) > 0:
        kind = random.randint(3) if left >= 3 else 0
        if kind == 0:
            filler.append(_one(ADVERBS, random))
        elif kind == 1:
            filler += ["in", "the", _one(PLACES, random)]
        else:
            filler += [_one(NEAR, random), "the", _noun(random)]
    return filler


def _noun(random: np.random.RandomState) -> str:
    return _one(SINGULAR + PLURAL, random)


def _one(words: tuple[str, ...], random: np.random.RandomState) -> str:
    return words[random.randint(len(words))]
