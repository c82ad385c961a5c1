"""Pooling in a Keras model: from the outputs at every step to what the head reads, continued from piece to piece."""

from __future__ import annotations

from typing import Any

import numpy as np

from gatelab.export.network import Network


class KerasPooling:
    """Reads (B, T, F). Layers with weights are added to `weights`, which are set when the model is complete."""

    def __init__(self, keras: Any, network: Network, weights: list[tuple[Any, list[np.ndarray]]]) -> None:
        self.layers, self.ops, self.network, self.weights = keras.layers, keras.ops, network, weights
        self.own = {name: network.extra(name) for name in network.extras}

    def read(self, values: Any, old: dict[str, Any], new: dict[str, Any]) -> Any:
        """The features that the head reads. What is carried on is added to `new`, which has the number of steps."""
        if self.network.query is not None:
            return self._attended(values, old, new)
        kinds = {"mean": self._mean, "max": self._largest}
        pooled = [kinds[kind](values, old, new) for kind in self.network.read.split("+")]
        return pooled[0] if len(pooled) == 1 else self.layers.Concatenate(name="pooled")(pooled)

    def _mean(self, values: Any, old: dict[str, Any], new: dict[str, Any]) -> Any:
        if not self.own:
            return self.layers.GlobalAveragePooling1D(name="mean")(values)
        total = self.own["total"]
        new[total] = old[total] + self.ops.sum(values, axis=1)
        return new[total] / new[self.own["steps"]]

    def _largest(self, values: Any, old: dict[str, Any], new: dict[str, Any]) -> Any:
        largest = self.layers.GlobalMaxPooling1D(name="max")(values)
        return self._continued("largest", largest, old, new, begun="steps") if self.own else largest

    def _continued(self, name: str, largest: Any, old: dict[str, Any], new: dict[str, Any], begun: str) -> Any:
        """The larger of a carried value and one of this piece; the latter at the beginning, where zeros are carried."""
        own, is_continued = self.own[name], old[self.own[begun]] > 0
        new[own] = self.ops.where(is_continued, self.ops.maximum(old[own], largest), largest)
        return new[own]

    def _attended(self, values: Any, old: dict[str, Any], new: dict[str, Any]) -> Any:
        """The mean with the softmax of scores as weights, each relative to that of the largest score."""
        ops, query = self.ops, self.layers.Dense(1, use_bias=False, name="query")
        assert self.network.query is not None
        self.weights.append((query, [self.network.query[:, None]]))
        scores = query(values)  # (B, T, 1)
        score = ops.max(scores, axis=1)
        if self.own:
            score = self._continued("score", score, old, new, begun="weight")
        weights = ops.exp(scores - score[:, None])  # Keras' softmax warns of sequences of one step
        weight, total = ops.sum(weights, axis=1), ops.sum(weights * values, axis=1)
        if self.own:
            # At the beginning this may be positive and large, and is multiplied by zero: it must not become infinite.
            earlier = ops.exp(ops.minimum(old[self.own["score"]] - score, 0.0))
            weight, total = (
                old[self.own[name]] * earlier + here for name, here in (("weight", weight), ("total", total))
            )
            new |= {self.own["weight"]: weight, self.own["total"]: total}
        return total / weight
