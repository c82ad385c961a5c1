"""The parameters of a cell in one layer and direction, named as in its equations."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from gatelab.lang import Cell, Option
from gatelab.lang.document import to_document
from gatelab.lang.graph import Matrix, Node, Weight, evaluate, mask_name, walk
from gatelab.lang.tensors import TensorMaps, TensorVectors, value

if TYPE_CHECKING:
    from typing_extensions import Self


class _Named(nn.Module):
    """A module whose parameters may have any name, also that of an attribute that torch sets in every module."""

    def train(self, mode: bool = True) -> Self:
        """As in every module."""
        self.__dict__["training"] = mode
        for child in self.children():
            child.train(mode)
        return self


class ParameterFamily(_Named):
    """W, U or b: parameters by name, in the order of the equations, `b["z"]` or `b.z`. Given values are buffers.

    (`nn.ParameterDict` does not allow names of its own methods, such as "update", a likely name for a gate.)
    """

    def __init__(
        self, sizes: Mapping[str, tuple[int, ...]], given: Mapping[str, Tensor], factory: dict[str, Any]
    ) -> None:
        super().__init__()
        self.names = tuple(sizes)
        for name, size in sizes.items():
            if name in given:
                self._buffers[name] = torch.empty(size, **factory).copy_(given[name])
            else:
                self._parameters[name] = nn.Parameter(torch.empty(size, **factory))

    def __getitem__(self, name: str) -> Tensor:
        for own in (self._parameters, self._buffers):
            if (value := own.get(name)) is not None:
                return value
        if name in self.names:  # torch.nn.utils.parametrize has replaced it by a property
            value = getattr(self, name)
            assert isinstance(value, Tensor)
            return value
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def get(self, name: str, default: Tensor) -> Tensor:
        """The parameter, or `default` if the cell has none of that name."""
        return self[name] if name in self.names else default

    def values(self) -> list[Tensor]:
        """The parameters and given values in the order of the equations."""
        if tuple(self._parameters) == self.names:  # the usual case, and quick
            return list(self._parameters.values())  # type: ignore[arg-type]
        return [self[name] for name in self.names]

    def items(self) -> list[tuple[str, Tensor]]:
        """Pairs of name and parameter or given value in the order of the equations."""
        return [(name, self[name]) for name in self.names]

    def learned(self) -> dict[str, nn.Parameter]:
        """The parameters that are stored as they are: neither given nor parametrized."""
        return {name: self._parameters[name] for name in self.names if name in self._parameters}  # type: ignore[misc]


@functools.cache
def _document(cell: Cell) -> str:
    """The cell as text, which is how it travels in torch's graphs."""
    return json.dumps(to_document(cell), separators=(",", ":"))


class CellParameters(_Named):
    """`W.z` (H, D), `U.z` (H, H), `b.z` (H) and learned scalars such as `epsilon` (), as in the state dict.

    Given values are set, parameters are uninitialized; see `gatelab.engine.initialise`.
    """

    def __init__(
        self, cell: Cell, input_size: int, hidden_size: int, options: Mapping[str, Option], **factory: Any
    ) -> None:
        super().__init__()
        self.cell, self.options = cell, dict(options)
        self.input_size, self.hidden_size = input_size, hidden_size
        self.matrices = tuple(cell.lowered.matrices)  # what the equations apply, in the order of first use
        self.masks = {mask_name(node): node for node in cell.lowered.randoms}
        self.document = _document(cell)
        D, H = input_size, hidden_size
        self.W, self.U, self.b = (
            self._family(space, size, factory) for space, size in {"W": (H, D), "U": (H, H), "b": (H,)}.items()
        )
        for name, option in options.items():
            if option.learned:
                self._parameters[name] = nn.Parameter(torch.empty((), **factory))

    def _family(self, space: str, size: tuple[int, ...], factory: dict[str, Any]) -> ParameterFamily:
        names = getattr(self.cell.graph, space)
        recipes = {name: self.cell.given.get(f"{space}.{name}") for name in names}
        given = {name: recipe.make(size) for name, recipe in recipes.items() if recipe is not None}
        return ParameterFamily(dict.fromkeys(names, size), given, factory)

    def effective(self, matrix: Matrix) -> Tensor:
        """A matrix expression, evaluated once per call; torch differentiates it."""
        if isinstance(matrix, Weight):
            return self._modules[matrix.space][matrix.name]  # type: ignore[index,no-any-return]
        options = self.scalars()

        def number(by: Node) -> Tensor:
            leaves = {node: options[node.name] for node in walk([by]) if node.op == "scalar"}
            leaves |= {node: node.value for node in walk([by]) if node.op == "constant"}
            return evaluate(by, {node: self.number(each) for node, each in leaves.items()})

        effective: Tensor = value(matrix, dict(self.U.items()), number)
        return effective

    def number(self, option: Any) -> Tensor:
        """A hyperparameter as a tensor, made on the device: a copy would wait for it."""
        like = self.like()
        return option if isinstance(option, Tensor) else torch.full((), option, dtype=like.dtype, device=like.device)

    def like(self) -> Tensor:
        """Any of its tensors, for dtype and device."""
        for family in self._modules.values():
            for tensor in family._parameters.values():  # type: ignore[union-attr]
                return tensor  # type: ignore[return-value]
        return self.sources()[0]

    def sources(self) -> list[Tensor]:
        """All tensors that the equations name: maps, vectors and learned scalars."""
        families = self._modules
        maps = [*families["W"].values(), *families["U"].values()]  # type: ignore[operator,union-attr]
        return [*maps, *families["b"].values(), *self._parameters.values()]  # type: ignore[operator,union-attr,list-item]

    def owners(self) -> list[tuple[dict[str, Any], str] | None]:
        """For each of `sources` the dictionary that holds it, and its name there; None if it is computed
        (parametrized).
        """
        owners: list[tuple[dict[str, Any], str] | None] = []
        for family in (self.W, self.U, self.b):
            for name in family.names:
                held = next((own for own in (family._parameters, family._buffers) if name in own), None)
                owners.append(None if held is None else (held, name))
        return [*owners, *((self._parameters, name) for name in self._parameters)]

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
