"""The adding problem: two numbers out of many, far apart, have to be remembered and summed."""

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
    """The sum of the two marked numbers in a long row of random ones.

    A step is a number from [0, 1) and a mark, 1 at one step of the first half and at one of the second, else 0. This
    is the form in use since Le et al. 2015 and Arjovsky et al. 2016; the original of 1997 draws from [−1, 1], marks
    the first number within the first ten steps, and scales the sum.
    """

    name = "adding"
    source = "made up; Hochreiter & Schmidhuber 1997, Long short-term memory"

    length: int = Field(100, ge=2, description="steps of a sequence")

    @property
    def input_size(self) -> int:
        return 2

    @property
    def steps(self) -> int:
        return self.length

    def draw(self, count: int, random: np.random.RandomState) -> Drawn:
        numbers = random.uniform(size=(count, self.length)).astype(np.float32)
        half, rows = self.length // 2, np.arange(count)
        marks = np.zeros_like(numbers)
        marks[rows, random.randint(0, half, count)] = 1
        marks[rows, random.randint(half, self.length, count)] = 1
        total = (numbers.astype(np.float64) * marks).sum(1, keepdims=True)
        return np.stack([numbers, marks], -1), total.astype(np.float32), None  # (N, T, 2), (N, 1)

    def encoding(self) -> Encoding:
        return Floats()

    def picture(self) -> Figure:
        return pictures.adding(self)
