"""Pooling in an ONNX graph: from the outputs at every step to what the head reads, continued from piece to piece."""

from __future__ import annotations

import numpy as np

from gatelab.export.network import Network
from gatelab.export.onnx_nodes import Nodes


class OnnxPooling:
    """Reads (B, T, F). `following` has the names of the outputs that are carried on; its `steps` is there already."""

    def __init__(self, nodes: Nodes, network: Network, following: dict[str, str]) -> None:
        self.nodes, self.network, self.is_carried = nodes, network, bool(network.carried)
        self.old = {name: network.extra(name) for name in network.extras}
        self.new = {name: following[own] for name, own in self.old.items()}

    def read(self, values: str) -> str:
        """The features that the head reads, (B, F), or (B, 2F) for the mean and the largest values."""
        if self.network.query is not None:
            return self._attended(values, self.network.query)
        kinds = {"mean": self._mean, "max": self._largest}
        pooled = [kinds[kind](values) for kind in self.network.read.split("+")]
        return pooled[0] if len(pooled) == 1 else self.nodes.add("Concat", *pooled, name="read", axis=-1)

    def _mean(self, values: str) -> str:
        nodes = self.nodes
        if not self.is_carried:
            return nodes.add("ReduceMean", values, name="mean", axes=[1], keepdims=0)
        total = nodes.add("ReduceSum", values, nodes.integers(1), name="sum", keepdims=0)
        nodes.add_several("Add", self.old["total"], total, names=[self.new["total"]])
        return nodes.add("Div", self.new["total"], self.new["steps"], name="mean")

    def _largest(self, values: str) -> str:
        largest = self.nodes.add("ReduceMax", values, name="max", axes=[1], keepdims=0)
        return self._continued("largest", largest, begun="steps") if self.is_carried else largest

    def _continued(self, name: str, largest: str, begun: str) -> str:
        """The larger of a carried value and one of this piece; the latter at the beginning, where zeros are carried."""
        nodes = self.nodes
        both = nodes.add("Max", self.old[name], largest, name=f"{name}.both")
        is_continued = nodes.add("Greater", self.old[begun], nodes.constant("0.0", 0.0), name=f"{name}.is_continued")
        return nodes.add_several("Where", is_continued, both, largest, names=[self.new[name]])[0]

    def _attended(self, values: str, query: np.ndarray) -> str:
        """The mean with the softmax of scores as weights, each relative to that of the largest score."""
        nodes, add = self.nodes, self.nodes.add
        weight_of_outputs = nodes.constant("attention.query", query[:, None])
        scores = add("MatMul", values, weight_of_outputs, name="attention.scores")  # (B, T, 1)
        if not self.is_carried:
            weights = add("Softmax", scores, name="attention.weights", axis=1)
            weighted = add("Mul", weights, values, name="attention.weighted")
            return add("ReduceSum", weighted, nodes.integers(1), name="read", keepdims=0)
        top = add("ReduceMax", scores, name="attention.largest", axes=[1], keepdims=0)  # (B, 1)
        score = self._continued("score", top, begun="weight")
        top_by_step = add("Unsqueeze", score, nodes.integers(1), name="attention.score_3d")
        weights = add("Exp", add("Sub", scores, top_by_step, name="attention.relative"), name="attention.weights")
        # At the beginning this may be positive and large, and is multiplied by zero: it must not become infinite.
        change = add("Sub", self.old["score"], score, name="attention.change")
        earlier = add(
            "Exp", add("Min", change, nodes.constant("0.0", 0.0), name="attention.rise"), name="attention.earlier"
        )
        weighted = add("Mul", weights, values, name="attention.weighted")
        for name, summed in (("weight", weights), ("total", weighted)):
            here = add("ReduceSum", summed, nodes.integers(1), name=f"attention.{name}_here", keepdims=0)
            before = add("Mul", self.old[name], earlier, name=f"attention.{name}_before")
            nodes.add_several("Add", before, here, names=[self.new[name]])
        return add("Div", self.new["total"], self.new["weight"], name="read")
