"""The convolutions of a stem, as an exporter needs them: batch normalization is part of their weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor, nn

from gatelab.models.stem import ConvStem


@dataclass(frozen=True)
class Convolution:
    """A convolution over time, then ReLU: T steps become ⌈T / stride⌉.

    Its output at step t reads `width` steps with step t · stride in the middle. What lies beyond the ends is zero.
    """

    weight: np.ndarray  # (channels, inputs, width); the width is odd
    bias: np.ndarray  # (channels,)
    stride: int

    @property
    def channels(self) -> int:
        """The number of features per step that it yields."""
        return int(self.weight.shape[0])

    @property
    def inputs(self) -> int:
        """The number of features per step that it reads."""
        return int(self.weight.shape[1])

    @property
    def width(self) -> int:
        """The number of steps that it reads at once."""
        return int(self.weight.shape[2])

    @property
    def padding(self) -> int:
        """The number of zeros before a sequence, and after it."""
        return self.width // 2


def of_stem(stem: ConvStem) -> tuple[Convolution, ...]:
    """The convolutions of a stem in use.

    Batch normalization then is a fixed map of each channel, γ (y − μ) / √(σ² + ε) + β with the statistics of the
    training. Both together are one convolution: its weights are those of y = w ∗ x, multiplied by γ / √(σ² + ε), and
    its bias is β − μ γ / √(σ² + ε).
    """
    return tuple(_folded(*both) for both in zip(stem.convolutions, stem.norms, strict=True))


def _folded(convolution: nn.Module, norm: nn.Module) -> Convolution:
    assert isinstance(convolution, nn.Conv1d)
    assert isinstance(norm, nn.BatchNorm1d)
    assert norm.running_mean is not None
    assert norm.running_var is not None
    mean, variance, gamma, beta, weight = map(
        _exact, (norm.running_mean, norm.running_var, norm.weight, norm.bias, convolution.weight)
    )
    factor = gamma / np.sqrt(variance + norm.eps)
    return Convolution(
        (weight * factor[:, None, None]).astype(np.float32),
        (beta - mean * factor).astype(np.float32),
        convolution.stride[0],
    )


def _exact(tensor: Tensor) -> np.ndarray:
    array: np.ndarray = tensor.detach().cpu().double().numpy()
    return array
