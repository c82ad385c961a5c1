"""One step of a cell and its vector-Jacobian products, for many vectors at once."""

from __future__ import annotations

import torch
from torch import Tensor

from gatelab.engine.eager import States
from gatelab.engine.parameters import CellParameters


class FixedStep:
    """A cell with fixed parameters. All states of a cell together are one vector of n = S × H entries."""

    def __init__(self, parameters: CellParameters) -> None:
        self.cell = parameters.cell
        self.spaces, self.options = parameters.spaces(), parameters.scalars()

    def forward(self, x: Tensor, states: States) -> States:
        """The states after one step, from an input (B, D) and states (B, H)."""
        self.spaces["U"].begin_step()
        new = self.cell.step(x, states, self.spaces, self.options)
        return tuple(value.expand_as(old) for value, old in zip(new, states, strict=True))

    def pull_back(self, x: Tensor, states: States, rows: Tensor) -> Tensor:
        """vᵀJ for each of R rows v (R, n), with J = ∂s_t / ∂s_{t−1} at the row's own state and input."""
        with torch.enable_grad():
            leaves = tuple(state.detach().requires_grad_() for state in states)
            new = self.forward(x, leaves)
            vectors = torch.split(rows, leaves[0].shape[1], dim=1)
            dependent = [(value, row) for value, row in zip(new, vectors, strict=True) if value.requires_grad]
            if not dependent:  # the new state does not depend on the old one
                return torch.zeros_like(rows)
            outputs, grad_outputs = zip(*dependent, strict=True)
            gradients = torch.autograd.grad(outputs, leaves, grad_outputs, allow_unused=True)
        return torch.cat(
            [torch.zeros_like(v) if g is None else g for g, v in zip(gradients, vectors, strict=True)], dim=1
        )

    def jacobian(self, x: Tensor, states: States) -> Tensor:
        """∂s_t / ∂s_{t−1} (n, n) at one input (D,) and states (H,), from n vector-Jacobian products."""
        n = sum(len(state) for state in states)
        rows = torch.eye(n, dtype=x.dtype)
        return self.pull_back(x.expand(n, -1), tuple(state.expand(n, -1) for state in states), rows)
