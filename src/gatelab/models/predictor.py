"""Many-to-many: one output per step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Generator, Tensor, nn

from gatelab.engine import Recurrent
from gatelab.engine.recurrent import State
from gatelab.errors import GatelabError
from gatelab.lang import Cell
from gatelab.models.head import head, reset_head
from gatelab.models.input_layer import InputLayer


class StepPredictor(nn.Module):
    """Recurrent layers with a linear head at every step, for classification or regression.

    The arguments are those of `SequenceClassifier`, without `pool` and `stem`.
    """

    def __init__(
        self,
        cell: str | Cell,
        input_size: int,
        hidden_size: int,
        output_size: int,
        num_layers: int = 1,
        *,
        dropout: float = 0.0,
        head_dropout: float = 0.0,
        embedding_size: int | None = None,
        **layer_options: Any,
    ) -> None:
        super().__init__()
        self.input_layer = InputLayer(input_size, embedding_size)
        size = self.input_layer.output_size
        self.recurrent = Recurrent(cell, size, hidden_size, num_layers, dropout=dropout, **layer_options)
        self.output_size = output_size
        self.head = head(self.recurrent, output_size, head_dropout)

    def reset_parameters(self, generator: Generator | None = None) -> None:
        """Initialize all parameters again, from `generator` or torch's default one."""
        self.recurrent.reset_parameters(generator)
        reset_head(self.head, generator)
        self.input_layer.reset_parameters(generator)

    def inputs(self, x: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """What the recurrent layers read, and its lengths: numbers (B, T, D) as they are, tokens (B, T) encoded."""
        return self.input_layer(x, next(self.recurrent.parameters()).dtype), lengths

    def forward(self, x: Tensor, *, lengths: Tensor | Sequence[int] | None = None) -> Tensor:
        """(B, T, D), or tokens (B, T) → (B, T, output_size)."""
        return self.process(x, None, lengths=lengths)[0]

    def answer(self, output: Tensor, state: State, lengths: Tensor | None) -> Tensor:
        """The head's output (B, T, output_size), given the output of the layers."""
        scores: Tensor = self.head(output)
        return scores

    def process(
        self, x: Tensor, state: State | None, *, lengths: Tensor | Sequence[int] | None = None
    ) -> tuple[Tensor, State]:
        """`forward` from an initial state; also returns the final state, for processing sequences in chunks."""
        output, state = self.recurrent(self.inputs(x)[0], state, lengths=lengths)
        assert state is not None
        scores: Tensor = self.head(output)
        return scores, state

    def step(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """One step of a stream: (B, D) or (D,), or tokens (B,), → (B, output_size), and the state for the next step."""
        output, state = self.recurrent.step(self.input_layer.one_step(x, next(self.parameters()).dtype), state)
        return self.head(output), state

    @torch.no_grad()
    def predict_future(self, x: Tensor, steps_ahead: int) -> Tensor:
        """(B, T, D) → (B, steps_ahead, D): what follows, if outputs are the next inputs. The window is processed once,
        then the model goes on from its own predictions, with the state carried along.
        """
        if not isinstance(steps_ahead, int) or steps_ahead < 1:
            raise GatelabError(f"steps_ahead is {steps_ahead!r}: expected an integer of at least 1")
        if self.recurrent.bidirectional or x.shape[-1] != self.output_size:
            raise GatelabError(
                f"the model reads {x.shape[-1]} features, predicts {self.output_size}, and "
                f"{'reads backwards too' if self.recurrent.bidirectional else 'reads forwards'}: to go on from its own "
                "predictions it must predict what it reads, in one direction"
            )
        training, _ = self.training, self.eval()
        try:
            predictions, state = self.process(x, None)
            future = [predictions[:, -1].contiguous()]  # (B, D)
            while len(future) < steps_ahead:
                prediction, state = self.step(future[-1], state)
                future.append(prediction)
        finally:
            self.train(training)
        return torch.stack(future, 1)
