"""A cell as plain data: nothing is lost on the way there and back, and nothing but data is ever read."""

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
    """Uses all there is.

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


def reread(made):
    return from_document(json.loads(json.dumps(to_document(made))))


@pytest.mark.parametrize("made", CELLS, ids=lambda made: made.name)
def test_there_and_back_it_is_the_same_cell(made):
    again = reread(made)
    assert to_document(again) == to_document(made)
    assert digest(again) == digest(made)
    for name in ("text", "latex", "typst", "python"):
        assert getattr(again, name)() == getattr(made, name)()
    for name in ("name", "doc", "summary", "reference", "states", "gates", "roles", "neutral", "options"):
        assert getattr(again, name) == getattr(made, name)
    assert reread(made) is again  # the same kernel serves both
    assert pickle.loads(pickle.dumps(again)) is again
    assert copy.deepcopy(Recurrent(again, 2, 3)).cell is again


@pytest.mark.parametrize("made", CELLS, ids=lambda made: made.name)
def test_it_computes_the_same_to_the_bit(made):
    """As its own Python does, value by value: outputs, states, gates and gradients."""
    found = []
    for each in (made, reread(made)):
        torch.manual_seed(3)
        layer = Recurrent(each, 3, 5, 2, engine="eager", bidirectional=True)
        x = torch.randn(4, 6, 3, requires_grad=True)
        output, state, gates = layer(x, lengths=[6, 1, 4, 5], gates=True)
        (output.sin().sum() + sum(gate.sum() for gate in gates.values())).backward()
        states = state if isinstance(state, tuple) else (state,)
        gradients = [parameter.grad for parameter in layer.parameters() if parameter.grad is not None]
        found.append([output, *states, *gates.values(), x.grad, *gradients])
    ours, theirs = found
    assert len(ours) == len(theirs)
    # Sums of gradients may be made in another order; the values of a step are the same.
    exact = len(ours) - 1 - len(list(Recurrent(made, 3, 5, 2, bidirectional=True).parameters()))
    for place, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        assert torch.equal(a, b) if place < exact else torch.allclose(a, b, rtol=1e-4, atol=1e-6)


def test_the_compiled_kernel_is_the_same_file():
    from gatelab.engine.fused.source import Source

    for made in (cells.agru, odd):
        assert Source(reread(made)).text == Source(made).text


def test_every_digit_counts_and_words_do_not():
    def leaky(value, words):
        def leaky(x, h, W, U, b):
            return h + value * tanh(W.n(x) + U.n(h) + b.n)

        leaky.__doc__ = words
        return cell(leaky)

    assert digest(leaky(0.1234567, "one")) != digest(leaky(0.1234568, "one"))
    assert digest(leaky(0.1, "one")) != digest(leaky(0.1 + 2**-56, "one"))
    assert digest(leaky(0.1, "one")) == digest(leaky(0.1, "other"))


def test_a_document_of_a_library_cell_is_the_library_cell():
    for name in cells.names():
        assert cells.choose(json.loads(json.dumps(cells.choose(name).document()))).cell is cells.get(name)
    assert cells.choose(odd).document()["name"] == "odd"


def test_the_function_can_still_be_called():
    x, h = torch.randn(2, 3), torch.randn(2, 4)
    layer = Recurrent(cells.gru, 3, 4)
    spaces = next(layer.runs()).spaces()
    again = from_document({**to_document(cells.gru), "name": "copy"})
    assert torch.equal(
        again(x, h, spaces["W"], spaces["U"], spaces["b"]), cells.gru(x, h, spaces["W"], spaces["U"], spaces["b"])
    )


def broken(**changes):
    document = copy.deepcopy(to_document(cells.agru))
    for key, value in changes.items():
        where, last = document, key.split("__")
        for part in last[:-1]:
            where = where[int(part)] if isinstance(where, list) else where[part]
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
        (broken(doc=3), "doc is no text"),
        (broken(parameters=["x"]), "expected the input, a state at least"),
        (broken(parameters=["x", "h", "h"]), "expected a list of different names"),
        (broken(parameters=["x", "__import__('os')", "W", "U", "b"]), "expected one that Python would take"),
        (broken(W=["z", "r", "n", "class"]), "expected one that Python would take"),
        (broken(options={"gamma": 1.0}), "expected value and learned"),
        (broken(options={"W": {"value": 1.0, "learned": False}}), "has the name of something else"),
        (broken(options__gamma__value="1"), "expected a finite one"),
        (broken(options__gamma__value=True), "expected a finite one"),
        (broken(options__gamma__learned=1), "expected true or false"),
        (broken(nodes="x"), "expected a list"),
        (broken(nodes=DEEP), "nested more than"),
        (broken(nodes__0=["eval", "print(1)"]), "is no operation of the language"),
        (broken(nodes__0=["state", "x"]), "names no state of this cell"),
        (broken(nodes__1=["product", ["W", "q"], 0]), "is unknown"),
        (broken(nodes__1=["product", ["U", "z"], 0]), "is applied to something else"),
        (broken(nodes__1=["product", ["T", ["W", "z"]], 0]), "a map of the input inside an expression"),
        (broken(nodes__4=["add", 1, 4]), "expected the place of an earlier one"),
        (broken(nodes__4=["add", 1, -1]), "expected the place of an earlier one"),
        (broken(nodes__4=["add", 1]), "is no operation of the language"),
        (broken(nodes__4=["add", 0, 1]), "on the input itself"),
        (broken(nodes__4=["power", 1, 0.5]), "is no operation of the language"),
        (broken(nodes__4=["constant", 1e999]), "cannot be read"),
        (broken(gates={"z": 16}), "expected vectors only"),
        (broken(gates={"z": True}), "expected the place of an earlier one"),
        (broken(gates={"a b": 7}), "expected one that Python would take"),
        (broken(returns=[]), "expected a node for each of the states"),
        (broken(returns=[16]), "a new state has to be a vector"),
        (broken(maps={"A": ["*", {"node": 7}, ["I"]]}), "expected a number, or the place of one"),
        (broken(maps={"A": ["+", ["I"]]}), "is no expression of the language"),
    ],
)
def test_what_is_no_document_is_refused_in_words(document, message):
    with pytest.raises(DataError, match="the equations cannot be read") as refused:
        from_document(document)
    assert message in str(refused.value)


values = (
    st.none() | st.booleans() | st.integers(-3, 40) | st.floats(allow_nan=True) | st.sampled_from(["x", "n", "U", "I"])
)


@given(st.data())
def test_whatever_is_changed_it_is_a_cell_or_an_error_in_words(data):
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
        made = from_document(document)
    except DataError:
        return
    made.text()
    made.latex()
