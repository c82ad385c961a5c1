"""Serialization of cells: lossless, and strict about what it reads."""

from __future__ import annotations

import copy
import json
import pickle

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gatelab import I, Recurrent, cell, cells, exp, hold, learned, relu, sigmoid, softplus, tanh
from gatelab.errors import DataError
from gatelab.lang.document import digest, from_document, to_document


@cell
def odd(x, h, c, W, U, b, *, rate=learned(0.1234567), gamma=1e-300):
    """Uses every feature of the language.

    Reference: nobody 1900
    """
    k = 2 * gamma + rate
    A = U.a - 0.1 * U.a.T - k * I
    _hidden = W.n(x) + A(h * c) + b.n
    z = sigmoid(_hidden / 3.0000000000000004 - b.z)
    n = relu(_hidden) ** 2 + softplus(-c) * exp(-(h**2))
    return z * h + (1 - z) * tanh(n), c + rate * n


@cell
def moved(x, h, c, W, U, b):
    n = tanh(W.n(x) + U.n(h) + b.n)
    return n, h


CELLS = [*(cells.get(name) for name in cells.names()), odd, moved, hold(cells.gru, {"z": 0.1}), hold(odd, {"z": 0.5})]


def reread(original):
    return from_document(json.loads(json.dumps(to_document(original))))


@pytest.mark.parametrize("original", CELLS, ids=lambda original: original.name)
def test_round_trip_gives_the_same_cell(original):
    again = reread(original)
    assert to_document(again) == to_document(original)
    assert digest(again) == digest(original)
    for name in ("text", "latex", "typst", "python"):
        assert getattr(again, name)() == getattr(original, name)()
    for name in (
        "name",
        "doc",
        "summary",
        "reference",
        "states",
        "gates",
        "roles",
        "neutral",
        "options",
        "given",
        "start",
    ):
        assert getattr(again, name) == getattr(original, name)
    assert reread(original) is again  # the same kernel serves both
    assert pickle.loads(pickle.dumps(again)) is again
    assert copy.deepcopy(Recurrent(again, 3, 3)).cell is again


@pytest.mark.parametrize("original", CELLS, ids=lambda original: original.name)
def test_results_are_bit_identical(original):
    """Outputs, states, gates and gradients of the function and of the reread cell."""
    results, values = [], []
    for each in (original, reread(original)):
        torch.manual_seed(3)
        sizes = (5, 5, 1) if each.graph.uses_input_itself else (3, 5, 2)
        layer = Recurrent(each, *sizes, engine="eager", bidirectional=sizes[2] == 2)
        x = torch.randn(4, 6, sizes[0], requires_grad=True)
        output, state, gates = layer(x, lengths=[6, 1, 4, 5], gates=True)
        (output.sin().sum() + sum(gate.sum() for gate in gates.values())).backward()
        states = state if isinstance(state, tuple) else (state,)
        gradients = [parameter.grad for parameter in layer.parameters() if parameter.grad is not None]
        results.append([x.grad, *gradients])
        values.append([output, *states, *gates.values()])
    assert all(map(torch.equal, *values))
    for ours, theirs in zip(*results, strict=True):  # they may be summed in a different order
        assert torch.allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_the_compiled_kernel_is_the_same_file():
    from gatelab.engine.fused.kernel_source import KernelSource

    for original in (cells.agru, odd):
        assert KernelSource(reread(original)).text == KernelSource(original).text


def test_the_digest_depends_on_every_digit_but_not_on_the_docstring():
    def leaky(value, doc):
        def leaky(x, h, W, U, b):
            return h + value * tanh(W.n(x) + U.n(h) + b.n)

        leaky.__doc__ = doc
        return cell(leaky)

    assert digest(leaky(0.1234567, "one")) != digest(leaky(0.1234568, "one"))
    assert digest(leaky(0.1, "one")) != digest(leaky(0.1 + 2**-56, "one"))
    assert digest(leaky(0.1, "one")) == digest(leaky(0.1, "other"))
    assert digest(from_document({**to_document(cells.gru), "name": "another"})) == digest(cells.gru)


def test_a_document_of_a_library_cell_is_the_library_cell():
    for name in cells.names():
        assert cells.choose(json.loads(json.dumps(cells.choose(name).document()))).cell is cells.get(name)
    assert cells.choose(odd).document()["name"] == "odd"


def test_the_function_can_still_be_called():
    x, h = torch.randn(2, 3), torch.randn(2, 4)
    layer = Recurrent(cells.gru, 3, 4)
    spaces = next(layer.cell_parameters()).spaces()
    again = from_document({**to_document(cells.gru), "name": "copy"})
    assert torch.equal(
        again(x, h, spaces["W"], spaces["U"], spaces["b"]), cells.gru(x, h, spaces["W"], spaces["U"], spaces["b"])
    )


def broken(**changes):
    document = copy.deepcopy(to_document(cells.agru))
    for key, value in changes.items():
        where, last = document, key.split("__")
        for step in last[:-1]:
            where = where[int(step)] if isinstance(where, list) else where[step]
        where[int(last[-1]) if isinstance(where, list) else last[-1]] = value
    return document


DEEP = [["input", "x"], ["product", ["W", "z"], 0], *(["neg", 1 + i] for i in range(2000))]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (None, "expected an object with the keys"),
        ([], "expected an object with the keys"),
        ({"name": "gru"}, "expected an object with the keys"),
        (broken(more=1), "expected an object with the keys"),
        (broken(name="../../x"), "the name of a cell is '../../x'"),
        (broken(name="a\nb"), "the name of a cell is"),
        (broken(doc=3), "doc: expected a string"),
        (broken(parameters=["x"]), "expected the input, at least one state"),
        (broken(parameters=["x", "h", "h"]), "expected a list of distinct names"),
        (broken(parameters=["x", "__import__('os')", "W", "U", "b"]), "expected a Python identifier"),
        (broken(W=["z", "r", "n", "class"]), "expected a Python identifier"),
        (broken(options={"gamma": 1.0}), "expected value and learned"),
        (broken(options={"W": {"value": 1.0, "learned": False}}), "has the name of another parameter"),
        (broken(options__gamma__value="1"), "expected a finite one"),
        (broken(options__gamma__value=True), "expected a finite one"),
        (broken(options__gamma__learned=1), "expected true or false"),
        (broken(nodes="x"), "expected a list"),
        (broken(nodes=DEEP), "nested more than"),
        (broken(nodes__0=["eval", "print(1)"]), "is not an operation of the language"),
        (broken(nodes__0=["state", "x"]), "refers to an unknown state of this cell"),
        (broken(nodes__1=["product", ["W", "q"], 0]), "is unknown"),
        (broken(nodes__1=["product", ["U", "z"], 0]), "is applied to the wrong argument"),
        (broken(nodes__1=["product", ["T", ["W", "z"]], 0]), "a W inside a matrix expression"),
        (broken(nodes__4=["add", 1, 4]), "expected the index of an earlier one"),
        (broken(nodes__4=["add", 1, -1]), "expected the index of an earlier one"),
        (broken(nodes__4=["add", 1]), "is not an operation of the language"),
        (broken(nodes__4=["prev", 1, 0]), "is not an operation of the language"),
        (broken(nodes__4=["prev", 1, 101]), "is not an operation of the language"),
        (broken(nodes__4=["add", 0, 1]), "is applied to the input"),
        (broken(nodes__4=["power", 1, 0.5]), "is not an operation of the language"),
        (broken(nodes__4=["constant", 1e999]), "cannot be read"),
        (broken(gates={"z": 16}), "expected vector nodes only"),
        (broken(gates={"z": True}), "expected the index of an earlier one"),
        (broken(gates={"a b": 7}), "expected a Python identifier"),
        (broken(returns=[]), "expected one node for each of the states"),
        (broken(returns=[16]), "a new state is not a vector"),
        (broken(maps={"A": ["*", {"node": 7}, ["I"]]}), "expected a number, or the index of a scalar node"),
        (broken(maps={"A": ["+", ["I"]]}), "is not a matrix expression of the language"),
    ],
)
def test_invalid_documents_are_refused(document, message):
    with pytest.raises(DataError, match="the equations cannot be read") as refused:
        from_document(document)
    assert message in str(refused.value)


values = (
    st.none() | st.booleans() | st.integers(-3, 40) | st.floats(allow_nan=True) | st.sampled_from(["x", "n", "U", "I"])
)


@given(st.data())
def test_a_mutated_document_is_a_cell_or_a_data_error(data):
    document = copy.deepcopy(to_document(odd))
    for _ in range(data.draw(st.integers(1, 3))):
        where = document
        while True:
            keys = list(where) if isinstance(where, dict) else list(range(len(where)))
            key = data.draw(st.sampled_from(keys)) if keys else None
            if key is None or not isinstance(where[key], (dict, list)) or data.draw(st.booleans()):
                break
            where = where[key]
        if key is not None:
            where[key] = data.draw(values)
    try:
        mutated = from_document(document)
    except DataError:
        return
    mutated.text()
    mutated.latex()
