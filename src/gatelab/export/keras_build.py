"""A network as a functional model of Keras: its own recurrent layers, and the state as inputs and outputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from gatelab.errors import GatelabError
from gatelab.export.keras_layout import LAYOUTS, import_keras, library_cell, pack
from gatelab.export.keras_pooling import KerasPooling
from gatelab.export.network import POOLED, Layer, Network
from gatelab.tasks.scaling import Scaling


def state_names(network: Network) -> list[str]:
    """The inputs after x: the states of each layer, (B, H) each, then what else is carried."""
    states = network.graph.states
    if network.reads_whole:
        return []
    own = [f"{state}_{number}" for number in range(len(network.layers)) for state in states]
    return own + [name for name in network.carried if name not in states]


def build(network: Network) -> Any:
    """The model: inputs x and the state, outputs the answer and the new state."""
    return _Builder(network).model()


class _Builder:
    def __init__(self, network: Network) -> None:
        cell = library_cell(network.cell)
        if cell is None:
            listed = ", ".join(own.name for own in LAYOUTS)
            raise GatelabError(
                f"Keras has no cell {network.cell.name!r} (it has: {listed}): export it with --to onnx, c, js, torch "
                "or json, which take any cell"
            )
        self.network, self.cell, self.keras = network, cell, import_keras()
        self.layers, self.ops = self.keras.layers, self.keras.ops
        self.weights: list[tuple[Any, list[np.ndarray]]] = []  # set when the model is complete

    def model(self) -> Any:
        network, Input = self.network, self.keras.Input
        x = Input((None,), dtype="int32", name="x") if network.tokens else Input((None, network.input_size), name="x")
        sizes = {name: shape[-1] for name, shape in network.carried.items()}
        old = {
            name: Input((sizes.get(name, network.hidden_size),), name=name, dtype="float32")
            for name in state_names(network)
        }
        values, new = self._stacked(self._shortened(self._encoded(x, old)), old)
        if network.extra("steps") in old:
            one = self.ops.ones_like(values[:, :, :1])  # (B, T, 1), since T is known in a call only
            new[network.extra("steps")] = old[network.extra("steps")] + self.ops.sum(one, axis=1)
        answer = self._answer(self._read(values, old, new), x)
        if network.differenced:
            new[network.extra("before")] = x[:, -1, : network.differenced]
        named = [self._named(answer, "answer"), *(self._named(new[name], f"next_{name}") for name in old)]
        arguments = ([x, *old.values()], named) if old else (x, named[0])  # no list of one: Keras warns of it in calls
        model = self.keras.Model(*arguments, name=network.name)
        for layer, arrays in self.weights:
            layer.set_weights(arrays)
        return model

    def _named(self, value: Any, name: str) -> Any:
        return self.layers.Identity(name=name)(value)

    def _shortened(self, values: Any) -> Any:
        """What the first layer reads, after the convolutions of a stem with their batch normalization."""
        for number, each in enumerate(self.network.stem):
            # Keras' padding "same" begins at another step where the number of steps is even.
            padded = self.layers.ZeroPadding1D(each.padding, name=f"stem_{number}_padding")(values)
            convolution = self.layers.Conv1D(
                each.channels, each.width, each.stride, activation="relu", name=f"stem_{number}"
            )
            self.weights.append((convolution, [each.weight.transpose(2, 1, 0), each.bias]))
            values = convolution(padded)
        return values

    def _encoded(self, x: Any, old: dict[str, Any]) -> Any:
        """The input as numbers, scaled."""
        network, ops = self.network, self.ops
        if network.embedding is not None:
            embedding = self.layers.Embedding(*network.embedding.shape, name="embedding")
            self.weights.append((embedding, [network.embedding]))
            return embedding(x)
        if network.tokens:
            return ops.one_hot(x, network.input_size)
        values = x
        if count := network.differenced:
            now, begun = x[:, :, :count], old[network.extra("steps")] > 0
            first = ops.where(begun, now[:, 0] - old[network.extra("before")], 0.0)
            changes = ops.concatenate([first[:, None], now[:, 1:] - now[:, :-1]], axis=1)
            values = ops.concatenate([changes, x[:, :, count:]], axis=2) if network.input_size > count else changes
        return values if network.input_scale is None else _standardized(values, network.input_scale)

    def _stacked(self, values: Any, old: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        new: dict[str, Any] = {}
        for number, directions in enumerate(self.network.layers):
            name = f"{self.cell.name}_{number}"
            if len(directions) == 2:
                outputs = self._both(directions, name, values)
            elif self.network.reads_whole:
                outputs = self._recurrent(directions[0], name)(values)
            else:
                own = [f"{state}_{number}" for state in self.network.graph.states]
                layer = self._recurrent(directions[0], name, return_state=True)
                outputs, *states = layer(values, initial_state=[old[each] for each in own])
                new |= dict(zip(own, states, strict=True))
            residual = self.network.residual and number > 0
            values = self.layers.Add(name=f"residual_{number}")([outputs, values]) if residual else outputs
        return values, new

    def _recurrent(self, layer: Layer, name: str, **options: Any) -> Any:
        layout = LAYOUTS[self.cell]
        made = getattr(self.layers, layout.layer)(
            self.network.hidden_size, return_sequences=True, name=name, **layout.options, **options
        )
        self.weights.append((made, pack(self.cell, layer.weights, layer.vectors)))
        return made

    def _both(self, directions: tuple[Layer, ...], name: str, values: Any) -> Any:
        forward, backward = directions
        made = self.layers.Bidirectional(
            self._recurrent(forward, f"{name}_fwd"),
            backward_layer=self._recurrent(backward, f"{name}_bwd", go_backwards=True),
            name=name,
        )
        # Keras copies the layer it is given.
        self.weights[-2] = (made.forward_layer, self.weights[-2][1])
        self.weights[-1] = (made.backward_layer, self.weights[-1][1])
        return made(values)

    def _read(self, values: Any, old: dict[str, Any], new: dict[str, Any]) -> Any:
        """What the head reads."""
        network, H = self.network, self.network.hidden_size
        if network.read in POOLED:
            return KerasPooling(self.keras, network, self.weights).read(values, old, new)
        if network.read == "steps":
            return values
        if network.bidirectional:
            return self.layers.Concatenate(name="last")([values[:, -1, :H], values[:, 0, H:]])
        return values[:, -1]

    def _answer(self, read: Any, x: Any) -> Any:
        """Scores, or values in the units of the data."""
        network = self.network
        if network.head is not None:
            head = self.layers.Dense(network.output_size, name="head")
            self.weights.append((head, [network.head.weight.T, network.head.bias]))
            read = head(read)
        if (scale := network.output_scale) is not None:
            read = read * scale.deviation.astype(np.float32) + scale.mean.astype(np.float32)
        return read + x[:, :, : network.differenced] if network.differenced else read


def _standardized(values: Any, scale: Scaling) -> Any:
    """(x − mean) / deviation in single precision, with the mean as a sum of two floats.

    One float would round a large mean by more than a small deviation. (`keras.layers.Normalization` has that error, and
    treats deviations below 1e-7 as 1e-7.)
    """
    mean = scale.mean.astype(np.float32)
    rest = (scale.mean - mean).astype(np.float32)
    return (values - mean - rest) / scale.deviation.astype(np.float32)
