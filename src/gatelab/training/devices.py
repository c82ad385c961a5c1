"""The device of a run: which ones there are, which one a spec means, and its random numbers.

Data, checkpoints and everything that is saved stay on the CPU; the model and one batch at a time are on the device.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

from gatelab.engine.choose import OVERRIDE
from gatelab.errors import GatelabError
from gatelab.tasks import Batch

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor, nn

    from gatelab.training.spec import RunSpec


def available() -> tuple[str, ...]:
    """The devices of this machine that torch can use, in the order in which "auto" takes them."""
    found = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    return (*(name for name, is_here in found.items() if is_here), "cpu")


def resolved(spec: RunSpec) -> str:
    """The device that a new run of this spec will use here; raises if there is none of that name."""
    engine, wanted = os.environ.get(OVERRIDE) or spec.model.engine, spec.training.device
    if wanted == "auto":
        return "cpu" if engine == "fused" else available()[0]
    if wanted not in available():
        raise GatelabError(
            f"training.device is {wanted!r}, and torch finds no such device here (available: "
            f"{', '.join(available())}): use one of these or auto, or install the drivers and a torch that supports "
            f"{wanted}"
        )
    if wanted != "cpu" and engine == "fused":
        raise GatelabError(
            f"training.device is {wanted!r}, and {OVERRIDE} is 'fused', which runs on the CPU: change one of them"
        )
    return wanted


def refuse_missing(name: str, run: Path) -> None:
    """Raise if the device on which a run began is not here: on another its results would be others."""
    if name not in available():
        raise GatelabError(
            f"{run} was trained on {name!r}, and torch finds no such device here (available: "
            f"{', '.join(available())}): resume it where there is one, or start a new run"
        )


def title(name: str) -> str | None:
    """What the device calls itself; None for the CPU, which is described elsewhere."""
    return torch.cuda.get_device_name() if name == "cuda" else "Apple GPU" if name == "mps" else None


def of(model: nn.Module) -> torch.device:
    """The device of a model."""
    return next(model.parameters()).device


def moved(batch: Batch, device: torch.device) -> Batch:
    """A batch on a device."""
    return Batch(*(None if values is None else values.to(device) for values in batch))  # type: ignore[arg-type]


def moved_weights(weights: Tensor | None, device: torch.device) -> Tensor | None:
    """The weights of a batch on a device."""
    return None if weights is None else weights.to(device)


def seed(device: torch.device, number: int) -> None:
    """Seed torch's generators for what is drawn on the device, and on the CPU."""
    torch.default_generator.manual_seed(number)
    if device.type != "cpu":
        torch.get_device_module(device).manual_seed(number)


@contextmanager
def generators_restored(name: str) -> Iterator[None]:
    """Restore the state of torch's generators afterwards."""
    module = torch.get_device_module(name) if name != "cpu" and name in available() else None
    on_cpu, on_device = torch.get_rng_state(), module.get_rng_state() if module else None
    try:
        yield
    finally:
        torch.set_rng_state(on_cpu)
        if module:
            module.set_rng_state(on_device)
