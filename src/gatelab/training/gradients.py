"""The norm of the loss gradient with respect to each step's state, recorded epoch by epoch: vanishing made visible."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
import torch
from torch import nn

from gatelab import sealed
from gatelab.engine.unroll import unroll
from gatelab.models import Model
from gatelab.tasks import Batch, Examples
from gatelab.tasks.examples import inside
from gatelab.training import devices
from gatelab.training.objective import Objective

FILE = "gradients.npz"
EXAMPLES, STEPS = 32, 8192  # at most this many examples, and this many steps of all examples in total


@dataclass(frozen=True)
class Gradients:
    """‖∂L/∂s_t‖ for each recorded epoch, layer, state and step, averaged over the examples."""

    epochs: np.ndarray  # (E,), epochs done when it was measured; 0 is before training
    norms: np.ndarray  # (E, L, S, T), aligned as in `StepNorms`


class StepNorms(NamedTuple):
    """‖∂L/∂s_t‖ averaged over examples that may differ in length."""

    by_step: np.ndarray  # (L, S, T): the last column is each example's own last step, the one before it the step before
    first: np.ndarray  # (L, S): at each example's own first step


def probe(part: Examples) -> Batch:
    """The first few examples of a part, always the same."""
    return part.first(max(1, min(EXAMPLES, STEPS // part.stored.shape[1])))


def gradient_norms(model: nn.Module, batch: Batch, objective: Objective) -> StepNorms:
    """The norm of the total derivative of each example's loss with respect to its states, forward direction.

    The derivative is through all later states as well; h and c of an LSTM are two states.
    """
    network, batch = cast(Model, model), devices.moved(batch, devices.of(model))
    training, _ = network.training, network.eval()
    try:
        with torch.enable_grad():
            features, ends = network.inputs(batch.x, batch.lengths)
            unrolled = unroll(network.recurrent, features, ends)
            loss = objective.loss(network.answer(unrolled.output, unrolled.state, ends), batch)
            layers = unrolled.histories[:: len(network.recurrent.directions)]
            nodes = [state for layer in layers for states in layer.states[1:] for state in states]
            gradients = torch.autograd.grad(loss, nodes, allow_unused=True)
    finally:
        network.train(training)
    rows = len(batch.x)
    norms = [torch.zeros(rows) if g is None else torch.linalg.vector_norm(g, dim=1).cpu() for g in gradients]
    batch = devices.moved(batch, torch.device("cpu"))
    T, B = batch.x.shape[1], len(batch.x)
    shape = (len(layers), T, len(network.recurrent.cell.states), B)  # (L, T, S, B)
    # The loss is a mean over all targets of the batch; an example's own loss is a mean over its own targets.
    exists = inside(batch.x, batch.lengths)  # (B, T)
    targets = exists.double().sum(1) if objective.task.per_step else torch.ones(B, dtype=torch.float64)
    sizes = targets.sum() / targets * torch.stack(norms).reshape(shape).double()
    # Where lengths differ, "the last step" is each example's own: columns are shifted to end together.
    ends = torch.full((B,), T) if batch.lengths is None else batch.lengths
    source = torch.arange(T)[:, None] - (T - ends)  # (T, B), the step of each example in each column
    aligned = sizes.gather(1, source.clamp(min=0)[None, :, None, :].expand(shape))
    present = (source >= 0)[:, None]  # (T, 1, B)
    mean = torch.where(present, aligned, 0.0).sum(-1) / present.sum(-1)  # NaN where no example has such a step
    return StepNorms(mean.transpose(1, 2).numpy(), sizes[:, 0].mean(-1).numpy())


def record(folder: Path, model: nn.Module, part: Examples, objective: Objective, epoch: int) -> None:
    """Add the model after this number of epochs to the record; later epochs of an earlier attempt are dropped."""
    norms = gradient_norms(model, probe(part), objective).by_step[None]
    epochs = np.array([epoch])
    if (before := read(folder)) is not None:
        earlier = before.epochs < epoch
        epochs = np.concatenate([before.epochs[earlier], epochs])
        norms = np.concatenate([before.norms[earlier], norms])
    sealed.write_arrays(folder / FILE, {"epochs": epochs, "norms": norms})


def read(folder: Path) -> Gradients | None:
    """The record of a run directory, if there is one."""
    path = folder / FILE
    if not path.is_file():
        return None
    arrays = sealed.read_arrays(path)
    epochs, norms = arrays.get("epochs"), arrays.get("norms")
    if epochs is None or norms is None or epochs.ndim != 1 or norms.ndim != 4 or len(epochs) != len(norms):
        raise sealed.damaged(path, "expected epochs (E,) and norms (E, L, S, T)")
    return Gradients(epochs, norms)
