"""MNIST-1D: one-dimensional digits with random distortions, hard enough to separate architectures."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from pydantic import Field

from gatelab.tasks import pictures
from gatelab.tasks.examples import Examples, Parts
from gatelab.tasks.sampling import split, stream
from gatelab.tasks.scaling import Scaling
from gatelab.tasks.task import Task

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The ten templates, as published: heights of twelve points, from left to right.
TEMPLATES = np.array(
    [
        [5, 6, 6.5, 6.75, 7, 7, 7, 7, 6.75, 6.5, 6, 5],
        [5, 3, 3, 3.4, 3.8, 4.2, 4.6, 5, 5.4, 5.8, 5, 5],
        [5, 6, 6.5, 6.5, 6, 5.25, 4.75, 4, 3.5, 3.5, 4, 5],
        [5, 6, 6.5, 6.5, 6, 5, 5, 6, 6.5, 6.5, 6, 5],
        [5, 4.4, 3.8, 3.2, 2.6, 2.6, 5, 5, 5, 5, 5, 5],
        [5, 3, 3, 3, 3, 5, 6, 6.5, 6.5, 6, 4.5, 5],
        [5, 4, 3.5, 3.25, 3, 3, 3, 3, 3.25, 3.5, 4, 5],
        [5, 7, 7, 6.6, 6.2, 5.8, 5.4, 5, 4.6, 4.2, 5, 5],
        [5, 4, 3.5, 3.5, 4, 5, 5, 4, 3.5, 3.5, 4, 5],
        [5, 4, 3.5, 3.5, 4, 5, 5, 5, 5, 4.7, 4.3, 5],
    ]
)
PADDING = (36, 60)  # number of zeros after the shape, from … to …
CANVAS = TEMPLATES.shape[1] + PADDING[1]  # length of the signal before the final resampling
SCALE, SHIFT, SHEAR = 0.4, 48, 0.75
CORRELATED, WHITE, SMOOTHING = 0.25, 0.02, 2
LENGTH = 40


class Mnist1D(Task):
    """Ten one-dimensional shapes of 40 points, randomly scaled, shifted, sheared and noisy."""

    name = "mnist1d"
    source = "synthetic, after Greydanus 2020, Scaling down deep learning (Apache 2.0 for the shapes)"
    synthetic = True
    split_rule = "stratified random split, classes balanced"

    shuffled: bool = Field(
        False, description="the 40 points in a fixed permuted order, which removes spatial structure"
    )

    @property
    def classes(self) -> tuple[str, ...]:
        """The class names."""
        return tuple("0123456789")

    @property
    def input_size(self) -> int:
        """D: the number of features per step."""
        return 1

    @property
    def steps(self) -> int:
        """T: the number of steps."""
        return LENGTH

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The number of training, validation and test examples."""
        return 3400, 600, 1000

    @cached_property
    def generated(self) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
        """All signals (N, T) before scaling, their labels, and the indices of training, validation and test set."""
        random = stream(self.seed, self.name)
        labels = np.repeat(np.arange(10), sum(self.sizes) // 10)
        signals = np.stack([signal(shape, random) for shape in shapes()[labels]])
        if self.shuffled:
            signals = signals[:, np.random.RandomState(0).permutation(LENGTH)]
        return signals, labels, split(labels, len(labels), self.sizes, stream(self.seed, "division"))

    @property
    def scaling(self) -> Scaling:
        """The scaling of the signals, fitted on the training set."""
        signals, _, (train, _, _) = self.generated
        return Scaling(signals[train].mean(keepdims=True)[0], signals[train].std(keepdims=True)[0])

    def _preparation_fields(self) -> dict[str, Any]:
        return {**super()._preparation_fields(), "scaling": self.scaling, "label_type": "integer"}

    def load(self) -> Parts:
        """Scale and split the generated signals."""
        signals, labels, indices = self.generated
        rows = self.scaling.apply(signals[..., None])
        return Parts(*(Examples(torch.from_numpy(rows[i]), torch.from_numpy(labels[i])) for i in indices))

    def picture(self) -> Figure:
        """Draw a few training examples."""
        return pictures.signals(self)


def shapes() -> np.ndarray:
    """The templates with standard deviation 1/6, starting at 0."""
    shapes = (TEMPLATES - TEMPLATES.mean(1, keepdims=True)) / TEMPLATES.std(1, keepdims=True)
    standard: np.ndarray = (shapes - shapes[:, :1]) / 6
    return standard


def signal(shape: np.ndarray, random: np.random.RandomState) -> np.ndarray:
    """Generate one example of a shape, following the paper."""
    from scipy.ndimage import gaussian_filter1d

    padding = random.randint(PADDING[0], PADDING[1] + 1)
    # A tiny offset distinguishes the shape, which passes through 0, from the padding, which is 0.
    canvas = _resample(np.concatenate([shape + 1e-8, np.zeros(padding)]), CANVAS)
    canvas *= 1 + SCALE * (random.uniform() - 0.5)
    canvas = np.roll(canvas, random.randint(SHIFT))
    smooth = gaussian_filter1d(CORRELATED * random.standard_normal(CANVAS), SMOOTHING)
    canvas = np.where(canvas != 0, canvas, smooth) + WHITE * random.standard_normal(CANVAS)
    canvas -= SHEAR * (random.uniform() - 0.5) * np.linspace(-0.5, 0.5, CANVAS)
    return _resample(canvas, LENGTH)


def _resample(values: np.ndarray, count: int) -> np.ndarray:
    resampled: np.ndarray = np.interp(np.linspace(0, 1, count), np.linspace(0, 1, len(values)), values)
    return resampled
