"""Values that belong to a cell: given ones, which are fixed numbers made from H, and initial ones.

    @cell(given={"U.sum": lower_triangular()}, start={"b.f": constant(1)})
    def mine(x, h, c, W, U, b): ...

They are named, with numbers as arguments, so that a cell remains plain data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor, nn

from gatelab.errors import CellError, GatelabError, unknown
from gatelab.numerals import fits_float32

Size = tuple[int, ...]  # (H,) of a vector, (H, D) or (H, H) of a map


@dataclass(frozen=True)
class Values:
    """A recipe: the name of a function of this module, and its arguments."""

    kind: str
    arguments: tuple[float, ...] = ()

    def __str__(self) -> str:
        numbers = (f"{a:g}" if float(f"{a:g}") == a else repr(a) for a in self.arguments)
        return f"{self.kind}({', '.join(numbers)})"

    def make(self, size: Size, generator: Generator | None = None) -> Tensor:
        """The numbers for a parameter of this size, in float64."""
        numbers = _RECIPES[self.kind](size, generator, *self.arguments)
        if not numbers.float().isfinite().all():
            raise GatelabError(f"the values {self} are not finite for {size[0]} units: choose other arguments")
        return numbers

    def fits(self, space: str) -> bool:
        """Whether members of W, U or b can have these values."""
        kinds = {"W": (*_VECTORS, *_SQUARE), "U": _VECTORS, "b": (*_MAPS, *_SQUARE)}  # those that do not fit
        return self.kind not in kinds[space]


def constant(value: float) -> Values:
    """The same number everywhere."""
    return Values("constant", (value,))


def uniform(low: float, high: float) -> Values:
    """Random numbers, uniform in [low, high)."""
    return Values("uniform", (low, high))


def log_uniform(low: float, high: float) -> Values:
    """Logarithms of random numbers that are uniform in [low, high)."""
    return Values("log_uniform", (low, high))


def exp_uniform(low: float, high: float) -> Values:
    """Exponentials of random numbers that are uniform in [low, high)."""
    return Values("exp_uniform", (low, high))


def normal(deviation: float) -> Values:
    """Random numbers with mean 0, normally distributed."""
    return Values("normal", (deviation,))


def ring(smallest: float, largest: float) -> Values:
    """log(−log r) for radii r of points that are uniform in a ring of the complex plane (Orvieto et al. 2023)."""
    return Values("ring", (smallest, largest))


def evenly(first: float, last: float) -> Values:
    """Evenly spaced numbers from the first to the last unit."""
    return Values("evenly", (first, last))


def multiples(factor: float) -> Values:
    """0, factor, 2 · factor, …: a multiple for each unit."""
    return Values("multiples", (factor,))


def first(share: float) -> Values:
    """1 in the first units, up to this share of them, and 0 in the others."""
    return Values("first", (share,))


def signs(share: float) -> Values:
    """1 in the first units, up to this share of them, and −1 in the others."""
    return Values("signs", (share,))


def periods(groups: int) -> Values:
    """Periods 1, 2, 4, … for that many groups of units of equal size."""
    return Values("periods", (groups,))


def one_hot() -> Values:
    """1 in the first unit, 0 in the others."""
    return Values("one_hot")


def identity(scale: float = 1.0) -> Values:
    """A multiple of the identity."""
    return Values("identity", (scale,))


def orthogonal() -> Values:
    """A random orthogonal matrix."""
    return Values("orthogonal")


def lower_triangular() -> Values:
    """1 on and below the diagonal, 0 above: a cumulative sum over the units."""
    return Values("lower_triangular")


def permutation(distance: int) -> Values:
    """Unit i reads unit i + distance, cyclically."""
    return Values("permutation", (distance,))


def off_diagonal() -> Values:
    """0 on the diagonal, 1 elsewhere: no unit reads itself."""
    return Values("off_diagonal")


def slower(groups: int) -> Values:
    """1 where a unit reads one of the same or a longer period, 0 elsewhere; see `periods`."""
    return Values("slower", (groups,))


def legendre() -> Values:
    """The state matrix of a Legendre memory (Voelker et al. 2019)."""
    return Values("legendre")


def _random(size: Size, generator: Generator | None) -> Tensor:
    return torch.rand(size, generator=generator, dtype=torch.float64)


def _ring(size: Size, generator: Generator | None, smallest: float, largest: float) -> Tensor:
    squared = _random(size, generator) * (largest**2 - smallest**2) + smallest**2
    return (-0.5 * squared.log()).log()


def _first(size: Size, _: Generator | None, share: float) -> Tensor:
    return (torch.arange(size[0]) < math.ceil(share * size[0] - 0.5)).double()


def _periods(size: Size, _: Generator | None, groups: float) -> Tensor:
    return 2.0 ** (torch.arange(size[0]) * int(groups) // size[0]).double()


def _slower(size: Size, _: Generator | None, groups: float) -> Tensor:
    period = _periods(size, None, groups)
    return (period[None, :] >= period[:, None]).double()


def _legendre(size: Size, _: Generator | None) -> Tensor:
    i, j = torch.arange(size[0]).double()[:, None], torch.arange(size[0]).double()[None, :]
    return (2 * i + 1) * torch.where(i < j, -1.0, (-1.0) ** (i - j + 1))


_RECIPES: dict[str, Callable[..., Tensor]] = {
    "constant": lambda size, _, value: torch.full(size, value, dtype=torch.float64),
    "uniform": lambda size, generator, low, high: low + (high - low) * _random(size, generator),
    "log_uniform": lambda size, generator, low, high: (low + (high - low) * _random(size, generator)).log(),
    "exp_uniform": lambda size, generator, low, high: (low + (high - low) * _random(size, generator)).exp(),
    "normal": lambda size, generator, deviation: (
        deviation * torch.randn(size, generator=generator, dtype=torch.float64)
    ),
    "ring": _ring,
    "evenly": lambda size, _, first, last: torch.linspace(first, last, size[0], dtype=torch.float64),
    "multiples": lambda size, _, factor: factor * torch.arange(size[0], dtype=torch.float64),
    "first": _first,
    "signs": lambda size, _, share: 2 * _first(size, None, share) - 1,
    "periods": _periods,
    "one_hot": lambda size, _: (torch.arange(size[0]) == 0).double(),
    "identity": lambda size, _, scale: scale * torch.eye(*size, dtype=torch.float64),
    "orthogonal": lambda size, generator: nn.init.orthogonal_(
        torch.empty(size, dtype=torch.float64), generator=generator
    ),
    "lower_triangular": lambda size, _: torch.ones(size, dtype=torch.float64).tril(),
    "permutation": lambda size, _, distance: torch.eye(*size, dtype=torch.float64).roll(int(distance), 1),
    "off_diagonal": lambda size, _: 1 - torch.eye(*size, dtype=torch.float64),
    "slower": _slower,
    "legendre": _legendre,
}
_VECTORS = ("ring", "evenly", "multiples", "first", "signs", "periods", "one_hot")
_MAPS = ("identity", "orthogonal")
_RANDOM = ("uniform", "log_uniform", "exp_uniform", "normal", "ring", "orthogonal")
_GROUPS, _SHARES = ("periods", "slower"), ("first", "signs")
MAX_GROUPS = 100
_SQUARE = ("lower_triangular", "permutation", "off_diagonal", "slower", "legendre")


def checked(what: str, values: Mapping[str, Any] | None, names: list[str]) -> dict[str, Values]:
    """The recipes by parameter; a plain number stands for `constant`. `names`: the cell's own, as in "b.f"."""
    result = {}
    for name, value in (values or {}).items():
        if name not in names:
            raise unknown(f"{what} of a parameter:", name, names)
        result[name] = recipe = _recipe(f"{what} of {name}", value)
        if what == "given" and recipe.kind in _RANDOM:
            raise CellError(
                f"given of {name} is {recipe}: given values are the same in every run. Put random ones under start, "
                "and freeze them if they are not to be trained"
            )
        if not recipe.fits(name[0]):
            kind = {"W": "a map of the input", "U": "a recurrent map", "b": "a vector"}[name[0]]
            others = [other for other in _RECIPES if Values(other).fits(name[0])]
            raise CellError(f"{what} of {name} is {recipe}: expected values of {kind}, one of {', '.join(others)}")
    return result


def _recipe(what: str, value: Any) -> Values:
    if isinstance(value, (int, float)):
        value = constant(value)
    if not isinstance(value, Values) or value.kind not in _RECIPES:
        raise CellError(f"{what} is {value!r}: expected a number or one of {', '.join(_RECIPES)}, as in constant(1)")
    arguments: tuple[Any, ...] = value.arguments
    expected = _RECIPES[value.kind].__code__.co_argcount - 2
    if len(arguments) != expected or not all(isinstance(a, (int, float)) and fits_float32(a) for a in arguments):
        raise CellError(f"{what} is {value.kind}{arguments}: expected {expected} finite number(s)")
    if value.kind in _GROUPS and (not float(arguments[0]).is_integer() or not 1 <= arguments[0] <= MAX_GROUPS):
        raise CellError(f"{what} is {value}: expected an integer number of groups from 1 to {MAX_GROUPS}")
    if value.kind == "permutation" and not float(arguments[0]).is_integer():
        raise CellError(f"{what} is {value}: expected an integer distance")
    if value.kind in _SHARES and not 0 <= arguments[0] <= 1:
        raise CellError(f"{what} is {value}: expected a share of the units from 0 to 1")
    return Values(value.kind, tuple(map(float, arguments)))
