"""The meaning of the parameters of a cell's function.

    def lstm(x, h, c, W, U, b): ...
    def agru(x, h, W, U, b, *, gamma=0.01, epsilon=learned(1.0)): ...

The first parameter is the input. `W`, `U` and `b` are the input maps, the recurrent maps and the bias vectors; a cell
omits those it does not need. `t` is the index of the step: 0, 1, 2, … Every other positional parameter is a state; the
first state is the output. Keyword-only parameters are the cell's hyperparameters: numbers, fixed or learned.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

from gatelab.errors import CellError, GatelabError, unknown
from gatelab.numerals import fits_float32

SPACES = ("W", "U", "b")
INDEX = "t"


@dataclass(frozen=True)
class Option:
    """A hyperparameter of a cell: a fixed number, or the initial value of a learned one (per layer and direction)."""

    value: float
    learned: bool = False


def learned(value: float) -> Any:
    """Mark a cell's hyperparameter as learned: `def mine(x, h, W, U, b, *, epsilon=learned(1.0))`."""
    return Option(_finite("learned", value), learned=True)


@dataclass(frozen=True)
class Signature:
    """The parameters of a cell's function, by kind."""

    order: tuple[str, ...]  # all positional parameters, in order
    input: str
    states: tuple[str, ...]
    options: dict[str, Option]

    @property
    def has_index(self) -> bool:
        """Whether the function takes the index of the step."""
        return INDEX in self.order[1:] and INDEX not in self.states

    def arguments(self, x: Any, states: tuple[Any, ...], spaces: Mapping[str, Any], t: Any = None) -> list[Any]:
        """The positional arguments of the function, in order."""
        by_name = {INDEX: t, **dict(zip(self.states, states, strict=True)), **spaces, self.input: x}
        return [by_name[name] for name in self.order]

    def resolve(self, cell: str, settings: Mapping[str, Any], others: Iterable[str] = ()) -> dict[str, Option]:
        """The hyperparameters after user settings: `epsilon=0.5` sets a value, `learnable_epsilon=False` fixes it.

        `others`: further valid names, for the hint when one is misspelt.
        """
        options = dict(self.options)
        known = [*options, *(f"learnable_{name}" for name in options)]
        for key, value in settings.items():
            if key not in known:
                raise unknown(f"option of cell {cell!r}:", key, [*known, *others])
            if key in options:
                options[key] = replace(options[key], value=_finite(f"option {key!r} of cell {cell!r}", value))
            elif not isinstance(value, bool):
                raise GatelabError(f"option {key!r} of cell {cell!r} is {value!r}: expected True or False")
            else:
                name = key.removeprefix("learnable_")
                options[name] = replace(options[name], learned=value)
        return options


def read(function: Callable[..., Any]) -> Signature:
    """The signature of a cell's function; raises `CellError` with the expected form."""
    name = getattr(function, "__name__", repr(function))
    order, options = [], {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY:
            options[parameter.name] = _option(name, parameter)
        elif parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise CellError(f"cell {name!r} takes {parameter}: name each state and option instead")
        elif parameter.default is not parameter.empty:
            raise CellError(f"cell {name!r}: put options after a star, as in `..., b, *, {parameter.name}=...`")
        else:
            order.append(parameter.name)
    states = tuple(p for p in order[1:] if p not in (*SPACES, INDEX))
    if reserved := set(SPACES) & set(options):
        raise CellError(
            f"cell {name!r} has an option {reserved.pop()!r}: W, U and b are reserved for parameters; rename it"
        )
    if not order or order[0] in SPACES or not states:
        raise CellError(
            f"cell {name!r} takes ({', '.join(order)}): expected the input, at least one state, then W, U, b, "
            f"as in `def {name}(x, h, W, U, b)`"
        )
    return Signature(tuple(order), order[0], states, options)


def _option(cell: str, parameter: inspect.Parameter) -> Option:
    if isinstance(parameter.default, Option):
        return parameter.default
    if parameter.default is parameter.empty:
        raise CellError(f"option {parameter.name!r} of cell {cell!r} has no default: write `{parameter.name}=1.0`")
    return Option(_finite(f"option {parameter.name!r} of cell {cell!r}", parameter.default))


def _finite(what: str, value: Any) -> float:
    if isinstance(value, Option):
        raise GatelabError(f"{what} is learned({value.value}): pass the number, and learnable_...=True")
    if type(value) is bool or not isinstance(value, Real) or not fits_float32(value):
        raise GatelabError(f"{what} is {value!r}: expected a finite number in the range of float32")
    return float(value)
