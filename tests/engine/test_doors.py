"""Every way into a kernel, with tensors that it must not read: refused in words, or answered as torch.nn does."""

from __future__ import annotations

import io
import warnings

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx

from gatelab import GatelabError, Recurrent, cells
from gatelab.engine.fused import calls, passes, weights
from gatelab.engine.fused.weights import tensors_of
from gatelab.lang.graph import walk

ONE_WARNING = pytest.mark.filterwarnings("ignore:the eager engine runs")


def first(layer: Recurrent):
    return next(layer.cell_parameters())


def parameter(layer: Recurrent, value: torch.Tensor) -> None:
    """Put a tensor in the place of W.z."""
    first(layer).W._parameters["z"] = value


# ---- parameters ---------------------------------------------------------------------------------------------------


def on_meta(layer):
    parameter(layer, nn.Parameter(torch.empty(8, 3, device="meta")))


def swapped_with_meta(layer):
    torch.utils.swap_tensors(first(layer).W.z, nn.Parameter(torch.empty(8, 3, device="meta")))


def fake(layer):
    with FakeTensorMode():
        parameter(layer, nn.Parameter(torch.empty(8, 3)))


def freed(layer):
    first(layer).W.z.untyped_storage().resize_(0)


def shrunk(layer):
    first(layer).W.z.untyped_storage().resize_(8)


def empty(layer):
    first(layer).W.z.data = torch.empty(0)


@pytest.mark.parametrize("functions", ["C++", "Python"])
@pytest.mark.parametrize("spoil", [on_meta, swapped_with_meta, fake, freed, shrunk, empty])
def test_parameters_that_cannot_be_read(spoil, functions, monkeypatch):
    if functions == "Python":
        for module in (calls, weights):
            monkeypatch.setattr(module, "torch_functions", lambda: None)
        monkeypatch.setattr(passes, "_calls", {})
    for warm in (False, True):
        layer, x = Recurrent("gru", 3, 8, engine="fused").requires_grad_(False), torch.randn(2, 4, 3)
        if warm:
            for _ in range(2):
                layer(x), layer.step(x[:, 0].contiguous())
        spoil(layer)
        # What torch does with a tensor of another kind is for torch to say.
        refused = (
            (GatelabError, r"W\.z|has no memory|parameter of cell") if spoil is not fake else (AssertionError, "Fake")
        )
        for call in (lambda: layer(x), lambda: layer.step(x[:, 0].contiguous())):  # noqa: B023
            with pytest.raises(refused[0], match=refused[1]):
                call()


@pytest.mark.parametrize("values", [torch.empty(0), torch.zeros(1), torch.zeros(3, 8)], ids=["none", "one", "turned"])
def test_parameters_that_change_between_the_passes(values):
    layer = Recurrent("gru", 3, 8)
    loss = layer(torch.randn(2, 40, 3))[0].sum()
    first(layer).W.z.data = values
    with pytest.raises(GatelabError, match=r"W.z has shape .*: expected \(8, 3\)"):
        loss.backward()


def test_parameters_that_are_half_as_wide_in_the_backward_pass():
    layer = Recurrent("gru", 3, 8)
    loss = layer(torch.randn(2, 40, 3))[0].sum()
    for each in layer.parameters():
        each.data = each.data.half()
    with pytest.raises(GatelabError, match=r"is of torch.float16: expected torch.float32"):
        loss.backward()


def test_parameters_that_lie_differently_in_the_backward_pass():
    layer, x = Recurrent("gru", 3, 8), torch.randn(2, 40, 3)
    loss = layer(x)[0].square().sum()
    wanted = torch.autograd.grad(loss, list(layer.parameters()), retain_graph=True)
    for each in layer.parameters():
        if each.dim() == 2:
            each.data = each.data.t().contiguous().t()
    for got, exact in zip(torch.autograd.grad(loss, list(layer.parameters())), wanted, strict=True):
        assert torch.equal(got, exact)


class Named(torch.Tensor):
    """A type of somebody's own, as torchvision has them."""


@pytest.mark.parametrize("frozen", [True, False])
def test_subclasses_with_values_are_answered(frozen):
    layer, x, state = Recurrent("gru", 3, 8).requires_grad_(not frozen), torch.randn(2, 4, 3), torch.randn(1, 2, 8)
    wanted, _ = layer(x, state)
    output, _ = layer(x.as_subclass(Named), state)
    assert type(output) is Named  # as of nn.GRU
    torch.testing.assert_close(output.as_subclass(torch.Tensor), wanted)
    torch.testing.assert_close(layer(x, state.as_subclass(Named))[0], wanted)
    torch.testing.assert_close(layer(x, state, lengths=torch.tensor([4, 4]).as_subclass(Named))[0], wanted)
    for value in (first(layer).W.z.as_subclass(Named), nn.Parameter(first(layer).W.z.detach().as_subclass(Named))):
        parameter(layer, value)
        output, _ = layer(x, state)
        torch.testing.assert_close(output.as_subclass(torch.Tensor), wanted)
    step, _ = layer.requires_grad_(False).step(x[:, 0].as_subclass(Named), state)
    torch.testing.assert_close(step.as_subclass(torch.Tensor), wanted[:, 0])


# ---- what the backward pass is given --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("unpack", "message"),
    [
        (lambda t: t.to("meta"), "is on meta"),
        (lambda t: t[:0], r"has shape \(0, 2, 3\): expected \(40, 2, 3\)"),
        (lambda t: t.double(), "is of torch.float64"),
        (lambda t: t.unsqueeze(0), "expected three dimensions"),
    ],
)
def test_saved_tensors_that_come_back_changed(unpack, message):
    layer = Recurrent("gru", 3, 8)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, unpack):
        loss = layer(torch.randn(2, 40, 3))[0].sum()
    with pytest.raises(GatelabError, match=message):
        loss.backward()


def test_saved_tensors_that_come_back_as_they_were():
    """Elsewhere in memory, and in another order there."""
    layer, x = Recurrent("lstm", 3, 8), torch.randn(2, 40, 3, requires_grad=True)
    wanted = torch.autograd.grad(layer(x)[0].square().sum(), [x, *layer.parameters()])

    def turned(t: torch.Tensor) -> torch.Tensor:
        return t.t().clone().t() if t.dim() == 2 else t.clone()

    with torch.autograd.graph.saved_tensors_hooks(turned, lambda t: t):
        loss = layer(x)[0].square().sum()
    for got, exact in zip(torch.autograd.grad(loss, [x, *layer.parameters()]), wanted, strict=True):
        torch.testing.assert_close(got, exact, atol=1e-6, rtol=1e-5)


def test_an_input_that_was_freed():
    layer, x = Recurrent("gru", 3, 8), torch.randn(2, 40, 3)
    loss = layer(x)[0].sum()
    x.untyped_storage().resize_(0)
    with pytest.raises(GatelabError, match="x has no memory"):
        loss.backward()


@pytest.mark.parametrize("freed", ["x", "state"])
@pytest.mark.parametrize("use", ["call", "step"])
def test_an_input_or_a_state_without_memory(use, freed):
    layer = Recurrent("gru", 3, 8).requires_grad_(False)
    given = {"x": torch.randn(2, 3), "state": torch.zeros(1, 2, 8)}
    uses = {"call": lambda x, state: layer(x[:, None], state), "step": layer.step}
    for _ in range(3):
        uses[use](**given)
    given[freed].untyped_storage().resize_(0)
    with pytest.raises((GatelabError, RuntimeError)):
        uses[use](**given)


def test_lengths_that_change_between_the_passes():
    layer, lengths = Recurrent("gru", 3, 8), torch.tensor([5, 2])
    loss = layer(torch.randn(2, 5, 3), lengths=lengths)[0].sum()
    lengths.numpy()[0] = 500  # torch does not count this
    with pytest.raises(GatelabError, match="lengths has values from 2 to 500: expected 0 to 5"):
        loss.backward()


def test_gradients_of_every_layout():
    layer, x = Recurrent("lstm", 3, 8), torch.randn(2, 6, 3)
    parameters = list(layer.parameters())
    exact = Recurrent("lstm", 3, 8, engine="eager")
    exact.load_state_dict(layer.state_dict())

    losses = [
        lambda o, h, c: h[..., ::2].sum() + c.transpose(1, 2).square().sum(),
        lambda o, h, c: h.sum(0).expand(3, 2, 8).sin().sum() + o.sum(),
        lambda o, h, c: o[:, ::2].sum() + o.transpose(0, 1).reshape(-1, 4).select(1, 1).exp().sum(),
        lambda o, h, c: torch.complex(o, o.detach()).conj().imag.sum() + o.mean(),
        lambda o, h, c: torch.einsum("bth,bsh->", o, o) + c[0, 1, 3],
        lambda o, h, c: h.sum() + (c.transpose(1, 2) * torch.arange(16.0).view(1, 8, 2)).sum(),
        lambda o, h, c: (c.transpose(1, 2) * torch.arange(16.0).view(1, 8, 2)).sum(),  # another layout alone
    ]
    for loss in losses:
        (a, (b, c)), (d, (e, f)) = layer(x), exact(x)
        got, wanted = torch.autograd.grad(loss(a, b, c), parameters), loss(d, e, f)
        for one, other in zip(got, torch.autograd.grad(wanted, exact.parameters()), strict=True):
            torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


def of_the_other_sign(shape: tuple[int, ...]) -> torch.Tensor:
    """One number, which has the other sign in memory: a part of a complex one."""
    number = torch.randn(shape, dtype=torch.complex64).conj().imag
    assert number.is_neg()
    assert number.is_contiguous()
    return number


@pytest.mark.parametrize(("cell", "name"), [("rnn", "layers.0.fwd.b.h"), ("agru", "layers.0.fwd.epsilon")])
def test_parameters_that_have_the_other_sign_in_memory(cell, name):
    layer, exact = (Recurrent(cell, 1, 1, engine=engine) for engine in ("fused", "eager"))
    exact.load_state_dict(layer.state_dict())
    x = torch.randn(2, 5, 1)
    with torch.no_grad():
        for _ in range(2):
            layer(x), layer.step(x[:, 0].contiguous())
        given = of_the_other_sign(layer.get_parameter(name).shape)
        for each in (layer, exact):
            each.get_parameter(name).data = given
        torch.testing.assert_close(layer(x)[0], exact(x)[0])
        torch.testing.assert_close(layer.step(x[:, 0].contiguous())[0], exact(x[:, :1])[0][:, 0])


def test_gradients_that_have_the_other_sign_in_memory():
    layer, exact = (Recurrent("lstm", 3, 1, engine=engine) for engine in ("fused", "eager"))
    exact.load_state_dict(layer.state_dict())
    x, numbers = torch.randn(1, 1, 3), [of_the_other_sign((1, 1, 1)) for _ in range(3)]
    found = []
    for each in (layer, exact):
        output, (h, c) = each(x)
        found.append(torch.autograd.grad((output, h, c), list(each.parameters()), numbers))
        found.append(torch.autograd.grad(each(x)[1], list(each.parameters()), numbers[1:]))
    for one, other in zip([*found[0], *found[1]], [*found[2], *found[3]], strict=True):
        torch.testing.assert_close(one, other)


# ---- the operator ---------------------------------------------------------------------------------------------------


def op(layer: Recurrent, T: int = 4, B: int = 2):
    """Arguments of `gatelab::scan` by name."""
    parameters = first(layer)
    states = [torch.zeros(B, layer.hidden_size) for _ in layer.cell.states]
    return {
        "x": torch.randn(T, B, layer.input_size),
        "states": states,
        "parameters": [tensor.detach() for tensor in tensors_of(parameters)],
        "lengths": None,
        "resets": None,
        "masks": [],
        "cell": parameters.document,
        "gates": False,
        "output": True,
    }


def wrong():
    x, h = torch.randn(4, 2, 3), torch.zeros(2, 8)
    yield {"states": [torch.zeros(2, 4000)]}, r"expected \(4000, 3\)"
    yield {"x": torch.randn(4, 2, 3000), "parameters": [torch.zeros(1)] * 10}, r"expected \(8, 3000\)"
    yield {"lengths": torch.tensor([4, 4], dtype=torch.int32)}, "expected torch.int64"
    yield {"lengths": torch.tensor([4])}, r"lengths has shape \(1,\): expected \(2,\)"
    yield {"lengths": torch.tensor([4, 5])}, "expected 0 to 4"
    yield {"lengths": torch.tensor([4, -1])}, "expected 0 to 4"
    yield {"resets": torch.zeros(1, 1, dtype=torch.bool)}, r"expected \(4, 2\)"
    yield {"resets": torch.zeros(4, 2)}, "expected torch.bool"
    yield {"states": [torch.zeros(0, 8)]}, r"state 'h' has shape \(0, 8\)"
    yield {"states": []}, "0 states"
    yield {"states": [h, h, h]}, "3 states"
    yield {"parameters": [torch.zeros(8, 3)]}, "1 parameters"
    yield {"masks": [x]}, "1 masks"
    yield {"x": x[:0]}, "T=0"
    yield {"x": x[0]}, "3 dimensions|three dimensions|2 dimensions"
    yield {"x": x.double()}, "x is of torch.float64"
    yield {"states": [h.to("meta")]}, "on meta: expected all on one device"
    yield {"parameters": [torch.zeros(8, 3, device="meta")] * 10}, "on meta: expected all on one device"
    yield {"lengths": torch.tensor([4, 4], device="meta")}, "on meta: expected all on one device"
    yield {"x": torch.zeros(1).expand(1 << 34, 1 << 20, 3), "states": [torch.zeros(1).expand(1 << 20, 8)]}, "memory"


@pytest.mark.parametrize(("changed", "message"), list(wrong()))
def test_an_operator_that_a_stranger_calls(changed, message):
    given = op(Recurrent("gru", 3, 8)) | changed
    with pytest.raises((GatelabError, RuntimeError), match=message):
        torch.ops.gatelab.scan(**given)


def freed(tensor):
    tensor.untyped_storage().resize_(0)
    return tensor


@pytest.mark.parametrize(
    "changed",
    [
        {"masks": [freed(torch.rand(4, 2, 8)), torch.rand(4, 2, 8)]},
        {"masks": [freed(torch.rand(8, 2, 4).transpose(0, 2)), torch.rand(4, 2, 8)]},
        {"x": freed(torch.randn(4, 3, 2).transpose(1, 2))},
        {"states": [freed(torch.zeros(8, 2).T), torch.zeros(2, 8)]},
    ],
)
def test_memory_that_is_gone_is_not_copied_either(changed):
    """Masks of 8 units are copied into whole vectors, other layouts into rows."""
    given = op(Recurrent("zoneout_lstm", 3, 8))
    given["masks"] = [torch.rand(4, 2, 8), torch.rand(4, 2, 8)]
    torch.ops.gatelab.scan(**given)
    with pytest.raises(GatelabError, match="has no memory: expected"):
        torch.ops.gatelab.scan(**(given | changed))


def wrong_backwards():
    yield {"tape": torch.zeros(3)}, "the tape has shape"
    yield {"d_output": torch.zeros(4, 2, 7)}, "the gradient of the output has shape"
    yield {"d_states": torch.zeros(2, 2, 8)}, "2 gradients of final states"
    yield {"d_states": torch.zeros(1, 2, 9)}, "the gradient of the state 'h' has shape"
    yield {"wanted": [True]}, "flags"
    yield {"wanted": [True] * 30}, "flags"
    yield {"x": torch.zeros(9, 2, 3)}, "has shape"
    yield {"x": torch.zeros(2, 3)}, "dimensions"
    yield {"lengths": torch.tensor([4, 5])}, "expected 0 to 4"
    yield {"tape": torch.zeros(3, device="meta")}, "on meta: expected all on one device"
    yield {"d_output": torch.zeros(4, 2, 8, device="meta")}, "on meta: expected all on one device"


@pytest.mark.parametrize(("changed", "message"), list(wrong_backwards()))
def test_a_backward_operator_that_a_stranger_calls(changed, message):
    given = op(Recurrent("gru", 3, 8))
    *_, tape = torch.ops.gatelab.scan_taped(**given)
    incoming = {"d_output": torch.ones(4, 2, 8), "d_states": None, "d_gates": None, "wanted": [True] * 11}
    torch.ops.gatelab.scan_backward(**given, tape=tape, **incoming)
    with pytest.raises(GatelabError, match=message):
        torch.ops.gatelab.scan_backward(**(given | {"tape": tape} | incoming | changed))


@pytest.mark.parametrize("header", [torch.nan, -3.0, 1e30, 17.0])
def test_a_tape_that_somebody_made_up(header):
    given = op(Recurrent("gru", 3, 8), B=9)
    *_, tape = torch.ops.gatelab.scan_taped(**given)
    tape.fill_(header)
    incoming = {"d_output": torch.ones(4, 9, 8), "d_states": None, "d_gates": None, "wanted": [True] * 11}
    assert len(torch.ops.gatelab.scan_backward(**given, tape=tape, **incoming)) == 3


def test_an_exported_program_with_an_empty_batch():
    layer = Recurrent("gru", 3, 8)
    shapes = {"x": {0: torch.export.Dim.DYNAMIC}}
    program = torch.export.export(layer, (torch.randn(4, 5, 3),), dynamic_shapes=shapes).module()
    output, state = program(torch.randn(0, 5, 3))
    assert (output.shape, state.shape) == ((0, 5, 8), (1, 0, 8))


# ---- traces and transformations -------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("name", ["gru", "mgu"])
def test_traced_functions_read_their_input(name):
    layer, a, b = Recurrent(name, 3, 8), torch.randn(2, 5, 3), torch.randn(4, 7, 3)
    traced = torch.jit.trace(layer, a)
    torch.testing.assert_close(traced(b)[0], layer(b)[0])
    traced(b)[0].sum().backward()
    assert first(layer).W.n.grad.abs().sum() > 0
    layer.requires_grad_(False)
    traced = torch.jit.trace(lambda x: layer(x)[0], a)
    saved = io.BytesIO()
    torch.jit.save(traced, saved)
    saved.seek(0)
    torch.testing.assert_close(torch.jit.load(saved)(b), layer(b)[0])
    for _ in range(2):
        layer.step(a[:, 0])
    x, y = a[:, 0].contiguous(), b[:2, 0].contiguous()
    layer.step(x)
    traced = torch.jit.trace(lambda x: layer.step(x)[0], x)
    torch.testing.assert_close(traced(y), layer.step(y)[0])


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize(("name", "operator"), [("gru", "GRU"), ("mgu", "Gemm|MatMul")])
def test_onnx_export_by_tracing_reads_its_input(name, operator, tmp_path):
    onnx, runtime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = Recurrent(name, 3, 8).requires_grad_(False)

        def forward(self, x):
            return self.layer(x)[0]

    model, path = Model(), tmp_path / "model.onnx"
    torch.onnx.export(model, (torch.randn(2, 5, 3),), path, dynamo=False, input_names=["x"], dynamic_axes={"x": [0]})
    assert {node.op_type for node in onnx.load(path).graph.node} & set(operator.split("|"))
    other = torch.randn(4, 5, 3)
    (got,) = runtime.InferenceSession(path).run(None, {"x": other.numpy()})
    torch.testing.assert_close(torch.from_numpy(got), model(other), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("frozen", [True, False])
def test_make_fx_keeps_the_input(frozen):
    layer, a, b = Recurrent("gru", 3, 8).requires_grad_(not frozen), torch.randn(2, 5, 3), torch.randn(2, 5, 3)
    graph = make_fx(lambda x: layer(x)[0])(a)
    torch.testing.assert_close(graph(b), layer(b)[0])


@ONE_WARNING
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch's own code
def test_functions_of_torch_func():
    """By the eager engine, which torch can look into."""
    layer, x = Recurrent("gru", 3, 8), torch.randn(2, 4, 3)
    parameters = dict(layer.named_parameters())
    exact = Recurrent("gru", 3, 8, engine="eager")
    exact.load_state_dict(layer.state_dict())

    def loss(parameters, x):
        return torch.func.functional_call(layer, parameters, (x,))[0].square().sum()

    got = torch.func.grad(loss)(parameters, x)
    loss(parameters, x).backward()
    for name, value in parameters.items():
        torch.testing.assert_close(got[name], value.grad, atol=1e-5, rtol=1e-4)
    each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, x.unsqueeze(1))
    torch.testing.assert_close(each["layers.0.fwd.U.n"].sum(0), first(layer).U.n.grad, atol=1e-5, rtol=1e-4)
    warm = Recurrent("gru", 3, 8).requires_grad_(False)
    for _ in range(3):
        warm.step(x[:, 0])
    steps = torch.func.functionalize(lambda x: warm.step(x)[0])(x[:, 0])
    torch.testing.assert_close(steps, warm.step(x[:, 0])[0], atol=1e-6, rtol=1e-5)
    for transform in (torch.func.vmap, torch.func.jacrev, torch.func.jacfwd, torch.func.functionalize):
        a, b = (transform(lambda x, layer=layer: layer(x)[0])(x) for layer in (layer, exact))
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)
    several = [Recurrent("gru", 3, 8) for _ in range(3)]
    stacked, buffers = torch.func.stack_module_state(several)
    ensemble = torch.func.vmap(lambda *state: torch.func.functional_call(layer, state, (x,))[0])(stacked, buffers)
    torch.testing.assert_close(ensemble, torch.stack([one(x)[0] for one in several]), atol=1e-5, rtol=1e-4)


@ONE_WARNING
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch's own code
def test_forward_mode_derivatives():
    layer, x = Recurrent("gru", 3, 8).requires_grad_(False), torch.randn(2, 3)
    exact = Recurrent("gru", 3, 8, engine="eager")
    exact.load_state_dict(layer.state_dict())
    _, state = layer.step(x)
    layer.step(x, state)
    with forward_ad.dual_level():
        dual, old = forward_ad.make_dual(x, torch.ones_like(x)), forward_ad.make_dual(state, torch.ones_like(state))
        for given in ((dual, None), (x, old), (dual, old)):
            for call in ("step", "forward"):
                arguments = given if call == "step" else (given[0].unsqueeze(1), given[1])
                got, wanted = (forward_ad.unpack_dual(getattr(one, call)(*arguments)[0]) for one in (layer, exact))
                torch.testing.assert_close(got.tangent, wanted.tangent, atol=1e-5, rtol=1e-4)
                assert got.tangent.norm() > 0.1


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # of torch's own code
@pytest.mark.parametrize("frozen", [True, False])
def test_programs_have_no_transforms_and_say_so(frozen):
    """Such a program runs the operator alone, which would lose the derivatives."""
    layer, x = Recurrent("gru", 3, 8).requires_grad_(not frozen), torch.randn(2, 4, 3)
    program, expected = torch.export.export(layer, (x,)).module(), layer(x)[0]
    words = "has neither forward-mode derivatives nor transforms of torch.func"
    with forward_ad.dual_level(), pytest.raises(GatelabError, match=words):
        program(forward_ad.make_dual(x, torch.ones_like(x)))
    with forward_ad.dual_level(), torch.no_grad(), pytest.raises(GatelabError, match=words):
        program(forward_ad.make_dual(x, torch.ones_like(x)))
    with forward_ad.dual_level():  # others go on
        torch.testing.assert_close(program(x)[0], expected, atol=1e-5, rtol=1e-4)
    with pytest.raises(GatelabError, match=words):
        torch.func.grad(lambda x: program(x)[0].sum())(x)
    with pytest.raises(GatelabError, match=words):
        torch.func.jvp(lambda x: program(x)[0], (x,), (torch.ones_like(x),))


def test_what_the_eager_engine_does_instead_is_said_once(monkeypatch):
    monkeypatch.setattr("gatelab.engine.choose._warned", set())
    layer, x = Recurrent("gru", 3, 8), torch.randn(2, 4, 3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            torch.func.vmap(lambda x: layer(x)[0])(x)
    (warning,) = caught
    assert "the eager engine runs while torch transforms functions (torch.func)" in str(warning.message)


def test_batches_of_gradients_are_refused_in_words():
    layer, x = Recurrent("gru", 3, 8), torch.randn(2, 4, 3)
    output = layer(x)[0]
    with pytest.raises(GatelabError, match="create the layer with engine='eager'"):
        torch.autograd.grad(output, list(layer.parameters()), torch.randn(5, *output.shape), is_grads_batched=True)


def test_tensors_of_zeros_without_memory():
    layer = Recurrent("gru", 3, 8).requires_grad_(False)
    x = torch.zeros(2, 4, 3)
    assert torch.equal(layer(torch._efficientzerotensor((2, 4, 3)))[0], layer(x)[0])
    assert torch.equal(layer(x, torch._efficientzerotensor((1, 2, 8)))[0], layer(x)[0])
    layer.step(torch.zeros(2, 3))
    assert torch.equal(layer.step(torch._efficientzerotensor((2, 3)))[0], layer.step(torch.zeros(2, 3))[0])


# ---- batches without sequences, sequences without steps ------------------------------------------------------------


@pytest.mark.parametrize("engine", ["fused", "native", "eager"])
def test_an_empty_batch_is_answered_as_torch_does(engine):
    layer = Recurrent("lstm", 3, 8, 2, bidirectional=True, engine=engine)
    torch_layer, x = nn.LSTM(3, 8, 2, bidirectional=True, batch_first=True), torch.randn(0, 5, 3, requires_grad=True)
    wanted = torch_layer(x)
    for arguments in ({}, {"lengths": torch.zeros(0, dtype=torch.long)}, {"resets": torch.zeros(0, 5) > 0}):
        output, (h, c) = layer(x, **arguments)
        assert (output.shape, h.shape, c.shape) == (wanted[0].shape, wanted[1][0].shape, wanted[1][1].shape)
        gradients = torch.autograd.grad(output.sum() + h.sum(), [x, *layer.parameters()])
        assert gradients[0].shape == x.shape
        assert not any(gradient.any() for gradient in gradients)
    assert layer(x, gates=True)[2]["i"].shape == (4, 0, 5, 8) if engine != "native" else True
    layer = Recurrent("gru", 3, 8, engine=engine).requires_grad_(False)
    for _ in range(2):
        output, state = layer.step(torch.zeros(0, 3))
        assert (output.shape, state.shape) == ((0, 8), (1, 0, 8))


def dead_state_cells():
    """The LSTM, and cells with a state that later steps do not read."""
    names = [name for name in cells.names() if len(cells.get(name).states) > 1]
    return ["lstm", "gru", *[name for name in names if dead_states(name)][:2]]


def dead_states(name: str) -> list[str]:
    graph = cells.get(name).lowered
    read = {node.name for node in walk(graph.new_states) if node.op == "state"}
    return [state for state in graph.states if state not in read]


@pytest.mark.parametrize("engine", ["fused", "native"])
@pytest.mark.parametrize("name", dead_state_cells())
def test_a_sequence_without_steps_keeps_its_initial_state(name, engine):
    if engine == "native" and name not in ("lstm", "gru"):
        pytest.skip("torch.nn has no such cell")
    torch.manual_seed(0)
    layer = Recurrent(name, 3, 8, 2, bidirectional=name != "gru", engine=engine)
    exact = Recurrent(name, 3, 8, 2, bidirectional=name != "gru", engine="eager")
    exact.load_state_dict(layer.state_dict())
    x, scans = torch.randn(4, 5, 3), 2 * len(layer.directions)
    x[1] = torch.nan  # padding
    x.requires_grad_()
    states = tuple(torch.randn(scans, 4, 8, requires_grad=True) for _ in layer.cell.states)
    results = []
    for one in (layer, exact):
        output, final = one(x, states, lengths=torch.tensor([5, 0, 2, 3]))
        final = final if isinstance(final, tuple) else (final,)
        assert not output[1].any()
        assert all(torch.equal(new[:, 1], old[:, 1]) for new, old in zip(final, states, strict=True))
        loss = output.square().sum() + sum((k + 1) * state.sin().sum() for k, state in enumerate(final))
        results.append([output, *final, *torch.autograd.grad(loss, [x, *states, *one.parameters()], allow_unused=True)])
    for got, wanted in zip(*results, strict=True):
        if got is not None and wanted is not None:
            torch.testing.assert_close(got, wanted, atol=1e-5, rtol=1e-4)


# ---- steps ----------------------------------------------------------------------------------------------------------


def test_a_step_of_a_layer_whose_layers_were_replaced():
    layer, other, x = Recurrent("gru", 3, 8, 2), Recurrent("gru", 3, 8, 2), torch.randn(2, 3)

    def replace_a_layer():
        layer.layers[0] = other.layers[0]

    def replace_a_direction():
        layer.layers[1]["fwd"] = other.layers[1]["fwd"]

    def replace_all():
        layer.layers = Recurrent("gru", 3, 8, 2).layers

    def connect():
        layer.residual = True

    for change in (replace_a_layer, replace_a_direction, replace_all, connect):
        with torch.no_grad():
            layer.step(x)
            before = layer.step(x)[0]
            change()
            for _ in range(2):
                assert not torch.equal(layer.step(x)[0], before)
                torch.testing.assert_close(layer.step(x)[0], layer(x.unsqueeze(1))[0][:, 0])


def test_states_that_a_sequence_makes_when_it_is_asked():
    class Made(list):
        def __getitem__(self, k):
            return super().__getitem__(k).clone()

    layer, x = Recurrent("lstm", 3, 8).requires_grad_(False), torch.randn(2, 3)
    _, state = layer.step(x)
    wanted = layer.step(x, state)[0]
    for _ in range(20):
        assert torch.equal(layer.step(x, Made(state))[0], wanted)


def test_hooks_run_in_every_step():
    layer, x, calls = Recurrent("gru", 3, 8).requires_grad_(False), torch.randn(2, 3), []
    for register in (layer.register_forward_hook, layer.register_forward_pre_hook):
        handle = register(lambda *arguments: calls.append(1))
        for _ in range(3):
            layer.step(x)
        handle.remove()
        layer.step(x)
    assert len(calls) == 6
    layer.step(x)
    handle = nn.modules.module.register_module_forward_hook(lambda *arguments: calls.append(1))
    try:
        layer.step(x)
        layer.step(x)
    finally:
        handle.remove()
    assert len(calls) == 8


def test_a_step_calls_the_forward_of_a_subclass():
    class Doubled(Recurrent):
        def forward(self, x, state=None):
            output, state = super().forward(x, state)
            return 2 * output, state

    layer, x = Doubled("gru", 3, 8).requires_grad_(False), torch.randn(2, 3)
    for _ in range(3):
        torch.testing.assert_close(layer.step(x)[0], layer(x.unsqueeze(1))[0][:, 0])


def test_a_function_that_outlives_its_layer():
    layer, x = Recurrent("gru", 3, 8).requires_grad_(False), torch.randn(2, 3)
    wanted = layer.step(x)[0]
    step = layer._stepper.step
    del layer
    assert torch.equal(step(x, None)[0], wanted)


@pytest.mark.parametrize("strict", [True, False])
def test_export_of_a_step_whether_or_not_there_were_some(strict):
    class Steps(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = Recurrent("gru", 3, 8).requires_grad_(False)

        def forward(self, x):
            return self.layer.step(x)[0]

    model, x = Steps(), torch.randn(2, 3)
    for _ in range(2):
        program = torch.export.export(model, (x,), strict=strict).module()
        torch.testing.assert_close(program(x), model(x))
        model(x)
    torch._dynamo.reset()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), model(x))
