"""Determines the role of each gate from the equations.

Conventions differ: in one GRU z near 1 keeps the old state, in another it overwrites it. So each gate is set to 0 and
to 1, with arbitrary values for everything else, to see whether the old state and the new content reach the new state.
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
ARBITRARY = (
    "state",
    "vector",
    "product",
    "itself",
    "prev",
    "index",
    "random",
    "sum",
    "mean",
)  # values that could be anything
ALONG = (0.0, 0.2, 0.5, 0.7, 1.0)  # values at which a gate is held; a smooth step has 0, ½ and 1 in common with a line


def roles(graph: Graph, options: Mapping[str, float]) -> dict[str, Role]:
    """For each gate between 0 and 1 that controls a state: `keep` (at 1 more of the old state is kept than at 0),
    `write` (at 1 less is kept) or `add` (at 1 new content is added, and the old state is kept either way).
    """
    result: dict[str, Role] = {}
    for name, gate in graph.gates.items():
        if _preactivation(gate) is None:
            continue
        states = zip(graph.states, graph.new_states, strict=True)
        candidates = {_role(graph, options, state, new, gate) for state, new in states} - {None}
        if len(candidates) == 1:  # a gate that keeps one state and overwrites another has no single role
            result[name] = cast("Role", candidates.pop())
    return result


def neutral(graph: Graph, options: Mapping[str, float]) -> dict[str, float]:
    """For each gate between 0 and 1, the constant that replaces it in an ablation: 1, or 0.5 if 1 would block the old
    state or the new content.
    """
    gates = (name for name, gate in graph.gates.items() if _preactivation(gate) is not None)
    return {name: 0.5 if shut_out(graph, options, name, 1.0) else 1.0 for name in gates}


def shut_out(graph: Graph, options: Mapping[str, float], gate: str, held: float) -> list[str]:
    """What no longer reaches a state if a gate is held at this value: the old state, new content, or both."""
    blocked = []
    for state, new in zip(graph.states, graph.new_states, strict=True):
        reference, actual = (
            _contributions(graph, options, state, new, graph.gates[gate], value) for value in (0.5, held)
        )
        contributions = zip(("the old state", "new content"), reference, actual, strict=True)
        blocked += [what for what, before, after in contributions if before > TINY > after]
    return list(dict.fromkeys(blocked))


def kept(graph: Graph, options: Mapping[str, float], gate: str) -> tuple[float, float] | None:
    """The fraction of the old state kept in a step with the gate at 0 and at 1, linear in between: (0, 1) for z ⊙ h,
    (1, 1 − ε) for h + ε z ⊙ (n − h). None if it is not linear, or depends on anything else.
    """
    answers = set()
    for state, new in zip(graph.states, graph.new_states, strict=True):
        shares = []
        for held in ALONG:
            samples = [
                [_evaluate(graph, options, new, {"state": {state: old}}, graph.gates[gate], held, seed)
                 for old in (0.0, 1.0, 2.0)]
                for seed in (0, 1)
            ]  # fmt: skip
            slopes = [after - before for values in samples for before, after in itertools.pairwise(values)]
            shares.append((slopes[0], max(slopes) - min(slopes)))
        shut, full = shares[0][0], shares[-1][0]
        if any(abs(share - shut) > TINY for share, _ in shares):  # it controls this state
            deviations = (
                abs(share - shut - held * (full - shut)) for held, (share, _) in zip(ALONG, shares, strict=True)
            )
            is_linear = max(spread for _, spread in shares) < TINY and max(deviations) < TINY
            answers.add((shut, full) if is_linear else None)
    return answers.pop() if len(answers) == 1 else None


def opening(graph: Graph, options: Mapping[str, float], gate: str) -> float:
    """The derivative of a gate's pre-activation by `b.<gate>`; negative if a larger bias closes the gate."""
    signed = _preactivation(graph.gates[gate])
    assert signed is not None
    node, sign = signed
    low, high = (_evaluate(graph, options, node, {"vector": {gate: value}}) for value in (0.0, 1.0))
    return sign * (high - low)


def _preactivation(gate: Node) -> tuple[Node, int] | None:
    """The argument of a gate's sigmoid, and −1 if the gate is 1 − σ(…); None if it is not a sigmoid."""
    if gate.op == "sigmoid" or (gate.op == "clamp" and [bound.value for bound in gate.args[1:]] == [0.0, 1.0]):
        return gate.args[0], 1
    if gate.op == "sub" and gate.args[0].value == 1.0 and gate.args[1].op == "sigmoid":
        return gate.args[1].args[0], -1
    return None


def _role(graph: Graph, options: Mapping[str, float], state: str, new: Node, gate: Node) -> Role | None:
    kept_shut, fresh_shut = _contributions(graph, options, state, new, gate, 0.0)
    kept_open, fresh_open = _contributions(graph, options, state, new, gate, 1.0)
    if abs(kept_open - kept_shut) > TINY:
        return "keep" if kept_open > kept_shut else "write"
    if kept_open > TINY and fresh_open > TINY > fresh_shut:
        return "add"
    return None


def _contributions(
    graph: Graph, options: Mapping[str, float], state: str, new: Node, gate: Node, held: float
) -> tuple[float, float]:
    """The contributions of the old state, and of everything else, to the new state if the gate is held."""
    absent, present = (_evaluate(graph, options, new, {"state": {state: old}}, gate, held) for old in (0.0, 1.0))
    return abs(present - absent), abs(absent)


def _evaluate(
    graph: Graph,
    options: Mapping[str, float],
    target: Node,
    leaves: dict[str, dict[str, float]],
    gate: Node | None = None,
    held: float = 0.0,
    seed: int = 0,
) -> float:
    """The value of a node for these leaves and options, with random numbers, fixed by the seed, for all other leaves.
    Nodes that depend on the held gate follow it; all other sigmoids are constant, even if they depend on a state.
    """
    numbers = random.Random(seed)
    values: dict[Node, Tensor] = {}
    follows = {gate}
    for node in graph.nodes():
        if follows & set(node.args):
            follows.add(node)
        if node.op in ARBITRARY or (node.op == "sigmoid" and node not in follows):
            number = leaves.get(node.op, {}).get(node.name, numbers.uniform(0.2, 0.8))
            values[node] = torch.tensor(number, dtype=torch.float64)
        if node.op == "scalar":
            values[node] = torch.tensor(options[node.name], dtype=torch.float64)
    if gate is not None:
        values[gate] = torch.tensor(held, dtype=torch.float64)
    return evaluate(target, values).item()
