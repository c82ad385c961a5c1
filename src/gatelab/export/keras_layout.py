"""The parameter layout of Keras: gates stacked side by side, kernels transposed, and a second bias in one GRU only.

Keras' z keeps: h' = z ⊙ h + (1 − z) ⊙ n. That of `gru_cho` writes, so its sign is changed: 1 − σ(a) = σ(−a).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gatelab import cells
from gatelab.export.target import RuntimeMissingError
from gatelab.lang import Cell
from gatelab.lang.document import digest


class KerasCounterpart(NamedTuple):
    """The counterpart of a cell in Keras."""

    layer: str  # the name of the class in keras.layers
    order: tuple[str, ...]  # of the gates in Keras' matrices
    options: Mapping[str, Any] = {}
    inner: tuple[str, ...] = ()  # gates that need both biases
    negated: tuple[str, ...] = ()  # gates of the opposite sign


LAYOUTS: Mapping[Cell, KerasCounterpart] = {
    cells.gru: KerasCounterpart("GRU", ("z", "r", "n"), {"reset_after": True}, inner=("n",)),
    cells.gru_cho: KerasCounterpart("GRU", ("z", "r", "n"), {"reset_after": False}, negated=("z",)),
    cells.lstm: KerasCounterpart("LSTM", ("i", "f", "g", "o")),
    cells.rnn: KerasCounterpart("SimpleRNN", ("h",)),
}


def import_keras() -> Any:
    """The package keras, or an error that says how to get it. The user's environment decides on its backend."""
    try:
        import keras
    except ImportError as error:
        if error.name == "keras":
            raise RuntimeMissingError("Keras is not installed: pip install 'gatelab[keras]'") from None
        raise RuntimeMissingError(
            f"the backend of Keras cannot be imported ({error}): install it, or name another one in the environment "
            "variable KERAS_BACKEND, such as torch"
        ) from None
    return keras


def library_cell(cell: Cell) -> Cell | None:
    """The cell of `LAYOUTS` with the same equations."""
    return next((own for own in LAYOUTS if own is cell or digest(own) == digest(cell)), None)


def pack(cell: Cell, weights: Mapping[str, np.ndarray], vectors: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Keras' kernel (D, gates × H), recurrent kernel (H, gates × H) and bias."""
    layout = LAYOUTS[cell]
    kernel, recurrent, bias = (
        np.concatenate([_signed(layout, gate, own[f"{space}{gate}"]) for gate in layout.order])
        for space, own in (("W.", weights), ("U.", weights), ("", vectors))
    )
    if layout.options.get("reset_after"):
        zeros = np.zeros_like(vectors[layout.order[0]])
        inner = [vectors[f"h{gate}"] if gate in layout.inner else zeros for gate in layout.order]
        bias = np.stack([bias, np.concatenate(inner)])
    return [kernel.T, recurrent.T, bias]


def unpack(cell: Cell, arrays: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    """The named parameters from Keras' weights: two, or three with the bias."""
    layout = LAYOUTS[cell]
    count = len(layout.order)

    def by_gate(stacked: np.ndarray) -> dict[str, np.ndarray]:
        parts = np.split(stacked, count, axis=-1)
        return {gate: _signed(layout, gate, part.T) for gate, part in zip(layout.order, parts, strict=True)}

    named = {f"W.{gate}": part for gate, part in by_gate(arrays[0]).items()}
    named |= {f"U.{gate}": part for gate, part in by_gate(arrays[1]).items()}
    if len(arrays) == 3:
        outer, inner = arrays[2] if arrays[2].ndim == 2 else (arrays[2], np.zeros_like(arrays[2]))
        inner_by_gate = by_gate(inner)
        for gate, part in by_gate(outer).items():
            if gate in layout.inner:
                named |= {f"b.{gate}": part, f"b.h{gate}": inner_by_gate[gate]}
            else:
                named[f"b.{gate}"] = part + inner_by_gate[gate]
    return named


def _signed(layout: KerasCounterpart, gate: str, array: np.ndarray) -> np.ndarray:
    return -array if gate in layout.negated else array
