"""Delayed recall: one symbol, kept through a delay full of others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from gatelab.tasks import pictures
from gatelab.tasks.synthetic import Drawn, Tokens

if TYPE_CHECKING:
    from matplotlib.figure import Figure

QUESTION = "?"


class Recall(Tokens):
    """A symbol is shown once, at the first step, and asked for at the last, after a delay full of distractors.

    The distractors are other symbols, drawn at random at every step: nothing but the first step tells the answer.
    """

    name = "recall"
    source = "made up; after the latching problem of Bengio, Simard & Frasconi 1994"

    symbols: int = Field(8, ge=2, le=26, description="how many different ones may have to be recalled")
    distractors: int = Field(8, ge=1, le=26, description="how many different ones fill the delay")
    delay: int = Field(50, ge=0, description="steps between the symbol and the question")

    @property
    def vocabulary(self) -> tuple[str, ...]:
        return (
            *(chr(ord("A") + i) for i in range(self.symbols)),
            *(chr(ord("a") + i) for i in range(self.distractors)),
            QUESTION,
        )

    @property
    def classes(self) -> tuple[str, ...]:
        return self.vocabulary[: self.symbols]

    @property
    def steps(self) -> int:
        return self.delay + 2

    def draw(self, count: int, random: np.random.RandomState) -> Drawn:
        answers = random.randint(0, self.symbols, count).astype(np.int64)
        inputs = random.randint(self.symbols, self.symbols + self.distractors, (count, self.steps)).astype(np.uint8)
        inputs[:, 0] = answers
        inputs[:, -1] = len(self.vocabulary) - 1
        return inputs, answers, None

    def picture(self) -> Figure:
        return pictures.strips(self)
