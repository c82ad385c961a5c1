"""Check that models differ: a forward and a backward pass of each on one batch, before training."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from gatelab.errors import GatelabError
from gatelab.experiments.config import BenchSpec
from gatelab.tasks import Batch
from gatelab.training import build, seeds
from gatelab.training.objective import Objective
from gatelab.training.spec import ModelSpec

EXAMPLES = 8


def refuse_alike(spec: BenchSpec, models: dict[str, ModelSpec]) -> None:
    """Raise if two models have the same weights, learned parameters, outputs and gradients on one batch."""
    for name, other in _alike(spec, models):
        where = "arms" if spec.ablation else "models"
        raise GatelabError(
            f"{where}.{name}: on one batch this has the weights, outputs and gradients of {other!r}, bit for bit. "
            "Remove one of them, or make them different"
        )


def _alike(spec: BenchSpec, models: dict[str, ModelSpec]) -> Iterator[tuple[str, str]]:
    order = seeds.order(spec.training.seed, 0, len(spec.task.train))
    batch = spec.task.train.batch(order[:EXAMPLES])
    tensors = {name: _tensors(spec, model, batch) for name, model in models.items()}
    for other, name in itertools.combinations(tensors, 2):
        if _equal(tensors[name], tensors[other]):
            yield name, other


def _tensors(spec: BenchSpec, model: ModelSpec, batch: Batch) -> dict[str, Tensor | None]:
    """Output, parameters and gradients of a model on one batch, all on the eager engine: engines do not count."""
    network = build.model(model.model_copy(update={"engine": "eager"}), spec.task, spec.training.seed).train()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(spec.training.seed)  # of dropout
        output: Tensor = network(batch.x, lengths=batch.lengths)
        Objective(spec.task, spec.training).loss(output, batch).backward()  # type: ignore[no-untyped-call]
    tensors: dict[str, Any] = {"output": output.detach()}
    for name, value in network.named_parameters():
        tensors |= {name: value.detach(), f"gradient of {name}": value.grad}
    return tensors


def _equal(one: dict[str, Tensor | None], other: dict[str, Tensor | None]) -> bool:
    return one.keys() == other.keys() and all(
        (a is None and b is None) or (a is not None and b is not None and torch.equal(a, b))
        for a, b in ((one[name], other[name]) for name in one)
    )
