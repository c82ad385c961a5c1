"""The memory that a run takes, estimated from its spec before anything is allocated.

    parameters    weights, gradients and the optimizer's state, and copies while a checkpoint is written
    activations   what a batch leaves behind for the backward pass, step by step
    outputs       predictions for the validation and test set

The estimates are simple, and within a factor of about two of what is measured (tests/test_memory.py). They are there to
refuse sizes with a few zeros too many.
"""

from __future__ import annotations

from typing import NamedTuple

from gatelab import memory
from gatelab.engine.fused.phases import EXPENSIVE, LEAVES
from gatelab.tasks import Task
from gatelab.training import devices
from gatelab.training.evaluation import EVALUATED_AT_ONCE, KEPT, STREAM_STEPS
from gatelab.training.optimizers import OPTIMIZERS
from gatelab.training.spec import ModelSpec, RunSpec

FLOAT = 4  # bytes


class Footprint(NamedTuple):
    """Bytes by what they are for."""

    parameters: int
    activations: int
    outputs: int


def refuse(spec: RunSpec, where: str = "") -> None:
    """Raise an error if the run does not fit into memory: with the estimate, and what to make smaller."""
    spec.task.refuse_size()
    found = estimate(spec)
    if spec.training.device == "cuda" or (spec.training.device == "auto" and devices.resolved(spec) == "cuda"):
        found = found._replace(activations=0)  # they are in the device's own memory
    model, training = spec.model, spec.training
    if found.parameters == max(found):
        remedy = f"make model.hidden_size ({model.hidden_size:,}) or model.num_layers ({model.num_layers:,}) smaller"
    elif found.activations == max(found):
        remedy = (
            f"make training.batch_size ({training.batch_size:,}), model.hidden_size ({model.hidden_size:,}) or the "
            f"sequences ({spec.task.steps:,} steps) smaller"
        )
    else:
        remedy = f"make the task {spec.task.name!r} smaller ({sum(spec.task.sizes):,} sequences)"
    memory.refuse(sum(found), f"{where}the run", remedy)


def estimate(spec: RunSpec) -> Footprint:
    """The memory of a run beside its data."""
    weights, copies = FLOAT * parameter_count(spec.model, spec.task), OPTIMIZERS[spec.optimization.optimizer].copies
    in_training = weights * (2 + copies)
    in_checkpoint = 2 * weights * (1 + copies)  # as a file in memory, and once more while it is written
    return Footprint(in_training + in_checkpoint, _activations(spec), _outputs(spec))


def parameter_count(model: ModelSpec, task: Task) -> int:
    """The number of parameters, without allocating them."""
    cell, directions, embedding = model.equations(), 2 if model.bidirectional else 1, model.embedding(task)
    first = cell.parameter_count(embedding or task.input_size, model.hidden_size, **model.options)
    others = cell.parameter_count(model.hidden_size * directions, model.hidden_size, **model.options)
    layers = directions * (first + (model.num_layers - 1) * others)
    return layers + (embedding or 0) * task.input_size + (model.hidden_size * directions + 1) * task.output_size


def _activations(spec: RunSpec) -> int:
    """The larger of a training step, which keeps values for the backward pass, and a step of the evaluation."""
    model, task = spec.model, spec.task
    D, K, directions = model.embedding(task) or task.input_size, task.output_size, 2 if model.bidirectional else 1
    inputs = 2 * D + model.hidden_size * directions * 2 * (model.num_layers - 1)
    heads = 3 * K if task.per_step else 0
    by_layer = model.num_layers * directions * model.hidden_size
    rows, steps = min(spec.training.batch_size, task.sizes[0]), task.steps
    trained, evaluated = inputs + heads + by_layer * _kept_values(model), inputs + heads + by_layer
    evaluated_steps = steps * min(EVALUATED_AT_ONCE, max(task.sizes[1:]))
    if (bptt := spec.training.chunk_length(task)) is not None:
        longest = _stream_steps(task)
        steps = min(bptt, longest or steps)
        evaluated_steps = min(STREAM_STEPS, longest) if longest else evaluated_steps
    return FLOAT * max(rows * steps * trained, evaluated_steps * evaluated)


def _kept_values(model: ModelSpec) -> int:
    """Values per unit and step that the engine keeps, with output and gradient: eager keeps all but sums, and
    compiled at most that.
    """
    graph = model.equations().lowered
    operations = [node.op for node in graph.nodes(*graph.new_states)]
    if model.engine in ("eager", "compiled"):
        return 2 + len(graph.randoms) + sum(op not in LEAVES and op not in ("add", "sub") for op in operations)
    kept = sum(op in EXPENSIVE and op != "product" for op in operations)
    return 3 + len(graph.states) + len(graph.randoms) + kept


def _stream_steps(task: Task) -> int:
    """The steps of the training part if it is one long sequence, of which the examples are windows; else 0."""
    if task.forecasts:
        return task.sizes[0] + task.steps  # windows of a series begin at every step
    return task.sizes[0] * task.steps if task.default_bptt is not None else 0


def _outputs(spec: RunSpec) -> int:
    """Of one part of the data: collected, joined, and compared with targets."""
    task, steps = spec.task, spec.task.steps if spec.task.per_step else 1
    numbers = max(task.sizes[1:]) * steps * task.output_size
    return 3 * FLOAT * (numbers if spec.training.chunk_length(task) is None else min(KEPT, numbers))
