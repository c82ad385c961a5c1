"""What a gate does to the memory, read off the equations.

Conventions differ: in one GRU z near 1 keeps the old state, in another it overwrites it. The equations decide, so they
are asked: every gate is held at 0 and at 1 while everything else is some number, and one sees whether the old state
and the new content come through.
"""

from __future__ import annotations

import random
from typing import Literal

import torch
from torch import Tensor

from gatelab.lang.graph import Graph, Node, evaluate

Role = Literal["keep", "write", "add"]
TINY = 1e-9


def roles(graph: Graph) -> dict[str, Role]:
    """For each gate between 0 and 1 that rules a state directly: `keep` (at 1 more of the old state stays than at 0),
    `write` (at 1 less of it does) or `add` (at 1 new content enters, and the old state stays either way).
    """
    found: dict[str, Role] = {}
    for state, new in zip(graph.states, graph.new_states, strict=True):
        for name, gate in graph.gates.items():
            if _between_zero_and_one(gate) and (role := _role(graph, state, new, gate)):
                found[name] = role
    return found


def _between_zero_and_one(node: Node) -> bool:
    return node.op == "sigmoid" or is_complement(node)


def is_complement(node: Node) -> bool:
    """Whether a gate is one minus a sigmoid, so that it shuts where its bias grows."""
    return node.op == "sub" and node.args[0].value == 1.0 and node.args[1].op == "sigmoid"


def _role(graph: Graph, state: str, new: Node, gate: Node) -> Role | None:
    kept_shut, fresh_shut = _passes(graph, state, new, gate, 0.0)
    kept_open, fresh_open = _passes(graph, state, new, gate, 1.0)
    if abs(kept_open - kept_shut) > TINY:
        return "keep" if kept_open > kept_shut else "write"
    if kept_open > TINY and fresh_open > TINY > fresh_shut:
        return "add"
    return None


def _passes(graph: Graph, state: str, new: Node, gate: Node, held: float) -> tuple[float, float]:
    """How much of the old state, and of anything besides it, reaches the new state when the gate is held."""
    absent = _new_value(graph, state, 0.0, new, gate, held)
    present = _new_value(graph, state, 1.0, new, gate, held)
    return abs(present - absent), abs(absent)


def _new_value(graph: Graph, state: str, old: float, new: Node, gate: Node, held: float) -> float:
    numbers = random.Random(0)  # any numbers will do, but the same ones each time
    given: dict[Node, Tensor] = {}
    follows = {gate}  # what is computed from the gate has to follow it, whether it has a name or not
    for node in graph.nodes():
        if follows & set(node.args):
            follows.add(node)
        if node.op in ("state", "vector", "scalar", "product") or (node.op == "sigmoid" and node not in follows):
            given[node] = torch.tensor(numbers.uniform(0.2, 0.8), dtype=torch.float64)
        if node.op == "state" and node.name == state:
            given[node] = torch.tensor(old, dtype=torch.float64)
    given[gate] = torch.tensor(held, dtype=torch.float64)
    return evaluate(new, given).item()
