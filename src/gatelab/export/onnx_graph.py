"""ONNX: a whole network as one graph. `onnx_native` and `onnx_step` write its layers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from gatelab import __version__
from gatelab.export.check import Carried, Runner
from gatelab.export.network import POOLED, Network
from gatelab.export.onnx_names import answer_name, input_name, metadata, next_names
from gatelab.export.onnx_native import native, native_layer
from gatelab.export.onnx_nodes import Nodes, onnx_package
from gatelab.export.onnx_pooling import OnnxPooling
from gatelab.export.onnx_step import scan_layer
from gatelab.export.target import RuntimeMissingError, Settings, Target
from gatelab.tasks.scaling import Scaling

OPSET, IR = 17, 8  # of 2022: older runtimes read them as well
LARGE = 2  # a mean of so many deviations is subtracted with more digits than a float has


def write(network: Network, path: Path, settings: Settings) -> None:
    """Write the file."""
    onnx = onnx_package()
    model = _Writer(network, settings.chunk).model()
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, str(path))


class _Writer:
    """Builds the graph, from the input to the answer."""

    def __init__(self, network: Network, chunk: int | None) -> None:
        self.network, self.steps = network, chunk or "T"
        self.x, self.answer, self.next = input_name(network), answer_name(network), next_names(network)
        self.outputs = [self.answer, *self.next.values()]
        self.nodes = Nodes([self.x, *network.carried, *self.outputs])
        self.extra = {name: network.extra(name) for name in network.extras}

    def model(self) -> Any:
        """The whole file."""
        onnx, network, nodes = self.nodes.onnx, self.network, self.nodes
        self._answered(self._read(*self._layers(self._shortened(self._encoded()))))
        nodes.prune(self.outputs)
        FLOAT, info = onnx.TensorProto.FLOAT, onnx.helper.make_tensor_value_info
        shapes = {name: ["B" if size == 0 else size for size in shape] for name, shape in network.carried.items()}
        features = [] if network.tokens else [network.input_size]
        answer = ["B", *([self.steps] if network.read == "steps" else []), network.output_size]
        graph = onnx.helper.make_graph(
            nodes.nodes,
            network.name,
            [
                info(self.x, onnx.TensorProto.INT64 if network.tokens else FLOAT, ["B", self.steps, *features]),
                *(info(name, FLOAT, shape) for name, shape in shapes.items()),
            ],
            [info(self.answer, FLOAT, answer), *(info(self.next[name], FLOAT, s) for name, s in shapes.items())],
            initializer=nodes.initializers,
            doc_string=f"{network.cell.name}\n\n{network.cell.text()}",
        )
        model = onnx.helper.make_model(
            graph,
            opset_imports=[onnx.helper.make_opsetid("", OPSET)],
            ir_version=IR,
            producer_name="gatelab",
            producer_version=__version__,
        )
        onnx.helper.set_model_props(model, metadata(network))
        return model

    def _set(self, name: str, value: str) -> None:
        """Give a value the name of an output."""
        self.nodes.add_several("Identity", value, names=[name])

    def _shortened(self, values: str) -> str:
        """What the first layer reads, after the convolutions of a stem."""
        nodes, network = self.nodes, self.network
        if not network.stem:
            return values
        values = nodes.add("Transpose", values, name="stem.input", perm=[0, 2, 1])  # (B, D, T)
        for number, each in enumerate(network.stem):
            name, doc = f"stem{number}", "batch normalization is part of it"
            weight = nodes.constant(f"{name}.weight", each.weight, doc=doc)
            bias = nodes.constant(f"{name}.bias", each.bias)
            sizes: dict[str, Any] = {"kernel_shape": [each.width], "strides": [each.stride], "pads": [each.padding] * 2}
            values = nodes.add("Relu", nodes.add("Conv", values, weight, bias, name=f"{name}.Conv", **sizes), name=name)
        return nodes.add("Transpose", values, name="stem", perm=[0, 2, 1])

    def _encoded(self) -> str:
        """The input as numbers, scaled, (B, T, D)."""
        network, nodes, x = self.network, self.nodes, self.x
        if network.tokens and network.embedding is not None:
            return nodes.add("Gather", nodes.constant("embedding", network.embedding), x, name="embedded", axis=0)
        if network.tokens:
            values = nodes.constant("off_on", [0.0, 1.0])
            return nodes.add("OneHot", x, nodes.integers(network.input_size), values, name="one_hot", axis=-1)
        if network.differenced:
            x = self._changes()
        if network.input_scale is None:
            return x
        return self._scaled(x, network.input_scale)

    def _scaled(self, x: str, scale: Scaling) -> str:
        """(x − mean) / deviation in single precision, and exact even if the mean is far larger than the deviation."""
        nodes, mean = self.nodes, scale.mean.astype(np.float32)
        x = nodes.add("Sub", x, nodes.constant("input.mean", mean), name="x.centered")
        if (np.abs(scale.mean) > LARGE * scale.deviation).any():
            # Without an operator between, OpenVINO would turn this into x · a + b, where large numbers cancel.
            x = nodes.add("LeakyRelu", x, name="x.centered_1", alpha=1.0, doc="the identity; see docs/export/onnx.md")
            rest = nodes.constant("input.mean_rest", scale.mean - mean, doc="the digits that input.mean lacks")
            x = nodes.add("Sub", x, rest, name="x.centered_2")
        return nodes.add("Div", x, nodes.constant("input.deviation", scale.deviation), name="x.scaled")

    def _slice(self, x: str, start: int, end: int, axis: int, name: str) -> str:
        return self.nodes.add("Slice", x, *map(self.nodes.integers, (start, end, axis)), name=name)

    def _changes(self) -> str:
        """x with the first columns as changes from the step before, 0 in the very first step."""
        network, nodes, x = self.network, self.nodes, self.x
        count = network.differenced
        self.levels = self._slice(x, 0, count, -1, "x.levels") if count < network.input_size else x
        first = self._slice(self.levels, 0, 1, 1, "x.first")  # (B, 1, count)
        if network.carried:
            self._set(self.next[self.extra["before"]], self._at(self.levels, -1, "x.last"))
            before = nodes.add("Unsqueeze", self.extra["before"], nodes.integers(1), name="x.carried")
            some = nodes.add("Greater", self.extra["steps"], nodes.constant("0.0", 0.0), name="x.is_continued")
            is_continued = nodes.add("Unsqueeze", some, nodes.integers(1), name="x.is_continued_3d")
            first = nodes.add("Where", is_continued, before, first, name="x.before_first")
        longer = nodes.add("Concat", first, self.levels, name="x.extended", axis=1)
        earlier = self._slice(longer, 0, -1, 1, "x.before")
        changes = nodes.add("Sub", self.levels, earlier, name="x.changes")
        if count == network.input_size:
            return changes
        others = self._slice(x, count, network.input_size, -1, "x.others")
        return nodes.add("Concat", changes, others, name="x.with_changes", axis=-1)

    def _at(self, values: str, step: int, name: str) -> str:
        """One step of (B, T, F): (B, F)."""
        return self.nodes.add("Gather", values, self.nodes.index(step), name=name, axis=1)

    def _layers(self, x: str) -> tuple[str, list[str]]:
        """The output (B, T, H × directions) of the last layer, and the output (B, H) of each direction at its end."""
        network, nodes, values = self.network, self.nodes, x
        new: list[list[str]] = []
        for number in range(len(network.layers)):
            layer = self._native_layer if native(network.cell) is not None else self._scanned_layer
            output, ends, states = layer(number, values)
            new.append(states)
            before, values = values, output
            if network.residual and number > 0:
                values = nodes.add("Add", values, before, name=f"layer{number}.residual")
                ends = self._residual_ends(ends, before, f"layer{number}")
        if network.carried:
            for state, layers in zip(network.graph.states, zip(*new, strict=True), strict=True):
                nodes.add_several("Concat", *layers, names=[self.next[state]], axis=0)
        return values, ends

    def _native_layer(self, number: int, x: str) -> tuple[str, list[str], list[str]]:
        """A layer's outputs (B, T, H × directions), the last output (B, H) of each direction, new states (1, B, H)."""
        network, nodes, prefix = self.network, self.nodes, f"layer{number}"
        directions = network.layers[number]
        first = self._first(number, x, len(directions))
        output, states = native_layer(nodes, network, directions, prefix, x, first)
        ends = [
            nodes.add("Gather", states[0], nodes.index(k), name=f"{prefix}.end_{layer.direction}", axis=0)
            for k, layer in enumerate(directions)
        ]
        return output, ends, states

    def _scanned_layer(self, number: int, x: str) -> tuple[str, list[str], list[str]]:
        """The same for a layer that is no operator of ONNX: one Scan for each direction."""
        network, nodes, outputs, ends = self.network, self.nodes, [], []
        states, start = network.graph.states, self._first(number, x)
        for layer in network.layers[number]:
            prefix = f"layer{number}" + (f".{layer.direction}" if network.bidirectional else "")
            # Not a Squeeze: tract would move it into the Scan, and fail where a state is another one's old value.
            named = zip(states, start, strict=True)
            first = [nodes.add("Gather", v, nodes.index(0), name=f"{prefix}.{s}_first", axis=0) for s, v in named]
            output, last = scan_layer(nodes, network, layer, prefix, x, first)
            outputs.append(output)
            ends.append(last[0])
        named = zip(states, last, strict=True)
        new = [nodes.add("Unsqueeze", v, nodes.integers(0), name=f"layer{number}.{s}_last_3d") for s, v in named]
        if network.bidirectional:
            return nodes.add("Concat", *outputs, name=f"layer{number}.output", axis=-1), ends, new
        return outputs[0], ends, new

    def _first(self, number: int, x: str, directions: int = 1) -> list[str]:
        """The states (directions, B, H) of a layer before the first step."""
        network, nodes, states = self.network, self.nodes, self.network.graph.states
        if network.carried and len(network.layers) == 1:
            return list(states)
        if network.carried:
            return [self._slice(s, number, number + 1, 0, f"layer{number}.{s}_first_3d") for s in states]
        batch = nodes.add("Shape", x, name=f"layer{number}.B", start=0, end=1)
        sizes = nodes.integers(directions), batch, nodes.integers(network.hidden_size)
        shape = nodes.add("Concat", *sizes, name=f"layer{number}.shape", axis=0)
        value = nodes.onnx.numpy_helper.from_array(np.zeros(1, np.float32))  # tract's default is a double
        return [nodes.add("ConstantOfShape", shape, name=f"layer{number}.zeros", value=value)] * len(states)

    def _residual_ends(self, ends: list[str], before: str, prefix: str) -> list[str]:
        """The ends with the layer's input added: forwards at the last step, backwards at the first."""
        H, added = self.network.hidden_size, []
        for number, end in enumerate(ends):
            step = self._at(before, -1 if number == 0 else 0, f"{prefix}.input_at_end")
            if self.network.bidirectional:
                step = self._slice(step, number * H, (number + 1) * H, -1, f"{prefix}.input_half")
            added.append(self.nodes.add("Add", end, step, name=f"{prefix}.residual_end"))
        return added

    def _read(self, values: str, ends: list[str]) -> str:
        """What the head reads."""
        network, nodes = self.network, self.nodes
        if "steps" in self.extra:
            length = nodes.add("Shape", self.x, name="T.integer", start=1, end=2)
            T = nodes.add("Cast", length, name="T", to=nodes.onnx.TensorProto.FLOAT)
            nodes.add_several("Add", self.extra["steps"], T, names=[self.next[self.extra["steps"]]])
        if network.read in POOLED:
            return OnnxPooling(nodes, network, self.next).read(values)
        if network.read == "steps":
            return values
        return nodes.add("Concat", *ends, name="read", axis=-1) if network.bidirectional else ends[0]

    def _answered(self, values: str) -> None:
        """Scores, or values in the units of the data."""
        network, nodes = self.network, self.nodes
        if network.head is not None:
            weight = nodes.constant("head.weight.T", network.head.weight.T)
            values = nodes.add("MatMul", values, weight, name="head.product")
            values = nodes.add("Add", values, nodes.constant("head.bias", network.head.bias), name="head")
        if network.output_scale is not None:
            deviation = nodes.constant("output.deviation", network.output_scale.deviation)
            values = nodes.add("Mul", values, deviation, name="answer.spread")
            values = nodes.add("Add", values, nodes.constant("output.mean", network.output_scale.mean), name="answer")
        if network.differenced:
            values = nodes.add("Add", values, self.levels, name="answer.level")
        self._set(self.answer, values)


def runner(network: Network, path: Path) -> Runner:
    """The file in ONNX Runtime, on one thread."""
    try:
        import onnxruntime
    except ImportError:
        raise RuntimeMissingError("onnxruntime is not installed here: pip install 'gatelab[onnx]'") from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    outputs = [answer_name(network), *next_names(network).values()]

    def run(x: np.ndarray, carried: Carried) -> tuple[np.ndarray, Carried]:
        answer, *following = session.run(outputs, {input_name(network): x, **carried})
        return answer, dict(zip(network.carried, following, strict=True))

    return run


TARGET = Target("onnx", "ONNX", "ONNX Runtime", ".onnx", write, runner, settings=("chunk",))
