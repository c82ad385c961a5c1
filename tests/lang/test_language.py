"""The operations of the language in every engine and form: values and gradients, printing, documents, ablation."""

from __future__ import annotations

import copy
import json
import math
import re

import pytest
import torch
from beside_eager import (
    _poisoned,  # noqa: F401 - a fixture of all tests here
    compare,
    pair,
    random_states,
)
from matplotlib.mathtext import MathTextParser
from safetensors.torch import load_file
from torch.nn.utils.parametrizations import orthogonal, spectral_norm, weight_norm

from gatelab import (
    CellError,
    GatelabError,
    I,
    Recurrent,
    bernoulli,
    cell,
    cells,
    clamp,
    cos,
    exp,
    expm,
    floor,
    full,
    hard_sigmoid,
    hold,
    lang,
    layer_norm,
    learned,
    log,
    maximum,
    mean,
    minimum,
    prev,
    relu,
    rms_norm,
    sigmoid,
    sqrt,
    step,
    stop_gradient,
    sum,  # noqa: A004
    surrogate,
    tanh,
    values,
    where,
)  # fmt: skip
from gatelab.lang.document import digest, from_document, to_document
from gatelab.lang.graph import is_antisymmetric
from gatelab.training import RunSpec, train


@cell
def pieces(x, h, W, U, b, *, rate=learned(0.4)):
    a = W.a(x) + U.a(h) + b.a
    n = maximum(a, 0.3 * b.m) + minimum(a * rate, h) - abs(a) + clamp(2 * a, -0.5, 0.7)
    k = hard_sigmoid(a) * where(a > 0.1, tanh(n), rate * h) + where(b.m <= h, 0, n)
    return 0.5 * k + 0.1 * sqrt(1 + a * a) + 0.1 * log(2 + h * h)


@cell
def spiking(x, s, m, W, U, b, *, slope=10.0):
    v = 0.9 * m + W.m(x) + U.m(s) - stop_gradient(s)
    u = v - 0.2
    return surrogate(step(u), u / (1 + slope * abs(u))), v + 0.1 * floor(2 * v) + 0.2 * surrogate(floor(v), v)


@cell
def normalized(x, h, c, W, U, b, *, rate=learned(0.3)):
    i = sigmoid(b.g * layer_norm(W.i(x) + U.i(h)) + b.i)
    mu = mean(c)
    n = tanh(b.s * rms_norm(W.n(x) + U.n(i * h)) + b.n)
    share = exp(n) / sum(exp(n))
    return n * share + 0.2 * rate * mu + 0.1 * sum(h * n) * rate, c * i + tanh(layer_norm(n)) * mean(h)


@cell
def remembering(x, h, t, W, U, b):
    v = W.v(x)
    n = tanh(v + U.n(h) + b.n - prev(v, 2))
    phase = t / 3 - floor(t / 3)
    return n * phase + prev(n) * prev(h) + 0.1 * prev(prev(n, 2)) + 0.3 * cos(0.1 * t)


@cell
def highway(x, h, W, U, b):
    z = sigmoid(W.z(x) + b.z * x)
    return z * tanh(U.h(h + x)) + (1 - z) * x


@cell
def untouched(x, h, b):
    return b.d * h + x * x


@cell(
    given={"U.mask": values.off_diagonal(), "b.sign": values.signs(0.8)},
    start={"b.h": 0.25, "U.h": values.uniform(0, 1)},
)
def constrained(x, h, W, U, b):
    skew = expm(U.s - U.s.T)
    return tanh(W.h(x) + (U.mask * relu(U.h))(b.sign * h) + skew(h) + 0.1 * abs(U.s)(h) + b.h)


@cell
def vectors_in_rows(x, h, W, b):
    return tanh(W.h(x)) * mean(b.g) + sum(b.g * h) / 5


CELLS = [pieces, spiking, normalized, remembering, highway, untouched, constrained, vectors_in_rows]


@pytest.mark.parametrize("own", CELLS, ids=lambda own: own.name)
def test_fused_is_eager(own):
    """Awkward sizes, two layers, both directions, lengths, gates and two threads; one kernel each."""
    before = torch.get_num_threads()
    try:
        for threads, (B, T, H), lengths in [(1, (3, 6, 5), None), (2, (9, 5, 21), [5, 1, 4, 2, 5, 3, 3, 1, 2])]:
            torch.set_num_threads(threads)
            torch.manual_seed(threads)
            D, several = (H, 1) if own.graph.uses_input_itself else (3, 2)
            layer, exact = pair(own, D, H, several, bidirectional=several == 2)
            compare(layer, exact, torch.randn(B, T, D), random_states(layer, B), lengths=lengths, gates=True)
    finally:
        torch.set_num_threads(before)


# -- every form of the equations --------------------------------------------------------------------------------------


@pytest.mark.parametrize("own", CELLS, ids=lambda own: own.name)
def test_documents_and_python_give_the_same_cell(own):
    again = from_document(json.loads(json.dumps(to_document(own))))
    assert to_document(again) == to_document(own)
    space = {name: getattr(lang, name) for name in lang.__all__} | vars(values)
    exec(own.python(), space)
    assert digest(space[own.name]) == digest(own)
    MathTextParser("path").parse("$" + own.latex().splitlines()[1].replace("&", "").removesuffix("\\\\") + "$")
    results = []
    for each in (own, again):
        torch.manual_seed(0)
        layer = Recurrent(each, 4, 4, engine="eager", dtype=torch.float64)
        results.append(layer(torch.randn(2, 5, 4, dtype=torch.float64))[0])
    assert torch.equal(*results)


def test_printing():
    assert normalized.text().splitlines()[0] == "i = σ(b_g ⊙ layer_norm(W_i x + U_i h) + b_i)"
    assert remembering.latex().splitlines()[1:4] == [
        r"v_t &= W_{v} x_t \\",
        r"n_t &= \tanh(v_t + U_{n} h_{t-1} + b_{n} - v_{t-2}) \\",
        r"\mathrm{phase}_t &= \frac{t}{3} - \lfloor \frac{t}{3} \rfloor \\",
    ]
    assert constrained.text().splitlines()[0] == "skew = expm(U_s − U_sᵀ)"
    assert "(U_mask ⊙ relu(U_h)) (b_sign ⊙ h) + skew h + 0.1 · (abs(U_s) h)" in constrained.text()
    assert "where(a > 0.1, tanh(n), rate · h)" in pieces.text()


def test_gates_can_be_held():
    held = hold(remembering, {"phase": 1.0})
    assert held.states == ("h", "v_1", "v_2", "n_1", "n_2", "h_1", "value_1", "t")
    assert "t / 3" not in held.text()
    assert hold(normalized, {"i": 1.0}).graph.b == ("s", "n")
    assert hold(constrained, {}) is constrained


# -- given and initial values -----------------------------------------------------------------------------------------


def test_given_values_are_fixed_and_travel_with_the_layer():
    layer = Recurrent(constrained, 3, 5)
    names = {name for name, _ in layer.named_parameters()}
    assert names == {f"layers.0.fwd.{name}" for name in ("W.h", "U.h", "U.s", "b.h")}
    assert constrained.parameter_count(3, 5) == 3 * 5 + 2 * 25 + 5
    state = layer.state_dict()
    assert state["layers.0.fwd.b.sign"].tolist() == [1, 1, 1, 1, -1]
    assert torch.equal(state["layers.0.fwd.U.mask"], 1 - torch.eye(5))
    for name in ("b.sign", "U.mask"):
        with pytest.raises(GatelabError, match="unknown parameter of cell"):
            layer.freeze(name)
    with pytest.raises(GatelabError, match="unknown gate_bias of cell"):
        Recurrent(constrained, 3, 5, gate_bias={"sign": 1.0})


def test_initial_values_belong_to_the_cell_and_init_overrides_them():
    layer = Recurrent(constrained, 3, 50).layers[0]["fwd"]
    assert (layer.b.h == 0.25).all()
    assert 0 <= layer.U.h.min() < 0.01
    assert 0.99 < layer.U.h.max() < 1
    assert abs(layer.U.s).max() <= 1 / math.sqrt(50)
    overridden = Recurrent(constrained, 3, 50, init="torch").layers[0]["fwd"]
    assert overridden.U.h.min() < 0
    assert (Recurrent(constrained, 3, 50, gate_bias={"h": 0.5}).layers[0]["fwd"].b.h == 0.5).all()
    radius = torch.exp(-torch.exp(Recurrent("lru", 3, 500).layers[0]["fwd"].b.nu))
    assert 0.9 <= radius.min() < 0.92
    assert 0.99 < radius.max() <= 0.999


@pytest.mark.parametrize(
    ("beside", "message"),
    [
        ({"given": {"b.m": 1}}, "unknown given of a parameter: 'b.m'"),
        ({"start": {"n": 1}}, "unknown start of a parameter"),
        ({"given": {"b.n": 1}, "start": {"b.n": 2}}, "b.n is given, and has an initial value too"),
        ({"given": {"b.n": values.uniform(0, 1)}}, "given values are the same in every run"),
        ({"given": {"b.n": values.periods(2.5)}}, "expected an integer number of groups"),
        ({"start": {"b.n": values.first(2)}}, "expected a share of the units"),
        (
            {"given": {"b.n": values.off_diagonal()}},
            "given of b.n is off_diagonal(): expected values of a vector, one of constant",
        ),
        (
            {"given": {"U.n": values.periods(4)}},
            "given of U.n is periods(4): expected values of a recurrent map, one of",
        ),
        ({"given": {"W.n": values.slower(4)}}, "given of W.n is slower(4): expected values of a map of the input"),
        ({"start": {"b.n": "ones"}}, "expected a number or one of constant"),
        ({"start": {"b.n": values.uniform(0, math.inf)}}, "expected 2 finite number"),
        ({"start": {"b.n": values.Values("uniform", (1,))}}, "expected 2 finite number"),
    ],
)
def test_values_that_do_not_fit_are_refused(beside, message):
    with pytest.raises(CellError, match="cell 'mine': .*" + re.escape(message)):

        @cell(**beside)
        def mine(x, h, W, U, b):
            return tanh(W.n(x) + U.n(h) + b.n)


def test_recipes():
    vector, square = (6,), (4, 4)
    assert values.periods(3).make(vector).tolist() == [1, 1, 2, 2, 4, 4]
    assert values.first(0.5).make((5,)).tolist() == [1, 1, 0, 0, 0]
    assert values.signs(0.8).make((5,)).tolist() == [1, 1, 1, 1, -1]
    assert values.evenly(0, 1).make((3,)).tolist() == [0, 0.5, 1]
    assert values.multiples(2).make((3,)).tolist() == [0, 2, 4]
    assert values.one_hot().make((3,)).tolist() == [1, 0, 0]
    h = torch.arange(4.0, dtype=torch.float64)
    assert (values.permutation(1).make(square) @ h).tolist() == [1, 2, 3, 0]
    assert (values.lower_triangular().make(square) @ h).tolist() == [0, 1, 3, 6]
    assert (values.identity(2).make(square) @ h).tolist() == [0, 2, 4, 6]
    assert values.slower(2).make(square).tolist() == [[1, 1, 1, 1], [1, 1, 1, 1], [0, 0, 1, 1], [0, 0, 1, 1]]
    assert values.legendre().make((3, 3)).tolist() == [[-1, -1, -1], [3, -3, -3], [-5, 5, -5]]
    Q = values.orthogonal().make(square)
    torch.testing.assert_close(Q @ Q.T, torch.eye(4, dtype=torch.float64))
    for recipe, low, high in [
        (values.uniform(2, 3), 2, 3),
        (values.log_uniform(1, 9), 0, math.log(9)),
        (values.exp_uniform(1, 2), math.e, 7.39),
    ]:
        drawn = recipe.make((1000,))
        assert low <= drawn.min() < low + 0.2
        assert high - 0.2 < drawn.max() <= high
    assert values.normal(2).make((10_000,)).std() == pytest.approx(2, rel=0.05)
    with pytest.raises(GatelabError, match="not finite for 5 units"):
        values.exp_uniform(0, 100).make((5,))


def test_the_input_itself_needs_as_many_features_as_units():
    with pytest.raises(
        GatelabError, match=r"as many features as units: the input of layer 0 has 3, and hidden_size is 5"
    ):
        Recurrent(highway, 3, 5)
    with pytest.raises(GatelabError, match="the input of layer 1 has 10"):
        Recurrent(highway, 5, 5, 2, bidirectional=True)
    Recurrent(highway, 5, 5, 2)


# -- masks ------------------------------------------------------------------------------------------------------------


@cell
def masked(x, h, W, U, b, *, rate=0.25):
    m = bernoulli(1 - rate)
    k = bernoulli(0.5)
    return m * tanh(W.h(x) + U.h(h) + b.h) + 2 * k


def test_a_map_minus_its_transpose_is_antisymmetric_and_their_sum_is_not():
    def matrix(of):
        @cell
        def own(x, h, W, U):
            return tanh(W.n(x) + of(U.n)(h))

        return own.graph.matrices[-1]

    assert is_antisymmetric(matrix(lambda U: U - U.T))
    assert is_antisymmetric(matrix(lambda U: 0.5 * (U.T - U) - 0.1 * I))
    assert not is_antisymmetric(matrix(lambda U: U + U.T))
    assert not is_antisymmetric(matrix(lambda U: U - 0.1 * I))


def test_a_sum_of_maps_may_begin_with_the_identity():
    @cell
    def own(x, h, W, U):
        return tanh(W.n(x) + (0.5 * I + U.n)(h))

    assert own.text() == "h' = tanh(W_n x + (0.5 I + U_n) h)"


def test_masks_are_drawn_in_training_and_are_their_mean_otherwise():
    layer = Recurrent(masked, 3, 40, engine="fused")
    x = torch.randn(20, 50, 3)
    torch.manual_seed(1)
    _, _, gates = layer(x, gates=True)
    assert set(gates["m"].unique().tolist()) == {0.0, 1.0}
    assert gates["m"].mean().item() == pytest.approx(0.75, abs=0.01)
    assert gates["k"].mean().item() == pytest.approx(0.5, abs=0.01)
    assert not torch.equal(gates["m"][:, :, 0], gates["m"][:, :, 1])
    torch.manual_seed(1)
    layer.engine = "eager"
    assert torch.equal(layer(x, gates=True)[2]["m"], gates["m"])
    evaluated = layer.eval()(x, gates=True)[2]
    assert (evaluated["m"] == 0.75).all()
    with pytest.raises(GatelabError, match=r"probability 1\.5: expected 0 to 1"):
        Recurrent(masked, 3, 4, rate=-0.5)(x)


def test_masks_are_the_same_after_an_interruption(tmp_path):
    def spec(epochs: int) -> RunSpec:
        return RunSpec(
            task={"name": "adding", "length": 8, "size": 160},
            model={"cell": "zoneout_lstm", "hidden_size": 8},
            training={"num_epochs": epochs, "batch_size": 32},
        )

    train(spec(3), tmp_path / "whole")
    train(spec(1), tmp_path / "parts")
    train(spec(3), tmp_path / "parts", extend=True)
    whole, parts = (load_file(tmp_path / name / "best.safetensors") for name in ("whole", "parts"))
    assert all(torch.equal(whole[key], parts[key]) for key in whole)


def test_masks_have_names_of_their_own():
    @cell
    def confusing(x, h, W, *, random_0=0.9):
        random = bernoulli(0.5) * W.h(x)
        return random_0 * h + bernoulli(0.25) * prev(random)

    layer, exact = pair(confusing, 3, 5)
    compare(layer, exact, torch.randn(3, 6, 3), random_states(layer, 3))


def test_one_mask_is_printed_as_one():
    @cell
    def shared(x, h, c, W):
        _m = 1 - bernoulli(0.5)
        return _m * W.h(x) + h, _m * W.c(x) + c

    space = {name: getattr(lang, name) for name in lang.__all__}
    exec(shared.python(), space)
    assert len(space["shared"].graph.randoms) == len(shared.graph.randoms) == 1


def test_a_probability_cannot_be_learned():
    with pytest.raises(
        GatelabError, match=r"'rate' of cell 'masked' is the probability of a mask and cannot be learned"
    ):
        Recurrent(masked, 3, 4, learnable_rate=True)


# -- corners ----------------------------------------------------------------------------------------------------------


def test_division_by_a_number_is_exact():
    @cell
    def every(x, h, t, W, *, n=41.0):
        return floor(t / n) + 0 * W.h(x)

    output, _ = Recurrent(every, 1, 3, engine="fused")(torch.zeros(1, 100, 1))
    assert output[0, :, 0].tolist() == [t // 41 for t in range(100)]


def test_what_a_function_computes_to_no_effect_does_not_matter():
    @cell
    def idle(x, h, t, W):
        _k = t / 2 + bernoulli(0.5) + prev(h)
        return tanh(W.h(x) + h)

    layer, exact = pair(idle, 2, 3)
    compare(layer, exact, torch.randn(2, 4, 2), random_states(layer, 2))


def test_a_choice_by_a_fixed_number():
    @cell
    def switched(x, h, W, *, gamma=-1.0):
        return tanh(W.h(x) + 0.1 * h) + where(gamma > 0, h, 0.5)

    layer, exact = pair(switched, 2, 3)
    compare(layer, exact, torch.randn(2, 4, 2), random_states(layer, 2))


def test_comparisons_by_torch():
    @cell
    def compared(x, h, W, U):
        v = W.h(x) + U.h(h)
        return torch.where(torch.gt(v, 0), v, 0.1 * v)

    assert compared.text().splitlines()[1] == "h' = where(v > 0, v, 0.1 · v)"


def test_names_of_earlier_values_avoid_that_of_the_input():
    @cell
    def shadowed(n_1, h, W):
        n = tanh(W.n(n_1) + h)
        return n + prev(n)

    assert shadowed.states == ("h", "n_1_")


@pytest.mark.parametrize(
    ("equation", "message"),
    [
        ("clamp(U.a, 0, 1)(h)", "clamp of a map"),
        ("maximum(U.a, U.b)(h)", "maximum of a map"),
        ("floor(U.a)(h)", "floor of a map"),
        ("clamp(h, 0.2, -0.2)", "not above the upper one"),
        ("(float('inf') * U.a)(h)", "expected a finite number"),
        ("h * 1e39", "range of float32"),
        ("where((h > 0) & (h < 1), h, 0)", "nest them"),
        ("prev(h > 0)", "only the condition of where"),
    ],
)
def test_corners_are_refused(equation, message):
    space = {name: getattr(lang, name) for name in lang.__all__}
    with pytest.raises(CellError, match=message):
        exec(f"@cell\ndef odd(x, h, W, U):\n    return W.h(x) + {equation}", space)


@pytest.mark.parametrize("name", cells.names())
def test_every_gate_of_every_cell_can_be_held(name):
    original = cells.get(name)
    for gate in original.gates:
        held = hold(original, {gate: 0.25})
        assert held.text()
        if not any(node.op == "full" for node in held.graph.nodes()):
            continue  # as test_hold.py has it
        again = from_document(json.loads(json.dumps(to_document(held))))
        size = 5 if original.graph.uses_input_itself else 3
        outputs = []
        for each in (held, again):
            torch.manual_seed(0)
            layer = Recurrent(each, size, 5, engine="eager").eval()
            outputs.append(layer(torch.randn(2, 3, size))[0])
        assert torch.equal(*outputs)


@cell
def filled(x, h, W, U):
    n = tanh(W.n(x) + U.n(full(0.5)))
    return n + mean(full(2.0)) * h + prev(full(1.0)) + where(h > 0, full(0.1), 0)


def test_full_vectors():
    layer, exact = pair(filled, 3, 5)
    compare(layer, exact, torch.randn(3, 6, 3), random_states(layer, 3), lengths=[6, 2, 4], gates=True)
    held = hold(cells.ctrnn, {"r": 0.5})
    layer, exact = pair(held, 3, 5)
    compare(layer, exact, torch.randn(3, 6, 3), random_states(layer, 3))
    space = {name: getattr(lang, name) for name in lang.__all__}
    exec(filled.python(), space)
    assert digest(space["filled"]) == digest(filled)


def test_vectors_that_are_no_biases_start_as_the_cell_says():
    for init in ("torch", "xavier"):
        layer = Recurrent("ctrnn", 3, 4, init=init).layers[0]["fwd"]
        assert (layer.b.tau == 1).all()
    assert (Recurrent("nested_lstm", 3, 4, init="xavier").layers[0]["fwd"].b.f == 0).all()


# -- the recurrence, and parametrizations -----------------------------------------------------------------------------


def test_the_class_of_a_recurrence_is_derived():
    @cell
    def memory(x, y, m, W, U, b):
        m = U.a(m) + W.m(x)
        return tanh(U.y(m) + b.y), m

    @cell
    def mixed(x, h, W):
        return h * mean(h) + W.h(x)

    @cell
    def shared(x, h, W):
        return h - mean(h) + W.h(x)

    @cell
    def delayed(x, h, W, U):
        n = W.n(x) + h
        return tanh(U.n(prev(n)))

    assert memory.recurrence == "linear"  # the read-out is not fed back
    assert (mixed.recurrence, shared.recurrence, delayed.recurrence) == ("dense", "linear", "dense")
    assert untouched.recurrence == "linear elementwise"

    @cell
    def cascade(x, y, h, W, U, b):
        z = sigmoid(W.z(x) + b.z)
        h = (1 - z) * h + z * W.h(x)
        return b.k * y + tanh(U.y(h)), h

    @cell
    def divided(x, h, W):
        return W.n(x) / (2 + h)

    @cell
    def divided_by_the_input(x, h, W):
        return h / (2 + W.n(x))

    assert cascade.recurrence == "linear elementwise"
    assert (divided.recurrence, divided_by_the_input.recurrence) == ("elementwise", "linear elementwise")
    assert spiking.recurrence == "dense"


def test_an_earlier_value_that_nothing_reads_is_no_state():
    @cell
    def reading(x, h, W, U):
        n = tanh(W.n(x) + U.n(h))
        m = mean(prev(n, 2))  # noqa: F841
        return 0.5 * n + 0.5 * prev(n)

    assert reading.states == ("h", "n_1")
    layer = Recurrent(reading, 3, 4, engine="eager")
    assert layer(torch.randn(2, 5, 3))[0].shape == (2, 5, 4)


def test_an_earlier_value_and_an_option_of_the_same_name():
    """prev(n) would be the state n_1."""

    @cell
    def plain(x, h, W, U, *, scale=0.3):
        n = tanh(W.n(x) + U.n(h))
        return n + scale * prev(n)

    @cell
    def alike(x, h, W, U, *, n_1=0.3):
        n = tanh(W.n(x) + U.n(h))
        return n + n_1 * prev(n)

    assert (plain.states, alike.states) == (("h", "n_1"), ("h", "n_1_"))
    layers = [Recurrent(each, 3, 4, engine="eager") for each in (plain, alike)]
    layers[1].load_state_dict(layers[0].state_dict())
    x = torch.randn(2, 5, 3)
    assert torch.equal(layers[0](x)[0], layers[1](x)[0])


@pytest.mark.parametrize("usual", [spectral_norm, weight_norm, orthogonal])
def test_parametrized_maps(usual):
    torch.manual_seed(0)
    layer = Recurrent("gru", 3, 6, engine="fused")
    usual(layer.layers[0]["fwd"].U, "n")
    layer.eval()  # spectral_norm changes its estimate in training
    exact = copy.deepcopy(layer).double()
    exact.engine = "eager"
    compare(layer, exact, torch.randn(4, 5, 3), random_states(layer, 4))
    gradients = [p.grad for n, p in layer.named_parameters() if "parametrizations" in n]
    assert all(gradient is not None and gradient.abs().max() > 0 for gradient in gradients)
    with pytest.raises(GatelabError, match=r"U\.n is parametrized and cannot be initialized"):
        layer.reset_parameters()
