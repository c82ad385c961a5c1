"""Linear maps as a cell writes them: `U.n(h)`, `(U.n - U.n.T - gamma * I)(r * h)`.

A `Map` only builds the matrix expression; what applying it means is up to whoever made it: the tracer (a product node)
or the tensors' namespace (a real product).
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any

from gatelab.errors import CellError
from gatelab.lang.graph import Identity, Matrix, Scaled, Sum, Transpose, weights

Apply = Callable[[Matrix, Any], Any]


class Map:
    """A linear map: call it on a vector, transpose it with `.T`, add, subtract, or multiply it by a number."""

    def __init__(self, matrix: Matrix, apply: Apply | None) -> None:
        self.matrix = matrix
        self._apply = apply

    def __call__(self, vector: Any) -> Any:
        if self._apply is None:
            raise CellError("a map without a weight is only a number times its argument: write gamma * h")
        return self._apply(self.matrix, vector)

    @property
    def T(self) -> Map:
        matrix = self._square()
        return self._made(matrix.of if isinstance(matrix, Transpose) else Transpose(matrix))

    def __add__(self, other: Map) -> Map:
        return self._sum(other, 1)

    def __sub__(self, other: Map) -> Map:
        return self._sum(other, -1)

    def __mul__(self, factor: Any) -> Map:
        if isinstance(factor, Map):
            raise CellError("maps are added and scaled, not multiplied: apply one after the other, U.a(U.b(h))")
        return self._made(Scaled(_number(factor), self._square()))

    __rmul__ = __mul__

    def __truediv__(self, divisor: Any) -> Map:
        return self.__mul__(1 / divisor)

    def __matmul__(self, other: Any) -> Map:
        raise CellError("the operator @: a map is applied by a call, W.n(x), U.n(h), U.a(U.b(h))")

    def __neg__(self) -> Map:
        return -1.0 * self

    def _sum(self, other: Map, sign: Any) -> Map:
        if not isinstance(other, Map):
            raise CellError("a map can be added only to a map: apply it first, as in U.n(h), or write gamma * I")
        apply = self._apply or other._apply
        return Map(Sum(self._square(), other._square(), sign), apply)

    def _made(self, matrix: Matrix) -> Map:
        return Map(matrix, self._apply)

    def _square(self) -> Matrix:
        for weight in weights(self.matrix):
            if weight.space == "W":
                raise CellError(
                    f"W.{weight.name} maps D entries to H, and such maps are only applied, W.{weight.name}(x): "
                    f"transposes, sums and multiples are for maps of states, U.{weight.name}"
                )
        return self.matrix


I = Map(Identity(), None)  # noqa: E741 - the identity is written I in every textbook


def _number(factor: Any) -> Any:
    """The factor of a `Scaled`: a traced scalar as its node, a number or 0-d tensor as it is."""
    if isinstance(factor, Real):
        return float(factor)
    node = getattr(factor, "node", None)
    if node is None:
        return factor
    if node.shape != "scalar":
        raise CellError("a map is scaled by one number, not by a vector: write v * U.n(h)")
    return node
