"""The parameters of one cell in one layer and one direction, under the names its equations use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from gatelab.lang import Cell, Option
from gatelab.lang.tensors import TensorMaps, TensorVectors


class CellParameters(nn.Module):
    """`W.z` (H, D), `U.z` (H, H), `b.z` (H) and learned scalars such as `epsilon` (): names in a state dict are these.

    They are made without values; `gatelab.engine.initialise` gives them some.
    """

    def __init__(
        self, cell: Cell, input_size: int, hidden_size: int, options: Mapping[str, Option], **made: Any
    ) -> None:
        super().__init__()
        self.cell, self.options = cell, dict(options)
        D, H, graph = input_size, hidden_size, cell.graph
        self.W = self._family("W", graph.W, (H, D), made)
        self.U = self._family("U", graph.U, (H, H), made)
        self.b = self._family("b", graph.b, (H,), made)
        for name, option in options.items():
            if option.learned:
                self._refuse_taken(name, name)
                self.register_parameter(name, nn.Parameter(torch.empty((), **made)))

    def spaces(self) -> dict[str, Any]:
        """W, U and b as the cell's function takes them; made anew for each call (see `TensorMaps`)."""
        return {
            "W": TensorMaps("W", dict(self.W.items())),
            "U": TensorMaps("U", dict(self.U.items())),
            "b": TensorVectors(dict(self.b.items())),
        }

    def scalars(self) -> dict[str, Tensor | float]:
        """The cell's options: a parameter where it is learned, a number where it is fixed."""
        return {name: getattr(self, name) if o.learned else o.value for name, o in self.options.items()}

    def _family(self, space: str, names: tuple[str, ...], shape: tuple[int, ...], made: dict[str, Any]) -> Any:
        for name in names:
            self._refuse_taken(name, f"{space}.{name}")
        # Pairs, since a plain dictionary would be sorted by name and not in the order of the equations.
        return nn.ParameterDict([(name, nn.Parameter(torch.empty(shape, **made))) for name in names])

    def _refuse_taken(self, name: str, full_name: str) -> None:
        if hasattr(nn.ParameterDict, name) or hasattr(self, name):
            raise ValueError(
                f"cell {self.cell.name!r} has a parameter {full_name!r}, but torch's modules use {name!r} themselves: "
                f"call it {name}_"
            )
