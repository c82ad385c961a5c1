"""Tracing: the graph computes what the function computes; anything outside the language is refused."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from random_cells import Language, made, source

from gatelab import CellError, I, Recurrent, cell, cos, exp, lang, learned, relu, sigmoid, sin, softplus, tanh
from gatelab.lang.graph import evaluate, walk
from gatelab.lang.tensors import TensorMaps, TensorVectors, value


def test_the_graph_names_everything():
    @cell
    def mine(x, h, c, W, U, b, *, rate=learned(0.1), gain=2.0):
        A = U.a - U.a.T - rate * I
        f = sigmoid(W.f(x) + A(h) + b.f)
        c = f * c + (1 - f) * W.c(x)
        again = f  # noqa: F841
        return gain * tanh(c), c

    graph = mine.graph
    assert graph.states == ("h", "c")
    assert (graph.W, graph.U, graph.b) == (("f", "c"), ("a",), ("f",))
    assert graph.scalars == ("rate", "gain")
    assert list(graph.gates) == ["f"]  # `again` is the same value, `c` a state, A a map
    assert list(graph.maps) == ["A"]
    assert mine.options["rate"].learned
    assert not mine.options["gain"].learned


def test_equal_expressions_are_one_node():
    @cell
    def mine(x, h, W, U, b):
        return tanh(W.n(x) + U.n(h)) * sigmoid(W.n(x) + U.n(h))

    assert sum(node.op == "product" for node in mine.graph.nodes()) == 2
    assert sum(node.op == "add" for node in mine.graph.nodes()) == 1


def test_torch_functions_are_equivalent():
    @cell
    def with_torch(x, h, W, U, b):
        return torch.sigmoid(W.n(x)) * torch.tanh(h) + h.relu() + torch.nn.functional.softplus(b.n) + torch.exp(-h)

    @cell
    def with_gatelab(x, h, W, U, b):
        return sigmoid(W.n(x)) * tanh(h) + relu(h) + softplus(b.n) + exp(-h)

    assert with_torch.text() == with_gatelab.text()


def test_functions_work_on_plain_numbers():
    for function, same in (
        (sigmoid, lambda v: 1 / (1 + math.exp(-v))),
        (tanh, math.tanh),
        (sin, math.sin),
        (cos, math.cos),
    ):
        assert function(0.3) == pytest.approx(same(0.3))
    assert (relu(-1.0), exp(0.0), softplus(0.0)) == (0.0, 1.0, pytest.approx(math.log(2)))


def test_numpy_scalars_and_integral_float_exponents():
    @cell
    def mine(x, h, W):
        return np.sqrt(4.0) * h + h * np.float32(0.5) + W.n(x) ** 2.0

    assert mine.text() == "h' = 2 · h + h · 0.5 + (W_n x)^2"


def test_helpers_and_options_may_be_used_inside():
    def gate(W, U, b, name, x, h):
        return sigmoid(getattr(W, name)(x) + getattr(U, name)(h) + getattr(b, name))

    @cell
    def mine(x, h, W, U, b):
        z = gate(W, U, b, "z", x, h)
        return z * h

    assert mine.text() == "z = σ(W_z x + U_z h + b_z)\nh' = z ⊙ h"


def test_a_cell_needs_no_source_code():
    space = {"cell": cell, "tanh": tanh}
    exec("@cell\ndef traced(x, h, W, U):\n    n = tanh(W.n(x) + U.n(h))\n    return h + n", space)
    assert space["traced"].gates == ("n",)


def test_an_existing_trace_function_is_restored():
    def tracer(frame, event, arg):
        return None

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        cell(lambda_cell)
        assert sys.gettrace() is tracer
    finally:
        sys.settrace(before)


def test_gates_are_watched_without_a_trace_function():
    """Which debuggers and coverage have."""
    layer, calls = Recurrent(cell(lambda_cell), 3, 4, engine="eager"), []

    def tracer(frame, event, arg):
        calls.append(frame.f_code.co_name)

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        layer(torch.randn(2, 5, 3), gates=True)
        assert sys.gettrace() is tracer
    finally:
        sys.settrace(before)
    assert "_values" in calls  # it saw every call on the way


def lambda_cell(x, h, W, U, b):
    return tanh(W.n(x) + U.n(h) + b.n)


# -- refusals: body of the cell, and what the error must contain -----------------------------------------------------

REFUSED = {
    "if h > 0:\n        return h\n    return -h": ["`if`", "where(h > 0, a, b)"],
    "return max(h, 0)": ["`max`", "maximum(a, b)"],
    "return h * (h > 0)": ["only the condition of where"],
    "return where(h, h, 0)": ["needs a comparison"],
    "return h + where(h > 0, 1, 0)": ["two numbers", "step(v)"],
    "return h % 2": ["%", "floor(a / b)"],
    "return h // 2": ["//", "floor(a / b)"],
    "return round(h)": ["floor(v + 0.5)"],
    "return h.sum() * h": [".sum()", "sum(v)"],
    "return mean(0.5) * h": ["over the units of a vector"],
    "return mean(mean(h)) * h": ["over the units of a vector"],
    "return mean(h)": ["one number per sequence"],
    "return prev(x)": ["prev(W.name(x))"],
    "return prev(h, 0)": ["integer from 1"],
    "return prev(h, 1.5)": ["integer from 1"],
    "return prev(mean(h)) * h": ["applies to vectors"],
    "return clamp(h, 0, h)": ["numbers as bounds"],
    "return bernoulli(h) * h": ["as its probability"],
    "return expm(h)": ["matrix exponential of a map", "exp(v)"],
    "return h.T": ["Matrix-valued"],
    "return h if h else -h": ["`if`", "gate"],
    "return h == 1": ["equality", "tolerance"],
    "return torch.softmax(h, 0)": ["torch's softmax", "sigmoid, tanh"],
    "return softmax(h)": ["NameError", "softmax", "sigmoid, tanh"],
    "return np.tanh(h)": ["ufunc", "sigmoid, tanh"],
    "return math.exp(h) * h": ["into a number"],
    "return h ** 0.5": ["expected an integer"],
    "return h ** h": ["expected an integer"],
    "return h @ h": ["@", "U.name(h)", "Matrix-valued"],
    "return h[0] * h": ["indexing", "b.name"],
    "return h.mean() * h": [".mean()", "whole batch", "mean(v)"],
    "return h + U.n": ["applied", "U.name(h)"],
    "return h + U(h)": ["namespace of maps"],
    "return W.n(h)": ["W applies to the input only", "U.name"],
    "return U.n(x)": ["U applies to states", "W.name(x)"],
    "return U.n(2.0)": ["U applies to states"],
    "return (W.n + W.n.T)(h)": ["H × D", "U.n"],
    "return (U.n + h)(h)": ["map can be added only to a map"],
    "return (h * U.n)(h)": ["one number", "v * U.n(h)"],
    "return (2 * I)(h)": ["gamma * h"],
    "return h + torch.ones(3)": ["a Tensor", "plain numbers"],
    "return torch.ones(3) + h": ["a tensor from outside", "learned(0.5)"],
    "return h + 'a'": ["str"],
    "h += b.n; return h": ["in-place", "h = h + n"],
    "return h * float('nan')": ["finite"],
    "return torch.nn.functional.softplus(h, 2.0)": ["softplus with these arguments"],
    "return h + b": ["namespaces", "b.n"],
    "return W.n @ x": ["@", "W.n(x)"],
    "return h.i * h": ["'h' is a state", "only W, U and b are namespaces", "b.i * c"],
    "return x": ["the input", "H units"],
    "return 1.0": ["float"],
    "return U.n": ["not applied"],
    "return h, h": ["1 state(s) (h)", "returns 2", "return h"],
}


@pytest.mark.parametrize("body", REFUSED)
def test_unsupported_operations_are_refused(body, tmp_path):
    path = tmp_path / "my_cells.py"
    path.write_text(f"@cell\ndef odd(x, h, W, U, b):\n    {body}\n")
    language = {name: getattr(lang, name) for name in lang.__all__ if name != "sum"}
    space = {"torch": torch, "np": np, "math": math, **language}
    with pytest.raises(CellError) as caught:
        exec(compile(path.read_text(), str(path), "exec"), space)
    message = str(caught.value)
    assert "cell 'odd'" in message
    for fragment in REFUSED[body]:
        assert fragment in message
    assert f"line 3 of {path}" in message or f"line {2 + len(body.splitlines())} of {path}" in message
    assert body.splitlines()[0] in message


@pytest.mark.parametrize(
    ("signature", "message"),
    [
        ("x, W, U, b", "at least one state"),
        ("W, U, b", "expected the input"),
        ("x, h, W, U, b, gamma=1.0", "after a star"),
        ("x, h, W, U, b, *, gamma", "no default"),
        ("x, h, W, U, b, *, gamma='a'", "finite number"),
        ("x, h, W, U, b, *, gamma=float('nan')", "finite number"),
        ("x, h, *, W=1.0", "rename it"),
        ("x, *h", "name each state"),
        ("x, h, W, U, b, **more", "name each state"),
    ],
)
def test_invalid_signatures(signature, message):
    with pytest.raises(ValueError, match=message):
        exec(f"@cell\ndef odd({signature}):\n    return h", {"cell": cell})


def test_unused_parameters_warn():
    with pytest.warns(UserWarning, match=r"in cell 'forgot' no new state depends on W.r, U.r, b.r"):

        @cell
        def forgot(x, h, W, U, b):
            r = sigmoid(W.r(x) + U.r(h) + b.r)  # noqa: F841
            return tanh(W.n(x) + U.n(h))


def test_learned_requires_a_finite_number():
    with pytest.raises(ValueError, match="learned is nan: expected a finite number"):
        learned(math.nan)


def test_only_functions_are_cells():
    with pytest.raises(CellError, match="plain function"):
        cell(3)


# -- random cells ----------------------------------------------------------------------------------------------------


@given(st.randoms(use_true_random=False))
def test_the_graph_computes_what_the_function_computes(chance):
    random = made(source(chance, Language(sequence=False)))
    generator = torch.Generator().manual_seed(0)

    def numbers(*shape):
        return torch.randn(shape, dtype=torch.float64, generator=generator)

    graph, sizes = random.graph, {"W": (3, 3), "U": (3, 3), "b": (3,)}
    weights = {space: {name: numbers(*size) for name in getattr(graph, space)} for space, size in sizes.items()}
    x, states = numbers(4, 3), [numbers(4, 3) for _ in graph.states]
    spaces = {"W": TensorMaps("W", weights["W"]), "U": TensorMaps("U", weights["U"]), "b": TensorVectors(weights["b"])}
    options = {name: torch.tensor(option.value, dtype=torch.float64) for name, option in random.options.items()}
    expected = random(*random.signature.arguments(x, tuple(states), spaces), **options)

    values: dict = {}
    leaves = {("state", name): state for name, state in zip(graph.states, states, strict=True)}
    leaves |= {("vector", name): vector for name, vector in weights["b"].items()}
    leaves |= {("scalar", name): option for name, option in options.items()} | {("input", "x"): x}
    for node in graph.nodes():
        if node.op == "product":
            own = weights[getattr(node.matrix, "space", "U")]
            matrix = value(node.matrix, own, lambda factor: evaluate(factor, values | scalars(factor, options)))
            argument = node.args[0]
            values[node] = evaluate(argument, values) @ matrix.T
        elif node.op == "itself":
            values[node] = x
        elif (node.op, node.name) in leaves:
            values[node] = leaves[node.op, node.name]
    expected = expected if isinstance(expected, tuple) else (expected,)
    for node, computed in zip(graph.new_states, expected, strict=True):
        torch.testing.assert_close(evaluate(node, values).expand(4, 3), computed.expand(4, 3), rtol=1e-12, atol=1e-12)


def scalars(factor, options):
    """The values of the options that the factor of a matrix is computed from."""
    return {node: options[node.name] for node in walk([factor]) if node.op == "scalar"}
