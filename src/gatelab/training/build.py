"""From a spec to a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from gatelab.engine import Recurrent
from gatelab.models import SequenceClassifier, StepPredictor
from gatelab.training.seeds import generator

if TYPE_CHECKING:
    from gatelab.tasks import Task
    from gatelab.training.spec import ModelSpec


def model(spec: ModelSpec, task: Task, seed: int) -> nn.Module:
    """The model for a task, initialized from `seed`."""
    options = {"dropout": spec.dropout, "head_dropout": spec.head_dropout, **_layer_options(spec)}
    sizes = (task.input_size, spec.hidden_size, task.output_size, spec.num_layers)
    embedding = spec.embedding(task)
    network: SequenceClassifier | StepPredictor
    if task.per_step:
        network = StepPredictor(spec.equations(), *sizes, embedding_size=embedding, **options)
    else:
        network = SequenceClassifier(
            spec.equations(), *sizes, pool=spec.pool, stem=spec.stem, embedding_size=embedding, **options
        )
    network.reset_parameters(generator(seed, "initialisation"))
    if spec.remove or spec.chrono:
        _initialize_like_unchanged(network, spec, task, seed)
    _frozen(network.recurrent, spec)
    return network


@torch.no_grad()
def _initialize_like_unchanged(network: nn.Module, spec: ModelSpec, task: Task, seed: int) -> None:
    """Give the parameters that a model shares with the same one with all gates, or without chrono, the same initial
    values: it draws fewer random numbers or more, which would shift all that come after them.
    """
    plain = spec.model_copy(update={"remove": {}, "chrono": None, "freeze": (), "freeze_at": None})
    values = dict(model(plain, task, seed).named_parameters())
    spread = {f"b.{gate}" for gate in spec.equations().roles} if spec.chrono else set()
    for name, parameter in network.named_parameters():
        if ".".join(name.split(".")[-2:]) not in spread:
            parameter.copy_(values[name])


def _layer_options(spec: ModelSpec) -> dict[str, Any]:
    return {
        "bidirectional": spec.bidirectional,
        "residual": spec.residual,
        "init": spec.init,
        "gate_bias": spec.gate_bias or None,
        "chrono": spec.chrono,
        "engine": spec.engine,
        **spec.options,
    }


def _frozen(layer: Recurrent, spec: ModelSpec) -> Recurrent:
    return layer.freeze(*spec.freeze, at=spec.freeze_at) if spec.freeze else layer
