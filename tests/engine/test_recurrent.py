"""The layer: against a plain loop of the textbook equations, and its own guarantees."""

from __future__ import annotations

import copy
import itertools
import pickle

import equations
import pytest
import torch
from torch import nn

import gatelab
from gatelab import Recurrent, cells, learned, tanh
from gatelab.lang import tensors

D, H, B, T = 3, 4, 3, 5
LENGTHS = [5, 2, 3]


def make(cell: str, **options) -> Recurrent:
    return Recurrent(cell, D, H, dtype=torch.float64, **options)


def random_state(layer: Recurrent) -> list[torch.Tensor]:
    scans = layer.num_layers * len(layer.directions)
    return [torch.randn(scans, B, H, dtype=torch.float64, requires_grad=True) for _ in layer.cell.states]


def gradients(outputs, *wanted) -> list[torch.Tensor]:
    """The gradients of a weighted sum of all entries of the outputs."""
    loss = sum((out * torch.linspace(-1, 1, out.numel()).double().view_as(out)).sum() for out in outputs)
    return list(torch.autograd.grad(loss, wanted))


@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["full", "lengths"])
@pytest.mark.parametrize("residual", [False, True], ids=["", "residual"])
@pytest.mark.parametrize("bidirectional", [False, True], ids=["unidirectional", "bidirectional"])
@pytest.mark.parametrize("num_layers", [1, 2, 3])
@pytest.mark.parametrize("cell", [name for name in cells.names() if hasattr(equations, name)])
@pytest.mark.filterwarnings("ignore:residual=True has no effect")
def test_equals_the_plain_loop_of_the_equations(cell, num_layers, bidirectional, residual, lengths):
    layer = make(cell, num_layers=num_layers, bidirectional=bidirectional, residual=residual, engine="eager")
    x = torch.randn(B, T, D, dtype=torch.float64, requires_grad=True)
    state = random_state(layer)
    output, final = layer(x, state if len(state) > 1 else state[0], lengths=lengths)

    step = getattr(equations, cell)
    expected, expected_final = equations.run(step, equations.parameters(layer), x, state, lengths or [T] * B, residual)
    finals = final if isinstance(final, tuple) else (final,)
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-12)
    for got, wanted in zip(finals, expected_final, strict=True):
        torch.testing.assert_close(got, wanted, rtol=0, atol=1e-12)

    inputs = [x, *state, *layer.parameters()]
    for got, wanted in zip(
        gradients([output, *finals], *inputs), gradients([expected, *expected_final], *inputs), strict=True
    ):
        torch.testing.assert_close(got, wanted, rtol=0, atol=1e-10)


# The gradients of the other cells are those of their references (test_zoo.py, test_torchrecurrent.py).
@pytest.mark.parametrize("cell", [name for name in cells.names() if hasattr(equations, name)])
def test_gradcheck(cell):
    layer = make(cell, engine="eager")
    x = torch.randn(2, 3, D, dtype=torch.float64, requires_grad=True)
    parameters = dict(layer.named_parameters())

    def run(x, *values):
        output, final = torch.func.functional_call(layer, dict(zip(parameters, values, strict=True)), (x,))
        return output, *(final if isinstance(final, tuple) else (final,))

    assert torch.autograd.gradcheck(run, (x, *parameters.values()))


def test_padding_has_no_effect_even_if_nan():
    layer = make("lstm", num_layers=2, bidirectional=True, engine="eager")
    x = torch.randn(B, T, D, dtype=torch.float64)
    dirty = x.clone()
    for row, length in enumerate(LENGTHS):
        dirty[row, length:] = torch.nan
    for engine in ("eager", "native"):
        layer.engine = engine
        clean_grads, dirty_grads = (
            gradients([layer(data, lengths=LENGTHS)[0]], *layer.parameters()) for data in (x, dirty)
        )
        assert all(torch.equal(a, b) for a, b in zip(clean_grads, dirty_grads, strict=True))


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_shapes_are_those_of_torch(cell):
    module = {"gru": nn.GRU, "lstm": nn.LSTM}[cell]
    for batch_first, batched in itertools.product([True, False], [True, False]):
        layer = Recurrent(cell, D, H, num_layers=2, bidirectional=True, batch_first=batch_first)
        reference = module(D, H, num_layers=2, bidirectional=True, batch_first=batch_first)
        x = torch.randn(B, T, D) if batched else torch.randn(T, D)
        got, wanted = layer(x), reference(x)
        assert got[0].shape == wanted[0].shape
        if cell == "lstm":
            assert isinstance(got[1], tuple)
            assert [s.shape for s in got[1]] == [s.shape for s in wanted[1]]
        else:
            assert got[1].shape == wanted[1].shape
        layer(x, got[1])  # a final state is an initial state


def test_one_sequence_is_a_batch_of_one():
    layer = make("lstm", bidirectional=True)
    x = torch.randn(T, D, dtype=torch.float64)
    output, (h, c), gates = layer(x, gates=True)
    batch_output, (batch_h, batch_c), batch_gates = layer(x.unsqueeze(0), gates=True)
    assert torch.equal(output, batch_output[0])
    assert torch.equal(h, batch_h[:, 0])
    assert torch.equal(c, batch_c[:, 0])
    assert all(torch.equal(gates[name], batch_gates[name][:, 0]) for name in gates)


def test_gates_are_named_by_the_equations_and_reproduce_the_output():
    layer = make("gru", num_layers=2, bidirectional=True)
    x = torch.randn(B, T, D, dtype=torch.float64)
    output, _, gates = layer(x, gates=True)
    assert list(gates) == ["r", "z", "n"]
    assert all(gate.shape == (4, B, T, H) for gate in gates.values())
    # The last layer, forward and backward direction: h' = z h + (1 - z) n, from h = 0.
    for scan, half, order in ((2, output[..., :H], range(T)), (3, output[..., H:], reversed(range(T)))):
        h = torch.zeros(B, H, dtype=torch.float64)
        for t in order:
            z, n = gates["z"][scan, :, t], gates["n"][scan, :, t]
            h = z * h + (1 - z) * n
            torch.testing.assert_close(h, half[:, t], rtol=0, atol=1e-12)


def test_gates_of_the_backward_direction_belong_to_their_steps_in_padded_rows():
    layer = make("gru", bidirectional=True)
    x = torch.randn(B, T, D, dtype=torch.float64)
    _, _, gates = layer(x, lengths=LENGTHS, gates=True)
    for row, length in enumerate(LENGTHS):
        _, _, alone = layer(x[row : row + 1, :length], gates=True)
        torch.testing.assert_close(gates["z"][:, row, :length], alone["z"][:, 0], rtol=0, atol=1e-12)


def test_the_first_layer_has_no_residual_even_where_sizes_agree():
    layer = Recurrent("gru", H, H, num_layers=2, residual=True)
    x = torch.randn(B, T, H)
    first = Recurrent("gru", H, H)
    first.layers[0].load_state_dict(layer.layers[0].state_dict())
    assert torch.equal(layer(x)[1][0], first(x)[1][0])
    second = Recurrent("gru", H, H)
    second.layers[0].load_state_dict(layer.layers[1].state_dict())
    torch.testing.assert_close(layer(x)[0], second(first(x)[0])[0] + first(x)[0])


def test_which_engine_runs():
    x = torch.randn(B, T, D)
    for cell, engine, gates, expected in (
        ("gru", "auto", False, "fused"),
        ("agru", "auto", False, "fused"),
        ("gru", "auto", True, "fused"),
        ("gru", "native", False, "native"),
        ("gru", "native", True, "eager"),
        ("gru", "eager", False, "eager"),
    ):
        layer = Recurrent(cell, D, H, engine=engine)
        assert layer.engine_in_use is None
        layer(x, gates=gates)
        assert layer.engine_in_use == expected


def test_a_matrix_expression_is_computed_once_per_call(monkeypatch):
    @gatelab.cell
    def mine(x, h, W, U, b, *, gamma=gatelab.learned(0.1)):
        A = U.n - U.n.T - gatelab.softplus(gamma) * gatelab.I
        return gatelab.tanh(W.n(x) + A(h) + (2 * U.m)(h))

    computed = []
    original = tensors.value
    monkeypatch.setattr(tensors, "value", lambda *args: computed.append(1) or original(*args))
    layer = Recurrent(mine, D, H, engine="eager")
    layer(torch.randn(B, T, D))
    once = len(computed)
    computed.clear()
    layer(torch.randn(B, 4 * T, D))
    assert len(computed) == once > 0


def test_division_by_zero_in_the_padding_has_no_effect():
    @gatelab.cell
    def mine(x, h, W, U, b):
        n = gatelab.tanh(h) / W.n(x)
        return n + U.n(h)

    layer = Recurrent(mine, D, H, dtype=torch.float64)
    x = torch.randn(B, T, D, dtype=torch.float64)
    x[1, 2:] = 0.0
    h0 = torch.randn(1, B, H, dtype=torch.float64)
    output, _, gates = layer(x, h0, lengths=LENGTHS, gates=True)
    output.sum().backward()
    assert (output[1, 2:] == 0).all()
    assert (gates["n"][:, 1, 2:] == 0).all()
    assert all(p.grad.isfinite().all() for p in layer.parameters())


def test_autocast_is_disabled_inside():
    layer = Recurrent("agru", D, H)
    x = torch.randn(B, T, D)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output, _ = layer(x.bfloat16())
    assert output.dtype == torch.float32
    assert torch.equal(output, layer(x.bfloat16().float())[0])


def test_gates_of_the_padding_are_zero():
    _, _, gates = make("gru")(torch.randn(B, T, D, dtype=torch.float64), lengths=LENGTHS, gates=True)
    assert (gates["z"][0, 1, :2] > 0).all()
    assert (gates["z"][0, 1, 2:] == 0).all()


def test_returning_gates_changes_nothing_and_is_differentiable():
    layer = make("agru", engine="eager")
    x = torch.randn(B, T, D, dtype=torch.float64)
    output, _ = layer(x)
    watched, _, gates = layer(x, gates=True)
    assert torch.equal(output, watched)
    gates["z"].sum().backward()
    assert layer.layers[0]["fwd"].W["z"].grad is not None


def test_dropout_acts_between_layers_and_only_while_training():
    layer = Recurrent("gru", D, H, num_layers=2, dropout=0.5)
    x = torch.randn(B, T, D)
    assert not torch.equal(layer(x)[0], layer(x)[0])
    layer.eval()
    assert torch.equal(layer(x)[0], layer(x)[0])
    torch.manual_seed(1)
    layer.train()
    first = Recurrent("gru", D, H)
    first.layers[0].load_state_dict(layer.layers[0].state_dict())
    torch.testing.assert_close(layer(x)[1][0], first(x)[1][0])  # the first layer itself is not dropped
    output, final = layer(x)
    assert torch.equal(output[:, -1], final[1])  # nor is the last one's output


def test_parameters_have_readable_names_and_freezing_is_one_line():
    layer = Recurrent("agru", D, H, num_layers=2, bidirectional=True)
    names = [name for name, _ in layer.named_parameters()]
    assert names[:4] == ["layers.0.fwd.epsilon", "layers.0.fwd.W.z", "layers.0.fwd.W.r", "layers.0.fwd.W.n"]
    assert "layers.1.bwd.b.r" in names
    layer.freeze("b.z", "b.r", at=0.0)
    frozen = {name for name, p in layer.named_parameters() if not p.requires_grad}
    assert frozen == {name for name in names if name.endswith(("b.z", "b.r"))}
    assert all((p == 0).all() for name, p in layer.named_parameters() if name in frozen)


def test_reset_parameters_does_not_change_frozen_ones():
    layer = Recurrent("gru", D, H).freeze("b", at=2.0)
    weights = layer.layers[0]["fwd"].W["z"].clone()
    layer.reset_parameters()
    assert all((bias == 2.0).all() for bias in layer.layers[0]["fwd"].b.values())
    assert not torch.equal(weights, layer.layers[0]["fwd"].W["z"])


def test_a_frozen_parameter_has_no_gradient_on_any_engine():
    for engine in ("eager", "native"):
        layer = Recurrent("gru", D, H, engine=engine).freeze("b.z")
        layer(torch.randn(B, T, D))[0].sum().backward()
        assert layer.layers[0]["fwd"].b["z"].grad is None
        assert layer.layers[0]["fwd"].b["r"].grad is not None
        assert layer.engine_in_use == engine


def test_a_state_dict_moves_between_engines_and_layers():
    source, target = Recurrent("lstm", D, H, engine="eager"), Recurrent("lstm", D, H, engine="native")
    target.load_state_dict(source.state_dict())
    x = torch.randn(B, T, D)
    torch.testing.assert_close(source(x)[0], target(x)[0], rtol=0, atol=1e-6)


def test_copies_and_pickles():
    layer = Recurrent("agru", D, H, epsilon=0.5)
    x = torch.randn(B, T, D)
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert torch.equal(other(x)[0], layer(x)[0])
        assert other.cell is cells.agru


def test_repr_is_one_line_with_the_non_default_options():
    layer = Recurrent("agru", 28, 128, num_layers=2, gamma=0.1, gate_bias={"z": 1.0}, learnable_epsilon=False)
    assert (
        repr(layer)
        == "Recurrent(agru, 28, 128, num_layers=2, gate_bias={'z': 1.0}, gamma=0.1, learnable_epsilon=False)"
    )


def test_options_are_learned_or_fixed():
    def scalar_names(**options):
        return [n for n, _ in Recurrent("agru", D, H, **options).named_parameters() if n.count(".") == 3]

    assert scalar_names() == ["layers.0.fwd.epsilon"]
    assert scalar_names(learnable_epsilon=False) == []
    assert scalar_names(learnable_gamma=True) == ["layers.0.fwd.gamma", "layers.0.fwd.epsilon"]
    assert Recurrent("agru", D, H, epsilon=0.25).layers[0]["fwd"].epsilon.item() == 0.25


def test_gradient_of_a_learned_gamma():
    layer = make("antisymmetric_rnn", learnable_gamma=True, engine="eager")
    x = torch.randn(B, T, D, dtype=torch.float64)
    (got,) = gradients([layer(x)[0]], layer.layers[0]["fwd"].gamma)
    bump = 1e-6
    losses = []
    for sign in (1, -1):
        with torch.no_grad():
            layer.layers[0]["fwd"].gamma += sign * bump
            out = layer(x)[0]
            losses.append((out * torch.linspace(-1, 1, out.numel()).double().view_as(out)).sum())
            layer.layers[0]["fwd"].gamma -= sign * bump
    torch.testing.assert_close(got, (losses[0] - losses[1]) / (2 * bump), rtol=1e-6, atol=1e-9)


def test_a_user_defined_cell_supports_everything():
    @gatelab.cell
    def leaky(x, h, W, U, b, *, rate=gatelab.learned(0.1)):
        decay = gatelab.sigmoid(b.decay)  # a gate that depends on parameters only
        n = gatelab.tanh(W.n(x) + U.n(h) + b.n)
        return decay * h + rate * n

    layer = Recurrent(leaky, D, H, num_layers=2, bidirectional=True, init="xavier", dtype=torch.float64)
    x = torch.randn(B, T, D, dtype=torch.float64)
    output, _, gates = layer(x, gates=True, lengths=LENGTHS)
    assert output.shape == (B, T, 2 * H)
    assert list(gates) == ["decay", "n"]
    assert (gates["decay"][0, 0] == 0.5).all()  # sigmoid of a zero bias
    assert sum(p.numel() for p in Recurrent(leaky, D, H).parameters()) == leaky.parameter_count(D, H)


def test_parameters_may_be_called_as_attributes_of_modules_are():
    @gatelab.cell
    def hostile(x, h, W, U, b, *, training=learned(0.3), names=learned(0.5)):
        return tanh(W.training(x) + U.names(h) + b.forward + training * names)

    layer = Recurrent(hostile, 3, 4, engine="eager")
    assert not layer.eval().layers[0]["fwd"].W.training
    assert layer.train().layers[0]["fwd"].b.training
    wanted = {f"layers.0.fwd.{name}" for name in ("W.training", "U.names", "b.forward", "training", "names")}
    assert {name for name, _ in layer.named_parameters()} == wanted
    layer(torch.randn(2, 5, 3))[0].sum().backward()
    assert all(parameter.grad is not None for parameter in layer.parameters())
