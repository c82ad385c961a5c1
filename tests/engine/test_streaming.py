"""Single steps of a stream: equal to the sequence, whatever changes between them."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.utils import parametrizations, parametrize, prune

from gatelab import Recurrent, cells
from gatelab.engine.fused import buffers, calls, passes, streaming, weights

CELLS = ["gru", "lstm", "lru", "antisymmetric_rnn", "zoneout_lstm", "layer_norm_gru", "phased_lstm", "indrnn"]


def stream(layer: Recurrent, x: torch.Tensor, state=None):
    """All steps of x (B, T, D) or (T, D), one by one."""
    outputs, time = [], x.dim() - 2
    for t in range(x.shape[time]):
        output, state = layer.step(x.select(time, t), state)
        outputs.append(output)
    return torch.stack(outputs, time), state


def assert_same(got, wanted):
    flat = [(v if isinstance(v, tuple) else (v,)) for pair in (got, wanted) for v in pair]
    for a, b in zip(flat[0] + flat[1], flat[2] + flat[3], strict=True):
        assert a.shape == b.shape
        torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("batch", [(), (1,), (5,)], ids=["one", "1", "5"])
@pytest.mark.parametrize("name", CELLS)
def test_steps_equal_the_sequence(name, batch):
    D = 20 if cells.get(name).lowered.uses_input_itself else 3
    for layers, residual in ((1, False), (3, True)):
        layer = Recurrent(name, D, 20, layers, residual=residual).eval()
        x = torch.randn(*batch, 9, D)
        with torch.inference_mode():
            wanted = layer(x)
            assert_same(stream(layer, x), wanted)
            assert layer._stepper is not None
            assert_same(stream(layer, x), wanted)  # quick from the first step on


@pytest.mark.parametrize("engine", ["eager", "native"])
def test_other_engines_step_too(engine):
    layer, x = Recurrent("lstm", 3, 5, 2, engine=engine), torch.randn(4, 6, 3)
    with torch.no_grad():
        assert_same(stream(layer, x), layer(x))
        assert layer.engine_in_use == engine


def test_steps_are_differentiable_where_gradients_are_enabled():
    layer, x = Recurrent("gru", 3, 5, 2), torch.randn(4, 6, 3, requires_grad=True)
    gradients = []
    for output, state in (layer(x), stream(layer, x)):
        gradients.append(torch.autograd.grad(output.sin().sum() + state.sum(), [x, *layer.parameters()]))
    for got, wanted in zip(*gradients, strict=True):
        torch.testing.assert_close(got, wanted, atol=1e-5, rtol=1e-4)
    assert layer.step(x[:, 0])[0].requires_grad
    with torch.no_grad():
        for _ in range(2):
            assert not layer.step(x[:, 0])[0].requires_grad
    assert layer.step(x[:, 0])[0].requires_grad  # although quick steps were prepared


def changes():
    """Every way in which people change weights, as (name, function of a layer)."""

    def optimizer(layer):
        for parameter in layer.parameters():
            parameter.grad = torch.ones_like(parameter)
        torch.optim.SGD(layer.parameters(), lr=0.1).step()

    def one_entry(layer):
        with torch.no_grad():
            layer.layers[0]["fwd"].U["n"][3, 4] = 2.0

    def behind(layer):
        for parameter in layer.parameters():
            parameter.data.mul_(0.5)  # torch does not count this

    def assigned(layer):
        for parameter in layer.parameters():
            parameter.data = parameter.data * 0.5

    def replaced(layer):
        layer.layers[0]["fwd"].b.n = torch.nn.Parameter(torch.full((12,), 0.7))

    def loaded(layer):
        layer.load_state_dict({name: value * 0.5 for name, value in layer.state_dict().items()})

    def parametrized(layer):
        parametrizations.spectral_norm(layer.layers[0]["fwd"].U, "n")

    def again(layer):
        layer.reset_parameters(torch.Generator().manual_seed(1))

    def assigned_on_loading(layer):
        layer.load_state_dict({name: value * 0.5 for name, value in layer.state_dict().items()}, assign=True)

    def transposed(layer):
        parameter = layer.layers[0]["fwd"].U["n"]
        parameter.data = parameter.data.t()

    def pruned(layer):
        for family, name in (("b", "r"), ("U", "n"), ("W", "n")):
            prune.random_unstructured(getattr(layer.layers[0]["fwd"], family), name, 0.5)

    def pruned_for_good(layer):
        pruned(layer)
        prune.remove(layer.layers[0]["fwd"].b, "r")

    def swapped(layer):
        parameter = layer.layers[0]["fwd"].U["n"]
        torch.utils.swap_tensors(parameter, torch.nn.Parameter(torch.randn_like(parameter)))

    def parametrized_and_back(layer):
        family = layer.layers[0]["fwd"].b
        parametrize.register_parametrization(family, "r", torch.nn.Tanh())
        parametrize.remove_parametrizations(family, "r")
        with torch.no_grad():
            family["r"].add_(1.0)

    changed = [optimizer, one_entry, behind, assigned, replaced, loaded, parametrized, again]
    return [*changed, assigned_on_loading, transposed, pruned, pruned_for_good, swapped, parametrized_and_back]


@pytest.mark.parametrize("change", changes(), ids=lambda change: change.__name__)
def test_changed_weights_are_noticed(change):
    layer, x = Recurrent("gru", 3, 12, engine="fused").eval(), torch.randn(2, 5, 3)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_(std=0.5)
        before, _ = stream(layer, x)
        torch.testing.assert_close(layer(x)[0], before, atol=1e-6, rtol=1e-6)
    change(layer)
    exact = Recurrent("gru", 3, 12, engine="eager").eval()
    parameters = layer.layers[0]["fwd"]
    with torch.no_grad():
        for family in ("W", "U", "b"):
            for name, value in getattr(parameters, family).items():
                getattr(exact.layers[0]["fwd"], family)[name].copy_(value)
        wanted = exact(x)
        assert (wanted[0] - before).abs().max() > 1e-3
        assert_same(stream(layer, x), wanted)
        assert_same(layer(x), wanted)


def test_a_sequence_between_steps_does_not_hide_a_change():
    """Weights that are prepared for a sequence after they changed are not those of the step."""
    layer, x = Recurrent("gru", 3, 12, engine="fused"), torch.randn(2, 5, 3)
    with torch.no_grad():
        stream(layer, x)
        layer.layers[0]["fwd"].U["n"].mul_(0.5)
        wanted = layer(x)
        assert_same(stream(layer, x), wanted)


def test_steps_of_changing_sizes_and_modes():
    layer = Recurrent("zoneout_lstm", 3, 12, dropout=0.5, num_layers=2)
    with torch.no_grad():
        for batch in (1, 3, 1):
            layer.eval()
            x = torch.randn(batch, 4, 3)
            assert_same(stream(layer, x), layer(x))
            layer.train()
            torch.manual_seed(0)
            drawn = layer.step(x[:, 0])[0]
            torch.manual_seed(0)
            assert torch.equal(layer.step(x[:, 0])[0], drawn)
            assert not torch.equal(layer.step(x[:, 0])[0], drawn)


def test_dropout_between_layers_is_drawn_in_every_step():
    layer, x = Recurrent("gru", 3, 16, 2, dropout=0.5), torch.randn(1, 3)
    with torch.no_grad():
        assert len({float(layer.step(x)[0].sum()) for _ in range(5)}) > 1
        layer.eval()
        assert len({float(layer.step(x)[0].sum()) for _ in range(5)}) == 1


def test_thawed_parameters_have_gradients():
    layer, x = Recurrent("gru", 3, 12).requires_grad_(False), torch.randn(1, 3)
    for _ in range(2):
        assert not layer.step(x)[0].requires_grad
    assert layer.requires_grad_(True).step(x)[0].requires_grad


def test_parameters_of_a_functional_call():
    class Steps(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = Recurrent("gru", 3, 12)

        def forward(self, x):
            return self.layer.step(x)[0]

    model, x = Steps(), torch.randn(1, 3)
    halved = {name: 0.5 * value.detach() for name, value in model.named_parameters()}
    with torch.no_grad():
        wanted = model(x)
        other = torch.func.functional_call(model, halved, (x,))
        assert (other - wanted).abs().max() > 1e-3
        assert torch.equal(model(x), wanted)
        assert torch.equal(torch.func.functional_call(model, halved, (x,)), other)


def test_fake_tensors_step_too():
    layer, x = Recurrent("gru", 3, 12), torch.randn(1, 3)
    with torch.no_grad():
        layer.step(x)
        with FakeTensorMode(allow_non_fake_inputs=True) as mode:
            assert layer.step(mode.from_tensor(x))[0].shape == (1, 12)
            assert layer.step(x)[0].shape == (1, 12)


def test_states_are_given_in_every_usual_way():
    layer, x = Recurrent("lstm", 3, 12, 2), torch.randn(5, 3)
    with torch.no_grad():
        _, (h, c) = layer.step(x)
        for state in ((h, c), [h, c]):
            assert_same(stream(layer, x[:, None], state), layer(x[:, None], (h, c)))
        single = Recurrent("gru", 3, 12)
        _, h = single.step(x)
        assert_same(single.step(x, (h,)), single.step(x, h))


def test_numbers_with_the_other_sign_in_memory():
    layer = Recurrent("gru", 1, 12)
    x = torch.complex(torch.randn(1, 5, 1), torch.randn(1, 5, 1)).conj().imag
    assert x.is_neg()
    with torch.no_grad():
        wanted = layer(x.clone())
        assert_same(layer(x), wanted)
        assert_same(stream(layer, x), wanted)


def test_results_are_ordinary_tensors():
    layer, x = Recurrent("gru", 3, 12), torch.randn(5, 3)
    with torch.inference_mode():
        for _ in range(2):
            assert all(type(result) is torch.Tensor and result.is_inference() for result in layer.step(x))
    with torch.no_grad():
        output, state = layer.step(x)
        kept = state.clone()
        assert not output.is_inference()
        assert output.is_leaf
        assert not output.requires_grad
        assert output.mul_(2)._version == 1
        assert torch.equal(state, kept)
    assert (output.requires_grad_(True) * 2).sum().backward() is None


def test_a_torch_without_the_functions_that_cpp_calls(monkeypatch):
    """Then Python does the same, more slowly."""
    layer, x = Recurrent("lstm", 3, 12, engine="fused"), torch.randn(2, 5, 3, requires_grad=True)

    def results() -> list[torch.Tensor]:
        output, finals = layer(x)
        gradients = torch.autograd.grad(output.sin().sum() + finals[1].sum(), [x, *layer.parameters()])
        return [output, *finals, *gradients]

    expected = results()
    for module in (streaming, calls, weights):
        monkeypatch.setattr(module, "torch_functions", lambda: None)
    monkeypatch.setattr(passes, "_calls", {})
    monkeypatch.setattr(weights, "_known", type(weights._known)())
    assert all(torch.equal(a, b) for a, b in zip(results(), expected, strict=True))
    with torch.no_grad():
        layer.layers[0]["fwd"].b["i"].add_(1)
        assert_same(stream(layer, x), layer(x))
    assert not torch.equal(layer(x)[0], expected[0])
    assert layer._stepper is None


def test_batches_of_changing_size_are_prepared_once(monkeypatch):
    layer = Recurrent("gru", 3, 12, engine="fused")
    with torch.no_grad():
        layer(torch.randn(2, 5, 3))
        monkeypatch.setattr(passes, "prepare", lambda *_, **__: pytest.fail("prepares again"))
        for batch in (1, 2, 1, 2):
            layer.step(torch.randn(batch, 3))
        layer(torch.randn(2, 5, 3))


def test_only_the_result_is_allocated(monkeypatch):
    layer, x = Recurrent("lstm", 3, 12, engine="fused"), torch.randn(1, 3)
    with torch.inference_mode():
        _, state = layer.step(x)
        _, state = layer.step(x, state)
        monkeypatch.setattr(buffers, "empty", lambda *shape: pytest.fail(f"allocates {shape}"))
        monkeypatch.setattr(torch, "empty", lambda *shape, **_: pytest.fail(f"allocates {shape}"))
        kept = [layer.step(x, state) for _ in range(3)]
    first = [value.clone() for value in (kept[0][0], *kept[0][1])]
    assert len({t.data_ptr() for output, states in kept for t in (output, *states)}) == 9
    assert all(torch.equal(a, b) for a, b in zip(first, (kept[2][0], *kept[2][1]), strict=True))


def test_a_layer_that_has_stepped_is_copied_and_pickled():
    layer, x = Recurrent("gru", 3, 12), torch.randn(1, 3)
    with torch.no_grad():
        wanted = layer.step(x)
        for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
            for parameter in other.parameters():
                parameter.mul_(0.5)
            assert not torch.equal(other.step(x)[0], wanted[0])
            assert_same(layer.step(x), wanted)


def test_layers_of_tensors_made_in_inference_mode():
    with torch.inference_mode():
        layer = Recurrent("gru", 3, 12)
        x = torch.randn(2, 5, 3)
        assert_same(stream(layer, x), layer(x))
        layer.layers[0]["fwd"].U["n"].mul_(0.5)
        assert_same(stream(layer, x), layer(x))


@pytest.mark.parametrize(
    ("x", "state", "message"),
    [
        (torch.zeros(2, 5, 3), None, r"x has shape \(2, 5, 3\): expected one step, a tensor \(B, 3\) or \(3,\)"),
        (torch.zeros(2, 4), None, r"x has shape \(2, 4\)"),
        ([1.0, 2.0, 3.0], None, "x is a list"),
        (torch.zeros(2, 3).double(), None, "x is torch.float64"),
        (torch.zeros(2, 3).long(), None, "embed or convert x first"),
        (torch.zeros(2, 3), torch.zeros(1, 3, 12), r"state 'h' has shape \(1, 3, 12\): expected \(1, 2, 12\)"),
        (torch.zeros(2, 3), (torch.zeros(1, 2, 12),) * 2, "state has 2 tensor"),
    ],
)
def test_bad_steps(x, state, message):
    layer = Recurrent("gru", 3, 12)
    with torch.no_grad():
        layer.step(torch.zeros(2, 3))  # quick ones refuse it too
        for _ in range(2):
            with pytest.raises(ValueError, match=message):
                layer.step(x, state)


def test_both_directions_cannot_step():
    with pytest.raises(ValueError, match="a bidirectional layer cannot step"):
        Recurrent("gru", 3, 12, bidirectional=True).step(torch.zeros(2, 3))
