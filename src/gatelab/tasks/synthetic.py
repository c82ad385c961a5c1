"""What made-up tasks share: how many examples there are, and that no sequence appears twice."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from pydantic import Field

from gatelab.tasks.chance import stream
from gatelab.tasks.examples import Encoding, Examples, OneHot, Parts
from gatelab.tasks.task import Task

Drawn = tuple[np.ndarray, np.ndarray, np.ndarray | None]  # inputs (N, T, …), answers, lengths


class Synthetic(Task):
    """A task whose examples are drawn by chance."""

    rule = "`size` to train and a fifth of it each to validate and to test, drawn by the task's seed; no sequence twice"

    size: int = Field(10_000, ge=5, description="training examples")

    @property
    def sizes(self) -> tuple[int, int, int]:
        return self.size, self.size // 5, self.size // 5

    def draw(self, count: int, random: np.random.RandomState) -> Drawn:
        """So many examples, which may repeat."""
        raise NotImplementedError

    def encoding(self) -> Encoding:
        raise NotImplementedError

    def load(self) -> Parts:
        inputs, answers, lengths = distinct(self.draw, sum(self.sizes), stream(self.seed, self.name), self.name)
        edges = np.cumsum([0, *self.sizes])
        parts = []
        for a, b in itertools.pairwise(edges):
            ends = None if lengths is None else torch.from_numpy(lengths[a:b])
            x, y = torch.from_numpy(inputs[a:b]), torch.from_numpy(answers[a:b])
            parts.append(Examples(x, y, self.encoding(), ends, self.per_step))
        return Parts(*parts)


class Tokens(Synthetic):
    """A task whose steps are tokens with a meaning, read as vectors with a single one."""

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """What the tokens of the input mean."""
        raise NotImplementedError

    @property
    def input_size(self) -> int:
        return len(self.vocabulary)

    def encoding(self) -> Encoding:
        return OneHot(self.input_size)

    def _prepared(self) -> dict[str, Any]:
        return {**super()._prepared(), "kind": "tokens", "vocabulary": self.vocabulary}


def distinct(
    draw: Callable[[int, np.random.RandomState], Drawn], count: int, random: np.random.RandomState, name: str
) -> Drawn:
    """So many examples with different inputs: what is tested with must not have been trained on."""
    kept: dict[bytes, tuple[np.ndarray, ...]] = {}
    for _ in range(20):
        columns = [column for column in draw(count, random) if column is not None]
        for row in zip(*columns, strict=True):
            kept.setdefault(row[0].tobytes(), row)
        if len(kept) >= count:
            # What is rare is used up early, so that the order of appearance is not the same all along: shuffle it, and
            # all parts are alike.
            rows = list(kept.values())[:count]
            shuffled = [rows[i] for i in random.permutation(count)]
            inputs, answers, *lengths = (np.stack(column) for column in zip(*shuffled, strict=True))
            return inputs, answers, lengths[0] if lengths else None
    raise ValueError(
        f"{name} with these options has not enough different sequences: {count:,} are wanted, {len(kept):,} were found "
        "in twenty tries; ask for a smaller size, or for longer sequences"
    )
