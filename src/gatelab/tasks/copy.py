"""The copy task: remember symbols through a long pause and reproduce them in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from gatelab.tasks import pictures
from gatelab.tasks.synthetic import Drawn, Tokens

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLANK, CUE = "·", "?"


class Copy(Tokens):
    """Reproduce a sequence of symbols in order after a pause.

    With S symbols and a pause of P steps the input is S symbols, P − 1 blanks, a cue, S blanks. The target is blank
    for S + P steps, then the symbols. The loss includes every step, as published. Accuracy includes only the last S
    steps, since blanks are trivial to predict.
    """

    name = "copy"
    bytes_per_step = 28
    source = "synthetic; Hochreiter & Schmidhuber 1997; this version Arjovsky, Shah & Bengio 2016"
    per_step = True

    symbols: int = Field(8, ge=2, le=26, description="size of the alphabet")
    length: int = Field(10, ge=1, lt=2**31, description="number of symbols to copy")
    pause: int = Field(
        50, ge=1, lt=2**31, description="steps between the last symbol and the first symbol of the target"
    )

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The input symbols: blank, letters, cue. The target has all but the cue."""
        return (BLANK, *(chr(ord("a") + i) for i in range(self.symbols)), CUE)

    @property
    def classes(self) -> tuple[str, ...]:
        """The class names."""
        return self.vocabulary[:-1]

    @property
    def steps(self) -> int:
        """T: the number of steps."""
        return self.pause + 2 * self.length

    @property
    def scored_steps(self) -> slice:
        """The last S steps, where the symbols are reproduced."""
        return slice(-self.length, None)

    def draw(self, count: int, random: np.random.RandomState) -> Drawn:
        """Draw `count` examples, which may repeat."""
        symbols = random.randint(1, self.symbols + 1, (count, self.length))
        inputs = np.zeros((count, self.steps), np.uint8)  # blank is 0
        inputs[:, : self.length] = symbols
        inputs[:, self.length + self.pause - 1] = self.symbols + 1
        targets = np.zeros((count, self.steps), np.int64)
        targets[:, -self.length :] = symbols
        return inputs, targets, None

    def picture(self) -> Figure:
        """Draw a few training examples."""
        return pictures.strips(self)
