"""Whether models can differ at all: each is made and run on one batch before hours are spent on them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from gatelab.experiments.config import BenchSpec
from gatelab.tasks import Batch
from gatelab.training import build, seeds
from gatelab.training.objective import Objective
from gatelab.training.spec import ModelSpec

EXAMPLES = 8


def refuse_alike(spec: BenchSpec, models: dict[str, ModelSpec]) -> None:
    """An error for the first two models that are the same in weights, in what is learned, in outputs and gradients."""
    for name, other in _alike(spec, models):
        where = "arms" if spec.ablation else "models"
        raise ValueError(
            f"{where}.{name}: on one batch this has the weights, outputs and gradients of {other!r}, to the bit: they "
            "cannot differ. Leave one out, or change what it was meant to change"
        )


def _alike(spec: BenchSpec, models: dict[str, ModelSpec]) -> Iterator[tuple[str, str]]:
    order = seeds.order(spec.training.seed, 0, len(spec.task.train))
    batch = spec.task.train.batch(order[:EXAMPLES])
    found = {name: _facts(spec, model, batch) for name, model in models.items()}
    for other, name in itertools.combinations(found, 2):
        if _equal(found[name], found[other]):
            yield name, other


def _facts(spec: BenchSpec, model: ModelSpec, batch: Batch) -> dict[str, Tensor | None]:
    """All that a model is at its first batch. On the eager engine, so that an engine is not a difference."""
    made = build.model(model.model_copy(update={"engine": "eager"}), spec.task, spec.training.seed).train()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(spec.training.seed)  # of dropout
        output: Tensor = made(batch.x, lengths=batch.lengths)
        Objective(spec.task, spec.training).loss(output, batch).backward()  # type: ignore[no-untyped-call]
    facts: dict[str, Any] = {"output": output.detach()}
    for name, value in made.named_parameters():
        facts |= {name: value.detach(), f"gradient of {name}": value.grad}
    return facts


def _equal(one: dict[str, Tensor | None], other: dict[str, Tensor | None]) -> bool:
    return one.keys() == other.keys() and all(
        (a is None and b is None) or (a is not None and b is not None and torch.equal(a, b))
        for a, b in ((one[name], other[name]) for name in one)
    )
