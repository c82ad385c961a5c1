"""torch's optimizers by name, and their state as plain tensors."""

from __future__ import annotations

import inspect
import math
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import torch
from torch import Tensor, nn, optim
from torch.optim import Optimizer

from gatelab.engine import team
from gatelab.errors import GatelabError

if TYPE_CHECKING:
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


class Rule(NamedTuple):
    """One of torch's optimizers."""

    kind: Any  # type[Optimizer], with arguments of its own
    copies: int  # of each weight, in its state
    has_momentum: bool  # as an option; Adam has its own
    has_fused: bool  # whether torch has it in one pass over all parameters


Name = Literal["adam", "adamw", "sgd", "rmsprop"]
OPTIMIZERS: dict[Name, Rule] = {
    "adam": Rule(_uncompiled(optim.Adam), 2, has_momentum=False, has_fused=True),
    "adamw": Rule(_uncompiled(optim.AdamW), 2, has_momentum=False, has_fused=True),
    "sgd": Rule(_uncompiled(optim.SGD), 1, has_momentum=True, has_fused=True),
    "rmsprop": Rule(_uncompiled(optim.RMSprop), 2, has_momentum=True, has_fused=False),
}


def optimizer(spec: OptimizationSpec, model: nn.Module) -> Optimizer:
    """The optimizer of all trainable parameters; frozen ones are not given to it, so nothing can change them."""
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    rule, options = OPTIMIZERS[spec.optimizer], dict[str, Any]()
    if rule.has_momentum:
        options["momentum"] = spec.momentum
    if rule.has_fused:  # on small models the loop over all parameters would cost more than the step
        options["fused"] = all(parameter.device.type in ("cpu", "cuda") for parameter in trainable)
    made: Optimizer = rule.kind(trainable, spec.learning_rate, weight_decay=spec.weight_decay, **options)
    return made


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
