"""Tracing: runs a cell's function on symbols to obtain its graph."""

from __future__ import annotations

import inspect
import linecache
from collections.abc import Callable
from types import TracebackType
from typing import Any

from gatelab.errors import CellError
from gatelab.lang.graph import NEEDS_SEQUENCE, Graph, IdentityMatrix, Matrix, Node
from gatelab.lang.maps import Map
from gatelab.lang.signature import INDEX, Signature
from gatelab.lang.symbols import OPERATIONS, Maps, Symbol, Tracer, Vectors, active
from gatelab.lang.watch import call_and_watch

Step = Callable[[Any, tuple[Any, ...], Any, dict[str, Any], dict[str, Any]], tuple[Any, dict[str, Any]]]


NOT_COMPUTED = ("state", "vector", "full", "prev", "index", "itself")  # vectors that no equation of this step defines


def trace(function: Callable[..., Any], signature: Signature) -> Graph:
    """The graph of one step; raises `CellError` with cell, line and remedy for anything outside the language."""
    name = function.__name__

    def step(x: Any, states: tuple[Any, ...], t: Any, spaces: dict[str, Any], options: dict[str, Any]) -> Any:
        try:
            return call_and_watch(function, *signature.arguments(x, states, spaces, t), **options)
        except Exception as error:
            cause = None if isinstance(error, CellError) else error
            raise CellError(
                f"cell {name!r}, {_where(function, error.__traceback__)}: {_described_error(error)}"
            ) from cause

    return trace_step(step, signature, f"{name!r}, {_where(function, None)},")


def trace_step(step: Step, signature: Signature, description: str) -> Graph:
    """The graph of any function that maps the input, the states, the index of the step, W, U and b and the
    hyperparameters to the new states and all named values. `description` names it in errors.
    """
    tracer = Tracer(signature.input)
    x = tracer.leaf("input", "input", signature.input)
    states = tuple(tracer.leaf("state", "vector", name) for name in signature.states)
    spaces = {"W": Maps(tracer, "W"), "U": Maps(tracer, "U"), "b": Vectors(tracer)}
    options = {name: tracer.leaf("scalar", "scalar", name) for name in signature.options}
    t = tracer.leaf("index", "vector", INDEX) if signature.has_index else None
    token = active.set(tracer)
    try:
        returned, named = step(x, states, t, spaces, options)
    finally:
        active.reset(token)
    new_states = _new_states(description, signature, returned)
    named = dict(
        sorted(named.items(), key=lambda item: tracer.age(item[1].node) if isinstance(item[1], Symbol) else -1)
    )
    return Graph(
        states=signature.states,
        new_states=new_states,
        gates=_gates(named, new_states, signature),
        numbers=_named_numbers(named),
        maps=_named_maps(named),
        W=tuple(tracer.names["W"]),
        U=tuple(tracer.names["U"]),
        b=tuple(tracer.names["b"]),
        scalars=tuple(options),
        needs_sequence=tracer.has(*NEEDS_SEQUENCE),
    )


def _new_states(name: str, signature: Signature, returned: Any) -> tuple[Node, ...]:
    values = returned if isinstance(returned, tuple) else (returned,)
    states = ", ".join(signature.states)
    if len(values) != len(signature.states):
        raise CellError(
            f"cell {name} has {len(signature.states)} state(s) ({states}) and returns {len(values)}: "
            f"write `return {states}`, the new values in this order"
        )
    for state, value in zip(signature.states, values, strict=True):
        if not isinstance(value, Symbol) or value.node.shape != "vector":
            raise CellError(
                f"cell {name} returns {_described(value)} for state {state!r}: expected a vector of H units, "
                "computed from states, maps and vectors"
            )
    return tuple(value.node for value in values)


def _gates(named: dict[str, Any], new_states: tuple[Node, ...], signature: Signature) -> dict[str, Node]:
    """All named vectors except arguments and new states."""
    known = set(new_states)
    gates = {}
    for name, value in named.items():
        node = value.node if isinstance(value, Symbol) else None
        if name in signature.order or node is None or node.op in NOT_COMPUTED or node in known:
            continue
        if name.startswith("_"):  # private by Python's convention
            continue
        if node.shape == "vector":
            gates[name] = node
            known.add(node)  # a second name for the same value is not a second gate
    return gates


def _named_numbers(named: dict[str, Any]) -> dict[str, Node]:
    nodes = {name: value.node for name, value in named.items() if isinstance(value, Symbol)}
    rows = {name: node for name, node in nodes.items() if node.shape == "row" and not name.startswith("_")}
    return rows | {name: node for name, node in nodes.items() if node.shape == "scalar" and node.args}


def _named_maps(named: dict[str, Any]) -> dict[str, Matrix]:
    maps = {name: value.matrix for name, value in named.items() if isinstance(value, Map)}
    return {name: matrix for name, matrix in maps.items() if not isinstance(matrix, IdentityMatrix)}


def _where(function: Callable[..., Any], traceback: TracebackType | None) -> str:
    """The line of the cell's source that raised an error; the last one if there is no traceback."""
    code = inspect.unwrap(function).__code__
    line = max(number for _, _, number in code.co_lines() if number)
    while traceback is not None:
        if traceback.tb_frame.f_code is code:
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    text = linecache.getline(code.co_filename, line).strip()
    return f"line {line} of {code.co_filename}" + (f", `{text}`" if text else "")


def _described_error(error: Exception) -> str:
    if isinstance(error, CellError):
        return str(error)
    return f"{type(error).__name__}: {error}. A cell may use: {OPERATIONS}"


def _described(value: Any) -> str:
    if not isinstance(value, Symbol):
        return "a map that is not applied" if isinstance(value, Map) else f"a {type(value).__name__}"
    return {"input": "the input", "row": "one number per sequence"}.get(value.node.shape, "a scalar")
