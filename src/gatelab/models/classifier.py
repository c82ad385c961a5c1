"""One answer for a whole sequence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Generator, Tensor, nn

from gatelab.engine import Recurrent
from gatelab.errors import unknown
from gatelab.lang import Cell
from gatelab.models.head import head, reset_head

READS = ("last", "mean")


class SequenceClassifier(nn.Module):
    """Recurrent layers, what they hold at the end (or their mean over the steps), dropout, and a linear head.

    Args:
        cell: a cell of the library by name, or any function under `@gatelab.cell`.
        input_size: D.
        hidden_size: H.
        output_size: a score for each class; or, trained with a loss for numbers, the numbers themselves.
        num_layers: L.
        read: "last", the last layer's output at the end of each sequence (a backward direction ends at the first step),
            or "mean", its mean over the steps.
        dropout: between layers; it does nothing with one layer.
        head_dropout: before the linear head.
        layer_options: all else that `Recurrent` takes: bidirectional, residual, engine, init, gate_bias, chrono, and
            the cell's own numbers.
    """

    def __init__(
        self,
        cell: str | Cell,
        input_size: int,
        hidden_size: int,
        output_size: int,
        num_layers: int = 2,
        *,
        read: str = "last",
        dropout: float = 0.1,
        head_dropout: float = 0.2,
        **layer_options: Any,
    ) -> None:
        super().__init__()
        if read not in READS:
            raise unknown("way to read the layers out:", read, READS)
        self.read = read
        self.recurrent = Recurrent(cell, input_size, hidden_size, num_layers, dropout=dropout, **layer_options)
        self.head = head(self.recurrent, output_size, head_dropout)

    def reset_parameters(self, generator: Generator | None = None) -> None:
        """Starting values anew, drawn from `generator`."""
        self.recurrent.reset_parameters(generator)
        reset_head(self.head, generator)

    def forward(self, x: Tensor, *, lengths: Tensor | Sequence[int] | None = None) -> Tensor:
        """(B, T, D) → (B, output_size)."""
        output, state = self.recurrent(x, lengths=lengths)
        return self.answer(output, state, x, lengths)

    def answer(
        self, output: Tensor, state: Tensor | tuple[Tensor, ...], x: Tensor, lengths: Tensor | Sequence[int] | None
    ) -> Tensor:
        """What the head makes of what the layers put out and end in."""
        scores: Tensor = self.head(self._read_out(output, state, x, lengths))
        return scores

    def _read_out(
        self, output: Tensor, state: Tensor | tuple[Tensor, ...], x: Tensor, lengths: Tensor | Sequence[int] | None
    ) -> Tensor:
        """(B, H × directions). `output` is zero beyond the end of a sequence."""
        ends = torch.full((len(x),), x.shape[1]) if lengths is None else torch.as_tensor(lengths)
        if self.read == "mean":
            return output.sum(1) / ends.to(output).unsqueeze(1)
        layer = self.recurrent
        if not (layer.residual and layer.num_layers > 1):
            # The final states are the outputs at the ends, and a gradient for them alone is no (B, T, H) of zeros.
            hidden = state[0] if isinstance(state, tuple) else state  # (L × directions, B, H)
            return torch.cat(list(hidden[-len(layer.directions) :]), 1)
        last = output[torch.arange(len(x)), ends.to(x.device) - 1]  # (B, H × directions)
        if not layer.bidirectional:
            return last
        return torch.cat([last[:, : layer.hidden_size], output[:, 0, layer.hidden_size :]], 1)
