"""Nodes and initializers of an ONNX graph while it is built, each under a name of its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from gatelab.errors import GatelabError

MAX_INT = 2**31 - 1  # beyond the end of any axis, for Slice


def onnx_package() -> Any:
    """The package onnx, with its helpers; an error that says how to install it."""
    try:
        import onnx
        import onnx.checker
        import onnx.helper
        import onnx.numpy_helper
    except ImportError:
        raise GatelabError("the package onnx is not installed here: pip install 'gatelab[onnx]'") from None
    return onnx


class Nodes:
    """What a graph computes so far. Nodes are named like their first output."""

    def __init__(self, taken: Iterable[str] = (), outer: Nodes | None = None) -> None:
        """`taken`: names of inputs and outputs. `outer`: the graph around this one, whose values it may read."""
        self.onnx: Any = onnx_package()
        self.nodes: list[Any] = []
        self.outer = outer
        # Values of an inner graph must not have the name of an outer one.
        self._taken: set[str] = {*taken} if outer is None else outer._taken
        self._initializers: dict[str, Any] = {} if outer is None else outer._initializers

    @property
    def initializers(self) -> list[Any]:
        """The initializers of the outermost graph, which holds those of all inner ones."""
        return list(self._initializers.values())

    def unique(self, name: str) -> str:
        """A name that no other value has: this one if possible."""
        number, free = 1, name
        while free in self._taken:
            free, number = f"{name}_{number}", number + 1
        self._taken.add(free)
        return free

    def add(self, op: str, *inputs: str, name: str, doc: str = "", **attributes: Any) -> str:
        """Add a node with one output; `name` is the output's, with a number if another value has it."""
        return self.add_several(op, *inputs, names=[self.unique(name)], doc=doc, **attributes)[0]

    def add_several(self, op: str, *inputs: str, names: Sequence[str], doc: str = "", **attributes: Any) -> list[str]:
        """Add a node whose outputs have these names, which are the caller's to choose by `unique`."""
        node = self.onnx.helper.make_node(
            op, inputs, names, name=names[0], doc_string=doc or None, **dict(sorted(attributes.items()))
        )
        self.nodes.append(node)
        return list(names)

    def constant(self, name: str, values: Any, dtype: Any = np.float32, doc: str = "") -> str:
        """Add an initializer. What is added again under its name, with the same values, is there once."""
        array = np.asarray(values, dtype, order="C")
        if name in self._initializers and _same(self.onnx.numpy_helper.to_array(self._initializers[name]), array):
            return name
        name = self.unique(name)
        tensor = self.onnx.numpy_helper.from_array(array, name)
        tensor.doc_string = doc
        self._initializers[name] = tensor
        return name

    def integers(self, *values: int) -> str:
        """An initializer of a shape, of axes or of indices."""
        return self.constant("_".join(["int", *map(str, values)]), values, np.int64)

    def index(self, value: int) -> str:
        """An initializer of one index, without an axis."""
        return self.constant(f"index_{value}", value, np.int64)

    def prune(self, outputs: Iterable[str]) -> None:
        """Remove the nodes, initializers and optional outputs that the graph's outputs do not depend on."""
        used, kept = set(outputs), []
        for node in reversed(self.nodes):
            if used.isdisjoint(node.output):
                continue
            used.update(node.input)
            for attribute in node.attribute:
                used.update(name for inner in attribute.g.node for name in inner.input)
            if node.op_type in ("GRU", "LSTM", "RNN"):
                node.output[:] = [name if name in used else "" for name in node.output]
            kept.append(node)
        self.nodes = kept[::-1]
        self._initializers = {name: tensor for name, tensor in self._initializers.items() if name in used}


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
