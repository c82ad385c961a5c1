"""torch.nn as the reference: the same weights give the same results, on both engines, in both directions."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from gatelab import Recurrent, from_torch

D, H, B, T = 3, 4, 3, 6
MODULES = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}


def as_tuple(state):
    return state if isinstance(state, tuple) else (state,)


def weighted_sum(values):
    return sum((v * torch.linspace(-1, 1, v.numel()).double().view_as(v)).sum() for v in values)


def torch_gradient(layer: Recurrent, module: nn.RNNBase) -> dict[str, torch.Tensor]:
    """The gradients of torch.nn under gatelab's names. Two biases that are summed have the same gradient."""
    order = {"rnn": "h", "gru": "rzn", "lstm": "ifgo"}[layer.cell.name]
    named = {}
    for number in range(layer.num_layers):
        for direction, suffix in zip(layer.directions, ("", "_reverse"), strict=False):
            for letter, kind in (("W", "weight_ih"), ("U", "weight_hh"), ("b", "bias_ih"), ("b.h", "bias_hh")):
                grad = getattr(module, f"{kind}_l{number}{suffix}").grad
                for gate, rows in zip(order, grad.chunk(len(order)), strict=True):
                    name = f"{letter}{gate}" if letter == "b.h" else f"{letter}.{gate}"
                    named[f"layers.{number}.{direction}.{name}"] = rows
    return named


@pytest.mark.parametrize("lengths", [None, [6, 1, 4]], ids=["full", "lengths"])
@pytest.mark.parametrize("engine", ["eager", "native"])
@pytest.mark.parametrize("bidirectional", [False, True], ids=["unidirectional", "bidirectional"])
@pytest.mark.parametrize("num_layers", [1, 2])
@pytest.mark.parametrize("cell", MODULES)
def test_equals_torch_in_outputs_states_and_all_gradients(cell, num_layers, bidirectional, engine, lengths):
    module = MODULES[cell](D, H, num_layers, batch_first=True, bidirectional=bidirectional, dtype=torch.float64)
    layer = from_torch(module)
    layer.engine = engine
    x = torch.randn(B, T, D, dtype=torch.float64, requires_grad=True)
    shape = (num_layers * (2 if bidirectional else 1), B, H)
    states = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for _ in layer.cell.states]
    state = tuple(states) if cell == "lstm" else states[0]

    def gradients_of(call):
        x.grad = None
        for value in states:
            value.grad = None
        output, final = call()
        weighted_sum([output, *as_tuple(final)]).backward()
        return output, as_tuple(final), [x.grad.clone(), *(value.grad.clone() for value in states)]

    def run_torch():
        if lengths is None:
            return module(x, state)
        packed = pack_padded_sequence(x, torch.tensor(lengths), batch_first=True, enforce_sorted=False)
        output, final = module(packed, state)
        return pad_packed_sequence(output, batch_first=True, total_length=T)[0], final

    expected, got = gradients_of(run_torch), gradients_of(lambda: layer(x, state, lengths=lengths))
    assert layer.engine_in_use == engine
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-10)
    expected_gradients = torch_gradient(layer, module)
    for name, parameter in layer.named_parameters():
        torch.testing.assert_close(parameter.grad, expected_gradients[name], rtol=0, atol=1e-10)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("cell", MODULES)
def test_round_trip_is_exact(cell, bidirectional, dtype):
    layer = Recurrent(cell, D, H, num_layers=2, bidirectional=bidirectional, dropout=0.25, dtype=dtype)
    module = layer.to_torch()
    converted = from_torch(module)
    assert isinstance(module, MODULES[cell])
    assert module.dropout == converted.dropout == 0.25
    assert module.batch_first
    for (name, parameter), (same_name, same) in zip(
        layer.named_parameters(), converted.named_parameters(), strict=True
    ):
        assert name == same_name
        assert torch.equal(parameter, same)


@pytest.mark.parametrize(("cell", "count"), [("gru", 60_672), ("lstm", 80_896)])
def test_torch_counts_its_second_bias_too(cell, count):
    assert sum(p.numel() for p in Recurrent(cell, 28, 128).to_torch().parameters()) == count


def test_a_module_without_biases_gets_frozen_zeros_and_converts_back():
    module = nn.GRU(D, H, bias=False)
    layer = from_torch(module)
    x = torch.randn(T, B, D)
    torch.testing.assert_close(layer(x)[0], module(x)[0], rtol=0, atol=1e-6)
    assert {n.rsplit(".", 1)[0] for n, p in layer.named_parameters() if not p.requires_grad} == {"layers.0.fwd.b"}
    assert layer.to_torch().bias is False


def test_biases_stay_where_they_learn_or_add_something():
    layer = Recurrent("gru", D, H)
    for name, parameter in layer.named_parameters():
        if ".b." in name:
            parameter.data.zero_()
    assert layer.to_torch().bias is True  # they can still learn
    layer.freeze("b.n", "b.hn", at=0.5).freeze("b.r", "b.z")
    module, x = layer.to_torch(), torch.randn(B, T, D)
    torch.testing.assert_close(layer(x)[0], module(x)[0], rtol=0, atol=1e-6)
    assert layer.freeze("b", at=0.0).to_torch().bias is False


@pytest.mark.parametrize("batch_first", [True, False])
def test_the_order_of_dimensions_is_kept(batch_first):
    module = nn.GRU(D, H, batch_first=batch_first)
    layer = from_torch(module)
    assert layer.batch_first == layer.to_torch().batch_first == batch_first


def test_dropout_that_does_nothing_in_one_layer_is_left_out():
    with pytest.warns(UserWarning, match="dropout"):
        module = nn.GRU(D, H, dropout=0.5)
    assert from_torch(module).dropout == 0.0


def test_frozen_weights_stay_frozen():
    module = nn.LSTM(D, H)
    module.weight_hh_l0.requires_grad_(False)
    layer = from_torch(module)
    assert {n for n, p in layer.named_parameters() if not p.requires_grad} == {f"layers.0.fwd.U.{g}" for g in "ifgo"}
    assert [n for n, p in layer.to_torch().named_parameters() if not p.requires_grad] == ["weight_hh_l0"]


def test_one_frozen_gate_does_not_freeze_the_others_of_its_matrix():
    """torch has the gates in one tensor: it is frozen when all of them are, each family by itself."""
    layer = Recurrent("gru", D, H).freeze("W.z", "U.r", "b.z", "b.hn")
    assert all(parameter.requires_grad for parameter in layer.to_torch().parameters())
    layer.freeze("W")
    assert [n for n, p in layer.to_torch().named_parameters() if not p.requires_grad] == ["weight_ih_l0"]


def test_a_bias_learns_if_one_of_its_two_parts_does():
    module = nn.GRU(D, H)
    module.bias_ih_l0.requires_grad_(False)
    assert all(parameter.requires_grad for parameter in from_torch(module).parameters())
    module.bias_hh_l0.requires_grad_(False)
    frozen = {n for n, p in from_torch(module).named_parameters() if not p.requires_grad}
    assert frozen == {f"layers.0.fwd.b.{gate}" for gate in ("r", "z", "n", "hn")}


def test_training_mode_is_preserved():
    assert not from_torch(nn.GRU(D, H).eval()).training
    assert not Recurrent("gru", D, H).eval().to_torch().training


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (nn.Linear(2, 2), "expected nn.GRU, nn.LSTM or nn.RNN"),
        (nn.RNN(2, 2, nonlinearity="relu"), "expected 'tanh'"),
        (nn.LSTM(2, 3, proj_size=1), "proj_size=1"),
    ],
)
def test_unsupported_modules_are_refused(module, message):
    with pytest.raises(ValueError, match=message):
        from_torch(module)


def test_cells_that_torch_lacks_are_refused():
    with pytest.raises(ValueError, match=r"no cell 'agru' \(it has: rnn, gru, lstm\)"):
        Recurrent("agru", D, H).to_torch()
    with pytest.raises(ValueError, match="residual"):
        Recurrent("gru", D, H, num_layers=2, residual=True).to_torch()
