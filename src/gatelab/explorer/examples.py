"""Test examples for the page, predicted rightly and wrongly, in the units of the data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from gatelab.analysis import Subject, predictions_of
from gatelab.analysis.clamping import opposite
from gatelab.tasks import Task
from gatelab.tasks.agreement import Agreement
from gatelab.tasks.own.data import OwnData
from gatelab.tasks.preparation import Preparation

RIGHT, WRONG = 8, 4  # at most this many of each
NUMBERS = 60_000  # of all examples together, at most; one example is always there


@dataclass(frozen=True)
class Example:
    """One sequence with its target."""

    name: str
    x: np.ndarray  # (T, D) raw numbers, or (T,) tokens
    target: np.ndarray  # a class, (K,) values, (T,) classes or (T, K) values, in the units of the data
    pair: int | None = None  # the example that differs from this one in the word that decides

    def document(self) -> dict[str, Any]:
        """As plain data, flat: what does not change a float32 is not written."""
        x, target = (_short(values).ravel() for values in (self.x, self.target))
        return {"name": self.name, "x": x.tolist(), "target": target.tolist(), "pair": self.pair}


def _short(values: np.ndarray) -> np.ndarray:
    """Floats with nine significant digits."""
    if values.dtype.kind != "f":
        return values
    whole = np.array([float(f"{value:.9g}") for value in values.ravel()])
    return whole.reshape(values.shape)


def examples(subject: Subject) -> list[Example]:
    """Some test examples: the first of every class that are right, and the worst errors."""
    task = subject.task
    chosen = [_example(task, index) for index in _chosen(subject)]
    limit = NUMBERS
    kept: list[Example] = []
    for example in chosen:
        limit -= example.x.size
        if limit >= 0 or not kept:
            kept.append(example)
    return _with_pairs(task, kept) if isinstance(task, Agreement) else kept


def _chosen(subject: Subject) -> list[int]:
    """Indices, in the order of the test set."""
    found = predictions_of(subject)
    wrong = found.worst(WRONG).tolist() if subject.task.classes is not None else []
    error = found.error[: found.available]
    if subject.task.classes is None:  # numbers are never right: the largest errors beside the first examples
        wrong = np.argsort(-error, kind="stable")[:WRONG].tolist()
    candidates = [int(i) for i in range(len(error)) if i not in wrong]
    if subject.task.classes is not None:
        right = [i for i in candidates if error[i] == 0]
        candidates = right or sorted(candidates, key=lambda i: error[i])
        if not subject.task.per_step:
            candidates = _varied(candidates, found.targets)
    apart = max(1, len(candidates) // RIGHT) if subject.task.forecasts else 1  # windows overlap
    return sorted({*candidates[: apart * RIGHT : apart], *wrong})


def _varied(candidates: list[int], targets: np.ndarray) -> list[int]:
    """The first of every class, then the second of every class, and so on."""
    seen: dict[int, int] = {}
    turns = []
    for index in candidates:
        turn = seen.setdefault(int(targets[index]), 0)
        seen[int(targets[index])] += 1
        turns.append((turn, index))
    return [index for _, index in sorted(turns)]


def _example(task: Task, index: int) -> Example:
    batch = task.test.batch(torch.tensor([index]))
    end = batch.x.shape[1] if batch.lengths is None else int(batch.lengths[0])
    prepared = task.preparation
    x = raw(prepared, batch.x[0, :end].numpy())
    if prepared.differenced and isinstance(task, OwnData):
        x[:, : prepared.output_size] += task.first_levels(index)
    y = batch.y[0].numpy()
    target = y[:end] if task.per_step else y
    if prepared.classes is None:
        target = prepared.decode(target, x if task.per_step else x[-1:])
    return Example(f"test example {index}", x, target)


def raw(prepared: Preparation, encoded: np.ndarray) -> np.ndarray:
    """The sequence (T, D) or (T,) that is encoded like this; one that is differenced begins at 0."""
    if prepared.kind == "tokens" or prepared.scaling is None:
        return encoded
    values = prepared.scaling.undo(encoded.astype(np.float64))
    if prepared.kind == "image" and not prepared.noise_pad:
        pixels: np.ndarray = np.rint(values).astype(np.int64)
        return pixels
    if prepared.differenced:
        K = prepared.output_size
        values[:, :K] = np.cumsum(values[:, :K], 0)
    return values


def _with_pairs(task: Agreement, chosen: list[Example]) -> list[Example]:
    """Each sentence with its minimal pair: the same with the other number of the subject."""
    paired: list[Example] = []
    for example in chosen:
        tokens = opposite(task, torch.from_numpy(example.x[None].astype(np.int64)))[0].numpy()
        number, at = 1 - example.target, len(paired)
        paired.append(replace(example, pair=at + 1))
        paired.append(Example(f"{example.name}, other number", tokens, number, at))
    return paired
