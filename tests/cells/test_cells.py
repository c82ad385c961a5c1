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

FACTS = {  # name: states, gates, roles, parameters for D=28, H=128, recurrence
    # Plain recurrent networks
    "rnn": ("h", "", {}, 20_096, "dense"),
    "indrnn": ("h", "", {}, 3_840, "elementwise"),
    "fast_rnn": ("h", "n", {}, 20_098, "dense"),
    "scrn": ("y h s", "", {}, 72_704, "dense"),
    "trnn": ("h", "z f", {"f": "keep"}, 7_296, "linear elementwise"),
    "mi_rnn": ("h", "u v", {}, 20_480, "dense"),
    "rhn": ("s", "h1 t1 s1 h2 t2 s2 h3 t3", {"t1": "write", "t2": "write", "t3": "write"}, 106_240, "dense"),
    "clockwork_rnn": ("h t", "n", {}, 20_096, "dense"),
    # GRU and relatives
    "gru": ("h", "r z n", {"z": "keep"}, 60_416, "dense"),
    "gru_cho": ("h", "z r n", {"z": "write"}, 60_288, "dense"),
    "mgu": ("h", "f n", {"f": "write"}, 40_192, "dense"),
    "mut1": ("h", "z r n", {"z": "write"}, 40_320, "dense"),
    "mut2": ("h", "z r n", {"z": "write"}, 56_704, "dense"),
    "mut3": ("h", "z r n", {"z": "write"}, 60_288, "dense"),
    "ligru": ("h", "z n", {"z": "keep"}, 40_192, "dense"),
    "lightru": ("h", "n f", {"f": "write"}, 23_680, "dense"),
    "miru1": ("h", "r n", {}, 40_192, "dense"),
    "miru2": ("h", "n", {}, 20_096, "dense"),
    "tgru": ("h vz_1 vf_1 vo_1", "z f o", {"f": "keep"}, 21_888, "linear elementwise"),
    "tau_gru": ("h h_1", "u z g a", {"g": "write"}, 80_384, "dense"),
    "layer_norm_gru": ("h", "z r n", {"z": "write"}, 61_184, "dense"),
    "gru_d": ("h", "k r z n", {"z": "write"}, 64_000, "dense"),
    "skip_gru": ("h v", "u g z r n p", {}, 76_800, "dense"),
    # LSTM and relatives
    "lstm": ("h c", "i f g o", {"i": "add", "f": "keep"}, 80_384, "dense"),
    "original_lstm": ("h c", "i g o", {"i": "add"}, 60_288, "dense"),
    "peephole_lstm": ("h c", "i f g o", {"i": "add", "f": "keep"}, 80_768, "dense"),
    "cifg_lstm": ("h c", "z i o", {"i": "write"}, 60_288, "dense"),
    "janet": ("h", "s f n", {"f": "keep"}, 40_192, "dense"),
    "lstmp": ("r c", "i f g o", {"i": "add", "f": "keep"}, 96_768, "dense"),
    "layer_norm_lstm": ("h c", "f i o g", {"f": "keep", "i": "add"}, 81_664, "dense"),
    "multiplicative_lstm": ("h c", "m i f g o", {"i": "add", "f": "keep"}, 100_352, "dense"),
    "nas": ("h c", "g0 g1 g2 g3 g4 g5 g6 g7", {"g0": "write", "g2": "keep"}, 159_744, "dense"),
    "res_lstm": ("h c", "i f g o", {"i": "add", "f": "keep"}, 100_736, "dense"),
    "tlstm": ("h c vz_1 vf_1 vo_1", "z f o", {"f": "keep"}, 21_888, "linear elementwise"),
    "mclstm": ("h v c", "f i o m n", {"f": "keep", "i": "add"}, 100_480, "dense"),
    "wmclstm": ("h c", "i f g o", {"i": "add", "f": "keep"}, 129_536, "dense"),
    "nested_lstm": ("h c n", "i f g o u v n_i n_f n_g n_o", {"n_i": "add", "n_f": "keep"}, 211_968, "dense"),
    "on_lstm": ("h c", "f i o g master_f master_i both", {"f": "keep"}, 120_576, "dense"),
    "phased_lstm": ("h c t", "u phase k i f g o n", {"i": "add", "f": "keep", "o": "add"}, 80_640, "dense"),
    "mogrifier_lstm": ("h c", "u v f i j o", {"f": "keep", "i": "add"}, 167_936, "dense"),
    "slstm": ("h c n m", "z o log_i log_f i f", {}, 80_384, "dense"),
    "zoneout_lstm": ("h c", "i f g o d_c d_h n", {"i": "add", "f": "keep", "o": "add"}, 80_384, "dense"),
    # Minimal and additive gated cells
    "ran": ("h c", "i f", {"i": "add", "f": "keep"}, 43_776, "dense"),
    "cfn": ("h", "theta eta", {"theta": "keep", "eta": "add"}, 43_776, "dense"),
    "atr": ("h", "p q i f", {"i": "add", "f": "keep"}, 19_968, "dense"),
    "star": ("h", "z k", {"k": "write"}, 23_808, "dense"),
    "sgu": ("h", "g z", {"z": "write"}, 40_192, "dense"),
    "dsgu": ("h", "g z", {"z": "write"}, 56_576, "dense"),
    "ugrnn": ("h", "c g", {"g": "keep"}, 40_192, "dense"),
    "intersection_rnn": ("y h", "yin hin gy gh", {"gh": "keep"}, 80_384, "dense"),
    "minimal_rnn": ("h", "z u", {"u": "keep"}, 36_608, "dense"),
    "sgrn": ("h", "f", {"f": "keep"}, 20_096, "dense"),
    "br": ("h", "a c", {"c": "keep"}, 11_264, "elementwise"),
    "nbr": ("h", "a c", {"c": "keep"}, 43_776, "dense"),
    "fast_grnn": ("h", "z n", {"z": "keep"}, 20_226, "dense"),
    # Antisymmetric cells
    "agru": ("h", "z r n", {"z": "add"}, 60_289, "dense"),
    "antisymmetric_rnn": ("h", "", {}, 20_096, "dense"),
    "gated_antisymmetric_rnn": ("h", "z", {"z": "add"}, 23_808, "dense"),
    # Oscillators and time scales
    "cornn": ("y z", "", {}, 36_480, "dense"),
    "unicornn": ("y z", "", {}, 3_968, "elementwise"),
    "lem": ("y z", "t1 t2", {"t1": "write", "t2": "write"}, 80_384, "dense"),
    # Linear and elementwise recurrences
    "mingru": ("h", "z n", {"z": "write"}, 7_424, "linear elementwise"),
    "minlstm": ("h", "f i n k", {"f": "keep", "i": "write"}, 11_136, "linear elementwise"),
    "gilr": ("h", "g i", {"g": "keep"}, 7_424, "linear elementwise"),
    "qrnn": ("h c z1_1 f1_1 o1_1", "z f o", {"f": "keep"}, 21_888, "linear elementwise"),
    "sru": ("h c", "f r", {"f": "keep"}, 11_264, "elementwise"),
    "lru": ("y re im", "r p q g", {}, 43_904, "linear elementwise"),
    "s4d": ("y re im", "u a r p q s", {}, 4_480, "linear elementwise"),
    "hgrn": ("y h", "f a c g", {}, 11_136, "linear elementwise"),
    "rg_lru": ("h", "r i a", {"r": "write", "i": "add"}, 11_136, "linear elementwise"),
    "rwkv4": ("y a s m r_1 k_1 v_1", "r k v top mixed decay weight", {}, 27_776, "elementwise"),
    # Continuous time
    "ctrnn": ("u", "r", {}, 20_224, "dense"),
    "dale_ctrnn": ("r v", "", {}, 20_096, "dense"),
    "ltc": ("h", "f", {"f": "write"}, 20_352, "dense"),
    "cfc": ("h", "p q i", {}, 80_384, "dense"),
    "lif": ("s v", "reset u", {}, 20_096, "dense"),
    "lipschitz_rnn": ("h", "", {}, 36_480, "dense"),
    "exprnn": ("h", "z n", {}, 20_096, "dense"),
    "lmu": ("h m", "", {}, 40_192, "dense"),
}
# Computed by hand below; test_torchrecurrent.py and test_zoo.py have the others.
BY_HAND = ["rnn", "gru", "gru_cho", "mgu", "lstm", "agru", "antisymmetric_rnn", "gated_antisymmetric_rnn"]
ROLES = {"keeps": "keep", "replaces": "write", "adds": "add"}  # as docstrings say it, and as the equations have it
PAPER = (
    r"arXiv:\d{4}\.\d{5}(v\d)?$|arXiv:\d{4}\.\d{4}(v\d)?$|doi:10\.\d{4}/\S+$|, (ICML|JMLR \d|NeurIPS \d+)\b|NIPS 2017$"
)


def test_the_library_is_complete():
    assert cells.names() == list(FACTS)
    assert cells.names() == [cell.name for family in cells.FAMILIES.values() for cell in family]
    assert all(getattr(cells, name) is cells.get(name) for name in cells.names())
    assert set(cells.names()) < set(cells.__all__)


@pytest.mark.parametrize("name", cells.names())
class TestEveryCell:
    def test_facts(self, name):
        cell, (states, gates, roles, count, recurrence) = cells.get(name), FACTS[name]
        assert cell.states == tuple(states.split())
        assert cell.gates == tuple(gates.split())
        assert cell.roles == roles
        assert cell.parameter_count(28, 128) == count
        assert cell.recurrence == recurrence
        assert sum(p.numel() for p in Recurrent(name, 9, 9).parameters()) == cell.parameter_count(9, 9)

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
        assert all(len(line) <= 110 for line in cells.get(name).text().splitlines())

    def test_the_latex_is_valid(self, name):
        lines = cells.get(name).latex().splitlines()
        assert (lines[0], lines[-1]) == (r"\begin{aligned}", r"\end{aligned}")
        for line in lines[1:-1]:
            MathTextParser("path").parse(f"${line.removesuffix(chr(92) * 2).replace('&', '')}$")


def test_help_shows_the_equations():
    assert inspect.getdoc(cells.mgu).startswith(f"{cells.mgu.summary}\n\n{cells.mgu.text()}\n\nConvention: ")


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
