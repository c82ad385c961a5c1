"""Properties of every library cell, and hand-computed values that pin the conventions of the common ones."""

from __future__ import annotations

import inspect
import math
import pickle
import re

import pytest
import torch
from matplotlib.mathtext import MathTextParser

from gatelab import Recurrent, cells
from gatelab.lang.tensors import TensorMaps, TensorVectors

FACTS = {  # name: states, gates, roles, parameters for D=28, H=128
    # Plain recurrent networks
    "rnn": ("h", "", {}, 20_096),
    "indrnn": ("h", "", {}, 3_840),
    "fast_rnn": ("h", "n", {}, 20_098),
    "scrn": ("y h s", "", {}, 72_704),
    "trnn": ("h", "z f", {"f": "keep"}, 7_296),
    # GRU and relatives
    "gru": ("h", "r z n", {"z": "keep"}, 60_416),
    "gru_cho": ("h", "z r n", {"z": "write"}, 60_288),
    "mgu": ("h", "f n", {"f": "write"}, 40_192),
    "mut1": ("h", "z r n", {"z": "write"}, 43_904),
    "mut2": ("h", "z r n", {"z": "write"}, 60_288),
    "mut3": ("h", "z r n", {"z": "write"}, 60_288),
    "ligru": ("h", "z n", {"z": "keep"}, 40_192),
    "lightru": ("h", "n f", {"f": "write"}, 23_680),
    "miru1": ("h", "r n", {}, 40_192),
    "miru2": ("h", "n", {}, 20_096),
    "tgru": ("h vz vf vo", "z f o", {"f": "keep"}, 21_888),
    "tau_gru": ("h d", "u z g a", {"g": "write"}, 80_384),
    # LSTM and relatives
    "lstm": ("h c", "i f g o", {"i": "add", "f": "keep"}, 80_384),
    "original_lstm": ("h c", "i g o", {"i": "add"}, 60_288),
    "peephole_lstm": ("h c", "i f g o", {"i": "add", "f": "keep"}, 80_768),
    "janet": ("h", "s f n", {"f": "keep"}, 40_192),
    "multiplicative_lstm": ("h c", "m i f g o", {"i": "add", "f": "keep"}, 100_352),
    "nas": ("h c", "g0 g1 g2 g3 g4 g5 g6 g7", {"g0": "write", "g2": "keep"}, 159_744),
    "res_lstm": ("h c", "i f g o", {"i": "add", "f": "keep"}, 100_736),
    "tlstm": ("h c vz vf vo", "z f o", {"f": "keep"}, 21_888),
    "mclstm": ("h v c", "f i o m n", {"f": "keep", "i": "add"}, 100_480),
    "wmclstm": ("h c", "i f g o", {"i": "add", "f": "keep"}, 129_536),
    # Minimal and additive gated cells
    "ran": ("h c", "i f", {"i": "add", "f": "keep"}, 43_776),
    "cfn": ("h", "theta eta", {"theta": "keep", "eta": "add"}, 43_776),
    "atr": ("h", "p q i f", {"i": "add", "f": "keep"}, 19_968),
    "star": ("h", "z k", {"k": "write"}, 23_808),
    "sgu": ("h", "g z", {}, 40_192),
    "dsgu": ("h", "g z", {}, 56_576),
    "ugrnn": ("h", "c g", {"g": "keep"}, 40_192),
    "intersection_rnn": ("y h", "yin hin gy gh", {"gh": "keep"}, 83_968),
    "minimal_rnn": ("h", "z u", {"u": "keep"}, 36_608),
    "sgrn": ("h", "f", {"f": "keep"}, 20_096),
    "br": ("h", "a c", {"c": "keep"}, 11_264),
    "nbr": ("h", "a c", {"c": "keep"}, 43_776),
    "fast_grnn": ("h", "z n", {"z": "keep"}, 20_226),
    # Antisymmetric cells
    "agru": ("h", "z r n", {"z": "add"}, 60_289),
    "antisymmetric_rnn": ("h", "", {}, 20_096),
    "gated_antisymmetric_rnn": ("h", "z", {"z": "add"}, 23_808),
    # Oscillators and time scales
    "cornn": ("y z", "", {}, 36_480),
    "unicornn": ("y z", "", {}, 3_968),
    "lem": ("y z", "t1 t2", {"t1": "write", "t2": "write"}, 80_384),
}
# Computed by hand below; test_torchrecurrent.py has the others.
BY_HAND = ["rnn", "gru", "gru_cho", "mgu", "lstm", "agru", "antisymmetric_rnn", "gated_antisymmetric_rnn"]
ROLES = {"keeps": "keep", "replaces": "write", "adds": "add"}  # as docstrings say it, and as the equations have it
PAPER = r"arXiv:\d{4}\.\d{5}(v\d)?$|arXiv:\d{4}\.\d{4}(v\d)?$|doi:10\.\d{4}/\S+$|, (ICML|JMLR \d)\b|NIPS 2017$"


def test_the_library_is_complete():
    assert cells.names() == list(FACTS)
    assert cells.names() == [cell.name for family in cells.FAMILIES.values() for cell in family]
    assert all(getattr(cells, name) is cells.get(name) for name in cells.names())
    assert set(cells.names()) < set(cells.__all__)


@pytest.mark.parametrize("name", cells.names())
class TestEveryCell:
    def test_facts(self, name):
        cell, (states, gates, roles, count) = cells.get(name), FACTS[name]
        assert cell.states == tuple(states.split())
        assert cell.gates == tuple(gates.split())
        assert cell.roles == roles
        assert cell.parameter_count(28, 128) == count
        assert sum(p.numel() for p in Recurrent(name, 28, 128).parameters()) == count

    def test_the_docstring_has_its_paragraphs(self, name):
        cell = cells.get(name)
        assert cell.summary.endswith(".")
        assert cell.convention.endswith(".")
        assert re.search(r"(19|20)\d\d", cell.reference)
        assert name in BY_HAND or re.search(PAPER, cell.reference)

    def test_the_docstring_tells_the_roles_that_the_equations_have(self, name):
        cell = cells.get(name)
        for gate, verb in re.findall(r"(\w+) near 1 (keeps|replaces|adds)", cell.convention):
            assert gate in cell.gates
            assert cell.roles.get(gate, ROLES[verb]) == ROLES[verb]

    def test_the_equations_are_few_and_fit_a_line(self, name):
        body = inspect.getsource(cells.get(name).function).split('"""')[2].splitlines()
        assert len([line for line in body if line.strip() and not line.strip().startswith("#")]) <= 12
        assert all(len(line) <= 100 for line in cells.get(name).text().splitlines())

    def test_the_latex_is_valid(self, name):
        lines = cells.get(name).latex().splitlines()
        assert (lines[0], lines[-1]) == (r"\begin{aligned}", r"\end{aligned}")
        for line in lines[1:-1]:
            MathTextParser("path").parse(f"${line.removesuffix(chr(92) * 2).replace('&', '')}$")


@pytest.mark.parametrize("name", BY_HAND)
def test_the_docstring_states_the_equations_the_function_computes(name):
    cell = cells.get(name)
    assert all(line in inspect.getdoc(cell).splitlines() for line in cell.text().splitlines())


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


@pytest.mark.parametrize("name", BY_HAND)
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
