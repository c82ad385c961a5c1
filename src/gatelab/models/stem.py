"""A stem: two strided convolutions over time that shorten sequences before the recurrent layers read them."""

from __future__ import annotations

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import batch_norm

from gatelab.engine import checks

STEMS = ("none", "conv")
CHANNELS, WIDTHS, STRIDE = 64, (9, 7), 2


class ConvStem(nn.Module):
    """Convolution, batch normalization and ReLU, twice; each halves the number of steps.

    A sequence gives the same in a padded batch as alone: what lies beyond its end is zero, and is not part of the
    statistics of a batch.

    Args:
        input_size: D, the number of input features per step.
        channels: the number of features per step that the recurrent layers read.
    """

    def __init__(self, input_size: int, channels: int = CHANNELS) -> None:
        super().__init__()
        checks.sizes(input_size=input_size, channels=channels)
        self.output_size = channels
        sizes = (input_size, channels)
        self.convolutions = nn.ModuleList(
            nn.Conv1d(size, channels, width, STRIDE, padding=width // 2, bias=False)
            for size, width in zip(sizes, WIDTHS, strict=True)
        )
        self.norms = nn.ModuleList(nn.BatchNorm1d(channels) for _ in WIDTHS)

    @torch.no_grad()
    def reset_parameters(self, generator: Generator | None = None) -> None:
        """Initialize as torch does, from a given generator; statistics begin anew."""
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            assert isinstance(convolution, nn.Conv1d)
            assert isinstance(norm, nn.BatchNorm1d)
            bound = convolution.weight[0].numel() ** -0.5
            nn.init.uniform_(convolution.weight, -bound, bound, generator=generator)
            norm.reset_parameters()

    def forward(self, x: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """(B, T, D) → (B, ⌈T/4⌉, channels), and the lengths there."""
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            if lengths is not None:
                x = x.masked_fill(~_inside(x, lengths), 0.0)  # padding may contain NaN
            x = convolution(x.transpose(1, 2)).transpose(1, 2)
            lengths = None if lengths is None else (lengths + STRIDE - 1) // STRIDE
            x = self._normalized(norm, x, lengths).relu()
        return x, lengths

    @staticmethod
    def _normalized(norm: nn.Module, x: Tensor, lengths: Tensor | None) -> Tensor:
        """Batch normalization over the steps that exist."""
        if lengths is None:
            return ConvStem._over_steps(norm, x.flatten(0, 1)).view_as(x)
        inside = _inside(x, lengths)
        return torch.zeros_like(x).masked_scatter(inside, ConvStem._over_steps(norm, x[inside.squeeze(2)]))

    @staticmethod
    def _over_steps(norm: nn.Module, steps: Tensor) -> Tensor:
        """(M, channels) normalized; a single step in training has no statistics, and gets the running ones."""
        assert isinstance(norm, nn.BatchNorm1d)
        if norm.training and len(steps) == 1:
            return batch_norm(steps, norm.running_mean, norm.running_var, norm.weight, norm.bias, eps=norm.eps)
        return norm(steps)  # type: ignore[no-any-return]


def _inside(x: Tensor, lengths: Tensor) -> Tensor:
    """Whether a step is before the end of its sequence, (B, T, 1)."""
    return (torch.arange(x.shape[1], device=x.device) < lengths.to(x.device).unsqueeze(1)).unsqueeze(2)
