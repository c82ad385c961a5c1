"""Many-to-one: one output per sequence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor, nn

from gatelab.engine import Recurrent, checks
from gatelab.engine.recurrent import State
from gatelab.errors import GatelabError, unknown
from gatelab.lang import Cell
from gatelab.models.head import head, reset_head
from gatelab.models.input_layer import InputLayer
from gatelab.models.pooling import Pooled, Pooling
from gatelab.models.stem import STEMS, ConvStem

Lengths = Tensor | Sequence[int] | None


class ClassifierState(NamedTuple):
    """What a classifier carries from step to step."""

    recurrent: State | None  # the state of the layers
    pooled: Pooled | None


class SequenceClassifier(nn.Module):
    """A stem if wanted, recurrent layers, pooling over the steps, dropout, and a linear head.

    Args:
        cell: the name of a library cell, or a function decorated with `@gatelab.cell`.
        input_size: D, the number of input features per step, or the size of the vocabulary.
        hidden_size: H, the number of units per state.
        output_size: the number of classes (the outputs are logits), or of regression targets.
        num_layers: L, the number of stacked layers.
        pool: what the head reads: "last" (the last layer's output at the end of each sequence, at the first step for
            the backward one), "mean" or "max" over the steps, "mean+max" (both, joined), or "attention" (a mean with
            learned weights).
        stem: "conv" for two strided convolutions before the layers, which shorten sequences to a quarter.
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
        pool: str = "last",
        stem: str = "none",
        dropout: float = 0.1,
        head_dropout: float = 0.2,
        embedding_size: int | None = None,
        **layer_options: Any,
    ) -> None:
        super().__init__()
        if stem not in STEMS:
            raise unknown("stem", stem, STEMS)
        self.input_layer = InputLayer(input_size, embedding_size)
        size = self.input_layer.output_size
        self.stem = ConvStem(size) if stem == "conv" else None
        size = size if self.stem is None else self.stem.output_size
        self.recurrent = Recurrent(cell, size, hidden_size, num_layers, dropout=dropout, **layer_options)
        features, H = self.recurrent.output_size, self.recurrent.hidden_size
        self.pooling = Pooling(pool, features, H if self.recurrent.bidirectional else 0)
        self.head = head(self.recurrent, output_size, head_dropout, self.pooling.output_size)

    def reset_parameters(self, generator: Generator | None = None) -> None:
        """Initialize all parameters again, from `generator` or torch's default one."""
        self.recurrent.reset_parameters(generator)
        reset_head(self.head, generator)
        self.input_layer.reset_parameters(generator)
        self.pooling.reset_parameters(generator)
        if self.stem is not None:
            self.stem.reset_parameters(generator)

    def inputs(self, x: Tensor, lengths: Lengths = None) -> tuple[Tensor, Tensor | None]:
        """What the recurrent layers read, (B, T, D), and its lengths: numbers as they are, tokens (B, T) encoded; after
        a stem.
        """
        features = self.input_layer(x, next(self.recurrent.parameters()).dtype)
        ends = None if lengths is None else torch.as_tensor(lengths)
        if ends is not None and not torch.compiler.is_compiling():
            checks.within_steps(ends, x.shape[1], least=1)  # without steps there is nothing to pool
        return (features, ends) if self.stem is None else self.stem(features, ends)

    def forward(self, x: Tensor, *, lengths: Lengths = None) -> Tensor:
        """(B, T, D), or tokens (B, T) → (B, output_size)."""
        features, ends = self.inputs(x, lengths)
        output, state = self.recurrent(features, lengths=ends, output=not self._reads_state)
        return self.answer(output, state, ends)

    def step(self, x: Tensor, state: ClassifierState | None = None) -> tuple[Tensor, ClassifierState]:
        """One step of a stream: (B, D) or (D,), or tokens (B,), → (B, output_size), the answer if the sequence ended
        here, and the state for the next step.
        """
        if self.stem is not None:
            raise GatelabError(
                "a model with a stem cannot step: its convolutions read several steps at once. Run it over whole "
                'sequences, or use stem="none"'
            )
        before = state or ClassifierState(None, None)
        features = self.input_layer.one_step(x, next(self.recurrent.parameters()).dtype)
        output, now = self.recurrent.step(features, before.recurrent)
        features, pooled = self.pooling.step(output, before.pooled)
        return self.head(features), ClassifierState(now, pooled)

    def answer(self, output: Tensor | None, state: State, lengths: Tensor | None) -> Tensor:
        """The head's output (B, output_size), given the output and final state of the layers, and their lengths."""
        if self._reads_state:  # the gradient of which needs no (B, T, H) tensor of zeros
            hidden = state[0] if isinstance(state, tuple) else state  # (L × directions, B, H)
            features = torch.cat(list(hidden[-len(self.recurrent.directions) :]), 1)
        else:
            assert output is not None
            features = self.pooling(output, lengths)
        scores: Tensor = self.head(features)
        return scores

    @property
    def pool(self) -> str:
        """What the head reads."""
        return self.pooling.kind

    @property
    def is_mostly_recurrent(self) -> bool:
        """Whether nothing but the recurrent layers has much to compute: the rest is done once per sequence."""
        drops = self.recurrent.dropout and self.recurrent.num_layers > 1
        return self._reads_state and self.stem is None and self.input_layer.weight is None and not drops

    @property
    def _reads_state(self) -> bool:
        """Whether the final state is all that is read: it is the output at the end if nothing is added to that."""
        return self.pool == "last" and not (self.recurrent.residual and self.recurrent.num_layers > 1)
