"""Delayed recall: remember one symbol through a delay of distractors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from gatelab.tasks import pictures
from gatelab.tasks.synthetic import Drawn, Tokens

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CUE = "?"


class Recall(Tokens):
    """Recall the symbol of the first step after a delay of distractors.

    Distractors are other symbols, drawn at random at every step, so only the first step determines the target.
    """

    name = "recall"
    bytes_per_step = 12
    source = "synthetic; after the latching problem of Bengio, Simard & Frasconi 1994"

    symbols: int = Field(8, ge=2, le=26, description="number of different symbols to recall")
    distractors: int = Field(8, ge=1, le=26, description="number of different distractors")
    delay: int = Field(50, ge=0, lt=2**31, description="steps between the symbol and the cue")

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """Capitals to recall, small letters as distractors, and the cue."""
        return (
            *(chr(ord("A") + i) for i in range(self.symbols)),
            *(chr(ord("a") + i) for i in range(self.distractors)),
            CUE,
        )

    @property
    def classes(self) -> tuple[str, ...]:
        """The class names."""
        return self.vocabulary[: self.symbols]

    @property
    def steps(self) -> int:
        """T: the number of steps."""
        return self.delay + 2

    def draw(self, count: int, random: np.random.RandomState) -> Drawn:
        """Draw `count` examples, which may repeat."""
        targets = random.randint(0, self.symbols, count).astype(np.int64)
        inputs = random.randint(self.symbols, self.symbols + self.distractors, (count, self.steps)).astype(np.uint8)
        inputs[:, 0] = targets
        inputs[:, -1] = len(self.vocabulary) - 1
        return inputs, targets, None

    def picture(self) -> Figure:
        """Draw a few training examples."""
        return pictures.strips(self)
