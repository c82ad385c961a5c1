"""The adding problem: remember two marked numbers of a long sequence and add them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from gatelab.tasks import pictures
from gatelab.tasks.examples import Encoding, Floats
from gatelab.tasks.synthetic import Drawn, Synthetic

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Adding(Synthetic):
    """Add the two marked numbers of a long random sequence.

    Each step has a number from [0, 1) and a mark, which is 1 at one step of each half and 0 elsewhere. This version
    is standard since Le et al. 2015 and Arjovsky et al. 2016. The original of 1997 draws from [−1, 1], marks the
    first number within the first ten steps, and scales the sum.
    """

    name = "adding"
    source = "synthetic; Hochreiter & Schmidhuber 1997, Long short-term memory"

    length: int = Field(100, ge=2, lt=2**31, description="steps per sequence")

    @property
    def input_size(self) -> int:
        """D: the number of features per step."""
        return 2

    @property
    def steps(self) -> int:
        """T: the number of steps."""
        return self.length

    def draw(self, count: int, random: np.random.RandomState) -> Drawn:
        """Draw `count` examples, which may repeat."""
        numbers = random.uniform(size=(count, self.length)).astype(np.float32)
        half, rows = self.length // 2, np.arange(count)
        marks = np.zeros_like(numbers)
        marks[rows, random.randint(0, half, count)] = 1
        marks[rows, random.randint(half, self.length, count)] = 1
        total = (numbers.astype(np.float64) * marks).sum(1, keepdims=True)
        return np.stack([numbers, marks], -1), total.astype(np.float32), None  # (N, T, 2), (N, 1)

    def encoding(self) -> Encoding:
        """The identity: examples are stored as floats."""
        return Floats()

    def picture(self) -> Figure:
        """Draw a few training examples."""
        return pictures.adding(self)
