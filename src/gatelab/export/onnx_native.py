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


# ONNX's z keeps, (1 − z) ⊙ n + z ⊙ h. That of gru_cho writes, and 1 − σ(a) = σ(−a). ONNX has the peepholes of
# peephole_lstm, and the coupled gates of cifg_lstm, but OpenVINO silently ignores both, and tract the latter.
_NATIVE = (
    (cells.rnn, Native("RNN", ("h",))),
    (cells.gru, Native("GRU", ("z", "r", "n"), attributes=(("linear_before_reset", 1),))),
    (cells.gru_cho, Native("GRU", ("z", "r", "n"), "z", (("linear_before_reset", 0),))),
    (cells.lstm, Native("LSTM", ("i", "o", "f", "g"))),
)


@functools.cache
def native(cell: Cell) -> Native | None:
    """The operator that is exactly this cell. Equations are compared: a cell read from a file is another object."""
    return next((operator for known, operator in _NATIVE if digest(known) == digest(cell)), None)


def native_layer(
    nodes: Nodes, network: Network, directions: tuple[Layer, ...], prefix: str, x: str, states: list[str]
) -> tuple[str, list[str]]:
    """The outputs (B, T, H × directions) of a layer, and its new states; x is (B, T, D), a state (directions, B, H)."""
    operator, H = native(network.cell), network.hidden_size
    assert operator is not None
    # One operator for both directions: tract ignores the direction "reverse".
    direction = "bidirectional" if len(directions) == 2 else "forward"
    by_time = nodes.add("Transpose", x, name=f"{prefix}.input_by_time", perm=[1, 0, 2])
    names = [f"{prefix}.output_by_time", *(f"{prefix}.{state}_last" for state in network.graph.states)]
    outputs, *new = nodes.add_several(
        operator.op,
        *(by_time, *_packed(nodes, directions, operator, prefix), "", *states),  # "": all sequences are as long as x
        names=[nodes.unique(name) for name in names],
        doc=network.cell.text(),
        hidden_size=H,
        direction=direction,
        **dict(operator.attributes),
    )
    if len(directions) == 1:
        flat = nodes.add("Squeeze", outputs, nodes.integers(1), name=f"{prefix}.output_3d")  # (T, B, H)
        return nodes.add("Transpose", flat, name=f"{prefix}.output", perm=[1, 0, 2]), new
    turned = nodes.add("Transpose", outputs, name=f"{prefix}.output_4d", perm=[2, 0, 1, 3])  # (B, T, 2, H)
    return nodes.add("Reshape", turned, nodes.integers(0, 0, 2 * H), name=f"{prefix}.output"), new


def _packed(nodes: Nodes, directions: tuple[Layer, ...], operator: Native, prefix: str) -> list[str]:
    """The operator's W (directions, kH, D), R (directions, kH, H) and B (directions, 2kH); R is our U."""
    signs = {gate: -1.0 if gate == operator.negated else 1.0 for gate in operator.order}
    minus = {gate: "-" if gate == operator.negated else "" for gate in operator.order}

    def stacked(letter: str, families: list[dict[str, np.ndarray]]) -> str:
        values = [np.concatenate([signs[gate] * family[gate] for gate in operator.order]) for family in families]
        names = ", ".join(f"{minus[gate]}{letter}.{gate}" for gate in operator.order)
        return nodes.constant(f"{prefix}.{letter}", np.stack(values), doc=f"stacked: {names}")

    maps = [stacked(letter, [_family(layer.weights, letter) for layer in directions]) for letter in ("W", "U")]
    zeros = np.zeros(directions[0].weights[f"W.{operator.order[0]}"].shape[0])
    outer = [np.concatenate([signs[g] * layer.vectors[g] for g in operator.order]) for layer in directions]
    inner = [np.concatenate([layer.vectors.get(f"h{g}", zeros) for g in operator.order]) for layer in directions]
    names = [f"{minus[g]}b.{g}" for g in operator.order]
    names += [f"b.h{g}" if f"h{g}" in directions[0].vectors else "0" for g in operator.order]
    both = np.concatenate([outer, inner], 1)
    return [*maps, nodes.constant(f"{prefix}.b", both, doc=f"stacked: {', '.join(names)}")]


def _family(weights: dict[str, np.ndarray], letter: str) -> dict[str, np.ndarray]:
    return {name[2:]: values for name, values in weights.items() if name.startswith(f"{letter}.")}
