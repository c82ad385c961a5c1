"""How much the loss depends on each step's state, written down epoch by epoch: vanishing made visible."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import torch
from torch import nn

from gatelab import sealed
from gatelab.engine.unroll import unroll
from gatelab.models import Model
from gatelab.tasks import Batch, Examples
from gatelab.tasks.examples import inside
from gatelab.training.objective import Objective

FILE = "gradients.npz"
EXAMPLES, STEPS = 32, 8192  # at most so many examples, and so many steps of all of them together


@dataclass(frozen=True)
class Gradients:
    """The length of ∂L/∂s_t: for each recorded epoch, layer, kind of state and step the mean over the examples."""

    epochs: np.ndarray  # (E,), epochs done when it was measured; 0 is before training
    norms: np.ndarray  # (E, L, S, T), NaN at steps that no example has


def probe(part: Examples) -> Batch:
    """The examples that are looked at: the first few of a part, always the same."""
    longest = part.first(1).x.shape[1]
    return part.first(max(1, min(EXAMPLES, STEPS // longest)))


def gradient_norms(model: nn.Module, batch: Batch, objective: Objective) -> np.ndarray:
    """(L, S, T): how long the total derivative of an example's loss by its state at each step is, forward direction.

    It counts every way to the loss, through later states too; h and c of an LSTM count each for itself.
    """
    made = cast(Model, model)
    training, _ = made.training, made.eval()
    try:
        with torch.enable_grad():
            run = unroll(made.recurrent, batch.x, batch.lengths)
            loss = objective.loss(made.answer(run.output, run.state, batch.x, batch.lengths), batch)
            layers = run.histories[:: len(made.recurrent.directions)]
            nodes = [state for layer in layers for states in layer.states[1:] for state in states]
            found = torch.autograd.grad(loss, nodes, allow_unused=True)
    finally:
        made.train(training)
    lengths = [torch.zeros(len(batch.x)) if value is None else value.norm(dim=1) for value in found]
    shape = (len(layers), batch.x.shape[1], len(made.recurrent.cell.states), len(batch.x))  # (L, T, S, B)
    # The loss is a mean over all answers, and an example's own a mean over its own.
    there = inside(batch.x, batch.lengths)  # (B, T)
    answers = there.double().sum(1) if objective.task.per_step else torch.ones(len(there), dtype=torch.float64)
    sizes = answers.sum() / answers * torch.stack(lengths).reshape(shape).double()
    exists = there.T[:, None]  # (T, 1, B)
    mean = torch.where(exists, sizes, 0.0).sum(-1) / exists.sum(-1)  # nothing by nothing is NaN
    return mean.transpose(1, 2).numpy()


def record(folder: Path, model: nn.Module, part: Examples, objective: Objective, epoch: int) -> None:
    """Add the model as it is after so many epochs to what is written down; what is later than that is written anew."""
    norms = gradient_norms(model, probe(part), objective)[None]
    epochs = np.array([epoch])
    if (before := read(folder)) is not None:
        earlier = before.epochs < epoch
        epochs = np.concatenate([before.epochs[earlier], epochs])
        norms = np.concatenate([before.norms[earlier], norms])
    sealed.write_arrays(folder / FILE, {"epochs": epochs, "norms": norms})


def read(folder: Path) -> Gradients | None:
    """What was written down in a run directory, if anything was."""
    path = folder / FILE
    if not path.is_file():
        return None
    arrays = sealed.read_arrays(path)
    epochs, norms = arrays.get("epochs"), arrays.get("norms")
    if epochs is None or norms is None or epochs.ndim != 1 or norms.ndim != 4 or len(epochs) != len(norms):
        raise sealed.damaged(path, "expected epochs (E,) and norms (E, L, S, T)")
    return Gradients(epochs, norms)
