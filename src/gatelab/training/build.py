"""From a spec to a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import nn

from gatelab.engine import Recurrent
from gatelab.models import Forecaster, SequenceClassifier, StepPredictor
from gatelab.training.seeds import generator

if TYPE_CHECKING:
    from gatelab.tasks import Task
    from gatelab.training.spec import ModelSpec


def layer(spec: ModelSpec, input_size: int, hidden_size: int) -> Recurrent:
    """The recurrent part alone, of any size: it tells what is wrong with a spec, or how many parameters it has."""
    made = Recurrent(
        spec.equations(), input_size, hidden_size, spec.num_layers, dropout=spec.dropout, **_layer_options(spec)
    )
    return _frozen(made, spec)


def model(spec: ModelSpec, task: Task, seed: int) -> nn.Module:
    """The model for a task, with starting values from `seed`."""
    options = {"dropout": spec.dropout, "head_dropout": spec.head_dropout, **_layer_options(spec)}
    sizes = (task.input_size, spec.hidden_size, task.output_size, spec.num_layers)
    made: SequenceClassifier | StepPredictor | Forecaster
    if task.forecasts and task.input_size == task.output_size:
        made = Forecaster(spec.equations(), task.input_size, spec.hidden_size, spec.num_layers, **options)
    elif task.per_step:
        made = StepPredictor(spec.equations(), *sizes, **options)
    else:
        made = SequenceClassifier(spec.equations(), *sizes, read=spec.read, **options)
    made.reset_parameters(generator(seed, "initialisation"))
    _frozen(made.recurrent, spec)
    return made


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
