"""What a gate does to the memory, read off the equations.

Conventions differ: in one GRU z near 1 keeps the old state, in another it overwrites it. The equations decide, so they
are asked: every gate is held at 0 and at 1 while everything else is some number, and one sees whether the old state
and the new content come through.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping
from typing import Literal, cast

import torch
from torch import Tensor

from gatelab.lang.graph import Graph, Node, evaluate

Role = Literal["keep", "write", "add"]
TINY = 1e-9
ALONG = (0.0, 0.2, 0.5, 0.7, 1.0)  # values at which a gate is held; a smooth step has 0, ½ and 1 in common with a line


def roles(graph: Graph, options: Mapping[str, float]) -> dict[str, Role]:
    """For each gate between 0 and 1 that rules a state directly: `keep` (at 1 more of the old state stays than at 0),
    `write` (at 1 less of it does) or `add` (at 1 new content enters, and the old state stays either way).
    """
    found: dict[str, Role] = {}
    for name, gate in graph.gates.items():
        if _inside(gate) is None:
            continue
        states = zip(graph.states, graph.new_states, strict=True)
        seen = {_role(graph, options, state, new, gate) for state, new in states} - {None}
        if len(seen) == 1:  # a gate that keeps one state and overwrites another has no single role
            found[name] = cast("Role", seen.pop())
    return found


def neutral(graph: Graph, options: Mapping[str, float]) -> dict[str, float]:
    """For each gate between 0 and 1 the constant that takes it out of the equations: 1, or where that would shut out
    the old state or the new content, a half of each.
    """
    gates = (name for name, gate in graph.gates.items() if _inside(gate) is not None)
    return {name: 0.5 if shut_out(graph, options, name, 1.0) else 1.0 for name in gates}


def shut_out(graph: Graph, options: Mapping[str, float], gate: str, held: float) -> list[str]:
    """What no longer reaches a state when a gate is held at this value: the old state, new content, or both."""
    found = []
    for state, new in zip(graph.states, graph.new_states, strict=True):
        half, now = (_passes(graph, options, state, new, graph.gates[gate], value) for value in (0.5, held))
        parts = zip(("the old state", "new content"), half, now, strict=True)
        found += [what for what, before, after in parts if before > TINY > after]
    return list(dict.fromkeys(found))


def kept(graph: Graph, options: Mapping[str, float], gate: str) -> tuple[float, float] | None:
    """The share of the old state that stays in a step with the gate at 0 and at 1, in between along a line: (0, 1) for
    z ⊙ h, (1, 1 − ε) for h + ε z ⊙ (n − h). None where other things have a say in it as well.
    """
    answers = set()
    for state, new in zip(graph.states, graph.new_states, strict=True):
        shares = []
        for held in ALONG:
            asked = [
                [_evaluated(graph, options, new, {"state": {state: old}}, graph.gates[gate], held, seed)
                 for old in (0.0, 1.0, 2.0)]
                for seed in (0, 1)
            ]  # fmt: skip
            found = [after - before for values in asked for before, after in itertools.pairwise(values)]
            shares.append((found[0], max(found) - min(found)))
        shut, full = shares[0][0], shares[-1][0]
        if any(abs(share - shut) > TINY for share, _ in shares):  # it rules this state
            off_the_line = (
                abs(share - shut - held * (full - shut)) for held, (share, _) in zip(ALONG, shares, strict=True)
            )
            alone = max(spread for _, spread in shares) < TINY and max(off_the_line) < TINY
            answers.add((shut, full) if alone else None)
    return answers.pop() if len(answers) == 1 else None


def opening(graph: Graph, options: Mapping[str, float], gate: str) -> float:
    """How much the sum inside a gate's sigmoid grows with `b.<gate>`, negative where the gate shuts with it."""
    inside = _inside(graph.gates[gate])
    assert inside is not None
    node, sign = inside
    low, high = (_evaluated(graph, options, node, {"vector": {gate: value}}) for value in (0.0, 1.0))
    return sign * (high - low)


def _inside(gate: Node) -> tuple[Node, int] | None:
    """The sum inside a gate's sigmoid, and −1 if the gate is one minus it; None if it is no such gate."""
    if gate.op == "sigmoid":
        return gate.args[0], 1
    if gate.op == "sub" and gate.args[0].value == 1.0 and gate.args[1].op == "sigmoid":
        return gate.args[1].args[0], -1
    return None


def _role(graph: Graph, options: Mapping[str, float], state: str, new: Node, gate: Node) -> Role | None:
    kept_shut, fresh_shut = _passes(graph, options, state, new, gate, 0.0)
    kept_open, fresh_open = _passes(graph, options, state, new, gate, 1.0)
    if abs(kept_open - kept_shut) > TINY:
        return "keep" if kept_open > kept_shut else "write"
    if kept_open > TINY and fresh_open > TINY > fresh_shut:
        return "add"
    return None


def _passes(
    graph: Graph, options: Mapping[str, float], state: str, new: Node, gate: Node, held: float
) -> tuple[float, float]:
    """How much of the old state, and of anything besides it, reaches the new state when the gate is held."""
    absent, present = (_evaluated(graph, options, new, {"state": {state: old}}, gate, held) for old in (0.0, 1.0))
    return abs(present - absent), abs(absent)


def _evaluated(
    graph: Graph,
    options: Mapping[str, float],
    wanted: Node,
    leaves: dict[str, dict[str, float]],
    gate: Node | None = None,
    held: float = 0.0,
    seed: int = 0,
) -> float:
    """A node's value where some leaves are given, options have their values, and the rest is any numbers, the same for
    a seed. What is computed from the held gate follows it; other sigmoids stand still, even if a state opens them.
    """
    numbers = random.Random(seed)
    given: dict[Node, Tensor] = {}
    follows = {gate}
    for node in graph.nodes():
        if follows & set(node.args):
            follows.add(node)
        if node.op in ("state", "vector", "product") or (node.op == "sigmoid" and node not in follows):
            number = leaves.get(node.op, {}).get(node.name, numbers.uniform(0.2, 0.8))
            given[node] = torch.tensor(number, dtype=torch.float64)
        if node.op == "scalar":
            given[node] = torch.tensor(options[node.name], dtype=torch.float64)
    if gate is not None:
        given[gate] = torch.tensor(held, dtype=torch.float64)
    return evaluate(wanted, given).item()
