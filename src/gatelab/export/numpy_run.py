"""A network run by NumPy, from its equations and weights alone: what an exported network means, in the fewest lines."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit

from gatelab.export.check import Carried
from gatelab.export.convolutions import Convolution
from gatelab.export.network import POOLED, Layer, Network
from gatelab.lang.graph import Node

Values = dict[Node, Any]

OPERATIONS: dict[str, Any] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "neg": np.negative,
    "sigmoid": expit,
    "tanh": np.tanh,
    "relu": lambda a: np.maximum(a, 0.0),
    "softplus": lambda a: np.logaddexp(a, 0.0),
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "sin": np.sin,
    "cos": np.cos,
    "abs": np.abs,
    "floor": np.floor,
    "step": lambda a: np.where(a > 0, 1.0, 0.0),
    "maximum": np.maximum,
    "minimum": np.minimum,
    "clamp": np.clip,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "where": np.where,
    "surrogate": lambda a, smooth: a,  # these two differ from their argument in the gradient only
    "stop_gradient": lambda a: a,
    "sum": lambda a: np.sum(a, -1, keepdims=True),
    "mean": lambda a: np.mean(a, -1, keepdims=True),
}


class NumpyRunner:
    """Runs a network in float64."""

    def __init__(self, network: Network) -> None:
        self.network = network

    def __call__(self, x: np.ndarray, carried: Carried) -> tuple[np.ndarray, Carried]:
        """The answers, and what is carried on."""
        network = self.network
        named = {name: network.extra(name) for name in network.extras}
        extra = {name: carried[own] for name, own in named.items()}
        values = self._encoded(x, extra)
        for convolution in network.stem:
            values = convolved(convolution, values)
        final: dict[str, list[np.ndarray]] = {state: [] for state in network.graph.states}
        for number, directions in enumerate(network.layers):
            outputs, ends = [], []
            for layer in directions:
                old = [carried[s][number] if carried else self._zeros(len(x)) for s in network.graph.states]
                output, new = self._scan(layer, values[:, :: 1 if layer.direction == "fwd" else -1], old)
                for state, array in zip(network.graph.states, new, strict=True):
                    final[state].append(array)
                ends.append(output[:, -1])
                outputs.append(output if layer.direction == "fwd" else output[:, ::-1])
            before, values = values, np.concatenate(outputs, -1)
            if network.residual and number > 0:
                values = values + before
                ends = [e + b for e, b in zip(ends, self._halves(before), strict=True)]
        new_carried = {state: np.stack(arrays) for state, arrays in final.items()} if carried else {}
        read = values if network.read == "steps" else np.concatenate(ends, -1)
        if network.read in POOLED:
            read = self._pooled(values, extra)
        if "steps" in extra:
            extra["steps"] = extra["steps"] + x.shape[1]
        if network.differenced:
            extra["before"] = x[:, -1, : network.differenced]
        return self._answer(read, x), new_carried | {named[name]: value for name, value in extra.items()}

    def _zeros(self, batch: int) -> np.ndarray:
        return np.zeros((batch, self.network.hidden_size))

    def _halves(self, values: np.ndarray) -> list[np.ndarray]:
        """What the residual connection adds to the last output of each direction."""
        H = self.network.hidden_size
        return [values[:, -1, :H], *([values[:, 0, H:]] if self.network.bidirectional else [])]

    def _encoded(self, x: np.ndarray, extra: dict[str, np.ndarray]) -> np.ndarray:
        """The input as numbers, scaled."""
        network = self.network
        if network.tokens:
            table = np.eye(network.input_size) if network.embedding is None else network.embedding
            return np.asarray(table[x], np.float64)
        values = x.astype(np.float64)
        if count := network.differenced:
            first = np.where(extra["steps"] > 0, x[:, 0, :count] - extra["before"], 0.0)
            changes = np.diff(values[..., :count], axis=1)
            values[..., :count] = np.concatenate([first[:, None], changes], 1)
        if network.input_scale is not None:
            values = (values - network.input_scale.mean) / network.input_scale.deviation
        return values

    def _pooled(self, values: np.ndarray, extra: dict[str, np.ndarray]) -> np.ndarray:
        """One vector per sequence; what is carried of earlier steps is continued. Values are (B, T, F)."""
        network = self.network
        if network.query is not None:
            return self._attended(values @ network.query.astype(np.float64), values, extra)
        pooled, before = [], extra.get("steps", np.zeros((len(values), 1)))
        if "mean" in network.read:
            total = values.sum(1) + extra.get("total", 0.0)
            pooled.append(total / (before + values.shape[1]))
            extra |= {"total": total} if extra else {}
        if "max" in network.read:
            largest = values.max(1)
            if extra:
                largest = np.where(before > 0, np.maximum(largest, extra["largest"]), largest)
                extra["largest"] = largest
            pooled.append(largest)
        return np.concatenate(pooled, -1)

    def _attended(self, scores: np.ndarray, values: np.ndarray, extra: dict[str, np.ndarray]) -> np.ndarray:
        """The mean of the values, weighted by the softmax of scores (B, T): weights are relative to the largest one."""
        score, total, weight = scores.max(1, keepdims=True), 0.0, 0.0
        if extra:
            score = np.where(extra["weight"] > 0, np.maximum(score, extra["score"]), score)
            earlier = np.exp(np.minimum(extra["score"] - score, 0.0))
            total, weight = extra["total"] * earlier, extra["weight"] * earlier
        weights = np.exp(scores - score)
        total, weight = total + np.einsum("bt,btf->bf", weights, values), weight + weights.sum(1, keepdims=True)
        if extra:
            extra |= {"total": total, "weight": weight, "score": score}
        pooled: np.ndarray = total / weight
        return pooled

    def _answer(self, read: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Scores, or values in the units of the data."""
        network, values = self.network, read
        if network.head is not None:
            values = values @ network.head.weight.T.astype(np.float64) + network.head.bias
        if network.output_scale is not None:
            values = values * network.output_scale.deviation + network.output_scale.mean
        return values + x[..., : network.differenced] if network.differenced else values

    def _scan(self, layer: Layer, x: np.ndarray, states: list[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
        outputs = []
        for t in range(x.shape[1]):
            states = step(self.network, layer, x[:, t], states)
            outputs.append(states[0])
        return np.stack(outputs, 1), states


def convolved(convolution: Convolution, values: np.ndarray) -> np.ndarray:
    """(B, T, inputs) → (B, ⌈T / stride⌉, channels)."""
    padded = np.pad(values, [(0, 0), (convolution.padding, convolution.padding), (0, 0)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, convolution.width, axis=1)[:, :: convolution.stride]
    sums = np.einsum("btiw,ciw->btc", windows, convolution.weight.astype(np.float64)) + convolution.bias
    output: np.ndarray = np.maximum(sums, 0.0)
    return output


def step(network: Network, layer: Layer, x: np.ndarray, states: list[np.ndarray]) -> list[np.ndarray]:
    """The new states of a layer after one step, (B, H) each."""
    graph, values = network.graph, Values()
    old = dict(zip(graph.states, states, strict=True))
    for node in graph.nodes(*graph.new_states):
        values[node] = value(node, values, layer, x, old)
    return [np.broadcast_to(values[node], states[0].shape) for node in graph.new_states]


def value(node: Node, values: Values, layer: Layer, x: np.ndarray, old: dict[str, np.ndarray]) -> Any:
    """The value of a node, from those of its arguments."""
    args = [values[arg] for arg in node.args]
    if node.op == "input":
        return x
    if node.op == "itself":
        return args[0]
    if node.op == "state":
        return old[node.name]
    if node.op == "vector":
        return layer.vectors[node.name].astype(np.float64)
    if node.op == "scalar":
        return layer.scalars[node.name]
    if node.op == "constant":
        return node.value
    if node.op == "full":
        return np.full(next(iter(old.values())).shape, node.value)
    if node.op == "power":
        return args[0] ** int(node.value)
    if node.op == "product":
        assert node.matrix is not None
        return args[0] @ layer.matrices[node.matrix].T.astype(np.float64)
    if node.shape == "vector" and all(arg.shape == "scalar" for arg in node.args):
        args = [np.full(next(iter(old.values())).shape, arg) for arg in args]
    return OPERATIONS[node.op](*args)
