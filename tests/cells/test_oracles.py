"""The oracles against second sources: other libraries, closed forms, and the papers' sums."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from oracles import ORACLES
from oracles.base import Parameters, State
from oracles.continuous import dale, hold, legendre, symmetric_skew
from oracles.gated import clock_groups, cumax, openness
from torch import Tensor, nn, sigmoid, tanh

T, B, D, H = 7, 3, 4, 8


def drawn(name: str, D: int = D, **fixed: Tensor | float) -> Parameters:
    """Parameters of an oracle without gradients; fixed ones by name, with __ for the dot."""
    p = {k: v.detach() for k, v in ORACLES[name].parameters(D, H).items()}
    for k, v in fixed.items():
        key = k.replace("__", ".")
        assert key in p
        p[key] = torch.as_tensor(v, dtype=torch.float64).expand(p[key].shape).clone()
    return p


def inputs(D: int = D, seed: int = 1) -> Tensor:
    return torch.randn(T, B, D, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def states(n: int, seed: int = 2) -> State:
    g = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(B, H, generator=g, dtype=torch.float64) for _ in range(n))


def same(a: Tensor, b: Tensor | np.ndarray, tolerance: float = 1e-10) -> None:
    torch.testing.assert_close(a.detach(), torch.as_tensor(b).detach(), rtol=tolerance, atol=tolerance)


def put(module: nn.Module, **tensors: Tensor) -> nn.Module:
    """The module in double precision with these tensors as its parameters; others are set to 0."""
    module.double()
    named = dict(module.named_parameters())
    assert set(tensors) <= set(named)
    with torch.no_grad():
        for k, v in named.items():
            v.copy_(tensors.get(k, torch.zeros_like(v)))
    return module


def stacked(p: Parameters, kind: str, gates: str) -> Tensor:
    return torch.cat([p[f"{kind}.{k}"] for k in gates.split()])


def torch_lstm(p: Parameters, gates: str, **more: int) -> nn.LSTM:
    """torch's LSTM of the gates named as its i, f, g, o."""
    return put(
        nn.LSTM(D, H, **more),
        weight_ih_l0=stacked(p, "W", gates),
        weight_hh_l0=stacked(p, "U", gates),
        bias_ih_l0=stacked(p, "b", gates),
    )


def scanned(keep: Tensor, add: Tensor) -> Tensor:
    """h_t = keep_t h_{t−1} + add_t from 0, for all t: the sum over s ≤ t of add_s times what is kept after s."""
    hs = []
    for t in range(len(keep)):
        hs.append(sum(add[s] * torch.prod(keep[s + 1 : t + 1], 0) for s in range(t + 1)))
    return torch.stack(hs)


@pytest.mark.parametrize("name", ORACLES)
def test_an_oracle_is_well_formed(name: str) -> None:
    o = ORACLES[name]
    assert o.notes
    assert o.step.__doc__
    assert not o.delays or o.states[-len(o.delays) :] == o.delays
    assert "t" not in o.states or o.states[-1] == "t"
    assert set(o.positive) <= set(o.b)
    width = H if o.square else D
    p = o.parameters(width, H)
    xs = 3 * inputs(width)
    ys, last = o.run(p, xs)
    assert ys.shape == (T, B, H)
    assert ys.dtype == torch.float64
    assert [s.shape for s in last] == [(B, H)] * len(o.states)
    same(ys[-1], last[0])
    same(o.run(p, xs, **o.options)[0], ys)
    (ys**2).sum().backward()
    assert all(v.grad is not None and v.grad.isfinite().all() and v.grad.any() for v in p.values())


# Gated cells


def test_layer_norm_lstm_with_torch_layer_norm() -> None:
    p, x, (h, c) = drawn("layer_norm_lstm"), inputs()[0], states(2)

    def norm(a: Tensor, gain: Tensor, bias: Tensor | None = None) -> Tensor:
        return nn.functional.layer_norm(a, (H,), gain, bias, eps=1e-5)

    f, i, o, g = (
        norm(h @ p[f"U.{k}"].T, p[f"b.alpha1_{k}"], p[f"b.{k}"]) + norm(x @ p[f"W.{k}"].T, p[f"b.alpha2_{k}"])
        for k in "fiog"
    )
    c_new = sigmoid(f) * c + sigmoid(i) * tanh(g)
    h_new = sigmoid(o) * tanh(norm(c_new, p["b.alpha3"], p["b.beta3"]))
    _, (h, c) = ORACLES["layer_norm_lstm"].step(p, x, (h, c))
    same(h, h_new)
    same(c, c_new)


def test_layer_norm_gru_with_torch_layer_norm() -> None:
    p, x, (h,) = drawn("layer_norm_gru"), inputs()[0], states(1)

    def norm(a: Tensor, gain: Tensor, bias: Tensor | None = None) -> Tensor:
        return nn.functional.layer_norm(a, (H,), gain, bias, eps=1e-5)

    z, r = (
        sigmoid(norm(h @ p[f"U.{k}"].T, p[f"b.alpha1_{k}"], p[f"b.{k}"]) + norm(x @ p[f"W.{k}"].T, p[f"b.alpha2_{k}"]))
        for k in "zr"
    )
    candidate = tanh(
        norm(x @ p["W.h"].T, p["b.alpha3"], p["b.h"]) + r * norm(h @ p["U.h"].T, p["b.alpha4"], p["b.beta4"])
    )
    same(ORACLES["layer_norm_gru"].step(p, x, (h,))[0], torch.lerp(h, candidate, z))


def test_a_layer_norm_without_gains_forgets_its_inputs() -> None:
    fixed = {k: 0.0 for k in ORACLES["layer_norm_gru"].b if k.startswith("alpha")}
    p = drawn("layer_norm_gru", **{f"b__{k}": v for k, v in fixed.items()})
    ys, _ = ORACLES["layer_norm_gru"].run(p, inputs())
    same(ys, ORACLES["layer_norm_gru"].run(p, inputs(seed=9))[0])


def test_peephole_lstm_without_peepholes_is_an_lstm() -> None:
    p = drawn("peephole_lstm", b__pi=0, b__pf=0, b__po=0)
    ys, (_, c) = ORACLES["peephole_lstm"].run(p, inputs())
    expected, (_, c_torch) = torch_lstm(p, "i f z o")(inputs())
    same(ys, expected)
    same(c, c_torch[0])


def test_peephole_lstm_of_torchrecurrent() -> None:
    library = pytest.importorskip("torchrecurrent")
    p, x, (h, c) = drawn("peephole_lstm"), inputs()[0], states(2)
    cell = put(
        library.PeepholeLSTMCell(D, H),
        weight_ih=stacked(p, "W", "i f z o"),
        weight_hh=stacked(p, "U", "i f z o"),
        weight_ph=stacked(p, "b", "pi pf po"),
        bias_ih=stacked(p, "b", "i f z o"),
    )
    _, new = ORACLES["peephole_lstm"].step(p, x, (h, c))
    for ours, theirs in zip(new, cell(x, (h, c)), strict=True):
        same(ours, theirs)


def test_coupled_gates_are_an_lstm_with_the_opposite_forget_gate() -> None:
    p = drawn("cifg_lstm")
    lstm = p | {f"{kind}.f": -p[f"{kind}.i"] for kind in "WUb"}
    same(ORACLES["cifg_lstm"].run(p, inputs())[0], torch_lstm(lstm, "i f z o")(inputs())[0])


def test_lstmp_is_torch_s_projection() -> None:
    p = drawn("lstmp")
    half = H // 2
    lstm = put(
        nn.LSTM(D, H, proj_size=half),
        weight_ih_l0=stacked(p, "W", "i f c o"),
        weight_hh_l0=stacked(p, "U", "i f c o")[:, :half],
        bias_ih_l0=stacked(p, "b", "i f c o"),
        weight_hr_l0=p["U.p"][:half],
    )
    ys, (_, c) = ORACLES["lstmp"].run(p, inputs())
    expected, (_, c_torch) = lstm(inputs())
    same(ys[..., :half], expected)
    assert not ys[..., half:].any()
    same(c, c_torch[0])


def test_zoneout() -> None:
    o, p = ORACLES["zoneout_lstm"], drawn("zoneout_lstm")
    lstm = torch_lstm(p, "i f g o")
    same(o.run(p, inputs(), zoneout_c=0.0, zoneout_h=0.0)[0], lstm(inputs())[0])
    x, (h, c) = inputs()[0], states(2)
    _, (h_lstm, c_lstm) = lstm(x[None], (h[None], c[None]))
    _, (h_new, c_new) = o.step(p, x, (h, c))
    same(c_new, 0.5 * c + 0.5 * c_lstm[0])
    same(h_new, 0.05 * h + 0.95 * h_lstm[0])  # of the cell before zoneout
    _, kept = o.step(p, x, (h, c), zoneout_c=1.0, zoneout_h=1.0)
    same(kept[0], h)
    same(kept[1], c)


def test_recurrent_highway() -> None:
    x, (s,) = inputs()[0], states(1)
    closed = drawn("rhn", b__t1=-60, b__t2=-60, b__t3=-60)
    same(ORACLES["rhn"].step(closed, x, (s,))[0], s)
    p = drawn("rhn", b__t1=60, b__t2=60, b__t3=60)
    first = put(nn.RNNCell(D, H), weight_ih=p["W.h"], weight_hh=p["U.h1"], bias_ih=p["b.h1"])(x, s)
    deep = tanh(tanh(first @ p["U.h2"].T + p["b.h2"]) @ p["U.h3"].T + p["b.h3"])
    same(ORACLES["rhn"].step(p, x, (s,))[0], deep)


def test_a_layer_of_a_recurrent_highway_interpolates() -> None:
    p, x, (s,) = drawn("rhn", b__t2=-60, b__t3=-60), inputs()[0], states(1)
    h = tanh(x @ p["W.h"].T + s @ p["U.h1"].T + p["b.h1"])
    t = sigmoid(x @ p["W.t"].T + s @ p["U.t1"].T + p["b.t1"])
    same(ORACLES["rhn"].step(p, x, (s,))[0], torch.lerp(s, h, t))


def test_multiplicative_lstm_of_torchrecurrent() -> None:
    library = pytest.importorskip("torchrecurrent")
    p, x, (h, c) = drawn("multiplicative_lstm"), inputs()[0], states(2)
    cell = put(  # its biases inside the product m are 0: the paper has none
        library.MultiplicativeLSTMCell(D, H),
        weight_ih=stacked(p, "W", "m i f h o"),
        weight_hh=p["U.m"],
        weight_mh=stacked(p, "U", "i f h o"),
        bias_mh=stacked(p, "b", "i f h o"),
    )
    _, new = ORACLES["multiplicative_lstm"].step(p, x, (h, c))
    for ours, theirs in zip(new, cell(x, (h, c)), strict=True):
        same(ours, theirs)


def test_the_inner_cell_of_a_nested_lstm_is_an_lstm() -> None:
    p, x, (h, c, n) = drawn("nested_lstm"), inputs()[0], states(3)
    a = {k: x @ p[f"W.{k}"].T + h @ p[f"U.{k}"].T + p[f"b.{k}"] for k in "ifco"}
    inner = put(
        nn.LSTMCell(H, H),
        weight_ih=stacked(p, "U", "x_i x_f x_c x_o"),
        weight_hh=stacked(p, "U", "h_i h_f h_c h_o"),
        bias_ih=stacked(p, "b", "n_i n_f n_c n_o"),
    )
    c_new, n_new = inner(sigmoid(a["i"]) * tanh(a["c"]), (sigmoid(a["f"]) * c, n))
    _, new = ORACLES["nested_lstm"].step(p, x, (h, c, n))
    for ours, theirs in zip(new, (sigmoid(a["o"]) * tanh(c_new), c_new, n_new), strict=True):
        same(ours, theirs)


def test_ordered_neurons_with_open_master_gates_are_an_lstm() -> None:
    rising = cumax(inputs()[0])
    assert (rising.diff() > 0).all()
    same(rising[:, -1], torch.ones(B, dtype=torch.float64))
    first, last = torch.zeros(H), torch.zeros(H)
    first[0], last[-1] = 200, 200  # forget gates 1 for all units, input gates 1 for all but the last
    p, x, (h, c) = drawn("on_lstm", b__f_m=first, b__i_m=last), inputs()[0], states(2)
    _, (h_lstm, c_lstm) = torch_lstm(p, "i f c o")(x[None], (h[None], c[None]))
    _, (h_new, c_new) = ORACLES["on_lstm"].step(p, x, (h, c))
    same(h_new[:, :-1], h_lstm[0][:, :-1])
    same(c_new[:, :-1], c_lstm[0][:, :-1])
    same(c_new[:, -1], c[:, -1])  # its master input gate is closed, so that nothing is forgotten


def test_ordered_neurons_forget_low_units_and_write_to_them() -> None:
    split, level = torch.zeros(H), torch.zeros(H)
    split[4], level[2] = 200, 200  # f̃ = 1 from unit 4 on, ĩ = 1 below unit 2: they do not meet
    p, x, (h, c) = drawn("on_lstm", b__f_m=split, b__i_m=level), inputs()[0], states(2)
    _, (_, c_new) = ORACLES["on_lstm"].step(p, x, (h, c))
    same(c_new[:, :2], tanh(x @ p["W.c"].T + h @ p["U.c"].T + p["b.c"])[:, :2])
    same(c_new[:, 2:4], torch.zeros(B, 2, dtype=torch.float64))
    same(c_new[:, 4:], c[:, 4:])


def test_phased_lstm() -> None:
    t = torch.arange(12, dtype=torch.float64)
    tau, s = torch.tensor(5.0, dtype=torch.float64), torch.tensor(1.0, dtype=torch.float64)
    phase = [((k - 1) % 5) / 5 for k in range(12)]
    expected = [2 * f / 0.8 if f < 0.4 else 2 - 2 * f / 0.8 if f < 0.8 else 0.001 * f for f in phase]
    same(openness(t, tau, s, 0.8, 0.001), torch.tensor(expected, dtype=torch.float64))
    p = drawn("phased_lstm", b__tau=1, b__s=-0.5)  # always at the middle of an open period
    ys, (_, c, step) = ORACLES["phased_lstm"].run(p, inputs(), r_on=1.0)
    expected_h, (_, c_torch) = torch_lstm(p, "i f c o")(inputs())
    same(ys, expected_h)
    same(c, c_torch[0])
    assert (step == T).all()


def test_a_closed_phase_leaks() -> None:
    p, x, (h, c) = drawn("phased_lstm", b__tau=10, b__s=0), inputs()[0], states(2)
    _, (h_lstm, c_lstm) = torch_lstm(p, "i f c o")(x[None], (h[None], c[None]))
    _, (h_new, c_new, _) = ORACLES["phased_lstm"].step(p, x, (h, c, torch.full((B, H), 26.0, dtype=torch.float64)))
    same(h_new, torch.lerp(h, h_lstm[0], 0.001 * 0.6))
    same(c_new, torch.lerp(c, c_lstm[0], 0.001 * 0.6))


def test_clockwork_by_units() -> None:
    assert clock_groups(8).tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert clock_groups(6).tolist() == [0, 0, 1, 2, 2, 3]
    p, xs = drawn("clockwork_rnn"), inputs()
    ys, _ = ORACLES["clockwork_rnn"].run(p, xs)
    group, h = [j // 2 for j in range(H)], np.zeros((B, H))
    W, U, b = (p[k].numpy() for k in ("W.h", "U.h", "b.h"))
    for t in range(T):
        new = h.copy()
        for j in range(H):
            if t % (2 ** group[j]) == 0:
                reads = [k for k in range(H) if group[k] >= group[j]]
                new[:, j] = np.tanh(xs[t].numpy() @ W[j] + h[:, reads] @ U[j, reads] + b[j])
        h = new
        same(ys[t], h)


def test_multiplicative_integration_without_a_product_is_an_rnn() -> None:
    p = drawn("mi_rnn", b__alpha=0, b__beta1=1, b__beta2=1)
    rnn = put(nn.RNN(D, H), weight_ih_l0=p["W.h"], weight_hh_l0=p["U.h"], bias_ih_l0=p["b.h"])
    same(ORACLES["mi_rnn"].run(p, inputs())[0], rnn(inputs())[0])
    p, x, (h,) = drawn("mi_rnn", b__alpha=1, b__beta1=0, b__beta2=0, b__h=0), inputs()[0], states(1)
    product = nn.functional.bilinear(x, h, torch.einsum("ni,nj->nij", p["W.h"], p["U.h"]))
    same(ORACLES["mi_rnn"].step(p, x, (h,))[0], tanh(product))


def test_mogrifier_is_an_lstm_of_what_the_rounds_give() -> None:
    p, x, (h, c) = drawn("mogrifier_lstm", D=H, W__x=torch.eye(H)), inputs(H)[0], states(2)
    lstm = put(
        nn.LSTMCell(H, H),
        weight_ih=stacked(p, "U", "x_i x_f x_j x_o"),
        weight_hh=stacked(p, "U", "h_i h_f h_j h_o"),
        bias_ih=stacked(p, "b", "i f j o"),
    )
    x1 = 2 * sigmoid(h @ p["U.q"].T) * x
    h2 = 2 * sigmoid(x1 @ p["U.r"].T) * h
    for ours, theirs in zip(ORACLES["mogrifier_lstm"].step(p, x, (h, c))[1], lstm(x1, (h2, c)), strict=True):
        same(ours, theirs)
    p |= {k: torch.zeros(H, H, dtype=torch.float64) for k in ("U.q", "U.r")}
    for ours, theirs in zip(ORACLES["mogrifier_lstm"].step(p, x, (h, c))[1], lstm(x, (h, c)), strict=True):
        same(ours, theirs)


def torch_gru(p: Parameters, sign: int) -> nn.GRUCell:
    """torch's GRU cell, z being its share of the old state (sign 1) or of the new (−1): U.h has to be diagonal."""
    p = p | {f"{kind}.z": sign * p[f"{kind}.z"] for kind in "WUb"}
    return put(
        nn.GRUCell(D, H),
        weight_ih=stacked(p, "W", "r z h"),
        weight_hh=stacked(p, "U", "r z h"),
        bias_ih=stacked(p, "b", "r z h"),
    )


DIAGONAL = torch.diag(torch.linspace(-1, 1, H, dtype=torch.float64))  # r ⊙ U h = U (r ⊙ h)


def test_the_hidden_decay_of_gru_d() -> None:
    p, x, (h,) = drawn("gru_d", U__h=DIAGONAL), inputs()[0], states(1)
    decayed = torch.exp(-torch.clamp(x @ p["W.gamma"].T + p["b.gamma"], min=0)) * h
    same(ORACLES["gru_d"].step(p, x, (h,))[0], torch_gru(p, -1)(x, decayed))
    p["b.gamma"] = torch.full((H,), -60.0, dtype=torch.float64)
    same(ORACLES["gru_d"].step(p, x, (h,))[0], torch_gru(p, -1)(x, h))


def test_a_reset_is_inside_the_map() -> None:
    x, (h,) = inputs()[0], states(1)
    closed = drawn("gru_d", b__r=-60, b__gamma=-60)
    without = closed | {"U.h": torch.zeros(H, H, dtype=torch.float64)}
    same(ORACLES["gru_d"].step(closed, x, (h,))[0], ORACLES["gru_d"].step(without, x, (h,))[0])


def test_skip_rnn_by_a_number_per_layer() -> None:
    row, bias = torch.linspace(-1, 1, H, dtype=torch.float64), -1.2
    p, xs = drawn("skip_rnn", U__h=DIAGONAL, U__p=row.expand(H, H), b__p=bias), inputs()
    ys, _ = ORACLES["skip_rnn"].run(p, xs)
    gru, updates = torch_gru(p, 1), []
    for b in range(B):
        h, u = torch.zeros(1, H, dtype=torch.float64), 1.0
        for t in range(T):
            update = u >= 0.5
            updates.append(update)
            h = gru(xs[t, b : b + 1], h) if update else h
            increment = 1 / (1 + math.exp(-float(h[0].detach() @ row) - bias))
            u = increment if update else u + min(increment, 1 - u)
            same(ys[t, b], h[0])
    assert any(updates)
    assert not all(updates)


def test_skip_rnn_that_always_updates_is_a_gru() -> None:
    p, xs = drawn("skip_rnn", U__h=DIAGONAL, b__p=60), inputs()
    ys, _ = ORACLES["skip_rnn"].run(p, xs)
    h, gru = torch.zeros(B, H, dtype=torch.float64), torch_gru(p, 1)
    for t in range(T):
        h = gru(xs[t], h)
        same(ys[t], h)


def test_the_gate_of_a_skip_rnn_passes_gradients_straight_through() -> None:
    p, x, (h, _) = drawn("skip_rnn"), inputs()[0], states(2)
    u = torch.full((B, H), 0.3, dtype=torch.float64, requires_grad=True)
    y, _ = ORACLES["skip_rnn"].step(p, x, (h, u))
    y.sum().backward()
    updated, _ = ORACLES["skip_rnn"].step(p, x, (h, torch.ones(B, H, dtype=torch.float64)))
    same(y, h)
    same(u.grad, updated - h)


# Linear recurrences


def linear_of(p: Parameters, gate: str, xs: Tensor) -> Tensor:
    return xs @ p[f"W.{gate}"].T + p[f"b.{gate}"]


def test_mingru_is_a_cumulative_sum() -> None:
    p, xs = drawn("mingru"), inputs()
    z = sigmoid(linear_of(p, "z", xs))
    kept = torch.cumprod(1 - z, 0)
    same(ORACLES["mingru"].run(p, xs)[0], kept * torch.cumsum(z * linear_of(p, "h", xs) / kept, 0))


def test_minlstm_is_a_sum() -> None:
    p, xs = drawn("minlstm"), inputs()
    f, i = sigmoid(linear_of(p, "f", xs)), sigmoid(linear_of(p, "i", xs))
    share = f / (f + i)
    same(ORACLES["minlstm"].run(p, xs)[0], scanned(share, (1 - share) * linear_of(p, "h", xs)))


def test_qrnn_is_a_convolution_and_a_sum() -> None:
    p, xs = drawn("qrnn"), inputs()
    padded = nn.functional.pad(xs.permute(1, 2, 0), (1, 0))

    def convolved(gate: str) -> Tensor:
        kernel = torch.stack([p[f"W.{gate}1"], p[f"W.{gate}2"]], -1)
        return nn.functional.conv1d(padded, kernel, p[f"b.{gate}"]).permute(2, 0, 1)

    z, f, o = tanh(convolved("z")), sigmoid(convolved("f")), sigmoid(convolved("o"))
    same(ORACLES["qrnn"].run(p, xs)[0], o * scanned(f, (1 - f) * z))


def test_sru() -> None:
    o, xs = ORACLES["sru"], inputs(H)
    p = drawn("sru", D=H, b__v_f=0, b__v_r=0)
    f, r = sigmoid(linear_of(p, "f", xs)), sigmoid(linear_of(p, "r", xs))
    c = scanned(f, (1 - f) * (xs @ p["W.c"].T))
    same(o.run(p, xs)[0], r * c + (1 - r) * xs)
    same(o.run(p, xs, alpha=1.5)[0], r * c + 1.5 * (1 - r) * xs)
    p, x, (h, c) = drawn("sru", D=H), xs[0], states(2)
    f = sigmoid(linear_of(p, "f", x) + p["b.v_f"] * c)
    r = sigmoid(linear_of(p, "r", x) + p["b.v_r"] * c)  # of the cell before the step
    c_new = torch.lerp(x @ p["W.c"].T, c, f)
    same(o.step(p, x, (h, c))[0], torch.lerp(x, c_new, r))


def test_gilr_is_a_sum() -> None:
    p, xs = drawn("gilr"), inputs()
    g = sigmoid(linear_of(p, "g", xs))
    same(ORACLES["gilr"].run(p, xs)[0], scanned(g, (1 - g) * tanh(linear_of(p, "i", xs))))


def test_lru_is_a_convolution_with_powers_of_lambda() -> None:
    p, xs = drawn("lru"), inputs()
    q, u = {k: v.numpy() for k, v in p.items()}, xs.numpy()
    lam = np.exp(-np.exp(q["b.nu_log"])) * np.exp(1j * np.exp(q["b.theta_log"]))
    B_ = np.exp(q["b.gamma_log"])[:, None] * (q["W.b_re"] + 1j * q["W.b_im"])
    C = q["U.c_re"] + 1j * q["U.c_im"]
    ys, _ = ORACLES["lru"].run(p, xs)
    for t in range(T):
        s = sum(lam ** (t - k) * (u[k] @ B_.T) for k in range(t + 1))
        same(ys[t], (s @ C.T).real + u[t] @ q["W.d"].T)


def test_s4d_is_the_zero_order_hold_of_its_equation() -> None:
    signal = pytest.importorskip("scipy.signal")
    p, xs = drawn("s4d"), inputs()
    q, u = {k: v.numpy() for k, v in p.items()}, linear_of(p, "u", xs).numpy()
    ys, _ = ORACLES["s4d"].run(p, xs)
    for j in range(H):
        a, w = -np.exp(q["b.log_a_re"][j]), q["b.a_im"][j]
        real = (np.array([[a, -w], [w, a]]), np.array([[1.0], [0.0]]), np.eye(2), np.zeros((2, 1)))
        A_bar, B_bar, *_ = signal.cont2discrete(real, np.exp(q["b.log_dt"][j]), method="zoh")
        s = np.zeros((2, B))
        for t in range(T):
            s = A_bar @ s + B_bar * u[t, :, j]
            y = 2 * (q["b.c_re"][j] * s[0] - q["b.c_im"][j] * s[1]) + q["b.d"][j] * u[t, :, j]
            same(ys[t, :, j], y)


def test_hgrn_is_a_sum() -> None:
    p, xs = drawn("hgrn"), inputs()
    for bound in (0.0, 0.7):
        keep = bound + (1 - bound) * sigmoid(linear_of(p, "f", xs))
        c = linear_of(p, "c", xs)
        h = scanned(keep, (1 - keep) * c * sigmoid(c))
        same(ORACLES["hgrn"].run(p, xs, lower_bound=bound)[0], sigmoid(linear_of(p, "g", xs)) * h)


def test_rg_lru_is_a_sum() -> None:
    p, xs = drawn("rg_lru", D=H, W__u=torch.eye(H)), inputs(H)
    log_a = -8 * nn.functional.softplus(-p["b.Lambda"]) * sigmoid(linear_of(p, "a", xs))
    add = torch.sqrt(-torch.expm1(2 * log_a)) * sigmoid(linear_of(p, "x", xs)) * xs
    same(ORACLES["rg_lru"].run(p, xs)[0], scanned(torch.exp(log_a), add))


def test_slstm_without_its_stabilizer() -> None:
    p, xs = drawn("slstm"), inputs()
    ys, (_, c_ours, n_ours, m) = ORACLES["slstm"].run(p, xs)
    h, c, n = (torch.zeros(B, H, dtype=torch.float64) for _ in range(3))
    for t in range(T):
        a = {k: xs[t] @ p[f"W.{k}"].T + h @ p[f"U.{k}"].T + p[f"b.{k}"] for k in "zifo"}
        c = sigmoid(a["f"]) * c + torch.exp(a["i"]) * tanh(a["z"])
        n = sigmoid(a["f"]) * n + torch.exp(a["i"])
        h = sigmoid(a["o"]) * c / n
        same(ys[t], h)
    same(c_ours * torch.exp(m), c)
    same(n_ours * torch.exp(m), n)


def test_slstm_does_not_overflow() -> None:
    p = drawn("slstm", b__i=1000)
    assert ORACLES["slstm"].run(p, inputs())[0].isfinite().all()


def test_rwkv_is_the_paper_s_sum() -> None:
    p, xs = drawn("rwkv4"), inputs()
    ys, _ = ORACLES["rwkv4"].run(p, xs)
    before = torch.cat([torch.zeros(1, B, D, dtype=torch.float64), xs[:-1]])
    r, k, v = (p[f"b.mu_{n}"] * (xs @ p[f"W.{n}"].T) + (1 - p[f"b.mu_{n}"]) * (before @ p[f"W.{n}"].T) for n in "rkv")
    w = torch.exp(p["b.w"])
    for t in range(T):
        weights = [torch.exp(-(t - 1 - i) * w + k[i]) for i in range(t)] + [torch.exp(p["b.u"] + k[t])]
        wkv = sum(a * b for a, b in zip(weights, v[: t + 1], strict=True)) / sum(weights)
        same(ys[t], (sigmoid(r[t]) * wkv) @ p["U.o"].T)


def test_the_start_of_the_stabilizer_of_rwkv_does_not_matter() -> None:
    o, p, xs = ORACLES["rwkv4"], drawn("rwkv4"), inputs()
    start = list(o.start(B, H))
    start[o.states.index("pp")] -= 1e38
    same(o.run(p, xs, tuple(start))[0], o.run(p, xs)[0])


def test_indrnn() -> None:
    p, xs = drawn("indrnn"), inputs()
    rnn = put(
        nn.RNN(D, H, nonlinearity="relu"),
        weight_ih_l0=p["W.h"],
        weight_hh_l0=torch.diag(p["b.u"]),
        bias_ih_l0=p["b.h"],
    )
    same(ORACLES["indrnn"].run(p, xs)[0], rnn(xs)[0])


def test_indrnn_of_torchrecurrent() -> None:
    library = pytest.importorskip("torchrecurrent")
    p, x, (h,) = drawn("indrnn"), inputs()[0], states(1)
    cell = put(library.IndRNNCell(D, H, nonlinearity="relu"), weight_ih=p["W.h"], vector_u=p["b.u"], bias_ih=p["b.h"])
    same(ORACLES["indrnn"].step(p, x, (h,))[0], cell(x, h))


# Continuous time


def test_cornn_of_torchrecurrent() -> None:
    library = pytest.importorskip("torchrecurrent")
    p, x, (y, z) = drawn("cornn"), inputs()[0], states(2)
    cell = put(
        library.coRNNCell(D, H, dt=0.042, gamma=2.7, epsilon=4.7),
        weight_ih=p["W.z"],
        weight_hh=p["U.y"],
        weight_ch=p["U.z"],
        bias_ih=p["b.z"],
    )
    for ours, theirs in zip(ORACLES["cornn"].step(p, x, (y, z))[1], cell(x, (y, z)), strict=True):
        same(ours, theirs)


def test_unicornn_of_torchrecurrent() -> None:
    library = pytest.importorskip("torchrecurrent")
    p, x, (y, z) = drawn("unicornn"), inputs()[0], states(2)
    cell = put(
        library.UnICORNNCell(D, H, dt=0.19, alpha=30.65),
        weight_ih=p["W.z"],
        weight_hh=p["b.w"],
        weight_ch=p["b.c"],
        bias_ih=p["b.z"],
    )
    for ours, theirs in zip(ORACLES["unicornn"].step(p, x, (y, z))[1], cell(x, (y, z)), strict=True):
        same(ours, theirs)


def test_unicornn_is_reversible() -> None:
    o, p, x, (y, z) = ORACLES["unicornn"], drawn("unicornn"), inputs()[0], states(2)
    _, (y_new, z_new) = o.step(p, x, (y, z))
    step = 0.19 * sigmoid(p["b.c"])
    same(y_new - step * z_new, y)
    same(z_new + step * (tanh(p["b.w"] * y + linear_of(p, "z", x)) + 30.65 * y), z)


def test_lem_of_torchrecurrent() -> None:
    """It updates h from the cell before the step, where the paper has the new one: its h is that of a second call."""
    library = pytest.importorskip("torchrecurrent")
    p, x, (y, z) = drawn("lem"), inputs()[0], states(2)
    cell = put(
        library.LEMCell(D, H, dt=0.5),
        weight_ih=stacked(p, "W", "2 1 z y"),
        weight_hh=stacked(p, "U", "2 1 z"),
        weight_ch=p["U.y"],
        bias_ih=stacked(p, "b", "2 1 z y"),
    )
    _, z_new = cell(x, (y, z))
    y_new, _ = cell(x, (y, z_new))
    _, (y_ours, z_ours) = ORACLES["lem"].step(p, x, (y, z), dt=0.5)
    same(y_ours, y_new)
    same(z_ours, z_new)


def solved(slope: object, start: np.ndarray, end: float) -> np.ndarray:
    integrate = pytest.importorskip("scipy.integrate")
    return integrate.solve_ivp(slope, (0, end), start, rtol=1e-10, atol=1e-12).y[:, -1]


def test_lipschitz_rnn_follows_its_equation() -> None:
    M = drawn("lipschitz_rnn")["U.a"]
    same(symmetric_skew(M, 1.0, 0.0), M - M.T)
    same(symmetric_skew(M, 0.0, 0.1), M + M.T - 0.1 * torch.eye(H, dtype=torch.float64))
    p, x, (h,) = drawn("lipschitz_rnn"), inputs()[0], states(1)
    A, W = (symmetric_skew(p[k], 0.8, 0.2).numpy() for k in ("U.a", "U.w"))
    z = linear_of(p, "h", x).numpy()
    steps = 500
    ys, _ = ORACLES["lipschitz_rnn"].run(p, x.expand(steps, B, D), (h,), beta=0.8, gamma=0.2, eps=0.1 / steps)
    end = solved(lambda _, v: A @ v + np.tanh(W @ v + z[0]), h[0].numpy(), 0.1)
    same(ys[-1, 0], end, 1e-3)
    y = ORACLES["lipschitz_rnn"].step(p, x, (h,), beta=0.8, gamma=0.2, eps=0.5)[0]
    same(y[0], h[0].numpy() + 0.5 * (A @ h[0].numpy() + np.tanh(W @ h[0].numpy() + z[0])))


def test_exprnn() -> None:
    linalg = pytest.importorskip("scipy.linalg")
    p, x, (h,) = drawn("exprnn", b__h=0), inputs()[0], states(1)
    rotation = linalg.expm((p["U.h"] - p["U.h"].T).numpy())
    same(ORACLES["exprnn"].step(p, x, (h,))[0], h.numpy() @ rotation.T + x.numpy() @ p["W.h"].numpy().T)
    still = torch.zeros(5, B, D, dtype=torch.float64)
    ys, _ = ORACLES["exprnn"].run(p, still, (h,))
    same(ys[-1].norm(dim=-1), h.norm(dim=-1))
    p = drawn("exprnn", b__h=-0.5)
    z = h.numpy() @ rotation.T + x.numpy() @ p["W.h"].numpy().T
    shrunk = np.where(z > 0.5, z - 0.5, np.where(z < -0.5, z + 0.5, 0))
    same(ORACLES["exprnn"].step(p, x, (h,))[0], shrunk)


def test_lmu_is_the_zero_order_hold_of_the_legendre_delay() -> None:
    signal = pytest.importorskip("scipy.signal")
    A, B_ = np.zeros((H, H)), np.zeros((H, 1))
    for i in range(H):
        B_[i] = (2 * i + 1) * (-1) ** i / 16
        for j in range(H):
            A[i, j] = (2 * i + 1) * (-1 if i < j else (-1) ** (i - j + 1)) / 16
    A_bar, B_bar, *_ = signal.cont2discrete((A, B_, np.eye(H), np.zeros((H, 1))), 1.0, method="zoh")
    ours = hold(*legendre(H, 16.0))
    same(ours[0], A_bar)
    same(ours[1], B_bar[:, 0])
    encoders = {k: drawn("lmu")[k][:1].expand(H, -1) for k in ("W.u", "U.eh", "U.em")}  # one number u, as in the paper
    p, x, (h, m) = drawn("lmu") | encoders, inputs()[0], states(2)
    u = x @ p["W.u"][0] + h @ p["U.eh"][0] + m @ p["U.em"][0]
    m_new = m.numpy() @ A_bar.T + np.outer(u.numpy(), B_bar)
    _, (h_ours, m_ours) = ORACLES["lmu"].step(p, x, (h, m))
    same(m_ours, m_new)
    rnn = put(nn.RNNCell(D + H, H), weight_ih=torch.cat([p["W.h"], p["U.m"]], 1), weight_hh=p["U.h"])
    same(h_ours, rnn(torch.cat([x, torch.as_tensor(m_new)], 1), h))


def test_the_memory_of_an_lmu_holds_the_past() -> None:
    """A slow signal, delayed by the whole window, is the sum of the memory (the Legendre polynomials at 1 are 1)."""
    A_bar, B_bar = hold(*legendre(12, 50.0))
    m, u = torch.zeros(12, dtype=torch.float64), torch.sin(torch.arange(400, dtype=torch.float64) * 2 * math.pi / 100)
    decoded = []
    for v in u:
        m = A_bar @ m + B_bar * v
        decoded.append(m.sum())
    same(torch.stack(decoded)[150:], u[100:-50], 0.05)


def test_cfc_of_ncps() -> None:
    library = pytest.importorskip("ncps.torch")
    p, x, (h,) = drawn("cfc"), inputs()[0], states(1)
    theirs = {"ff1": "ff1", "ff2": "ff2", "a": "time_a", "b": "time_b"}
    weights = {f"{v}.weight": torch.cat([p[f"W.{k}"], p[f"U.{k}"]], 1) for k, v in theirs.items()}
    biases = {f"{v}.bias": p[f"b.{k}"] for k, v in theirs.items()}
    cell = put(library.CfCCell(D, H, mode="default", backbone_layers=0), **weights, **biases)
    same(ORACLES["cfc"].step(p, x, (h,))[0], cell(x, h, 1.0)[0])
    same(ORACLES["cfc"].step(p, x, (h,), ts=0.3)[0], cell(x, h, 0.3)[0])


def test_ltc_of_one_unit_is_that_of_ncps() -> None:
    library, wirings = pytest.importorskip("ncps.torch"), pytest.importorskip("ncps.wirings")
    g = torch.Generator().manual_seed(3)
    U, b, A = torch.randn(3, 1, generator=g, dtype=torch.float64)
    tau = torch.tensor([2.5], dtype=torch.float64)
    wiring = wirings.FullyConnected(1, 1)
    cell = library.LTCCell(wiring, in_features=1, input_mapping=None, output_mapping=None, epsilon=0.0).double()
    values = {  # σ(sigma (v − mu)) = σ(U v + b), no sensory synapse, no resting potential
        "cm": 1.0,
        "gleak": 1 / tau,
        "vleak": 0.0,
        "w": 1.0,
        "sigma": U,
        "mu": -b / U,
        "erev": A,
        "sensory_w": 0.0,
    }
    with torch.no_grad():
        for k, v in values.items():
            parameter = cell._params[k]
            parameter.copy_(torch.as_tensor(v, dtype=torch.float64).expand(parameter.shape))
    v = torch.randn(B, 1, generator=g, dtype=torch.float64)
    x = torch.randn(B, 1, generator=g, dtype=torch.float64)
    p = {"W.f": torch.zeros(1, 1, dtype=torch.float64), "U.f": U[:, None], "b.f": b, "b.tau": tau, "b.A": A}
    same(ORACLES["ltc"].step(p, x, (v,))[0], cell(x, v)[0])


def test_ltc_follows_its_equation() -> None:
    p, x, (v,) = drawn("ltc"), inputs()[0], states(1)
    q = {k: a.numpy() for k, a in p.items()}

    def slope(_: float, v: np.ndarray) -> np.ndarray:
        f = 1 / (1 + np.exp(-(q["W.f"] @ x[0].numpy() + q["U.f"] @ v + q["b.f"])))
        return -(1 / q["b.tau"] + f) * v + f * q["b.A"]

    same(ORACLES["ltc"].step(p, x, (v,), unfolds=500)[0][0], solved(slope, v[0].numpy(), 1.0), 3e-3)


def test_ctrnn_follows_its_equation() -> None:
    p, x, (u,) = drawn("ctrnn"), inputs()[0], states(1)
    q = {k: a.numpy() for k, a in p.items()}

    def slope(_: float, u: np.ndarray) -> np.ndarray:
        rate = 1 / (1 + np.exp(-u))
        return -u / q["b.tau"] + q["U.u"] @ rate + q["W.u"] @ x[0].numpy() + q["b.u"]

    ys, _ = ORACLES["ctrnn"].run(p, x.expand(500, B, D), (u,), dt=1 / 500)
    same(ys[-1, 0], solved(slope, u[0].numpy(), 1.0), 3e-3)
    same(ORACLES["ctrnn"].step(p, x, (u,))[0][0], u[0].numpy() + 0.1 * slope(0, u[0].numpy()))


def test_dale_s_law_by_connections() -> None:
    p, x, (_, v) = drawn("dale_ctrnn"), inputs()[0], states(2)
    W = dale(p["U.x"], 0.8)
    assert (W[:, :6] >= 0).all()
    assert (W[:, 6:] <= 0).all()
    assert not W.diagonal().any()
    U, expected = p["U.x"].numpy(), np.zeros((B, H))
    rates = np.maximum(v.numpy(), 0)
    for to in range(H):
        total = (x @ p["W.x"][to] + p["b.x"][to]).numpy()
        for sender in range(H):
            if sender != to:
                total = total + (1 if sender < 6 else -1) * max(U[to, sender], 0) * rates[:, sender]
        expected[:, to] = 0.8 * v.numpy()[:, to] + 0.2 * total
    y, (_, new) = ORACLES["dale_ctrnn"].step(p, x, (torch.zeros(B, H, dtype=torch.float64), v))
    same(new, expected)
    same(y, np.maximum(expected, 0))


def test_lif_of_snntorch() -> None:
    library = pytest.importorskip("snntorch")
    surrogate = pytest.importorskip("snntorch.surrogate")
    o, xs = ORACLES["lif"], 3 * inputs()
    p = o.parameters(D, H)
    spikes, (_, mem) = o.run(p, xs)
    assert 0 < spikes.mean() < 1
    weights = torch.linspace(0, 1, T * B * H, dtype=torch.float64).reshape(T, B, H)
    ((weights * spikes).sum() + mem.sum()).backward()

    neuron = library.RLeaky(beta=0.9, linear_features=H, spike_grad=surrogate.fast_sigmoid(slope=25)).double()
    put(neuron.recurrent, weight=p["U.s"].detach())
    neuron.beta = torch.tensor(0.9, dtype=torch.float64)  # not rounded to a float32
    into = put(nn.Linear(D, H), weight=p["W.mem"].detach(), bias=p["b.mem"].detach())
    spike, membrane, theirs = torch.zeros(B, H).double(), torch.zeros(B, H).double(), []
    for x in xs:
        spike, membrane = neuron(into(x), spike.double(), membrane)
        theirs.append(spike.double())
    same(spikes, torch.stack(theirs))
    same(mem, membrane)
    ((weights * torch.stack(theirs)).sum() + membrane.sum()).backward()
    same(p["W.mem"].grad, into.weight.grad, 1e-6)  # its spikes, and so their gradients, are float32
    same(p["b.mem"].grad, into.bias.grad, 1e-6)
    same(p["U.s"].grad, neuron.recurrent.weight.grad, 1e-6)
