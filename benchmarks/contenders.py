"""Implementations of GRU and LSTM to compare: a training step and inference of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from gatelab import Recurrent

MODULES = {"gru": (nn.GRU, nn.GRUCell), "lstm": (nn.LSTM, nn.LSTMCell)}


class Contender(NamedTuple):
    train: Callable[[], Any] | None
    infer: Callable[[], Any]


def _torch_contender(module: nn.Module, run: Callable[[], torch.Tensor]) -> Contender:
    """From a function that returns the last state."""

    def train() -> None:
        module.zero_grad()
        run().square().sum().backward()

    def infer() -> None:
        with torch.inference_mode():
            run()

    return Contender(train, infer)


def _last(state: Any) -> torch.Tensor:
    return state[0] if isinstance(state, tuple) else state


def fused(cell: str, B: int, T: int, D: int, H: int) -> Contender:
    x, layer = torch.randn(T, B, D), Recurrent(cell, D, H, batch_first=False, engine="fused")
    return _torch_contender(layer, lambda: _last(layer(x)[1]))


def torch_nn(cell: str, B: int, T: int, D: int, H: int) -> Contender:
    x, module = torch.randn(T, B, D), MODULES[cell][0](D, H)
    return _torch_contender(module, lambda: _last(module(x)[1]))


def python_loop(cell: str, B: int, T: int, D: int, H: int) -> Contender:
    x, module = torch.randn(T, B, D), MODULES[cell][1](D, H)

    def run() -> torch.Tensor:
        state = None
        for step in x:
            state = module(step, state)
        return _last(state)

    return _torch_contender(module, run)


def onnx_runtime(cell: str, B: int, T: int, D: int, H: int) -> Contender | None:
    """Inference only, with the same number of threads."""
    try:
        import onnxruntime
        from onnx import TensorProto, helper, numpy_helper
    except ImportError:
        return None
    gates, settings = {"gru": (3, {"linear_before_reset": 1}), "lstm": (4, {})}[cell]
    rng = np.random.default_rng(0)
    shapes = {"W": (1, gates * H, D), "R": (1, gates * H, H), "B": (1, 2 * gates * H)}
    weights = [numpy_helper.from_array(rng.normal(0, 0.1, s).astype(np.float32), n) for n, s in shapes.items()]
    node = helper.make_node(cell.upper(), ["X", *shapes], ["", "Y_h"], hidden_size=H, **settings)
    x_info = helper.make_tensor_value_info("X", TensorProto.FLOAT, [T, B, D])
    y_info = helper.make_tensor_value_info("Y_h", TensorProto.FLOAT, [1, B, H])
    graph = helper.make_graph([node], cell, [x_info], [y_info], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # it would slow down the others
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    x = rng.normal(size=(T, B, D)).astype(np.float32)
    return Contender(None, lambda: session.run(None, {"X": x}))


def jax_scan(cell: str, B: int, T: int, D: int, H: int) -> Contender | None:
    """A plain `lax.scan` under `jit`."""
    try:
        import jax
        import jax.numpy as jnp
    except ImportError:
        return None
    gates = {"gru": 3, "lstm": 4}[cell]
    rng = np.random.default_rng(0)
    p = {n: jnp.asarray(rng.normal(0, 0.1, s), jnp.float32) for n, s in
         {"W": (D, gates * H), "U": (H, gates * H), "b": (gates * H,), "c": (gates * H,)}.items()}  # fmt: skip
    x = jnp.asarray(rng.normal(size=(T, B, D)), jnp.float32)

    def step(p: Any, state: Any, x_t: Any) -> Any:
        h, c = state
        a, m = x_t @ p["W"] + p["b"], h @ p["U"] + p["c"]
        if cell == "gru":
            r, z = jnp.split(jax.nn.sigmoid(a[:, : 2 * H] + m[:, : 2 * H]), 2, axis=1)
            n = jnp.tanh(a[:, 2 * H :] + r * m[:, 2 * H :])
            return z * h + (1 - z) * n, c
        i, f, g, o = jnp.split(a + m, 4, axis=1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        return jax.nn.sigmoid(o) * jnp.tanh(c), c

    def last(p: Any) -> Any:
        zeros = jnp.zeros((B, H))
        return jax.lax.scan(lambda s, x_t: (step(p, s, x_t), None), (zeros, zeros), x)[0][0]

    infer = jax.jit(last)
    train = jax.jit(jax.grad(lambda p: (last(p) ** 2).sum()))
    return Contender(lambda: jax.block_until_ready(train(p)), lambda: jax.block_until_ready(infer(p)))


OTHERS: dict[str, Callable[..., Contender | None]] = {
    "torch.nn": torch_nn,
    "Python loop": python_loop,
    "ONNX Runtime": onnx_runtime,
    "JAX": jax_scan,
}
