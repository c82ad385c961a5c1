"""Properties of every library cell, and hand-computed values that pin its conventions."""

from __future__ import annotations

import inspect
import math
import pickle

import pytest
import torch
from matplotlib.mathtext import MathTextParser

from gatelab import Recurrent, cells
from gatelab.lang.tensors import TensorMaps, TensorVectors

FACTS = {  # name: states, gates, roles, parameters for D=28, H=128
    "rnn": ("h", "", {}, 20_096),
    "gru": ("h", "r z n", {"z": "keep"}, 60_416),
    "gru_cho": ("h", "z r n", {"z": "write"}, 60_288),
    "mgu": ("h", "f n", {"f": "write"}, 40_192),
    "lstm": ("h c", "i f g o", {"i": "add", "f": "keep"}, 80_384),
    "agru": ("h", "z r n", {"z": "add"}, 60_289),
    "antisymmetric_rnn": ("h", "", {}, 20_096),
    "gated_antisymmetric_rnn": ("h", "z", {"z": "add"}, 23_808),
}


def test_the_library_is_complete():
    assert set(cells.names()) == set(FACTS)


@pytest.mark.parametrize("name", cells.names())
class TestEveryCell:
    def test_facts(self, name):
        cell, (states, gates, roles, count) = cells.get(name), FACTS[name]
        assert cell.states == tuple(states.split())
        assert cell.gates == tuple(gates.split())
        assert cell.roles == roles
        assert cell.parameter_count(28, 128) == count
        assert sum(p.numel() for p in Recurrent(name, 28, 128).parameters()) == count

    def test_the_docstring_states_the_equations_the_function_computes(self, name):
        cell = cells.get(name)
        doc = inspect.getdoc(cell)
        assert all(line in doc.splitlines() for line in cell.text().splitlines())
        assert cell.convention
        assert cell.reference
        assert cell.summary.endswith(".")

    def test_the_latex_is_valid(self, name):
        lines = cells.get(name).latex().splitlines()
        assert (lines[0], lines[-1]) == (r"\begin{aligned}", r"\end{aligned}")
        for line in lines[1:-1]:
            MathTextParser("path").parse(f"${line.removesuffix(chr(92) * 2).replace('&', '')}$")


# One unit, one input, a different number for each weight and bias, computed by hand with plain Python.
X, HIDDEN, C = 0.7, -0.4, 0.9
P = {
    f"{s}.{g}": 0.1 + 0.17 * k
    for k, (s, g) in enumerate((s, g) for s in "WUb" for g in ["h", "r", "z", "n", "hn", "i", "f", "g", "o"])
}


def sig(v):
    return 1 / (1 + math.exp(-v))


def pre(gate, h=HIDDEN):
    return P[f"W.{gate}"] * X + P[f"U.{gate}"] * h + P[f"b.{gate}"]


def by_hand(name):
    gamma, epsilon = 0.05, 0.3
    if name == "rnn":
        return [math.tanh(pre("h"))]
    if name == "gru":  # reset after, z keeps
        n = math.tanh(P["W.n"] * X + P["b.n"] + sig(pre("r")) * (P["U.n"] * HIDDEN + P["b.hn"]))
        return [sig(pre("z")) * HIDDEN + (1 - sig(pre("z"))) * n]
    if name == "gru_cho":  # reset before, z writes
        n = math.tanh(pre("n", sig(pre("r")) * HIDDEN))
        return [(1 - sig(pre("z"))) * HIDDEN + sig(pre("z")) * n]
    if name == "mgu":
        f = sig(pre("f"))
        return [(1 - f) * HIDDEN + f * math.tanh(pre("n", f * HIDDEN))]
    if name == "lstm":
        c = sig(pre("f")) * C + sig(pre("i")) * math.tanh(pre("g"))
        return [sig(pre("o")) * math.tanh(c), c]
    # With one unit the antisymmetric part is zero, and only the diffusion remains: (U - U.T - gamma I) h = -gamma h.
    if name == "agru":
        n = math.tanh(P["W.n"] * X - gamma * sig(pre("r")) * HIDDEN + P["b.n"])
        return [HIDDEN + epsilon * sig(pre("z")) * n]
    tanh = math.tanh(P["W.h"] * X - gamma * HIDDEN + P["b.h"])
    z = sig(P["W.z"] * X - gamma * HIDDEN + P["b.z"]) if name == "gated_antisymmetric_rnn" else 1
    return [HIDDEN + epsilon * z * tanh]


@pytest.mark.parametrize("name", cells.names())
def test_one_step_by_hand(name):
    cell = cells.get(name)

    def family(space, shape):
        return {k[2:]: torch.tensor(v, dtype=torch.float64).reshape(shape) for k, v in P.items() if k[0] == space}

    W, U, b = (
        TensorMaps("W", family("W", (1, 1))),
        TensorMaps("U", family("U", (1, 1))),
        TensorVectors(family("b", (1,))),
    )
    vector = [torch.tensor([[v]], dtype=torch.float64) for v in (X, HIDDEN, C)]
    options = {"gamma": 0.05, "epsilon": 0.3} if cell.options else {}
    new = cell(*vector[: 1 + len(cell.states)], W, U, b, **options)
    new = new if isinstance(new, tuple) else (new,)
    assert [v.item() for v in new] == pytest.approx(by_hand(name), abs=1e-14)


def test_the_antisymmetric_map_is_antisymmetric_up_to_diffusion():
    """h' = h + ε tanh(A h) with A = U - Uᵀ - γI: near h = 0 the step is I + ε A, and A + Aᵀ = -2γI."""
    layer = Recurrent("antisymmetric_rnn", 2, 6, init="xavier", gamma=0.03, epsilon=0.2, dtype=torch.float64)

    def step(h):
        return layer(torch.zeros(1, 1, 2, dtype=torch.float64), h.view(1, 1, 6))[1].flatten()

    jacobian = torch.autograd.functional.jacobian(step, torch.zeros(6, dtype=torch.float64))
    A = (jacobian - torch.eye(6)) / 0.2
    torch.testing.assert_close(A + A.T, -2 * 0.03 * torch.eye(6, dtype=torch.float64), rtol=0, atol=1e-12)
    assert A.abs().max() > 0.1


def test_default_hyperparameters():
    assert {name: option.value for name, option in cells.agru.options.items()} == {"gamma": 0.01, "epsilon": 1.0}
    for cell in (cells.antisymmetric_rnn, cells.gated_antisymmetric_rnn):
        assert {name: option.value for name, option in cell.options.items()} == {"gamma": 0.01, "epsilon": 0.1}


def test_a_cell_from_a_file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        "from gatelab import cell, tanh\n\n@cell\ndef damped(x, h, W, U, b, *, rate=0.5):\n"
        "    return rate * h + tanh(W.n(x) + U.n(h) + b.n)\n"
    )
    assert cells.get(f"{path}:damped").text() == "h' = rate · h + tanh(W_n x + U_n h + b_n)"
    with pytest.raises(ValueError, match="did you mean 'damped'"):
        cells.get(f"{path}:dampd")
    layer = Recurrent(f"{path}:damped", 2, 3)
    assert pickle.loads(pickle.dumps(layer)).cell is layer.cell
    with pytest.raises(ValueError, match=r"mine\.py:my_name"):
        cells.get(str(path))
    (tmp_path / "broken.py").write_text("import nothing_like_this")
    with pytest.raises(ValueError, match=r"broken.py could not be executed: ModuleNotFoundError"):
        cells.get(f"{tmp_path / 'broken.py'}:any")
    with pytest.raises(ValueError, match="there is no file"):
        cells.get("absent.py:damped")


def test_an_unknown_cell_suggests_the_nearest_name():
    with pytest.raises(ValueError, match="unknown cell 'gruu'; did you mean 'gru'"):
        cells.get("gruu")
