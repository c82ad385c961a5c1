"""The compiled engine against the eager one. Code is generated for one cell here, for all by `make test-compiled`."""

from __future__ import annotations

import itertools

import exported
import pytest
import torch
from torch._dynamo.utils import counters

from gatelab import Recurrent, cell, cells, full, mean, relu, tanh, where
from gatelab.engine import choose, compiled, eager
from gatelab.engine.parameters import CellParameters
from gatelab.engine.scan import Scan

pytestmark = [  # torch.compile's own warnings
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
B, T, H = 4, 7, 5
LENGTHS = torch.tensor([7, 0, 4, 1])
DIVISORS = {("slstm", "n"), ("rwkv4", "s")}  # sums of positive numbers


@pytest.fixture(autouse=True)
def _fresh(monkeypatch, tmp_path):
    """Short chunks, nothing compiled before, and code without vectors, whose availability takes long to find out."""
    import torch._inductor.config as config

    monkeypatch.setattr(compiled, "STEPS", 3)
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    compiled._compiled.cache_clear()
    compiled.unavailable.cache_clear()
    torch._dynamo.reset()
    with config.patch({"cpp.vec_isa_ok": False, "compile_threads": 1}):
        yield


@pytest.fixture
def only_written(monkeypatch):
    """The graphs as they are written, without torch.compile."""

    def function(kind, *situation):
        return compiled._function(compiled._Writer(compiled._program(kind.cell, kind.watch)).chunk(kind))

    monkeypatch.setattr(compiled, "_compiled", function)


def parameters_of(each, dtype=torch.float64) -> CellParameters:
    features = H if each.graph.uses_input_itself else 3
    return Recurrent(each, features, H, dtype=dtype).layers[0]["fwd"]


def initial_states(each, rows=B) -> tuple[torch.Tensor, ...]:
    states = [0.3 * torch.randn(rows, H, dtype=torch.float64) for _ in each.states]
    for name, state in zip(each.states, states, strict=True):
        if name == "t":
            state.zero_()
        if (each.name, name) in DIVISORS:
            state.abs_().add_(0.5)
    return tuple(state.requires_grad_() for state in states)


def stepwise(parameters, x, states, lengths=None, watch=False, resets=None) -> Scan:
    """The eager engine, one step at a time, with the resets between them."""
    initial, scans = states[-len(parameters.cell.states) :], []
    states = states[: len(initial)]
    for t in range(len(x)):
        if resets is not None:
            states = tuple(torch.where(resets[t, :, None], a, b) for a, b in zip(initial, states, strict=True))
        before = states
        scans.append(eager.scan(parameters, x[t : t + 1], states, None, watch))
        states = scans[-1].states
        if lengths is not None:
            inside = (t < lengths)[:, None]
            states = tuple(torch.where(inside, a, b) for a, b in zip(states, before, strict=True))
            gates = {name: torch.where(inside, gate, 0.0) for name, gate in scans[-1].gates.items()}
            scans[-1] = Scan(torch.where(inside, scans[-1].output, 0.0), states, gates)
    gates = {name: torch.cat([each.gates[name] for each in scans]) for name in scans[0].gates}
    return Scan(torch.cat([each.output for each in scans]), states, gates)


def assert_same(parameters, x, states, *arguments, reference=eager.scan, tolerance=1e-10):
    results = []
    for scan in (compiled.scan, reference):
        torch.manual_seed(1)  # of masks
        result = scan(parameters, x, states, *arguments)
        values = [result.output, *result.states, *result.gates.values()]
        torch.manual_seed(2)
        loss = sum((value * torch.randn_like(value)).sum() for value in values)
        wanted = [x, *states, *parameters.parameters()]
        results.append((values, torch.autograd.grad(loss, wanted, allow_unused=True), list(result.gates)))
    (values, gradients, gates), (expected, exact, expected_gates) = results
    assert gates == expected_gates
    for value, other in zip(values, expected, strict=True):
        torch.testing.assert_close(value, other, rtol=0, atol=tolerance)
    zero = torch.zeros((), dtype=torch.float64)
    for gradient, other in zip(gradients, exact, strict=True):
        difference = (zero if gradient is None else gradient) - (zero if other is None else other)
        assert difference.abs().max() <= tolerance * max(1.0, 0.0 if other is None else float(other.abs().max()))


def check(each, lengths=None, watch=False, steps=T, **options):
    torch.manual_seed(0)
    parameters = parameters_of(each)
    x = torch.randn(steps, B, parameters.W.values()[0].shape[1] if len(parameters.W) else H, dtype=torch.float64)
    assert_same(parameters, x.requires_grad_(), initial_states(each), lengths, watch, **options)


@cell
def awkward(x, h, c, W, U, b, *, gamma=0.5):
    """Numbers in every place, states that are the same value, a gate of parameters only, and a state of the input."""
    decay = relu(b.decay) + mean(full(0.5))
    n = tanh(W.n(x) + (U.n - gamma * U.m)(h) + where(c > 0, 1.0, h))
    new = decay * n + gamma * (2 - gamma) * U.n(b.decay)
    return new, new


@pytest.mark.parametrize("each", [*map(cells.get, cells.names()), awkward, exported.where_the_input_is], ids=str)
@pytest.mark.usefixtures("only_written")
def test_the_graphs_of_every_cell(each):
    check(each, LENGTHS, watch=True)


@pytest.mark.parametrize("each", [cells.gru, cells.lstm, cells.rwkv4, awkward], ids=str)
@pytest.mark.usefixtures("only_written")
def test_the_graphs_without_lengths(each):
    check(each)


@pytest.mark.parametrize(
    "each", [cells.lstm, cells.zoneout_lstm, cells.qrnn, cells.exprnn, awkward, exported.where_the_input_is], ids=str
)
@pytest.mark.parametrize(
    ("lengths", "watch", "another"), [(None, False, False), (LENGTHS, True, False), (LENGTHS, False, True)]
)
@pytest.mark.usefixtures("only_written")
def test_resets_begin_again_at_the_initial_state_or_another(each, lengths, watch, another):
    torch.manual_seed(0)
    parameters = parameters_of(each).eval()
    features = H if each.graph.uses_input_itself else 3
    x = torch.randn(T, B, features, dtype=torch.float64, requires_grad=True)
    resets = torch.rand(T, B) < 0.4
    states = initial_states(each) + (initial_states(each) if another else ())
    assert_same(parameters, x, states, lengths, watch, resets, reference=stepwise)


def test_nothing_is_compiled_again_for_other_lengths_and_batches(monkeypatch):
    """A chunk and a single step are compiled, once each with and without gradients."""
    monkeypatch.setattr(compiled, "BACKEND", "eager")
    parameters, h = parameters_of(cells.lstm), torch.zeros(2, 9, H, dtype=torch.float64)
    counters.clear()
    for rows, steps in ((4, 7), (9, 10), (3, 4), (2, 12)):
        x = torch.randn(rows, steps, 3, dtype=torch.float64).transpose(0, 1)  # as a layer with batch_first has it
        states = (h[0, :rows], h[0, :rows])  # the same tensor twice
        got, wanted = (scan(parameters, x, states) for scan in (compiled.scan, eager.scan))
        torch.testing.assert_close(got.output, wanted.output, rtol=0, atol=1e-12)
        with torch.no_grad():
            torch.testing.assert_close(compiled.scan(parameters, x, states).states, got.states, rtol=0, atol=1e-12)
    assert counters["stats"]["unique_graphs"] == 4
    assert not counters["graph_break"]


def test_gradients_of_the_joint_graph(monkeypatch):
    """With a function whose derivative is another's."""
    monkeypatch.setattr(compiled, "BACKEND", "aot_eager")
    monkeypatch.setattr(compiled, "STEPS", 2)
    check(cells.skip_gru, LENGTHS.clamp(max=2), steps=2)


@pytest.mark.compiled
def test_a_layer_on_generated_code(monkeypatch):
    monkeypatch.setattr(compiled, "STEPS", 2)
    layer = Recurrent("agru", 3, H, engine="compiled")
    exact = Recurrent("agru", 3, H, engine="eager", dtype=torch.float64)
    exact.load_state_dict(layer.state_dict())
    x = torch.randn(B, 2, 3)
    output, wanted = layer(x)[0], exact(x.double())[0]
    assert layer.engine_in_use == "compiled"
    torch.testing.assert_close(output.double(), wanted, rtol=0, atol=1e-6)
    for one in (output, wanted):
        one.square().sum().backward()
    for (name, parameter), other in zip(layer.named_parameters(), exact.parameters(), strict=True):
        torch.testing.assert_close(parameter.grad.double(), other.grad, rtol=1e-4, atol=1e-6, msg=name)


@pytest.mark.compiled
@pytest.mark.parametrize("each", [*map(cells.get, cells.names()), awkward], ids=lambda each: each.name)
def test_generated_code_of_every_cell(each):
    check(each, LENGTHS, watch=True)


@pytest.mark.compiled
@pytest.mark.parametrize("name", ["gru", "lstm", "zoneout_lstm", "qrnn", "exprnn", "lif", "layer_norm_lstm", "rwkv4"])
def test_generated_code_of_long_chunks(name, monkeypatch):
    monkeypatch.setattr(compiled, "STEPS", 16)
    for lengths, watch in itertools.product((None, LENGTHS), (False, True)):
        check(cells.get(name), lengths, watch, steps=35)


def test_without_a_compiler_it_says_so():
    import torch._inductor.config as config

    @cell
    def tiny(x, h, b):
        return 0.5 * h + b.n

    layer = Recurrent(tiny, H, H, engine="compiled")
    with config.patch({"cpp.cxx": (None, "no-such-compiler")}), torch.no_grad():
        with pytest.raises(
            ValueError, match=r"compile failed for the cell 'tiny' on cpu \(.*\): torch.compile needs a C"
        ):
            layer(torch.zeros(2, 1, H))
        assert "no-such-compiler" in str(compiled.unavailable(tiny, "cpu"))


def test_what_else_fails_is_not_called_a_missing_compiler(monkeypatch):
    def backend(graph, inputs):
        raise RuntimeError("a graph that nobody understands")

    monkeypatch.setattr(compiled, "BACKEND", backend)
    with pytest.raises(compiled.CompilationError) as failed:
        Recurrent("gru", H, H, engine="compiled")(torch.zeros(2, 1, H))
    assert "(RuntimeError: a graph that nobody understands); engine='eager' needs nothing" in str(failed.value)


def test_what_auto_is_on_other_devices(monkeypatch):
    x = torch.zeros(2, 5, 3, device="meta")
    monkeypatch.setattr(choose, "_warned", set())
    monkeypatch.setattr(compiled, "unavailable", lambda each, device: None)
    assert choose.choose("auto", cells.gru, x, watch=False) == "native"
    assert choose.choose("auto", cells.gru, x, watch=True) == "compiled"  # torch.nn shows no gates
    assert choose.choose("auto", cells.gru, x, watch=False, resets=True) == "compiled"
    assert choose.choose("auto", cells.agru, x, watch=True) == "compiled"
    assert choose.choose("compiled", cells.gru, x, watch=True) == "compiled"
    monkeypatch.setattr(compiled, "unavailable", lambda each, device: compiled.CompilationError("no Triton here"))
    with pytest.warns(UserWarning, match="falling back to the eager engine, which is slower: no Triton here"):
        assert choose.choose("auto", cells.agru, x, watch=False) == "eager"
    assert choose.choose("auto", cells.agru, x, watch=False) == "eager"  # said once
    monkeypatch.setenv("GATELAB_ENGINE", "compiled")
    assert choose.choose("auto", cells.gru, torch.zeros(2, 5, 3), watch=False) == "compiled"
