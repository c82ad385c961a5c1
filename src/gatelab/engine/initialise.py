"""Initialization of parameters: the cell's own, uniform, Xavier, gate biases, chrono."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Generator, Tensor, nn

from gatelab.engine.parameters import CellParameters
from gatelab.engine.settings import check_chrono, check_gate_bias
from gatelab.errors import GatelabError, unknown


def own(parameters: CellParameters, generator: Generator | None) -> None:
    """The cell's own initial values where it has them; uniform in ±1/√H otherwise."""
    uniform(parameters, generator)
    set_own(parameters, list(parameters.cell.start), generator)


def set_own(parameters: CellParameters, names: list[str], generator: Generator | None) -> None:
    """Set parameters to the cell's own initial values."""
    for name in names:
        value = getattr(parameters, name[0]).learned()[name[2:]]
        value.copy_(parameters.cell.start[name].make(tuple(value.shape), generator))


def uniform(parameters: CellParameters, generator: Generator | None) -> None:
    """Uniform in ±1/√H, as in torch.nn (which has two biases per gate)."""
    for values in (parameters.W, parameters.U, parameters.b):
        for value in values.learned().values():
            bound = 1 / math.sqrt(value.shape[0])
            nn.init.uniform_(value, -bound, bound, generator=generator)


def xavier(parameters: CellParameters, generator: Generator | None) -> None:
    """Xavier uniform input weights, orthogonal recurrent weights, zero biases."""
    for weight in parameters.W.learned().values():
        nn.init.xavier_uniform_(weight, generator=generator)
    for weight in parameters.U.learned().values():
        nn.init.orthogonal_(weight, generator=generator)
    for bias in parameters.b.learned().values():
        nn.init.zeros_(bias)


INITS: dict[str, Callable[[CellParameters, Generator | None], None]] = {
    "cell": own,
    "torch": uniform,
    "xavier": xavier,
}


@torch.no_grad()
def initialise(
    parameters: CellParameters,
    init: str,
    gate_bias: Mapping[str, float] | None = None,
    chrono: int | None = None,
    generator: Generator | None = None,
) -> None:
    """Initialize every parameter in place."""
    if init not in INITS:
        raise unknown("init", init, INITS)
    for space in ("W", "U", "b"):
        family = getattr(parameters, space)
        if hidden := [n for n in family if n not in family.learned() and f"{space}.{n}" not in parameters.cell.given]:
            raise GatelabError(
                f"{space}.{hidden[0]} is parametrized and cannot be initialized: remove the parametrization first "
                "(torch.nn.utils.parametrize.remove_parametrizations), or initialize its own parameters"
            )
    INITS[init](parameters, generator)
    if init != "cell":  # a rule for matrices and biases; a time constant of 0 would be no initialization
        biases = {f"b.{name}" for name in parameters.cell.graph.biases}
        own_vectors = [n for n in parameters.cell.start if n.startswith("b.") and n not in biases]
        set_own(parameters, own_vectors, generator)
    for name, scalar in parameters.named_parameters(recurse=False):
        scalar.fill_(parameters.options[name].value)
    set_gate_biases(parameters, gate_bias or {})
    if chrono is not None:
        set_chrono(parameters, chrono, fixed=gate_bias or {}, generator=generator)


def set_gate_biases(parameters: CellParameters, gate_bias: Any) -> None:
    """Fill the named biases: `{"z": 1.0}` sets all of b.z to 1."""
    check_gate_bias(parameters.cell, gate_bias)
    for name, value in gate_bias.items():
        parameters.b[name].fill_(float(value))


def set_chrono(
    parameters: CellParameters, longest: int, fixed: Mapping[str, float], generator: Generator | None
) -> None:
    """Chrono initialization (Tallec & Ollivier 2018, arXiv:1804.11188): time constants from 1 to `longest` steps.

    The bias of a gate that keeps is log u, of one that writes −log u, u uniform in [1, longest − 1]. A separate gate
    for new content (the LSTM's i) gets −log u with the same u.
    """
    cell = parameters.cell
    check_chrono(cell, longest, fixed)
    hidden_size = next(iter(parameters.b.values())).shape[0]
    logs: Tensor = torch.empty(hidden_size).uniform_(1, max(longest - 1, 1), generator=generator).log()
    for gate, role in cell.roles.items():
        sign = cell.opening(gate) * (1 if role == "keep" else -1)
        parameters.b[gate].copy_(sign * logs)
