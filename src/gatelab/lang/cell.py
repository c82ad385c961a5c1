"""`@cell`: a plain function of equations becomes a cell."""

from __future__ import annotations

import functools
import inspect
import re
import warnings
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from torch import Tensor

from gatelab.errors import CellError
from gatelab.lang import printing
from gatelab.lang.graph import is_antisymmetric
from gatelab.lang.roles import Role, kept, neutral, opening, roles, shut_out
from gatelab.lang.signature import Option, read
from gatelab.lang.trace import trace
from gatelab.lang.watch import call_and_watch


class Cell:
    """A recurrent cell: its equations as a function, and all that is derived from them.

    It still is that function (`gru(x, h, W, U, b)`). It is traced when it is made, so a cell that exists is a cell
    that every engine understands.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        if not inspect.isfunction(function):
            raise CellError(f"a cell is a plain function, got {function!r}: write `@cell` above a `def`")
        self.function = function
        self.name = function.__name__
        self.doc = inspect.getdoc(function) or ""
        self.signature = read(function)
        self.graph = trace(function, self.signature)
        functools.update_wrapper(self, function)
        self._warn_of_idle_parameters()

    def _warn_of_idle_parameters(self) -> None:
        if idle := self.graph.idle():
            message = f"cell {self.name!r} never uses {', '.join(idle)} for a new state: nothing will be learned there"
            warnings.warn(message, stacklevel=4)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<cell {self.name}>"

    def __reduce__(self) -> str:
        return self.function.__qualname__  # pickled by name, as a function is

    @property
    def states(self) -> tuple[str, ...]:
        return self.signature.states

    @property
    def gates(self) -> tuple[str, ...]:
        """The names of all values that can be watched."""
        return tuple(self.graph.gates)

    @cached_property
    def roles(self) -> dict[str, Role]:
        """What each gate between 0 and 1 does to a state it rules: "keep", "write" or "add"."""
        return roles(self.graph, self._defaults())

    @cached_property
    def neutral(self) -> dict[str, float]:
        """For each gate between 0 and 1 the constant that takes it out of the equations: 1 or a half."""
        return neutral(self.graph, self._defaults())

    def kept(self, gate: str, numbers: Mapping[str, float] | None = None) -> tuple[float, float] | None:
        """The share of its state that stays in a step with the gate at 0 and at 1; None if it depends on more."""
        return kept(self.graph, {**self._defaults(), **(numbers or {})}, gate)

    def shut_out(self, gate: str, held: float) -> list[str]:
        """What no longer reaches a state when a gate is held at a value: the old state, new content, or both."""
        return shut_out(self.graph, self._defaults(), gate, held)

    @cached_property
    def is_antisymmetric(self) -> bool:
        """Whether a map of states is some U minus its transpose, whose eigenvalues are imaginary."""
        return any(node.matrix is not None and is_antisymmetric(node.matrix) for node in self.graph.nodes())

    def opening(self, gate: str) -> float:
        """How much the sum inside a gate's sigmoid grows with its bias `b.<gate>`."""
        return opening(self.graph, self._defaults(), gate)

    def _defaults(self) -> dict[str, float]:
        return {name: option.value for name, option in self.options.items()}

    @property
    def options(self) -> dict[str, Option]:
        return self.signature.options

    @property
    def summary(self) -> str:
        """The first line of the docstring."""
        return self.doc.partition("\n")[0]

    @property
    def convention(self) -> str:
        """What the docstring says after `Convention:`."""
        return self._paragraph("Convention:")

    @property
    def reference(self) -> str:
        """What the docstring says after `Reference:`."""
        return self._paragraph("Reference:")

    def _paragraph(self, heading: str) -> str:
        text = self.doc.partition(heading)[2].partition("\n\n")[0]
        return " ".join(text.split())

    def text(self) -> str:
        """The equations as plain text, one a line."""
        return printing.text(self.graph)

    def latex(self) -> str:
        """The equations as a LaTeX `aligned` block."""
        return printing.latex(self.graph)

    def typst(self) -> str:
        """The equations as Typst has them between dollar signs."""
        return printing.typst(self.graph)

    def python(self) -> str:
        """The equations as a function under `@cell`, to be read and changed."""
        name, options = re.sub(r"\W+", "_", self.name).strip("_"), []
        for option, of in self.options.items():
            options.append(f"{option}=learned({of.value!r})" if of.learned else f"{option}={of.value!r}")
        parameters = ", ".join([*self.signature.order, *(["*", *options] if options else [])])
        return "\n    ".join([f"@cell\ndef {name}({parameters}):", *printing.python(self.graph)]) + "\n"

    def parameter_count(self, input_size: int, hidden_size: int, **settings: Any) -> int:
        """How many numbers one layer in one direction learns, under the given options."""
        g, D, H = self.graph, input_size, hidden_size
        learned = sum(option.learned for option in self.signature.resolve(self.name, settings).values())
        return len(g.W) * H * D + len(g.U) * H * H + len(g.b) * H + learned

    def step(
        self, x: Any, states: tuple[Any, ...], spaces: Mapping[str, Any], options: Mapping[str, Any]
    ) -> tuple[Tensor, ...]:
        """The new states after one step, by the function itself."""
        return _tuple(self.function(*self.signature.arguments(x, states, spaces), **options))

    def watched_step(
        self, x: Any, states: tuple[Any, ...], spaces: Mapping[str, Any], options: Mapping[str, Any]
    ) -> tuple[tuple[Tensor, ...], dict[str, Tensor]]:
        """The same, and the gates by name."""
        arguments = self.signature.arguments(x, states, spaces)
        returned, named = call_and_watch(self.function, *arguments, **options)
        return _tuple(returned), {name: named[name] for name in self.gates}


def cell(function: Callable[..., Any]) -> Cell:
    """Makes a cell of a function that is its equations. See `gatelab.lang.signature` for what its parameters mean.

    @cell
    def leaky(x, h, W, U, b, *, rate=learned(0.1)):
        n = tanh(W.n(x) + U.n(h) + b.n)
        return h + rate * (n - h)
    """
    return Cell(function)


def _tuple(returned: Any) -> tuple[Any, ...]:
    return returned if isinstance(returned, tuple) else (returned,)
