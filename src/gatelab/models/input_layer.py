"""The input of the models: numbers as they are, tokens as one-hot vectors or learned embeddings."""

from __future__ import annotations

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import embedding

from gatelab.engine import checks
from gatelab.errors import GatelabError


class InputLayer(nn.Module):
    """What the recurrent layers read, from what a batch holds.

    Args:
        input_size: the number of features per step, or the size of the vocabulary.
        embedding_size: the size of learned embeddings of tokens; None for numbers and one-hot vectors. W of a cell maps
            one-hot vectors to learned vectors anyway; an embedding saves work where the vocabulary is larger than it.
    """

    weight: nn.Parameter | None  # (vocabulary, embedding_size)

    def __init__(self, input_size: int, embedding_size: int | None = None) -> None:
        super().__init__()
        checks.sizes(input_size=input_size, **({} if embedding_size is None else {"embedding_size": embedding_size}))
        self.input_size, self.output_size = input_size, embedding_size or input_size
        self.register_parameter(
            "weight", None if embedding_size is None else nn.Parameter(torch.empty(input_size, embedding_size))
        )
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self, generator: Generator | None = None) -> None:
        """Initialize as nn.Embedding does, with standard normal numbers, but from a given generator."""
        if self.weight is not None:
            self.weight.normal_(generator=generator)

    def one_step(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        """The same for one step of a stream: tokens (B,), or numbers (B, D) or (D,)."""
        if x.is_floating_point():
            return self(x, dtype)  # type: ignore[no-any-return]
        if x.dim() != 1:
            raise GatelabError(
                f"x has integers of shape {tuple(x.shape)}: expected one token for each sequence, (B,), or numbers as "
                "floats"
            )
        return self(x.unsqueeze(1), dtype).squeeze(1)  # type: ignore[no-any-return]

    def forward(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        """Tokens (B, T), or numbers (B, T, D), to numbers. A token of `input_size` or more is padding: zeros."""
        if x.is_floating_point():
            return x if self.weight is None else x @ self.weight  # one-hot vectors
        if x.dim() != 2:
            raise GatelabError(
                f"x has integers of shape {tuple(x.shape)}: expected tokens (B, T), or numbers as floats"
            )
        inside = (x < self.input_size).to(dtype).unsqueeze(-1)  # (B, T, 1)
        tokens = x.clamp(0, self.input_size - 1)
        if self.weight is not None:
            return embedding(tokens, self.weight) * inside
        one_hot = torch.zeros(*x.shape, self.input_size, dtype=dtype, device=x.device)
        return one_hot.scatter_(-1, tokens.unsqueeze(-1), inside)
