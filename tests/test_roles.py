"""Whether a gate keeps, writes or adds is read off the equations, however they are written."""

from __future__ import annotations

import pytest

from gatelab import cell, relu, sigmoid, tanh

WAYS = {
    "z * h + (1 - z) * n": {"z": "keep"},
    "n + z * (h - n)": {"z": "keep"},
    "(1 - z) * h + z * n": {"z": "write"},
    "h + z * (n - h)": {"z": "write"},
    "h - z * (h - n)": {"z": "write"},
    "h + 0.5 * z * (n - h)": {"z": "write"},  # it never replaces the state quite
    "h + z * n": {"z": "add"},
    "z * tanh(n + h)": {"z": "keep"},
    "tanh(n + h) + 0 * z": {},
    "z * n": {},  # the old state is gone either way
}


@pytest.mark.parametrize("way", WAYS)
def test_role(way):
    space = {"cell": cell, "sigmoid": sigmoid, "tanh": tanh}
    exec(f"@cell\ndef c(x, h, W, U, b):\n    z = sigmoid(W.z(x))\n    n = tanh(W.n(x))\n    return {way}", space)
    assert space["c"].roles == WAYS[way]


def test_only_gates_between_zero_and_one_have_roles():
    @cell
    def mine(x, h, W, U, b):
        z = relu(W.z(x))
        return z * h

    assert mine.roles == {}
