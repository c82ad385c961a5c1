"""torch's optimizers by name, and their state as plain tensors."""

from __future__ import annotations

import inspect
import math
from typing import Any, TypeVar

import torch
from torch import Tensor, nn, optim
from torch.optim import Optimizer

from gatelab.engine import team
from gatelab.errors import GatelabError
from gatelab.training.spec import OptimizationSpec

WORTH_THREADS = 1 << 18  # entries of a parameter; a step over as many takes about 100 microseconds

Kind = TypeVar("Kind", bound=Optimizer)


def _uncompiled(kind: type[Kind]) -> type[Kind]:
    """The same optimizer without the decorators that only torch.compile needs: their first call imports all of that,
    which takes as long as torch itself.
    """
    names = ("add_param_group", "zero_grad", "state_dict", "load_state_dict")
    methods: dict[str, Any] = {name: inspect.unwrap(getattr(kind, name)) for name in names}
    return type(kind.__name__, (kind,), methods | {"step": torch.no_grad()(inspect.unwrap(kind.step))})


Adam, AdamW = _uncompiled(optim.Adam), _uncompiled(optim.AdamW)
SGD, RMSprop = _uncompiled(optim.SGD), _uncompiled(optim.RMSprop)


def optimizer(spec: OptimizationSpec, model: nn.Module) -> Optimizer:
    """The optimizer of all trainable parameters; frozen ones are not given to it, so nothing can change them."""
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    rate, decay = spec.learning_rate, spec.weight_decay
    # `fused` does one pass over all parameters: on small models the loop over them would cost more than the step.
    fused = all(parameter.device.type in ("cpu", "cuda") for parameter in trainable)
    if spec.optimizer == "adam":
        return Adam(trainable, rate, weight_decay=decay, fused=fused)
    if spec.optimizer == "adamw":
        return AdamW(trainable, rate, weight_decay=decay, fused=fused)
    if spec.optimizer == "sgd":
        return SGD(trainable, rate, momentum=spec.momentum, weight_decay=decay, fused=fused)
    return RMSprop(trainable, rate, momentum=spec.momentum, weight_decay=decay)


def step(optimizer: Optimizer) -> None:
    """Change the parameters. torch's fused optimizers start threads for each of them, too many for small ones."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    if max(parameter.numel() for parameter in parameters) < WORTH_THREADS:
        with team.alone():
            optimizer.step()
    else:
        optimizer.step()


def set_pace(optimizer: Optimizer, rate: float, momentum: float | None) -> None:
    """The same learning rate, and momentum unless it is to stay as it is, for all parameters."""
    for group in optimizer.param_groups:
        group["lr"] = rate
        if momentum is not None and "betas" in group:  # of Adam
            group["betas"] = (momentum, group["betas"][1])
        elif momentum is not None:
            group["momentum"] = momentum


def tensors(optimizer: Optimizer) -> dict[str, Tensor]:
    """The state of an optimizer by parameter and name, `3.exp_avg`."""
    state: dict[int, dict[str, Any]] = optimizer.state_dict()["state"]
    return {
        f"{number}.{name}": value
        for number, values in state.items()
        for name, value in values.items()
        if isinstance(value, Tensor)
    }


def restore(optimizer: Optimizer, saved: dict[str, Tensor]) -> None:
    """The inverse of `tensors`. A state that does not fit its parameter is refused: torch's fused optimizers would read
    and write beyond its end.
    """
    state: dict[int, dict[str, Tensor]] = {}
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for key, value in saved.items():
        number, _, name = key.partition(".")
        expected = torch.Size(()) if name == "step" else parameters[int(number)].shape
        if value.shape != expected or value.dtype != torch.float32:
            raise GatelabError(f"the optimizer's {key} is {value.dtype} of shape {tuple(value.shape)}")
        state.setdefault(int(number), {})[name] = value
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})


def gradient_norm(optimizer: Optimizer, clip: float | None) -> float:
    """The norm of the whole gradient before clipping; gradients are scaled so that it is at most `clip`."""
    gradients = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
    norm = float(torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients))))
    if clip is not None and clip < norm < math.inf:
        torch._foreach_mul_(gradients, clip / norm)
    return norm


def largest_gradients(model: nn.Module, count: int = 5) -> dict[str, float]:
    """The parameters with the largest gradient norms, those that are not finite first."""
    trained = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    norms = {name: float(torch.linalg.vector_norm(gradient)) for name, gradient in trained.items()}
    ordered = sorted(norms, key=lambda name: (math.isfinite(norms[name]), -norms[name]))
    return {name: norms[name] for name in ordered[:count]}
