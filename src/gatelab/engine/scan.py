"""The result type of all engines."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Scan(NamedTuple):
    """The result of running one layer in one direction over a batch of sequences."""

    output: Tensor  # (T, B, H), zero in the padding; (0,) if only the final states were asked for
    states: tuple[Tensor, ...]  # (B, H) each, at the end of each sequence
    gates: dict[str, Tensor]  # (T, B, H) each, zero in the padding; empty unless requested
