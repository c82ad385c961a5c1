"""Gates replaced by constants: the remaining equations, on every engine."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch

from gatelab import Recurrent, cell, cells, hold, lang, sigmoid, tanh
from gatelab.lang.document import digest
from gatelab.lang.values import constant

# Gates whose value can be forced by their own bias. (Those of janet and ltc have a second use.)
FORCED = [
    (name, gate)
    for name in cells.names()
    for gate in cells.get(name).neutral
    if gate in cells.get(name).graph.b and name not in ("janet", "ltc")
]


@pytest.mark.parametrize("name", cells.names())
def test_equations_as_python_source_give_the_same_cell(name):
    original = cells.get(name)
    scope = {name: getattr(lang, name) for name in lang.__all__} | vars(lang.values)
    exec(original.python(), scope)
    assert scope[name].text() == original.text()
    assert digest(scope[name]) == digest(original)


def test_python_source_keeps_parameters_that_no_equation_uses():
    with pytest.warns(UserWarning, match=r"depends on U.q, b.shift, b.scale"):

        @cell
        def aliased(x, h, W, U, b):
            shift, matrix, scale = b.shift, 2 * U.q, b.scale  # noqa: F841
            return tanh(W.n(x) + U.n(h) + b.n)

    scope = {name: getattr(lang, name) for name in lang.__all__}
    with pytest.warns(UserWarning, match=r"depends on .*b.shift"):
        exec(aliased.python(), scope)
    assert sorted(scope["aliased"].graph.parameters) == sorted(aliased.graph.parameters)
    layer, again = (Recurrent(each, 3, 5, engine="eager") for each in (aliased, scope["aliased"]))
    again.load_state_dict(layer.state_dict())
    x = torch.randn(2, 4, 3)
    torch.testing.assert_close(again(x)[0], layer(x)[0])


@pytest.mark.parametrize(("name", "gate"), FORCED)
def test_a_held_cell_equals_the_cell_with_that_gate_saturated(name, gate):
    original = cells.get(name)
    torch.manual_seed(0)
    ours, theirs = (Recurrent(each, 4, 4, engine="eager").eval() for each in (hold(original, {gate: 1.0}), original))
    wanted = dict(theirs.named_parameters())
    with torch.no_grad():
        for key, value in ours.named_parameters():
            value.copy_(wanted[key])
        for key, value in theirs.named_parameters():
            if key.endswith((f"W.{gate}", f"U.{gate}")):
                value.zero_()
            if key.endswith(f"b.{gate}"):
                value.fill_(100.0)  # σ(100) is 1
    x = torch.randn(2, 5, 4)
    torch.testing.assert_close(ours(x)[0], theirs(x)[0], atol=1e-5, rtol=1e-4)
    assert {key for key in wanted if key.split(".")[-1] == gate} <= wanted.keys() - dict(ours.named_parameters()).keys()


@pytest.mark.parametrize("values", [{"z": 0.5}, {"r": 1.0}, {"z": 0.25, "r": 1.0}])
def test_fused_equals_eager(values):
    torch.manual_seed(1)
    held = hold(cells.gru, values)
    fused, eager = Recurrent(held, 3, 7, engine="fused"), Recurrent(held, 3, 7, engine="eager")
    eager.load_state_dict(fused.state_dict())
    x = torch.randn(4, 9, 3)
    for layer in (fused, eager):
        layer(x)[0].square().sum().backward()
    assert fused.engine_in_use == "fused"
    for ours, theirs in zip(fused.parameters(), eager.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, atol=1e-5, rtol=1e-4)


def test_name_text_and_summary():
    held = hold(cells.gru, {"z": 0.5, "r": 1.0})
    assert held.name == "gru(r=1, z=0.5)"
    assert held.text() == "n = tanh(W_n x + b_n + 1 · (U_n h + b_hn))\nh' = 0.5 · h + 0.5 · n"
    assert held.summary == "Gated recurrent unit, reset after the product, z keeps, with r = 1 and z = 0.5."
    assert hold(cells.gru, {}) is cells.gru
    assert hold(cells.agru, {"r": 1}).options == cells.agru.options
    assert pickle.loads(pickle.dumps(held)).text() == held.text()
    assert copy.deepcopy(Recurrent(held, 2, 3)).cell.text() == held.text()


def test_unneeded_parameters_are_removed():
    @cell
    def shared(x, h, W, U, b):
        A = U.a - U.a.T
        s = U.s(h) + b.s
        z = sigmoid(A(h) + s + W.z(x))
        n = tanh(W.n(x) + s)
        return z * h + (1 - z) * n

    held = hold(shared, {"z": 0.5})
    assert (held.graph.W, held.graph.U, held.graph.b) == (("n",), ("s",), ("s",))
    assert held.gates == ("s", "n")


def test_given_and_initial_values_of_what_is_left_are_kept():
    @cell(given={"b.k": constant(2)}, start={"b.z": constant(1), "b.n": constant(3)})
    def own(x, h, W, U, b):
        z = sigmoid(W.z(x) + b.z)
        n = tanh(W.n(x) + U.n(h) + b.n)
        return z * h + b.k * (1 - z) * n

    held = hold(own, {"z": 0.5})
    assert (held.given, held.start) == ({"b.k": constant(2.0)}, {"b.n": constant(3.0)})
    named = dict(Recurrent(held, 2, 3).named_parameters())
    assert [values.tolist() for name, values in named.items() if name.endswith("b.n")] == [[3, 3, 3]]


def test_a_gate_may_have_the_name_of_a_function():
    @cell
    def odd(x, h, W, U, b):
        tanh_ = tanh
        sigmoid = tanh_(W.a(x) + b.a)
        n = tanh_(W.n(x) + U.n(h) + sigmoid)
        return 0.5 * (h + n)

    held = hold(odd, {"sigmoid": 0.5})
    assert held.gates == ("n",)
    assert "n = tanh(W_n x + U_n h + 0.5)" in held.text()
    assert hold(odd, {"n": 0.5}).gates == ()  # no longer needed by anything


def test_bad_input():
    with pytest.raises(ValueError, match=r"unknown gate of cell 'gru': 'q' \(known: r, z, n\)"):
        hold(cells.gru, {"q": 1.0})
    with pytest.raises(ValueError, match="gate 'z' of cell 'gru' cannot be held at True: expected a finite number"):
        hold(cells.gru, {"z": True})


def test_names_that_begin_with_an_underscore_are_not_gates():
    @cell
    def private(x, h, W, U, b):
        _a = W.n(x) + U.n(h)
        n = tanh(_a + b.n)
        return 0.5 * (h + n)

    assert private.gates == ("n",)
