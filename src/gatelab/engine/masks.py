"""Masks that a cell draws at random: for a whole sequence at once, the same for every engine."""

from __future__ import annotations

import torch
from torch import Tensor

from gatelab.engine.parameters import CellParameters
from gatelab.errors import GatelabError
from gatelab.lang.graph import evaluate, mask_name, walk


def draw(parameters: CellParameters, x: Tensor, hidden_size: int) -> dict[str, Tensor]:
    """For each mask (T, B, H): 0 or 1 from torch's generator while training, otherwise the probability of 1."""
    masks, options = {}, parameters.scalars()
    for node in parameters.cell.lowered.randoms:
        leaves = {
            n: torch.tensor(float(options[n.name]), dtype=torch.float64) for n in walk([node]) if n.op == "scalar"
        }
        probability = float(evaluate(node.args[0], leaves))
        if not 0 <= probability <= 1:
            raise GatelabError(
                f"cell {parameters.cell.name!r} draws a mask with probability {probability:g}: expected 0 to 1"
            )
        size = (*x.shape[:2], hidden_size)
        if parameters.training:
            mask = (torch.rand(size, device=x.device, dtype=torch.float32) < probability).to(x.dtype)
        else:
            mask = torch.full(size, probability, device=x.device, dtype=x.dtype)
        masks[mask_name(node)] = mask
    return masks
