"""One step of a cell and its derivative: row vectors pulled back through it, many at once."""

from __future__ import annotations

import torch
from torch import Tensor

from gatelab.engine.eager import States
from gatelab.engine.parameters import CellParameters


class Step:
    """A cell with its parameters as a function of the state alone. All states of a cell are one vector of n = S × H."""

    def __init__(self, parameters: CellParameters) -> None:
        self.cell = parameters.cell
        self.spaces, self.options = parameters.spaces(), parameters.scalars()

    def forward(self, x: Tensor, states: States) -> States:
        """The states after a step from (B, D) and (B, H) each."""
        self.spaces["U"].begin_step()
        new = self.cell.step(x, states, self.spaces, self.options)
        return tuple(value.expand_as(old) for value, old in zip(new, states, strict=True))

    def pull_back(self, x: Tensor, states: States, rows: Tensor) -> Tensor:
        """(R, n) rows v, each with a state and an input of its own → vᵀJ, with J = ∂s_t / ∂s_{t−1} there."""
        with torch.enable_grad():
            leaves = tuple(state.detach().requires_grad_() for state in states)
            new = self.forward(x, leaves)
            wanted = torch.split(rows, leaves[0].shape[1], dim=1)
            asked = [(value, row) for value, row in zip(new, wanted, strict=True) if value.requires_grad]
            if not asked:  # nothing of the old state goes on
                return torch.zeros_like(rows)
            outputs, vectors = zip(*asked, strict=True)
            found = torch.autograd.grad(outputs, leaves, vectors, allow_unused=True)
        return torch.cat([torch.zeros_like(v) if g is None else g for g, v in zip(found, wanted, strict=True)], dim=1)

    def jacobian(self, x: Tensor, states: States) -> Tensor:
        """∂s_t / ∂s_{t−1} (n, n) at one input (D,) and state (H,) each, exactly: a row for each entry of the state."""
        n = sum(len(state) for state in states)
        rows = torch.eye(n, dtype=x.dtype)
        return self.pull_back(x.expand(n, -1), tuple(state.expand(n, -1) for state in states), rows)
