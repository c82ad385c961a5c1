"""What every engine returns."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Scan(NamedTuple):
    """One layer in one direction, run over a sequence."""

    output: Tensor  # (T, B, H), zero after a row's end
    states: tuple[Tensor, ...]  # (B, H) each, as they were at each row's end
    gates: dict[str, Tensor]  # (T, B, H) each, zero after a row's end; empty unless watched
