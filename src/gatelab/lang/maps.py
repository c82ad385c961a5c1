"""Linear maps in a cell's equations: `U.n(h)`, `(U.n - U.n.T - gamma * I)(r * h)`, `relu(U.n)(h)`.

A `Map` only builds the matrix expression. Applying it is up to its creator: the tracer adds a product node,
`TensorMaps` computes the product.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any

from gatelab.errors import CellError
from gatelab.lang.graph import Elementwise, Exponential, IdentityMatrix, Matrix, Scaled, Sum, Transpose, weights
from gatelab.numerals import fits_float32

Apply = Callable[[Matrix, Any], Any]


class Map:
    """A linear map: call it on a vector, transpose it with `.T`, add, subtract, or multiply it by a number."""

    def __init__(self, matrix: Matrix, apply: Apply | None) -> None:
        self.matrix = matrix
        self._apply = apply

    def __call__(self, vector: Any) -> Any:
        """Apply the map to a vector."""
        if self._apply is None:
            raise CellError("a multiple of I cannot be applied on its own: write gamma * h")
        return self._apply(self.matrix, vector)

    @property
    def T(self) -> Map:
        """The transpose."""
        matrix = self._square()
        return self._like(matrix.of if isinstance(matrix, Transpose) else Transpose(matrix))

    def __add__(self, other: Map) -> Map:
        return self._sum(other, 1)

    def __sub__(self, other: Map) -> Map:
        return self._sum(other, -1)

    def __mul__(self, factor: Any) -> Map:
        if isinstance(factor, Map):  # elementwise, as everywhere in the language
            return Map(Elementwise("mul", (self._square(), factor._square())), self._apply or factor._apply)
        return self._like(Scaled(_number(factor), self._square()))

    __rmul__ = __mul__

    def __truediv__(self, divisor: Any) -> Map:
        return self.__mul__(1 / divisor)

    def __matmul__(self, other: Any) -> Map:
        raise CellError("the operator @: a map is applied by a call, W.n(x), U.n(h), U.a(U.b(h))")

    def __neg__(self) -> Map:
        return -1.0 * self

    def __abs__(self) -> Map:
        return self.elementwise("abs")

    def elementwise(self, function: str) -> Map:
        """A function of each entry of the matrix."""
        return self._like(Elementwise(function, (self._square(),)))

    def exponential(self) -> Map:
        """The matrix exponential."""
        return self._like(Exponential(self._square()))

    def _sum(self, other: Map, sign: Any) -> Map:
        if not isinstance(other, Map):
            raise CellError("a map can be added only to a map: apply it first, as in U.n(h), or write gamma * I")
        apply = self._apply or other._apply
        return Map(Sum(self._square(), other._square(), sign), apply)

    def _like(self, matrix: Matrix) -> Map:
        return Map(matrix, self._apply)

    def _square(self) -> Matrix:
        for weight in weights(self.matrix):
            if weight.space == "W":
                raise CellError(
                    f"W.{weight.name} is H × D and can only be applied, W.{weight.name}(x): transposes, sums and "
                    f"multiples need a square matrix such as U.{weight.name}"
                )
        return self.matrix


I = Map(IdentityMatrix(), None)  # noqa: E741 - the usual symbol of the identity


def _number(factor: Any) -> Any:
    """The factor of a `Scaled`: the node of a traced scalar, a float, or a 0-d tensor."""
    if isinstance(factor, Real):
        if not fits_float32(factor):
            raise CellError(f"a map is scaled by {factor!r}: expected a finite number, in the range of float32")
        return float(factor)
    node = getattr(factor, "node", None)
    if node is None:
        return factor
    if node.shape != "scalar":
        raise CellError("a map is scaled by one number for all sequences and units: write v * U.n(h)")
    return node
