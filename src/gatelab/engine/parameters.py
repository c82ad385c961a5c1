"""The parameters of a cell in one layer and direction, named as in its equations."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping, ValuesView
from typing import Any

import torch
from torch import Tensor, nn

from gatelab.lang import Cell, Option
from gatelab.lang.tensors import TensorMaps, TensorVectors


class Family(nn.Module):
    """W, U or b: parameters by name, in the order of the equations, `b["z"]` or `b.z`.

    (`nn.ParameterDict` does not allow names of its own methods, such as "update", a likely name for a gate.)
    """

    def __init__(self, names: tuple[str, ...], shape: tuple[int, ...], factory: dict[str, Any]) -> None:
        super().__init__()
        for name in names:
            self._parameters[name] = nn.Parameter(torch.empty(shape, **factory))

    def __getitem__(self, name: str) -> nn.Parameter:
        return self._parameters[name]  # type: ignore[return-value]

    def __contains__(self, name: object) -> bool:
        return name in self._parameters

    def __iter__(self) -> Iterator[str]:
        return iter(self._parameters)

    def __len__(self) -> int:
        return len(self._parameters)

    def get(self, name: str, default: Tensor) -> Tensor:
        """The parameter, or `default` if the cell has none of that name."""
        return self._parameters.get(name) if name in self._parameters else default  # type: ignore[return-value]

    def values(self) -> ValuesView[nn.Parameter]:
        """The parameters in the order of the equations."""
        return self._parameters.values()  # type: ignore[return-value]

    def items(self) -> ItemsView[str, nn.Parameter]:
        """Pairs of name and parameter in the order of the equations."""
        return self._parameters.items()  # type: ignore[return-value]


class CellParameters(nn.Module):
    """`W.z` (H, D), `U.z` (H, H), `b.z` (H) and learned scalars such as `epsilon` (), as in the state dict.

    They are uninitialized; see `gatelab.engine.initialise`.
    """

    def __init__(
        self, cell: Cell, input_size: int, hidden_size: int, options: Mapping[str, Option], **factory: Any
    ) -> None:
        super().__init__()
        self.cell, self.options = cell, dict(options)
        D, H, graph = input_size, hidden_size, cell.graph
        self.W = Family(graph.W, (H, D), factory)
        self.U = Family(graph.U, (H, H), factory)
        self.b = Family(graph.b, (H,), factory)
        for name, option in options.items():
            if option.learned:
                self._parameters[name] = nn.Parameter(torch.empty((), **factory))

    def spaces(self) -> dict[str, Any]:
        """W, U and b as arguments of the cell's function; create them once per call (see `TensorMaps`)."""
        return {
            "W": TensorMaps("W", dict(self.W.items())),
            "U": TensorMaps("U", dict(self.U.items())),
            "b": TensorVectors(dict(self.b.items())),
        }

    def scalars(self) -> dict[str, Any]:
        """The cell's hyperparameters by name: a parameter if learned, a float if fixed."""
        return {name: self._parameters[name] if o.learned else o.value for name, o in self.options.items()}
