"""Subject-verb agreement across a gap: "the cat that saw the dogs in the garden … was"."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field, model_validator

from gatelab.data.sequences import PADDING
from gatelab.errors import GatelabError
from gatelab.tasks import pictures
from gatelab.tasks.synthetic import Drawn, Tokens

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NOUNS = {
    "cat": "cats", "dog": "dogs", "bird": "birds", "mouse": "mice", "child": "children", "woman": "women",
    "farmer": "farmers", "teacher": "teachers",
}  # fmt: skip
# Past-tense verbs and places carry no number, so nothing in the gap reveals the target.
SAW = ("saw", "heard", "chased", "found", "followed", "liked")
SLEPT = ("slept", "waited", "laughed", "ran")
NEAR = ("near", "with", "behind", "without")
PLACES = ("garden", "house", "snow", "city")
ADVERBS = ("yesterday", "often", "quietly", "again", "there", "still")
FUNCTION = ("the", "that", "in")
SINGULAR, PLURAL = tuple(NOUNS), tuple(NOUNS.values())


class Agreement(Tokens):
    """Predict "was" or "were" from the number of the subject, many words back.

    A sentence is `the SUBJECT` and a gap of filler words: usually a relative clause (`that saw the dogs`), phrases
    (`near the child`, `in the garden`) and adverbs. The number of the nouns in the gap is independent of the
    subject's, so only the subject determines the target. The length of the gap is uniform from `shortest_gap` to
    `gap`, as far as there are enough distinct short sentences.
    """

    name = "agreement"
    bytes_per_step = 4
    source = "synthetic; after Elman 1991 and Linzen, Dupoux & Goldberg 2016"

    gap: int = Field(12, ge=0, lt=2**31, description="maximum number of words between subject and verb")
    shortest_gap: int = Field(4, ge=0, lt=2**31, description="minimum number of words between subject and verb")

    @model_validator(mode="after")
    def _in_order(self) -> Agreement:
        if self.shortest_gap > self.gap:
            raise GatelabError(
                f"shortest_gap is {self.shortest_gap} and gap is {self.gap}: expected shortest_gap ≤ gap"
            )
        return self

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """All words, in the order of their tokens."""
        return (*FUNCTION, *SINGULAR, *PLURAL, *SAW, *SLEPT, *NEAR, *PLACES, *ADVERBS)

    @property
    def classes(self) -> tuple[str, ...]:
        """The class names."""
        return ("was", "were")

    @property
    def steps(self) -> int:
        """T: the number of steps."""
        return self.gap + 2

    def words(self, tokens: Any, length: int) -> list[str]:
        """The words of a token sequence without padding."""
        return [self.vocabulary[int(token)] for token in tokens[:length]]

    def draw(self, count: int, random: np.random.RandomState) -> Drawn:
        """Draw `count` examples, which may repeat."""
        number = random.randint(0, 2, count).astype(np.int64)
        gaps = random.randint(self.shortest_gap, self.gap + 1, count)
        token = {word: i for i, word in enumerate(self.vocabulary)}
        inputs = np.full((count, self.steps), PADDING, np.uint8)
        for row, plural, gap in zip(inputs, number, gaps, strict=True):
            sentence = ["the", _one(PLURAL if plural else SINGULAR, random), *_filler(int(gap), random)]
            row[: len(sentence)] = [token[word] for word in sentence]
        return inputs, number, (gaps + 2).astype(np.int64)

    def picture(self) -> Figure:
        """Draw a few training examples."""
        return pictures.sentences(self)


def _filler(words: int, random: np.random.RandomState) -> list[str]:
    """Draw a filler of exactly this number of words."""
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
