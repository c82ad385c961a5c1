"""The decorator `@cell`, which turns a function of equations into a `Cell`."""

from __future__ import annotations

import functools
import inspect
import re
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cached_property
from typing import Any, overload

from torch import Tensor

from gatelab.errors import CellError, GatelabError
from gatelab.lang import printing
from gatelab.lang.graph import Graph, is_antisymmetric
from gatelab.lang.interpret import Interpreter
from gatelab.lang.lowering import lowered
from gatelab.lang.mathml import mathml
from gatelab.lang.recurrence import Recurrence, recurrence
from gatelab.lang.roles import Role, kept, neutral, opening, roles, shut_out
from gatelab.lang.signature import Option, read
from gatelab.lang.trace import trace
from gatelab.lang.values import checked


class Cell:
    """A recurrent cell: its equations as a function, and everything derived from them.

    It can still be called as that function (`gru(x, h, W, U, b)`). The function is traced on construction, so
    a `Cell` that exists is valid.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        given: Mapping[str, Any] | None = None,
        start: Mapping[str, Any] | None = None,
    ) -> None:
        if not inspect.isfunction(function):
            raise CellError(f"@cell was given {function!r}: expected a plain function; decorate a `def`")
        self.function = function
        self.name = function.__name__
        self.doc = inspect.getdoc(function) or ""
        self.signature = read(function)
        self.graph = trace(function, self.signature)
        functools.update_wrapper(self, function)
        self._complete(given, start)

    def _complete(self, given: Mapping[str, Any] | None, start: Mapping[str, Any] | None) -> None:
        """Set what needs the graph. `given`: parameters that are fixed numbers; `start`: initial values of others."""
        try:
            self.given = checked("given", given, self.graph.parameters)
            if both := [name for name in start or {} if name in self.given]:
                raise GatelabError(f"{both[0]} is given, and has an initial value too: leave it out of given or start")
            self.start = checked("start", start, self.graph.parameters)
        except GatelabError as error:
            raise CellError(f"cell {self.name!r}: {error}") from None
        with suppress(RecursionError):  # nested too deeply to be printed, and still a cell
            self.__doc__ = "\n\n".join(filter(None, [self.summary, self.text(), self.doc.partition("\n\n")[2]]))
        self._warn_of_unused_parameters()

    def _warn_of_unused_parameters(self) -> None:
        if unused := self.graph.unused():
            message = (
                f"in cell {self.name!r} no new state depends on {', '.join(unused)}: these parameters are not trained"
            )
            warnings.warn(message, stacklevel=4)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself, on tensors."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<cell {self.name}>"

    def __reduce__(self) -> str:
        return self.function.__qualname__  # pickled by name, as a function is

    @property
    def states(self) -> tuple[str, ...]:
        """The names of the states; the first is the output. Those of earlier values and of the step index come last."""
        return self.lowered.states

    @cached_property
    def lowered(self) -> Graph:
        """The graph that engines run: earlier values and the step index are states."""
        return lowered(self.graph)

    @cached_property
    def recurrence(self) -> Recurrence:
        """How new states depend on old ones: "linear elementwise", "elementwise", "linear" or "dense"."""
        return recurrence(self.lowered)

    @property
    def gates(self) -> tuple[str, ...]:
        """The names of all vectors that the equations define, such as r, z and n of a GRU."""
        return tuple(self.graph.gates)

    @cached_property
    def roles(self) -> dict[str, Role]:
        """The role of each gate between 0 and 1 that controls a state: "keep", "write" or "add"."""
        return roles(self.graph, self._defaults())

    @cached_property
    def neutral(self) -> dict[str, float]:
        """For each gate between 0 and 1, the constant that replaces it in an ablation: 1 or 0.5."""
        return neutral(self.graph, self._defaults())

    def kept(self, gate: str, hyperparameters: Mapping[str, float] | None = None) -> tuple[float, float] | None:
        """The fraction of the state kept in a step with the gate at 0 and at 1; None if it depends on anything else."""
        return kept(self.graph, {**self._defaults(), **(hyperparameters or {})}, gate)

    def shut_out(self, gate: str, held: float) -> list[str]:
        """What no longer reaches a state if a gate is fixed at a value: the old state, new content, or both."""
        return shut_out(self.graph, self._defaults(), gate, held)

    @cached_property
    def is_antisymmetric(self) -> bool:
        """Whether a recurrent matrix contains U − Uᵀ, whose eigenvalues are imaginary."""
        return any(node.matrix is not None and is_antisymmetric(node.matrix) for node in self.graph.nodes())

    def opening(self, gate: str) -> float:
        """The derivative of a gate's pre-activation with respect to its bias `b.<gate>`."""
        return opening(self.graph, self._defaults(), gate)

    @cached_property
    def interpreter(self) -> Interpreter:
        """Runs the lowered graph."""
        return Interpreter(self.lowered)

    def _leaves(self, x: Any, states: tuple[Any, ...], options: Mapping[str, Any]) -> dict[str, Any]:
        return {**dict(zip(self.states, states, strict=True)), **options, self.signature.input: x}

    def _defaults(self) -> dict[str, float]:
        return {name: option.value for name, option in self.options.items()}

    @property
    def options(self) -> dict[str, Option]:
        """The cell's hyperparameters by name, fixed or learned."""
        return self.signature.options

    @property
    def summary(self) -> str:
        """The first line of the docstring."""
        return self.doc.partition("\n")[0]

    @property
    def convention(self) -> str:
        """The docstring's paragraph after `Convention:`."""
        return self._paragraph("Convention:")

    @property
    def reference(self) -> str:
        """The docstring's paragraph after `Reference:`."""
        return self._paragraph("Reference:")

    @property
    def deviation(self) -> str:
        """The docstring's paragraph after `Deviation:`: where a well-known implementation differs from the paper."""
        return self._paragraph("Deviation:")

    def _paragraph(self, heading: str) -> str:
        text = self.doc.partition(heading)[2].partition("\n\n")[0]
        return " ".join(text.split())

    def text(self) -> str:
        """The equations as plain text, one per line."""
        return printing.text(self.graph)

    def latex(self) -> str:
        """The equations as a LaTeX `aligned` block."""
        return printing.latex(self.graph)

    def typst(self) -> str:
        """The equations in Typst's math syntax, without the dollar signs."""
        return printing.typst(self.graph)

    def mathml(self) -> str:
        """The equations as MathML for web pages; gates, states and parameters carry their names as attributes."""
        return mathml(self.graph)

    def python(self) -> str:
        """The equations as the source of a function decorated with `@cell`."""
        name, options = re.sub(r"\W+", "_", self.name).strip("_"), []
        for key, option in self.options.items():
            options.append(f"{key}=learned({option.value!r})" if option.learned else f"{key}={option.value!r}")
        parameters = ", ".join([*self.signature.order, *(["*", *options] if options else [])])
        beside = [
            f"{what}={{{', '.join(f'{key!r}: values.{value}' for key, value in values.items())}}}"
            for what, values in (("given", self.given), ("start", self.start))
            if values
        ]
        decorator = f"@cell({', '.join(beside)})" if beside else "@cell"
        return "\n    ".join([f"{decorator}\ndef {name}({parameters}):", *printing.python(self.graph)]) + "\n"

    def parameter_count(self, input_size: int, hidden_size: int, **settings: Any) -> int:
        """The number of parameters of one layer in one direction, for these options."""
        D, H = input_size, hidden_size
        learned = sum(option.learned for option in self.signature.resolve(self.name, settings).values())
        sizes = {"W": H * D, "U": H * H, "b": H}
        return learned + sum(sizes[name[0]] for name in self.graph.parameters if name not in self.given)

    def step(
        self, x: Any, states: tuple[Any, ...], spaces: Mapping[str, Any], leaves: Mapping[str, Any]
    ) -> tuple[Tensor, ...]:
        """The new states after one step, computed by the function, or by its graph if it needs the sequence. `leaves`:
        the hyperparameters, and the masks drawn for this step.
        """
        if self.graph.needs_sequence:
            return self.interpreter.step(self._leaves(x, states, leaves), spaces)
        return _tuple(self.function(*self.signature.arguments(x, states, spaces), **leaves))

    def watched_step(
        self, x: Any, states: tuple[Any, ...], spaces: Mapping[str, Any], leaves: Mapping[str, Any]
    ) -> tuple[tuple[Tensor, ...], dict[str, Tensor]]:
        """The new states after one step, and the gates by name, computed from the graph, which has their names."""
        return self.interpreter.watched_step(self._leaves(x, states, leaves), spaces)


@overload
def cell(function: Callable[..., Any], /) -> Cell: ...
@overload
def cell(
    *, given: Mapping[str, Any] | None = None, start: Mapping[str, Any] | None = None
) -> Callable[[Callable[..., Any]], Cell]: ...
def cell(
    function: Callable[..., Any] | None = None,
    /,
    *,
    given: Mapping[str, Any] | None = None,
    start: Mapping[str, Any] | None = None,
) -> Any:
    """Turn a function of equations into a `Cell`. `gatelab.lang.signature` describes its parameters.

    @cell
    def leaky(x, h, W, U, b, *, rate=learned(0.1)):
        n = tanh(W.n(x) + U.n(h) + b.n)
        return h + rate * (n - h)

    `@cell(given={"U.sum": lower_triangular()}, start={"b.f": constant(1)})`: parameters that are fixed numbers, and
    initial values of others; `gatelab.lang.values` has the choices.
    """
    if function is None:
        return lambda function: Cell(function, given, start)
    return Cell(function, given, start)


def _tuple(returned: Any) -> tuple[Any, ...]:
    return returned if isinstance(returned, tuple) else (returned,)
