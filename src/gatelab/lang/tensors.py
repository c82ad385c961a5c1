"""W, U and b when a cell runs on tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from gatelab.errors import unknown
from gatelab.lang.graph import Elementwise, Exponential, Matrix, Node, Scaled, Sum, Transpose, Weight
from gatelab.lang.maps import Map
from gatelab.lang.operations import POINTWISE


class TensorMaps:
    """`W` or `U` on tensors. Create one per call: it caches matrix expressions over all steps."""

    def __init__(self, space: str, weights: Mapping[str, Tensor]) -> None:
        self._space = space
        self._weights = weights
        self._cache: list[Tensor] = []
        self._applied = 0  # number of matrix expressions applied so far in this step

    def __getattr__(self, name: str) -> Map:
        if name not in self._weights:
            raise unknown(f"map {self._space}.", name, self._weights)
        return Map(Weight(self._space, name), self._apply)

    def _apply(self, matrix: Matrix, vector: Tensor) -> Tensor:
        if isinstance(matrix, Weight):
            return linear(vector, self._weights[matrix.name])
        # Every step applies the same expressions in the same order, so the count identifies an expression.
        if self._applied == len(self._cache):
            self._cache.append(value(matrix, self._weights))
        self._applied += 1
        return linear(vector, self._cache[self._applied - 1])

    def begin_step(self) -> None:
        """Start the next time step."""
        self._applied = 0


class TensorVectors:
    """`b` on tensors."""

    def __init__(self, vectors: Mapping[str, Tensor]) -> None:
        self._vectors = vectors

    def __getattr__(self, name: str) -> Tensor:
        if name not in self._vectors:
            raise unknown("vector b.", name, self._vectors)
        return self._vectors[name]


def value(matrix: Matrix, weights: Mapping[str, Tensor], number: Callable[[Node], Tensor] | None = None) -> Any:
    """Evaluate a matrix expression. `number` evaluates the scalar nodes of a traced expression."""
    if isinstance(matrix, Weight):
        return weights[matrix.name]
    if isinstance(matrix, Transpose):
        return value(matrix.of, weights, number).T
    if isinstance(matrix, Scaled):
        by = number(matrix.by) if number and isinstance(matrix.by, Node) else matrix.by
        return by * value(matrix.of, weights, number)
    if isinstance(matrix, Sum):
        return value(matrix.left, weights, number) + matrix.sign * value(matrix.right, weights, number)
    if isinstance(matrix, Elementwise):
        computed: Tensor = POINTWISE[matrix.function].compute(*(value(of, weights, number) for of in matrix.of))
        return computed
    if isinstance(matrix, Exponential):
        exponent = value(matrix.of, weights, number)
        # Once per call, so that the precision of double costs nothing.
        return torch.linalg.matrix_exp(exponent.double()).to(exponent.dtype)
    like = next(iter(weights.values()))
    return torch.eye(like.shape[0], dtype=like.dtype, device=like.device)
