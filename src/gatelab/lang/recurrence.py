"""How new states depend on old ones, from the equations: what a parallel scan could do, and what takes steps in turn.

- "linear elementwise": a unit's states are linear in its own old states, with coefficients from the input (minGRU, LRU)
- "elementwise": no unit's state reaches another unit within the recurrence (IndRNN, SRU with its peepholes)
- "linear": linear in the old states, through products (the memory of an LMU)
- "dense": everything else (GRU, LSTM)

A state that is only read out, such as h' = o ⊙ c', is not part of the recurrence, and one recurrence that drives
another is not part of that. A cell without feedback is of the first class.
"""

from __future__ import annotations

from typing import Literal

from gatelab.lang.graph import Graph, Node, walk
from gatelab.lang.operations import REDUCTIONS

Recurrence = Literal["linear elementwise", "elementwise", "linear", "dense"]
CLASSES: tuple[Recurrence, ...] = ("linear elementwise", "elementwise", "linear", "dense")  # from the simplest on
INDEPENDENT, LINEAR, NONLINEAR = 0, 1, 2


def recurrence(graph: Graph) -> Recurrence:
    """The class of a lowered graph."""
    reached = {state: _reached(graph, state) for state in graph.states}
    fed_back = [state for state in graph.states if state in reached[state] and not _counts(graph, state)]
    # States that influence each other are one recurrence; others only drive it.
    groups = [{other for other in fed_back if other in reached[s] and s in reached[other]} for s in fed_back]
    return max((_of_group(graph, group) for group in groups), key=CLASSES.index, default=CLASSES[0])


def _of_group(graph: Graph, fed_back: set[str]) -> Recurrence:
    roots = [new for state, new in zip(graph.states, graph.new_states, strict=True) if state in fed_back]
    degree: dict[Node, int] = {}
    mixes_units = False
    for node in walk(roots):
        of = [degree[arg] for arg in node.args]
        degree[node] = _degree(node, of, fed_back)
        mixes_units |= (node.op == "product" or node.op in REDUCTIONS) and max(of) > INDEPENDENT
    is_linear = all(degree[root] <= LINEAR for root in roots)
    if mixes_units:
        return "linear" if is_linear else "dense"
    return "linear elementwise" if is_linear else "elementwise"


def _reached(graph: Graph, state: str) -> set[str]:
    """The states whose old values influence a state, in one step or several."""
    reads = {
        name: {node.name for node in walk([new]) if node.op == "state"}
        for name, new in zip(graph.states, graph.new_states, strict=True)
    }
    found, waiting = set[str](), set(reads[state])
    while waiting:
        found |= waiting
        waiting = set().union(*(reads[name] for name in waiting)) - found
    return found


def _counts(graph: Graph, state: str) -> bool:
    """Whether a state is the index of the step, which nothing influences."""
    new = graph.new_states[graph.states.index(state)]
    return new.op == "add" and new.args[0].name == state and new.args[1].op == "constant"


def _degree(node: Node, of: list[int], fed_back: set[str]) -> int:
    """Whether a node is independent of the states that are fed back, linear in them, or neither."""
    if node.op == "state":
        return LINEAR if node.name in fed_back else INDEPENDENT
    if max(of, default=INDEPENDENT) == INDEPENDENT:
        return INDEPENDENT
    if node.op in ("add", "sub", "neg", "product", "stop_gradient", *REDUCTIONS):
        return max(of)
    if node.op == "mul":
        return min(sum(of), NONLINEAR)
    if node.op == "div":
        return NONLINEAR if of[1] else of[0]
    if node.op == "where":
        return NONLINEAR if of[0] else max(of[1:])
    return NONLINEAR
