"""Many-to-one: one output per sequence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor, nn

from gatelab.engine import Recurrent
from gatelab.engine.recurrent import State
from gatelab.errors import unknown
from gatelab.lang import Cell
from gatelab.models.head import head, reset_head
from gatelab.models.input_layer import InputLayer

READS = ("last", "mean")


class Streamed(NamedTuple):
    """What a classifier carries from step to step."""

    recurrent: State | None  # the state of the layers
    mean: Tensor | None  # of the outputs so far, if that is what is read
    steps: int


class SequenceClassifier(nn.Module):
    """Recurrent layers, pooling (last output or mean over the steps), dropout, and a linear head.

    Args:
        cell: the name of a library cell, or a function decorated with `@gatelab.cell`.
        input_size: D, the number of input features per step, or the size of the vocabulary.
        hidden_size: H, the number of units per state.
        output_size: the number of classes (the outputs are logits), or of regression targets.
        num_layers: L, the number of stacked layers.
        read: "last", the last layer's output at the end of each sequence (at the first step for the backward one), or
            "mean", its mean over the steps.
        dropout: dropout probability between layers; without effect for one layer.
        head_dropout: dropout probability before the linear head.
        embedding_size: for tokens, the size of learned embeddings; one-hot vectors by default.
        layer_options: further arguments of `Recurrent`: bidirectional, residual, engine, init, gate_bias, chrono, and
            the cell's hyperparameters.
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
        embedding_size: int | None = None,
        **layer_options: Any,
    ) -> None:
        super().__init__()
        if read not in READS:
            raise unknown("readout:", read, READS)
        self.read = read
        self.input_layer = InputLayer(input_size, embedding_size)
        size = self.input_layer.output_size
        self.recurrent = Recurrent(cell, size, hidden_size, num_layers, dropout=dropout, **layer_options)
        self.head = head(self.recurrent, output_size, head_dropout)

    def reset_parameters(self, generator: Generator | None = None) -> None:
        """Initialize all parameters again, from `generator` or torch's default one."""
        self.recurrent.reset_parameters(generator)
        reset_head(self.head, generator)
        self.input_layer.reset_parameters(generator)

    def inputs(self, x: Tensor) -> Tensor:
        """What the recurrent layers read: numbers (B, T, D) as they are, tokens (B, T) encoded."""
        return self.input_layer(x, next(self.recurrent.parameters()).dtype)  # type: ignore[no-any-return]

    def forward(self, x: Tensor, *, lengths: Tensor | Sequence[int] | None = None) -> Tensor:
        """(B, T, D), or tokens (B, T) → (B, output_size)."""
        output, state = self.recurrent(self.inputs(x), lengths=lengths, output=not self._reads_state)
        return self.answer(output, state, x, lengths)

    def step(self, x: Tensor, state: Streamed | None = None) -> tuple[Tensor, Streamed]:
        """One step of a stream: (B, D) or (D,), or tokens (B,), → (B, output_size), the answer if the sequence ended
        here, and the state for the next step.
        """
        before = state or Streamed(None, None, 0)
        features = self.input_layer.one_step(x, next(self.parameters()).dtype)
        output, now = self.recurrent.step(features, before.recurrent)
        steps = before.steps + 1
        if self.read == "last":
            return self.head(output), Streamed(now, None, steps)
        mean = output if before.mean is None else before.mean + (output - before.mean) / steps
        return self.head(mean), Streamed(now, mean, steps)

    def answer(self, output: Tensor | None, state: State, x: Tensor, lengths: Tensor | Sequence[int] | None) -> Tensor:
        """The head's output (B, output_size), given the output and final state of the layers."""
        scores: Tensor = self.head(self._read_out(output, state, x, lengths))
        return scores

    @property
    def _reads_state(self) -> bool:
        """Whether the final state is all that is read: it is the output at the end if nothing is added to that."""
        return self.read == "last" and not (self.recurrent.residual and self.recurrent.num_layers > 1)

    def _read_out(
        self, output: Tensor | None, state: State, x: Tensor, lengths: Tensor | Sequence[int] | None
    ) -> Tensor:
        """The features for the head, (B, H × directions). `output` is zero in the padding."""
        layer = self.recurrent
        if self._reads_state:  # the gradient of which needs no (B, T, H) tensor of zeros
            hidden = state[0] if isinstance(state, tuple) else state  # (L × directions, B, H)
            return torch.cat(list(hidden[-len(layer.directions) :]), 1)
        assert output is not None
        ends = torch.full((len(x),), x.shape[1]) if lengths is None else torch.as_tensor(lengths)
        ends = ends.to(output.device)
        if self.read == "mean":
            return output.sum(1) / ends.to(output).unsqueeze(1)
        last = output[torch.arange(len(x), device=ends.device), ends - 1]  # (B, H × directions)
        if not layer.bidirectional:
            return last
        return torch.cat([last[:, : layer.hidden_size], output[:, 0, layer.hidden_size :]], 1)
