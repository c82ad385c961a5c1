"""The layers that are operators of ONNX: RNN, GRU and LSTM, for the cells whose equations are exactly theirs."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from gatelab import cells
from gatelab.export.network import Layer, Network
from gatelab.export.onnx_nodes import Nodes
from gatelab.lang import Cell
from gatelab.lang.document import digest


class Native(NamedTuple):
    """How a cell's parameters become those of an operator."""

    op: str
    order: tuple[str, ...]  # of the gates in the operator's matrices
    negated: str = ""  # the gate whose weights change their sign
    attributes: tuple[tuple[str, Any], ...] = ()


# ONNX's z keeps, (1 − z) ⊙ n + z ⊙ h. That of gru_cho writes, and 1 − σ(a) = σ(−a).
_NATIVE = (
    (cells.rnn, Native("RNN", ("h",), attributes=(("activations", ["Tanh"]),))),
    (cells.gru, Native("GRU", ("z", "r", "n"), attributes=(("linear_before_reset", 1),))),
    (cells.gru_cho, Native("GRU", ("z", "r", "n"), "z", (("linear_before_reset", 0),))),
    (cells.lstm, Native("LSTM", ("i", "o", "f", "g"))),
)


@functools.cache
def native(cell: Cell) -> Native | None:
    """The operator that is exactly this cell. Equations are compared: a cell read from a file is another object."""
    return next((operator for known, operator in _NATIVE if digest(known) == digest(cell)), None)


def native_layer(
    nodes: Nodes, network: Network, layer: Layer, prefix: str, x: str, states: list[str] | None
) -> tuple[str, list[str]]:
    """The outputs (B, T, H) of one layer and direction, and its new states (1, B, H); x is (B, T, D)."""
    operator = native(network.cell)
    assert operator is not None
    W, R, B = _packed(nodes, layer, operator, prefix)
    by_time = nodes.add("Transpose", x, name=f"{prefix}.by_time", perm=[1, 0, 2])
    names = [nodes.unique(f"{prefix}.{name}") for name in ("outputs", *(f"{s}_next" for s in network.graph.states))]
    outputs, *new = nodes.add_several(
        operator.op,
        *(by_time, W, R, B),
        *(() if states is None else ("", *states)),  # "": the lengths, which are those of x
        names=names,
        doc=network.cell.text(),
        hidden_size=network.hidden_size,
        direction="forward" if layer.direction == "fwd" else "reverse",
        **dict(operator.attributes),
    )
    flat = nodes.add("Squeeze", outputs, nodes.integers(1), name=f"{prefix}.output_by_time")  # (T, 1, B, H)
    return nodes.add("Transpose", flat, name=f"{prefix}.output", perm=[1, 0, 2]), new


def _packed(nodes: Nodes, layer: Layer, operator: Native, prefix: str) -> tuple[str, str, str]:
    """The operator's W (1, kH, D), R (1, kH, H) and B (1, 2kH)."""
    signs = [-1.0 if gate == operator.negated else 1.0 for gate in operator.order]
    zeros = np.zeros_like(next(iter(layer.vectors.values())))

    def stacked(parts: list[np.ndarray]) -> np.ndarray:
        return np.concatenate([sign * part for sign, part in zip(signs, parts, strict=True)])[None].astype(np.float32)

    def names(letter: str, inner: str = "") -> str:
        known = [
            f"{letter}.{inner}{gate}" if f"{inner}{gate}" in _names(layer, letter) else "0" for gate in operator.order
        ]
        return ", ".join(("-" if s < 0 and n != "0" else "") + n for s, n in zip(signs, known, strict=True))

    W = stacked([layer.weights[f"W.{gate}"] for gate in operator.order])
    R = stacked([layer.weights[f"U.{gate}"] for gate in operator.order])
    outer = stacked([layer.vectors[gate] for gate in operator.order])
    inner = stacked([layer.vectors.get(f"h{gate}", zeros) for gate in operator.order])
    return (
        nodes.constant(f"{prefix}.W", W, doc=f"stacked: {names('W')}"),
        nodes.constant(f"{prefix}.U", R, doc=f"stacked: {names('U')}"),
        nodes.constant(
            f"{prefix}.b", np.concatenate([outer, inner], 1), doc=f"stacked: {names('b')}, {names('b', 'h')}"
        ),
    )


def _names(layer: Layer, letter: str) -> set[str]:
    return set(layer.vectors) if letter == "b" else {n[2:] for n in layer.weights if n.startswith(f"{letter}.")}
