"""The copy task: symbols have to be kept through a long pause and given back in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from gatelab.tasks import pictures
from gatelab.tasks.synthetic import Drawn, Tokens

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLANK, GO = "·", "?"


class Copy(Tokens):
    """Symbols are shown, a pause follows, and on a sign they have to be repeated in order.

    With S symbols to copy and a pause of P steps the input is S symbols, P − 1 blanks, the sign, S blanks; the answer
    is blank for S + P steps, then the symbols. Every step counts in training, as published; accuracy is that of the
    last S steps, since the blanks are right for nothing.
    """

    name = "copy"
    source = "made up; Hochreiter & Schmidhuber 1997; in this form Arjovsky, Shah & Bengio 2016"
    per_step = True

    symbols: int = Field(8, ge=2, le=26, description="how many different ones there are")
    length: int = Field(10, ge=1, description="how many are to be copied")
    pause: int = Field(50, ge=1, description="steps between the last symbol and the first answer")

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """What the tokens of the input mean; the answer has all but the sign."""
        return (BLANK, *(chr(ord("a") + i) for i in range(self.symbols)), GO)

    @property
    def classes(self) -> tuple[str, ...]:
        return self.vocabulary[:-1]

    @property
    def steps(self) -> int:
        return self.pause + 2 * self.length

    @property
    def scored_steps(self) -> slice:
        return slice(-self.length, None)

    def draw(self, count: int, random: np.random.RandomState) -> Drawn:
        symbols = random.randint(1, self.symbols + 1, (count, self.length))
        inputs = np.zeros((count, self.steps), np.uint8)  # blank is 0
        inputs[:, : self.length] = symbols
        inputs[:, self.length + self.pause - 1] = self.symbols + 1
        answers = np.zeros((count, self.steps), np.int64)
        answers[:, -self.length :] = symbols
        return inputs, answers, None

    def picture(self) -> Figure:
        return pictures.strips(self)
