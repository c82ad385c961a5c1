"""All cells of the package torchrecurrent: outputs, final states and all gradients agree with ours in float64.

Our parameters are made of theirs, so that both sides are functions of the same tensors. Where torchrecurrent differs
from the paper, and no option of it helps, a variant of our cell is compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

from gatelab import Recurrent, cell, cells, learned, relu, sigmoid, tanh

torchrecurrent = pytest.importorskip("torchrecurrent")

B, T, D, H = 3, 7, 4, 5


@dataclass
class Case:
    """One cell of theirs, and where its numbers are in ours.

    `W` and `U` name the blocks of H rows in weight_ih and weight_hh, and in bias_ih and bias_hh. Any of the four, and
    further tensors, can be given in `tensors`, as names of our parameters, block by block; a parameter that is named
    twice is the sum, and "-" is a block that is not in the paper: it is zero, and its gradient is not compared.
    """

    theirs: str
    W: str = ""
    U: str = ""
    tensors: dict[str, str] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)  # of theirs
    settings: dict[str, Any] = field(default_factory=dict)  # of ours
    given: str = "h"  # their states, a letter each; x has D features, a letter that comes twice is the same tensor
    # Our states, of theirs and of our parameters: None is not read, and becomes the output; 0 is zero at first.
    states: Callable[[dict, dict], tuple] = lambda s, p: tuple(s.values())
    twice: str = ""  # parameters of ours that are twice theirs
    variant: Any = None
    differs: tuple[str, ...] = ()  # equations of ours that the variant has otherwise

    def blocks(self) -> dict[str, list[str]]:
        """The names of our parameters in each of their tensors."""
        W, U = self.W.split(), self.U.split()
        usual = {
            "weight_ih": [f"W.{n}" for n in W],
            "weight_hh": [f"U.{n}" for n in U],
            "bias_ih": [f"b.{n}" for n in W] if self.options.get("bias", True) else [],
            "bias_hh": [f"b.{n}" for n in U] if self.options.get("recurrent_bias", True) else [],
        }
        return {t: n for t, n in (usual | {t: n.split() for t, n in self.tensors.items()}).items() if n}


@cell
def scrn(x, y, s, W, U, b, *, alpha=learned(0.95)):
    s = (1 - alpha) * (W.s(x) + b.s) + alpha * s
    h = sigmoid(U.p(s) + W.h(x) + U.h(y) + b.h)
    return tanh(U.y(h) + U.v(s) + b.y), s


@cell
def nas(x, h, c, W, U):
    g0 = sigmoid(W.g0(x) + U.g0(h))
    g1 = relu(W.g1(x) + U.g1(h))
    g2 = sigmoid(W.g2(x) + U.g2(h))
    g3 = relu(W.g3(x) + U.g3(h))
    g4 = tanh(W.g4(x) + U.g4(h))
    g5 = sigmoid(W.g5(x) + U.g5(h))
    g6 = tanh(W.g6(x) + U.g6(h))
    g7 = sigmoid(W.g7(x) + U.g7(h))
    c = tanh(tanh(g0 * g1) + c) * tanh(g2 + g3)
    return tanh(c * tanh(tanh(g4 * g5) + sigmoid(g6 + g7))), c


@cell
def mut1(x, h, W, U, b):
    z = sigmoid(W.z(x) + b.z)
    r = sigmoid(W.r(x) + U.r(h) + b.r)
    n = tanh(U.n(r * h) + tanh(W.n(x)) + b.n)
    return z * n + (1 - z) * h


@cell
def lem(x, y, z, W, U, b, *, dt=1.0):
    t1 = sigmoid(W.t1(x) + U.t1(y) + b.t1)
    t2 = sigmoid(W.t2(x) + U.t2(y) + b.t2)
    y_new = (1 - dt * t2) * y + dt * t2 * tanh(W.y(x) + U.y(z) + b.y)
    return y_new, (1 - dt * t1) * z + dt * t1 * tanh(W.z(x) + U.z(y) + b.z)


def typed(s: dict, p: dict) -> tuple:
    """The states of a strongly typed cell: h and c, and three maps of the previous input."""
    return *([None, s["c"]] if "c" in s else [s["h"]]), *(s["x"] @ p[f"W.v{n}"].T for n in "zfo")


class HardSigmoid(torch.nn.Module):
    """torch's, but for its gradient in float64, where torch has 1/6 in single precision."""

    def forward(self, v: torch.Tensor) -> torch.Tensor:
        return (v / 6 + 0.5).clamp(0, 1)


HARD = {"recurrent_bias": False, "gate_nonlinearity": HardSigmoid()}
NO_BIAS = {"bias": False, "recurrent_bias": False}
PEEPHOLES = {"weight_ph": "b.ci b.cf b.co"}
LEAVES = "g0 g1 g2 g3 g4 g5 g6 g7"
TYPED = {"weight_hh": "W.vz W.vf W.vo", "bias_hh": "b.z b.f b.o"}
EULER = {"gamma": 0.05, "epsilon": 0.3}

CASES = {
    "indrnn": Case("IndRNN", "h", tensors={"vector_u": "b.u", "bias_hh": "b.h"}, options={"nonlinearity": "relu"}),
    "fast_rnn": Case("FastRNN", "h", "h", {"alpha": "alpha", "beta": "beta"}),
    "scrn": Case(
        "SCRN", "s h", "h y", {"weight_ch": "U.p U.v", "bias_ch": "b.h b.y", "alpha": "alpha"}, given="ys",
        variant=scrn,
        differs=("s' = (1 − α) · (W_s x) + α · s", "h' = σ(U_p s' + W_h x + U_h h)", "y' = U_y h' + U_v s'"),
    ),
    "trnn": Case("TRNN", "z f", tensors={"bias_ih": "- b.f"}),
    "mgu": Case("MGU", "f n", "f n"),
    "mut1": Case(
        "MUT1", "z r n", "r n", {"bias_ih": "b.z b.r -"}, variant=mut1,
        differs=("n = tanh(U_n (r ⊙ h) + tanh(x) + b_n)",),
    ),
    "mut2": Case(
        "MUT2", "z r n", "z r n", variant=cells.gru_cho,
        differs=("r = σ(x + U_r h + b_r)", "n = tanh(U_n (r ⊙ h) + W_n x + b_n)", "h' = z ⊙ n + (1 − z) ⊙ h"),
    ),
    "mut3": Case("MUT3", "z r n", "z r n"),
    "ligru": Case("LiGRU", "z n", "z n"),
    "lightru": Case("LightRU", "n f", "f", {"bias_ih": "- b.f"}),
    "miru1": Case("MiRU1", "r n", "r n", options={"update_coefficient": 0.3}, settings={"lambda_": 0.3}),
    "miru2": Case(
        "MiRU2", "n", "n", options={"update_coefficient": 0.3, "reset_coefficient": 0.7},
        settings={"lambda_": 0.3, "beta": 0.7},
    ),
    "tgru": Case("TGRU", "z f o", tensors=TYPED, given="hx", states=typed),
    "tau_gru": Case("tauGRU", "u z g a", "u z g a", options={"delay": 1}, states=lambda s, p: (s["h"], 0)),
    "original_lstm": Case(
        "OriginalLSTM", "i g o", "i g o", given="hc", twice="g", states=lambda s, p: (s["h"], 2 * s["c"])
    ),
    "peephole_lstm": Case("PeepholeLSTM", "i f g o", "i f g o", PEEPHOLES, given="hc"),
    "janet": Case("JANET", "f n", "f n", {"beta": "beta"}, given="hh", settings={"learnable_beta": True}),
    "multiplicative_lstm": Case(
        "MultiplicativeLSTM", "m i f g o", "m",
        {"bias_ih": "- b.i b.f b.g b.o", "weight_mh": "U.i U.f U.g U.o", "bias_mh": "b.i b.f b.g b.o"},
        options={"recurrent_bias": False}, given="hc",
    ),
    "nas": Case(
        "NAS", LEAVES, LEAVES, options=NO_BIAS, given="hc", variant=nas,
        differs=("g3 = relu((W_g3 x) ⊙ (U_g3 h))",),
    ),
    "res_lstm": Case(
        "ResLSTM", "i f g o", "i f g o", {"weight_proj": "U.p", "weight_res": "W.r", **PEEPHOLES}, given="hc"
    ),
    "tlstm": Case("TLSTM", "z f o", tensors=TYPED, given="cx", states=typed),
    "mclstm": Case(
        "MCLSTM", "f i o m n", "f i o m n", given="vc", states=lambda s, p: (None, s["v"], s["c"])
    ),
    "wmclstm": Case(
        "WMCLSTM", "i f g o", "i f g o", {"weight_mh": "U.ci U.cf U.co"}, options={"memory_bias": False}, given="hc"
    ),
    "ran": Case("RAN", "c i f", "i f", {"bias_ih": "b.i b.f"}, given="hc"),
    "cfn": Case("CFN", "theta eta h", "theta eta", {"bias_ih": "b.theta b.eta -"}),
    "atr": Case("ATR", "h", "h", options=NO_BIAS),
    "star": Case("STAR", "z k", "k"),
    "sgu": Case("SGU", "g z", "g z", options=HARD, settings={"slope": 1 / 6}),
    "dsgu": Case("DSGU", "g z", "g z", {"weight_ho": "U.o"}, options=HARD, settings={"slope": 1 / 6}),
    "ugrnn": Case("UGRNN", "c g", "c g"),
    "intersection_rnn": Case(
        "IntersectionRNN", "yin hin gy gh", "yin hin gy gh", states=lambda s, p: (None, s["h"])
    ),
    "minimal_rnn": Case("MinimalRNN", "z", "h", {"bias_hh": "b.u", "weight_mm": "U.z"}),
    "sgrn": Case("SGRN", "h", "h", {"bias_hh": "b.f"}, options={"bias": False}),
    "br": Case("BR", "a c h", "a c", {"bias_ih": "b.a b.c -", "weight_hh": "b.wa b.wc"}),
    "nbr": Case("NBR", "a c h", "a c", {"bias_ih": "b.a b.c -"}),
    "fast_grnn": Case(
        "FastGRNN", "h", "h", {"bias_ih": "b.z b.h", "bias_hh": "b.z b.h", "zeta": "zeta", "nu": "nu"},
        options={"nonlinearity": "sigmoid"},
    ),
    "antisymmetric_rnn": Case("AntisymmetricRNN", "h", "h", options=EULER, settings=EULER),
    "gated_antisymmetric_rnn": Case("GatedAntisymmetricRNN", "z h", "h", options=EULER, settings=EULER),
    "cornn": Case(
        "coRNN", "z", "y", {"bias_hh": "b.z", "weight_ch": "U.z", "bias_ch": "b.z"}, given="yz",
        options={"dt": 0.3, **EULER}, settings={"dt": 0.3, **EULER},
    ),
    "unicornn": Case(
        "UnICORNN", "y", tensors={"weight_hh": "b.w", "weight_ch": "b.c"}, given="yz",
        options={"dt": 0.3, "alpha": 0.6}, settings={"dt": 0.3, "alpha": 0.6},
    ),
    "lem": Case(
        "LEM", "t2 t1 z y", "t2 t1 z", {"weight_ch": "U.y", "bias_ch": "b.y"}, given="yz", variant=lem,
        options={"dt": 0.6}, settings={"dt": 0.6},
        differs=("y' = (1 − dt · t2) ⊙ y + dt · t2 ⊙ tanh(W_y x + U_y z' + b_y)",),
    ),
}  # fmt: skip


def random(*shape: int) -> torch.Tensor:
    return (0.6 * torch.randn(*shape, dtype=torch.float64)).requires_grad_()


def weighted(values: list[torch.Tensor]) -> torch.Tensor:
    """A sum in which all entries differ in weight."""
    return sum((v * torch.linspace(-1, 1.3, v.numel(), dtype=v.dtype).view_as(v)).sum() for v in values)


def ours_from(case: Case, theirs: dict, shapes: dict) -> tuple[dict, dict]:
    """Our parameters as functions of theirs, and for each of theirs a mask of the numbers that are in the paper."""
    own: dict = {}
    masks = {key: torch.ones_like(value) for key, value in theirs.items()}
    assert case.blocks().keys() == theirs.keys()
    for key, names in case.blocks().items():
        blocks = zip(names, *(torch.atleast_1d(v).chunk(len(names)) for v in (theirs[key], masks[key])), strict=True)
        for target, block, mask in blocks:
            if target == "-":
                block.data.zero_()
                mask.zero_()
            else:
                value = block.view(shapes[target]) * (2 if target[2:] in case.twice.split() else 1)
                own[target] = own[target] + value if target in own else value
    assert {key: value.shape for key, value in own.items()} == shapes
    return own, masks


def layer_states(states: list) -> Any:
    """States (B, …) as a layer takes them: (1, B, …), and a tuple if there are several."""
    states = tuple(state[None] for state in states)
    return states if len(states) > 1 else states[0]


def plain_states(states: Any) -> list:
    return [state[0] for state in (states if isinstance(states, tuple) else (states,))]


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_torchrecurrent(name):
    case = CASES[name]
    features = H if (case.variant or cells.get(name)).graph.uses_input_itself else D
    module = getattr(torchrecurrent, case.theirs)(features, H, batch_first=True, **case.options).double()
    theirs = {key.removeprefix("cells.0."): parameter for key, parameter in module.named_parameters()}
    for parameter in theirs.values():
        torch.nn.init.normal_(parameter, std=0.6)
    ours = Recurrent(case.variant or name, features, H, engine="eager", dtype=torch.float64, **case.settings)
    shapes = {key.removeprefix("layers.0.fwd."): value.shape for key, value in ours.named_parameters()}
    own, masks = ours_from(case, theirs, shapes)

    x = random(B, T, features)
    start = {letter: random(B, features if letter == "x" else H) for letter in case.given}
    output, final = module(x, layer_states([start[letter] for letter in case.given]))
    final = dict(zip(case.given, plain_states(final), strict=True))
    state = [{None: random(B, H), 0: 0 * random(B, H)}.get(s, s) for s in case.states(start, own)]
    by_name = {f"layers.0.fwd.{key}": value for key, value in own.items()}
    got, got_final = torch.func.functional_call(ours, by_name, (x, layer_states(state)))

    expected, actual = [output], [got]
    for wanted, value in zip(case.states(final, own), plain_states(got_final), strict=True):
        if not isinstance(wanted, int):
            expected.append(output[:, -1] if wanted is None else wanted)
            actual.append(value)
    for wanted, value in zip(expected, actual, strict=True):
        torch.testing.assert_close(value, wanted, rtol=0, atol=1e-10)

    inputs = {"x": x, **{f"initial {letter}": s for letter, s in start.items()}, **theirs}
    wanted, gradients = (
        torch.autograd.grad(weighted(side), inputs.values(), retain_graph=True) for side in (expected, actual)
    )
    for key, their_gradient, gradient in zip(inputs, wanted, gradients, strict=True):
        assert their_gradient.abs().max() > 0, key
        difference = (gradient - their_gradient) * masks.get(key, 1.0)
        assert difference.abs().max() < 1e-10, key


def test_no_cell_is_missing():
    assert {case.theirs for case in CASES.values()} == {
        name for name in torchrecurrent.__all__ if f"{name}Cell" in torchrecurrent.__all__
    }


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.variant])
def test_a_variant_differs_only_where_it_has_to(name):
    paper, variant = (each.text().splitlines() for each in (cells.get(name), CASES[name].variant))
    assert tuple(line for line in paper if line not in variant) == CASES[name].differs
    assert len(paper) == len(variant)


@pytest.mark.parametrize("name", CASES)
def test_the_docstring_says_where_torchrecurrent_deviates(name):
    case = CASES[name]
    zeroed = any("-" in names for names in case.blocks().values())
    options = {"bias", "recurrent_bias", "memory_bias", "nonlinearity"} & case.options.keys()
    if case.variant or zeroed or options or case.twice or "learnable_beta" in case.settings:
        assert "\n\nDeviation: " in cells.get(name).doc
