"""The role of a gate is derived from the equations, however they are written."""

from __future__ import annotations

import pytest

from gatelab import cell, relu, sigmoid, tanh

UPDATES = {
    "z * h + (1 - z) * n": {"z": "keep"},
    "n + z * (h - n)": {"z": "keep"},
    "(1 - z) * h + z * n": {"z": "write"},
    "h + z * (n - h)": {"z": "write"},
    "h - z * (h - n)": {"z": "write"},
    "h + 0.5 * z * (n - h)": {"z": "write"},  # never replaces the state completely
    "h + z * n": {"z": "add"},
    "z * tanh(n + h)": {"z": "keep"},
    "tanh(n + h) + 0 * z": {},
    "z * n": {},  # the old state is lost either way
}


@pytest.mark.parametrize("update", UPDATES)
def test_role(update):
    space = {"cell": cell, "sigmoid": sigmoid, "tanh": tanh}
    exec(f"@cell\ndef c(x, h, W, U, b):\n    z = sigmoid(W.z(x))\n    n = tanh(W.n(x))\n    return {update}", space)
    assert space["c"].roles == UPDATES[update]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("z = sigmoid(W.z(x)); keep = 1 - z; return keep * h + z * W.n(x)", {"z": "write", "keep": "keep"}),
        ("z = sigmoid(W.z(x)); change = z * (W.n(x) - h); return h + change", {"z": "write"}),
        ("z = sigmoid(W.z(x)); old = z * h; new = (1 - z) * W.n(x); return old + new", {"z": "keep"}),
        ("z = 1 - sigmoid(W.z(x)); return z * h + (1 - z) * W.n(x)", {"z": "keep"}),
        ("f = sigmoid(W.f(x) + b.p * h); i = sigmoid(W.i(x) + b.p * h); new = i * W.n(x); return f * h + new",
         {"f": "keep", "i": "add"}),
    ],
)  # fmt: skip
def test_naming_intermediate_values_changes_nothing(body, expected):
    space = {"cell": cell, "sigmoid": sigmoid}
    exec("@cell\ndef c(x, h, W, U, b):\n    " + body.replace("; ", "\n    "), space)
    assert space["c"].roles == expected


SHARES = {
    "z * h + (1 - z) * n": (0.0, 1.0),
    "h + 0.5 * z * (n - h)": (1.0, 0.5),
    "z * z * h + n": None,  # a mean z says nothing about the mean of its square
    "(1 - z) ** 2 * h + n": None,
    "z * (1 - z) * h + n": None,  # the same at both ends
    "z * z * (3 - 2 * z) * h + n": None,  # on the line at 0, at a half and at 1
    "z * h * h + n": None,  # not a share of h
    "z * n * h": None,  # the input has a say in it
    "h + z * n": None,  # it does not rule the old state
}


@pytest.mark.parametrize("way", SHARES)
def test_the_share_of_the_old_state_that_stays_is_known_where_the_gate_enters_linearly_and_alone(way):
    space = {"cell": cell, "sigmoid": sigmoid, "tanh": tanh}
    exec(f"@cell\ndef c(x, h, W, U, b):\n    z = sigmoid(W.z(x))\n    n = tanh(W.n(x))\n    return {way}", space)
    assert space["c"].kept("z") == (SHARES[way] and pytest.approx(SHARES[way]))


def test_a_share_that_is_the_same_at_both_ends_and_not_in_between_is_no_line():
    @cell
    def mine(x, h, c, W):
        z = sigmoid(W.z(x))
        return z * h + W.n(x), (1 + z * (1 - z)) * c + W.n(x)

    assert mine.kept("z") is None


def test_a_gate_with_opposite_roles_for_two_states_has_no_role():
    @cell
    def mine(x, h, c, W):
        z = sigmoid(W.z(x))
        return z * h + (1 - z) * W.n(x), (1 - z) * c + z * W.n(x)

    assert mine.roles == {}


def test_the_role_depends_on_the_values_of_options():
    @cell
    def mine(x, h, W, *, k=-1.0):
        z = sigmoid(W.z(x))
        return h + k * z * (h - W.n(x))

    assert mine.roles == {"z": "write"}


@pytest.mark.parametrize(
    ("gate", "opening"),
    [("sigmoid(W.z(x) + b.z)", 1.0), ("1 - sigmoid(W.z(x) + b.z)", -1.0), ("sigmoid(W.z(x) - 2 * b.z)", -2.0)],
)
def test_how_a_gate_opens_with_its_bias(gate, opening):
    space = {"cell": cell, "sigmoid": sigmoid}
    exec(f"@cell\ndef c(x, h, W, U, b):\n    z = {gate}\n    return z * h + (1 - z) * W.n(x)", space)
    assert space["c"].opening("z") == pytest.approx(opening)


@pytest.mark.parametrize(("way", "constant"), [("z * h + (1 - z) * n", 0.5), ("h + z * n", 1.0)])
def test_a_gate_is_taken_out_by_a_constant_that_shuts_nothing_out(way, constant):
    space = {"cell": cell, "sigmoid": sigmoid}
    exec(f"@cell\ndef c(x, h, W, U, b):\n    z = sigmoid(W.z(x))\n    n = W.n(x)\n    return {way}", space)
    assert space["c"].neutral == {"z": constant}


def test_only_gates_between_zero_and_one_have_roles():
    @cell
    def mine(x, h, W, U, b):
        z = relu(W.z(x))
        return z * h

    assert mine.roles == {}
