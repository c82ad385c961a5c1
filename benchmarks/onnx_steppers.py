"""One streaming step in ONNX Runtime, with as many threads as torch has and all optimizations of the graph.

The graph takes x and the states by their names, h and c, and returns new_h and new_c.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import cycle

import leaky_gru
import numpy as np
import torch
from onnx import GraphProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper
from onnxruntime import GraphOptimizationLevel, InferenceSession, IOBinding, SessionOptions
from torch import Tensor

from gatelab import Recurrent

GATES = {"gru": (1, 0, 2), "lstm": (0, 3, 1, 2)}  # torch's gates in the order of ONNX: z r n, and i o f g
Arrays = dict[str, np.ndarray]
Shape = tuple[int, ...]


def run(layer: Recurrent, xs: Tensor) -> Callable[[], np.ndarray]:
    """Arrays in and out of `run`, which allocates the outputs."""
    session, states = new_session(layer), layer.cell.states
    feed, new = zeros(session), [f"new_{state}" for state in states]
    inputs = [x.reshape(feed["x"].shape) for x in xs.numpy()]

    def stream() -> np.ndarray:
        for x in inputs:
            feed["x"] = x
            feed.update(zip(states, session.run(new, feed), strict=True))
        return feed["h"]

    return stream


def run_bound(layer: Recurrent, xs: Tensor) -> Callable[[], np.ndarray]:
    """Two bindings to the same buffers: each reads the state that the other has written. A step allocates nothing."""
    session = new_session(layer)
    buffers = (zeros(session), zeros(session))
    x = buffers[0]["x"]
    inputs = [value.reshape(x.shape) for value in xs.numpy()]
    bindings = [bind(session, layer.cell.states, x, old, new) for old, new in (buffers, buffers[::-1])]
    assert len(inputs) % 2 == 0, "the next call would start with the wrong binding"

    def stream() -> np.ndarray:
        for value, binding in zip(inputs, cycle(bindings), strict=False):
            np.copyto(x, value)
            session.run_with_iobinding(binding)  # looking into RunOptions would take longer than the step
        return buffers[0]["h"]  # bindings do not keep their buffers alive, this function does

    return stream


def new_session(layer: Recurrent) -> InferenceSession:
    graph = operator(layer) if layer.cell.name in GATES else leaky_gru_graph(layer)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    options = SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = torch.get_num_threads(), 1
    options.graph_optimization_level = GraphOptimizationLevel.ORT_ENABLE_ALL
    return InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def zeros(session: InferenceSession) -> Arrays:
    return {value.name: np.zeros(value.shape, np.float32) for value in session.get_inputs()}


def bind(session: InferenceSession, states: Sequence[str], x: np.ndarray, old: Arrays, new: Arrays) -> IOBinding:
    """To the input, and to the states before and after the step."""
    binding = session.io_binding()
    for name, array in {"x": x, **{state: old[state] for state in states}}.items():
        binding.bind_input(name, "cpu", 0, np.float32, array.shape, array.ctypes.data)
    for state in states:
        binding.bind_output(f"new_{state}", "cpu", 0, np.float32, new[state].shape, new[state].ctypes.data)
    return binding


def operator(layer: Recurrent) -> GraphProto:
    """The operator GRU or LSTM on a sequence of one step."""
    name, D, H, states = layer.cell.name, layer.input_size, layer.hidden_size, layer.cell.states
    by_gate = [weight.detach().chunk(len(GATES[name])) for weight in layer.to_torch().parameters()]
    w_ih, w_hh, b_ih, b_hh = (torch.cat([chunks[gate] for gate in GATES[name]]) for chunks in by_gate)
    weights = {"W": w_ih[None], "R": w_hh[None], "B": torch.cat([b_ih, b_hh])[None]}
    settings = {"linear_before_reset": 1} if name == "gru" else {}
    inputs, outputs = ["x", *weights, "", *states], ["", *(f"new_{state}" for state in states)]
    node = helper.make_node(name.upper(), inputs, outputs, hidden_size=H, **settings)
    return make_graph([node], weights, states, (1, 1, D), (1, 1, H))


def leaky_gru_graph(layer: Recurrent) -> GraphProto:
    """The equations in single operators."""
    D, H = layer.input_size, layer.hidden_size
    weights = dict(zip(("W", "U", "b", "rate"), leaky_gru.weights(layer), strict=True))
    equations = [
        ("Gemm", "x W b", "a"), ("Gemm", "h U a", "m"), ("Split", "m sizes", "p q"), ("Sigmoid", "p", "z"),
        ("Tanh", "q", "n"), ("Sub", "n h", "d"), ("Mul", "rate z", "r"), ("Mul", "r d", "s"), ("Add", "h s", "new_h"),
    ]  # fmt: skip
    nodes = [helper.make_node(name, inputs.split(), outputs.split()) for name, inputs, outputs in equations]
    nodes[2].attribute.append(helper.make_attribute("axis", 1))
    return make_graph(nodes, weights | {"sizes": torch.tensor([H, H])}, ["h"], (1, D), (1, H))


def make_graph(
    nodes: list[NodeProto], weights: dict[str, Tensor], states: Sequence[str], x: Shape, state: Shape
) -> GraphProto:
    """From x and the states to the new states."""

    def values(shapes: dict[str, Shape]) -> list[ValueInfoProto]:
        return [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]

    inputs, outputs = {"x": x, **dict.fromkeys(states, state)}, {f"new_{name}": state for name in states}
    constants = [numpy_helper.from_array(weight.numpy(), name) for name, weight in weights.items()]
    return helper.make_graph(nodes, "step", values(inputs), values(outputs), constants)
