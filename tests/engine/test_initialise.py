"""Initializations have the distributions that their names promise."""

from __future__ import annotations

import math

import pytest
import torch
from scipy import stats

from gatelab import Recurrent, cell, cells, sigmoid
from gatelab.lang import values

D, H = 16, 64


@pytest.mark.parametrize("name", cells.names())
def test_torch_is_uniform_within_one_over_root_h(name):
    layer = Recurrent(name, H, H, num_layers=2, init="torch")
    kept = {f"b.{n}" for n in layer.cell.graph.b if n not in layer.cell.graph.biases} & layer.cell.start.keys()
    values = torch.cat(
        [p.detach().flatten() for n, p in layer.named_parameters() if n.count(".") == 4 and n[13:] not in kept]
    )
    bound = 1 / math.sqrt(H)
    assert stats.kstest(values.numpy(), stats.uniform(-bound, 2 * bound).cdf).pvalue > 1e-3


@pytest.mark.parametrize("name", cells.names())
def test_xavier_has_orthogonal_recurrence_and_zero_biases(name):
    layer = Recurrent(name, H, H, init="xavier", dtype=torch.float64)
    own = layer.layers[0]["fwd"]
    for U in own.U.learned().values():
        torch.testing.assert_close(U @ U.T, torch.eye(H, dtype=torch.float64), rtol=0, atol=1e-12)
    for W in own.W.values():
        bound = math.sqrt(6 / (H + H))
        assert W.abs().max() <= bound
        assert stats.kstest(W.detach().flatten().numpy(), stats.uniform(-bound, 2 * bound).cdf).pvalue > 1e-3
    graph = layer.cell.graph
    own_values = [n for n in graph.b if n not in graph.biases and f"b.{n}" in layer.cell.start]
    assert all((b == 0).all() for n, b in own.b.learned().items() if n not in own_values)


@pytest.mark.parametrize(("share", "units", "ones"), [(0.9, 3, 3), (0.5, 4, 2), (0.5, 3, 1), (0.0, 3, 0), (1.0, 3, 3)])
def test_a_share_of_the_units_is_the_nearest_number_of_them(share, units, ones):
    first, signs = (recipe(share).make((units,)).tolist() for recipe in (values.first, values.signs))
    assert first == [1.0] * ones + [0.0] * (units - ones)
    assert signs == [1.0] * ones + [-1.0] * (units - ones)


def test_a_generator_makes_it_reproducible():
    def values(seed):
        layer = Recurrent("lstm", D, H, init="xavier", chrono=100)
        layer.reset_parameters(torch.Generator().manual_seed(seed))
        return torch.cat([p.detach().flatten() for p in layer.parameters()])

    assert torch.equal(values(1), values(1))
    assert not torch.equal(values(1), values(2))


@pytest.mark.parametrize(("bias", "opening"), [(1.0, 0.731), (0.0, 0.5), (2.0, 0.881)])
def test_gate_bias_sets_the_mean_of_the_gate(bias, opening):
    layer = Recurrent("gru", D, H, init="xavier", gate_bias={"z": bias})
    for x in (torch.zeros(8, 1, D), 0.1 * torch.randn(512, 1, D)):
        _, _, gates = layer(x, gates=True)
        assert gates["z"].mean().item() == pytest.approx(opening, abs=2e-3)
        assert gates["r"].mean().item() == pytest.approx(0.5, abs=2e-3)


def time_constants(name, gate, invert):
    """−1/ln of the fraction kept per step, for each unit, at x = 0 and h = 0."""
    layer = Recurrent(name, D, 2000, chrono=200)
    own = layer.layers[0]["fwd"]
    kept = torch.sigmoid(own.b[gate].detach().double())  # near 1, where float32 is coarse
    return -1 / torch.log(1 - kept if invert else kept)


@pytest.mark.parametrize(
    ("name", "gate", "invert"), [("gru", "z", False), ("lstm", "f", False), ("gru_cho", "z", True), ("mgu", "f", True)]
)
def test_chrono_spreads_time_constants_up_to_the_longest_dependency(name, gate, invert):
    constants = time_constants(name, gate, invert)
    # σ(log u) = u / (1 + u), whose time constant is 1 / log(1 + 1/u), about u + 1/2 steps, u uniform in [1, 199]
    shortest, longest = 1 / math.log(2), 1 / math.log(1 + 1 / 199)
    assert shortest * (1 - 1e-6) <= constants.min() < 3  # of 2,000 draws
    assert 198 < constants.max() <= longest * (1 + 1e-6)
    assert constants.mean().item() == pytest.approx(100.5, rel=0.05)


def test_chrono_sets_the_lstm_input_gate_to_the_opposite_bias():
    own = Recurrent("lstm", D, H, chrono=50).layers[0]["fwd"]
    assert torch.equal(own.b["i"], -own.b["f"])
    assert (own.b["f"] >= 0).all()


@pytest.mark.parametrize("gate", ["1 - sigmoid(W.z(x) + b.z)", "sigmoid(W.z(x) - b.z)", "sigmoid(-(W.z(x) + b.z))"])
def test_chrono_flips_the_sign_for_a_gate_that_closes_as_its_bias_grows(gate):
    space = {"cell": cell, "sigmoid": sigmoid}
    exec(f"@cell\ndef mine(x, h, W, U, b):\n    z = {gate}\n    return z * h + (1 - z) * W.n(x)", space)
    assert space["mine"].roles == {"z": "keep"}
    layer = Recurrent(space["mine"], D, H, chrono=50)
    assert (layer.layers[0]["fwd"].b["z"] <= 0).all()
    assert layer(torch.zeros(1, 1, D), gates=True)[2]["z"].min() >= 0.5


@cell
def steep(x, h, W, U, b):
    z = sigmoid(3 * (W.z(x) + b.z))
    return z * h + (1 - z) * W.n(x)


def test_chrono_samples_each_layer_and_direction_separately():
    layer = Recurrent("gru", D, H, num_layers=2, bidirectional=True, chrono=50)
    drawn = [own.b["z"].detach() for own in layer.cell_parameters()]
    assert len({tuple(values.tolist()) for values in drawn}) == 4


@cell
def biasless(x, h, W, U, b):
    z = sigmoid(W.z(x) + U.z(h) + b.keep)
    return z * h + (1 - z) * W.n(x)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"init": "orthogonal"}, "unknown init 'orthogonal'"),
        ({"gate_bias": {"zz": 1.0}}, "did you mean 'z'"),
        ({"gate_bias": {"z": float("nan")}}, "finite"),
        ({"gate_bias": 1.0}, "expected a mapping"),
        ({"gate_bias": {"z": "1"}}, "finite"),
        ({"chrono": 1}, "integer of at least 2"),
        ({"chrono": 20.0}, "integer of at least 2"),
        ({"chrono": 20, "gate_bias": {"z": 1.0}}, "both chrono and gate_bias set b.z"),
        ({"cell": "agru", "chrono": 20}, "none of its gates keeps or overwrites"),
        ({"cell": "rnn", "chrono": 20}, "none of its gates keeps or overwrites"),
        ({"cell": biasless, "chrono": 20}, "has no b.z"),
        ({"cell": steep, "chrono": 20}, "has the factor 3"),
    ],
)
def test_bad_input_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Recurrent(**{"cell": "gru", "input_size": D, "hidden_size": H} | options)
