"""The fused engine against the eager one in float64: library cells, awkward shapes, and user-defined cells."""

from __future__ import annotations

import ctypes
import gc
import itertools
import os
import platform
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from beside_eager import (
    GRADIENTS,
    OUTPUTS,
    _poisoned,  # noqa: F401 - a fixture of all tests here
    assert_near,
    compare,
    pair,
    random_states,
    results,
    set_limits,
)
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from random_cells import Language, made, source

from gatelab import I, Recurrent, cell, cells, cos, exp, from_torch, learned, relu, sigmoid, sin, softplus, tanh
from gatelab.engine import choose
from gatelab.engine.fused import buffers, compiler, function, passes
from gatelab.engine.fused.kernel import Kernel, kernel


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


SHAPES = [  # B, T, D, H
    (1, 1, 1, 1), (1, 9, 1, 16), (2, 1, 3, 17), (3, 5, 7, 11), (5, 13, 1, 32), (7, 6, 19, 5), (8, 4, 2, 48),
    (13, 3, 1, 181), (37, 11, 17, 64),
]  # fmt: skip


# The others are in test_zoo.py, in two shapes each.
COMMON = ["rnn", "gru", "gru_cho", "mgu", "lstm", "agru", "antisymmetric_rnn", "gated_antisymmetric_rnn"]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", COMMON)
def test_common_cells_in_awkward_shapes(name, shape):
    B, T, D, H = shape
    for seed in range(2):
        torch.manual_seed(seed)
        layer, exact = pair(name, D, H)
        compare(layer, exact, torch.randn(B, T, D), random_states(layer, B))


@pytest.mark.parametrize("name", COMMON)
def test_a_thousand_steps(name):
    # A purely additive state grows with time until the gates amplify rounding errors: use a small epsilon. Where there
    # is none, and where units are bistable, float32 is that far off on every engine: use fewer steps.
    options = {"epsilon": 0.02} if "epsilon" in cells.get(name).options else {}
    layer, exact = pair(name, 1, 19, **options)
    steps = 128 if name in ("original_lstm", "nbr") else 1024
    compare(layer, exact, torch.randn(3, steps, 1), random_states(layer, 3))


@pytest.mark.parametrize("watch", [False, True], ids=["", "gates"])
@pytest.mark.parametrize("lengths", [None, [6, 1, 4, 6, 3]], ids=["full", "lengths"])
@pytest.mark.parametrize(("bidirectional", "residual"), list(itertools.product([False, True], repeat=2)))
@pytest.mark.parametrize("name", ["gru", "lstm", "agru"])
def test_all_options_of_the_layer(name, bidirectional, residual, lengths, watch):
    layer, exact = pair(name, 3, 10, 2, bidirectional=bidirectional, residual=residual)
    compare(layer, exact, torch.randn(5, 6, 3), random_states(layer, 5), lengths=lengths, gates=watch)


# -- user-defined cells -----------------------------------------------------------------------------------------------


@cell
def three_states(x, h, c, m, W, U, b, *, rate=learned(0.3)):
    f = sigmoid(W.f(x) + U.f(h) + U.g(c) + b.p * m)
    u = tanh(W.u(x) + U.u(f * c) + b.u)
    new_c = f * c + (1 - f) * u
    new_m = m + softplus(rate) * (u - m)
    return tanh(new_c) * sigmoid(U.o(new_m) + b.o), new_c, new_m


@cell
def nested_twice(x, h, W, U, b):
    r = sigmoid(W.r(x) + U.r(h) + b.r)
    s = sigmoid(W.s(x) + U.s(r * h) + b.s)
    n = tanh(W.n(x) + U.n(s * tanh(U.m(r * h))) + b.n)
    return s * h + (1 - s) * n


@cell
def every_operation(x, h, W, U, b, *, a=learned(0.7), k=2.0):
    p = relu(W.p(x) + U.p(h) + b.p)
    q = softplus(W.q(x)) * exp(-(h**2)) / (1 + p**3)
    s = sin(k * U.s(h) + b.s) - cos(a * W.q(x))
    return 0.5 * tanh(q + a * s) - (-h) / (k + b.w**2)


@cell
def decaying(x, h, W, U, b, *, tau=learned(2.0)):
    decay = sigmoid(b.decay)  # depends on parameters only: computed once
    gain = exp(-1 / softplus(tau))
    A = U.h - U.h.T - softplus(tau) * I
    return decay * h + gain * tanh(A(h) + (0.5 * U.h)(h) + W.h(x))


@cell
def no_recurrence(x, h, W, b):
    z = sigmoid(W.z(x) + b.z)
    return z * h + (1 - z) * W.n(x)


@cell
def no_input(x, h, U, b):
    return tanh(U.n(h) + b.n)


@cell
def delay_line(x, h, c, W):
    return tanh(W.n(x)) + 0 * h, h


@cell
def shared_weights(x, h, W, U):
    first = tanh(W.a(x) + U.a(h))
    return tanh(W.a(x) + U.a(first) + U.b(first) + U.b(h))


@cell
def forgetful(x, h, c, W, b):
    return tanh(W.n(x) + c), sigmoid(W.m(x) + b.m)


@cell
def hostile_names(u, x, h_old, bits, W, U, b, *, team=learned(0.5), meet=0.3, own_arena=0.2, NULL=0.1, float_=0.9):
    n = tanh(W.auto(u) + U.G(h_old) + b.bias)
    b_bias = sigmoid(W.T(u) + U.rows(bits) + b.x_unpadded + b.x)
    v1 = n * b_bias
    h_old_new = v1 + meet * h_old
    slab = team * h_old_new
    xor = tanh(U.inline(x) - U.catch(v1) + own_arena * b.virtual)
    nullptr = sigmoid(float_ * bits)
    return slab + n - xor, v1 - nullptr, NULL * x + bits * nullptr


@cell
def stacked(x, h, W, U, b):
    n = tanh(W.n(x) + U.n(h))
    return tanh(U.k(n)) * sigmoid(U.g(sigmoid(b.g) * n))


OWN = [
    three_states,
    nested_twice,
    every_operation,
    decaying,
    no_recurrence,
    no_input,
    delay_line,
    shared_weights,
    forgetful,
    hostile_names,
    stacked,
]


@pytest.mark.parametrize("watch", [False, True], ids=["", "gates"])
@pytest.mark.parametrize("own", OWN, ids=lambda own: own.name)
def test_user_defined_cells(own, watch):
    layer, exact = pair(own, 3, 21)
    compare(layer, exact, torch.randn(9, 7, 3), random_states(layer, 9), gates=watch)
    compare(layer, exact, torch.randn(4, 5, 3), random_states(layer, 4), lengths=[5, 2, 1, 4], gates=watch)


@cell
def dividing(x, h, W, U, b, *, rate=learned(0.7)):
    n = tanh(W.n(x) + U.n(h / b.tau) + b.n)
    return h + rate * (n - h / b.tau)


@pytest.mark.parametrize("H", [5, 21, 37])
def test_lanes_beyond_the_last_unit_are_in_no_sum(H):
    """Vectors are padded with zeros: where a cell divides by one, those lanes are NaN, whatever the unit count."""
    layer, exact = pair(dividing, 3, H)
    tau = torch.linspace(1.5, 3.0, H)
    for one in (layer, exact):
        one.layers[0]["fwd"].b.tau.data.copy_(tau)
    for arguments in ({}, {"lengths": [6, 2, 1, 4]}, {"gates": True}):
        compare(layer, exact, torch.randn(4, 6, 3), random_states(layer, 4), **arguments)


RANDOM_CASES = [  # threads, whether they share out columns, shape, lengths
    (1, False, (3, 4, 2, 5), None),
    (1, False, (4, 5, 3, 21), [5, 2, 1, 4]),
    (2, False, (9, 4, 1, 37), [1, 4, 3, 4, 2, 4, 4, 1, 3]),
    (3, False, (7, 3, 2, 16), None),
    (3, True, (2, 4, 2, 70), [2, 4]),
    (8, False, (33, 3, 2, 20), None),
    (17, True, (2, 3, 2, 40), [3, 2]),
]


@settings(max_examples=6, phases=[Phase.generate], suppress_health_check=[HealthCheck.too_slow])  # each is compiled
@given(st.randoms(use_true_random=False), st.booleans())
def test_random_cells(chance, watch):
    """In sizes below, above and between whole vectors; with lengths and gates; rows and columns shared by threads."""
    random, before = made(source(chance, Language(jumps=False))), torch.get_num_threads()
    try:
        for threads, team, (B, T, D, H), lengths in RANDOM_CASES:
            torch.set_num_threads(threads)
            with pytest.MonkeyPatch.context() as patch:
                set_limits(patch, TEAM_BYTES=0 if team else passes.TEAM_BYTES)
                layer, exact = pair(random, H if random.graph.uses_input_itself else D, H)
                x = torch.randn(B, T, layer.input_size)
                compare(layer, exact, x, random_states(layer, B), lengths=lengths, gates=watch)
    finally:
        torch.set_num_threads(before)


@cell
def read_by_a_gate_only(x, h, m, W, U, b):
    before = U.m(h) + m  # noqa: F841
    return tanh(U.h(tanh(W.r(x))) + W.h(x)), sigmoid(U.m(tanh(W.m(x))))


@cell
def read_by_a_state_that_nothing_reads(x, h, c, o, W, U, b):
    return tanh(W.h(x)), tanh(W.c(x)), U.o(c) + h


@pytest.mark.parametrize(("random", "lengths", "watch"), [
    (read_by_a_gate_only, None, True),
    (read_by_a_gate_only, [4, 1, 3], True),
    (read_by_a_state_that_nothing_reads, [4, 1, 3], False),
    (read_by_a_state_that_nothing_reads, [4, 1, 3], True),
])  # fmt: skip
def test_states_that_no_later_step_depends_on(random, lengths, watch):
    """They are there in time for whatever reads them, and so are the gradients that come back from there."""
    layer, exact = pair(random, 3, 21)
    compare(layer, exact, torch.randn(3, 4, 3), random_states(layer, 3), lengths=lengths, gates=watch)


# -- guarantees -------------------------------------------------------------------------------------------------------


def test_results_are_bit_identical(two_threads):
    layer = Recurrent("gru", 5, 37, engine="fused")
    x, states = torch.randn(19, 30, 5), random_states(layer, 19)
    values, gradients, weights = results(layer, x, states)
    for _ in range(5):
        again, again_gradients, _ = results(layer, x, states, weights)
        assert all(torch.equal(a, b) for a, b in zip(values, again, strict=True))
        assert all(torch.equal(gradients[n], again_gradients[n]) for n in gradients)


@pytest.mark.parametrize("threads", [1, 2, 3, 8, 17])
def test_any_number_of_threads(threads, monkeypatch):
    """More than there are cores, too: by rows; by units, where the loop over time has no products; and with weight
    gradients that all threads sum in one place, since as many sums as threads would take too much memory.
    """
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        for name, sizes in (("agru", (5, 33)), ("lru", (1, 9)), ("qrnn", (3,))):
            layer, exact = pair(name, 3, 20)
            for B, together in itertools.product(sizes, (False, True)):
                set_limits(monkeypatch, SUMS_BYTES=0 if together else 1 << 28)
                lengths = [1 + b % 6 for b in range(B)] if together else None
                x, states = torch.randn(B, 6, 3), random_states(layer, B)
                compare(layer, exact, x, states, lengths=lengths, gates=not together)
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)


NO_MEMORY = """
import resource, torch, gatelab
layer, x = gatelab.Recurrent("lstm", 2, 2000).requires_grad_(False), torch.zeros(1, 64, 2)
layer(x[:, :1])  # prepares the weights
used = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmSize"))
resource.setrlimit(resource.RLIMIT_AS, (used * 1024 + (1 << 20),) * 2)
try:
    layer(x, output=False)
except gatelab.GatelabError as error:
    print(error)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits the address space as Linux does")
def test_too_little_memory_is_an_error():
    done = subprocess.run([sys.executable, "-c", NO_MEMORY], capture_output=True, text=True)
    wanted = (
        "there is not enough memory for the forward pass of cell 'lstm' with B=1, T=64, D=2, H=2000: make the batch"
    )
    assert done.stdout.startswith(wanted), done.stderr


@pytest.mark.parametrize("own", ["gru", "lstm", "agru", nested_twice, three_states], ids=str)
def test_a_team_on_few_rows(own, monkeypatch):
    """Splitting columns among threads gives the same results as splitting rows."""
    set_limits(monkeypatch, TEAM_BYTES=0)
    before = torch.get_num_threads()
    try:
        for threads, B in [(2, 1), (3, 6), (5, 3), (8, 3), (17, 1)]:
            torch.set_num_threads(threads)
            layer, exact = pair(own, 3, 70)
            compare(layer, exact, torch.randn(B, 9, 3), random_states(layer, B), gates=B == 3)
            lengths = [9, 2, 5, 1, 9, 4][:B]
            compare(layer, exact, torch.randn(B, 9, 3), random_states(layer, B), lengths=lengths)
    finally:
        torch.set_num_threads(before)


def test_only_required_gradients_are_computed(monkeypatch):
    layer = Recurrent("gru", 3, 20, engine="fused").freeze("U.z", "W.n", "b.r")
    exact = Recurrent("gru", 3, 20, engine="eager", dtype=torch.float64).freeze("U.z", "W.n", "b.r")
    exact.load_state_dict(layer.state_dict())
    compare(layer, exact, torch.randn(6, 5, 3), random_states(layer, 6))
    layer(torch.randn(6, 5, 3))[0].sum().backward()
    call = list(passes._calls.values())[-1]
    compiled, (name, pointers, sizes) = call.kernel, call.stages[-1]
    arguments = compiled.source.arguments[name]
    pointers, sizes = (
        dict(zip(*each, strict=True)) for each in ((arguments.pointers, pointers), (arguments.sizes, sizes))
    )
    assert (name, pointers["d_x"], sizes["Dp"]) == ("backward", None, 0)
    names = [*compiled.source.matrix_names.values(), *(f"b_{name}" for name in compiled.source.graph.b)]
    flags = (ctypes.c_uint8 * len(names)).from_address(pointers["wanted"])
    wanted = {name for name, flag in zip(names, flags, strict=True) if flag}
    assert wanted == {"U_r", "U_n", "W_r", "W_z", "b_z", "b_n", "b_hn"}


def many(count: int, terms: str):
    """A cell with this many members of a family, each a term of one sum."""
    space = {"cell": cell, "tanh": tanh}
    summed = " + ".join(f"{2 / (2 + k):.3f} * {terms.format(k)}" for k in range(count))
    exec(f"@cell\ndef many(x, h, W, U, b):\n    return tanh(W.h(x) + 0.1 * U.h(h) + 0.1 * ({summed}))", space)
    return space["many"]


@pytest.mark.parametrize(("count", "terms"), [(70, "b.v{}"), (130, "b.v{0} * h"), (70, "U.m{}(h)")])
def test_any_number_of_parameters(count, terms):
    """More than a machine word has bits, free and frozen."""
    own = many(count, terms)
    layer, exact = pair(own, 2, 5)
    x, states = torch.randn(3, 4, 2), random_states(layer, 3)
    compare(layer, exact, x, states)
    family, members = terms[0], terms[2]
    frozen = [f"{family}.{members}{k}" for k in (0, 1, count - 64, count - 1)]
    for one in (layer.freeze(*frozen), exact.freeze(*frozen)):
        one.zero_grad()
    compare(layer, exact, x, states)


def test_without_gradients_no_activations_are_saved(monkeypatch):
    sizes = []
    original = buffers.empty
    monkeypatch.setattr(buffers, "empty", lambda *shape: sizes.append(shape) or original(*shape))
    layer = Recurrent("lstm", 3, 16, engine="fused")
    x = torch.randn(4, 50, 3)
    with torch.no_grad():
        layer(x)  # prepares the weights
    frozen = Recurrent("lstm", 3, 16, engine="fused").requires_grad_(False)
    frozen(x)
    for one, context in ((layer, torch.no_grad), (layer, torch.inference_mode), (frozen, torch.enable_grad)):
        sizes.clear()
        with context():
            assert not one(x)[0].requires_grad
        assert sizes == [(2 * 4 * 16,), (50 * 4 * 16,)]  # the final states and the output
        sizes.clear()
        with context():
            assert one(x, output=False)[0] is None
        assert sizes == [(2 * 4 * 16,)]


def test_a_loss_on_the_last_state_alone():
    layer, exact = pair("lstm", 3, 12)
    x = torch.randn(5, 9, 3)
    for one, data in ((layer, x), (exact, x.double())):
        one.zero_grad()
        one(data)[1][1].square().sum().backward()
    for (name, p), q in zip(layer.named_parameters(), exact.parameters(), strict=True):
        assert_near(p.grad, q.grad, GRADIENTS, name)


@pytest.mark.parametrize("layout", ["transposed", "strided", "expanded gradient", "batch second"])
def test_non_contiguous_tensors(layout):
    layer, exact = pair("gru", 3, 16, batch_first=layout != "batch second")
    x = torch.randn(4, 3, 6).transpose(1, 2) if layout == "transposed" else torch.randn(4, 6, 6)[:, :, ::2]
    outputs = [one(data)[0] for one, data in ((layer, x), (exact, x.double()))]
    for output in outputs:
        (output.sum() if layout == "expanded gradient" else output.transpose(0, 1).square().sum()).backward()
    assert_near(outputs[0], outputs[1], OUTPUTS, "output")
    for (name, p), q in zip(layer.named_parameters(), exact.parameters(), strict=True):
        assert_near(p.grad, q.grad, GRADIENTS, name)


def test_double_precision_runs_on_eager_and_says_so_if_fused_was_asked_for(monkeypatch):
    monkeypatch.setattr(choose, "_warned", set())
    x = torch.randn(2, 5, 3, dtype=torch.float64)
    layer = Recurrent("gru", 3, 4, engine="auto", dtype=torch.float64)
    layer(x)
    assert layer.engine_in_use == "eager"
    layer.engine = "fused"
    with pytest.warns(UserWarning, match=r"computes in torch\.float32 and x is torch\.float64: the eager engine runs"):
        layer(x)
    assert layer.engine_in_use == "eager"
    layer(x)  # said once


def test_other_devices_are_refused():
    with pytest.raises(ValueError, match="'fused' runs on the CPU and x is on meta"):
        Recurrent("gru", 3, 4, engine="fused", device="meta")(torch.zeros(2, 5, 3, device="meta"))


def test_the_environment_variable_overrides_the_layer(monkeypatch):
    layer, x = Recurrent("gru", 3, 4, engine="fused"), torch.randn(2, 5, 3)
    for engine in ("eager", "native", "fused"):
        monkeypatch.setenv("GATELAB_ENGINE", engine)
        layer(x)
        assert layer.engine_in_use == engine
    monkeypatch.setenv("GATELAB_ENGINE", "fusd")
    with pytest.raises(ValueError, match="unknown GATELAB_ENGINE 'fusd'; did you mean 'fused'"):
        layer(x)


def test_a_second_derivative_is_refused():
    layer = Recurrent("gru", 3, 4, engine="fused")
    x = torch.randn(2, 5, 3, requires_grad=True)
    (gradient,) = torch.autograd.grad(layer(x)[0].sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="engine='eager'"):
        gradient.sum().backward()


def test_a_second_derivative_is_refused_along_every_path():
    layer = Recurrent("gru", 3, 4, engine="fused")
    x = torch.randn(2, 5, 3, requires_grad=True)
    loss = layer(x)[0].square().sum()
    (gradient,) = torch.autograd.grad(loss, x, create_graph=True)
    for again in (gradient.square().sum(), loss + 10 * gradient.square().sum()):
        with pytest.raises(RuntimeError, match="engine='eager'"):
            torch.autograd.grad(again, x, retain_graph=True)


def test_default_dtype_and_device_do_not_matter():
    layer, exact = pair("lstm", 3, 12)
    x, states = torch.randn(5, 6, 3), random_states(layer, 5)
    before = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.float64)
        compare(layer, exact, x, states)
    finally:
        torch.set_default_dtype(before)
    with torch.device("meta"):
        output = layer(x)[0]
    assert_near(output, exact(x.double())[0], OUTPUTS, "output")


def test_non_contiguous_lengths():
    layer, exact = pair("gru", 3, 12)
    x, states = torch.randn(3, 6, 3), random_states(layer, 3)
    for lengths in (torch.tensor([6, 1, 4, 1, 3, 1])[::2], torch.tensor([4]).expand(3), torch.tensor([6, 4, 3]).int()):
        compare(layer, exact, x, states, lengths=lengths)


def test_saved_tensors_hooks():
    layer, exact = pair("gru", 3, 16)
    x, states = torch.randn(4, 6, 3), random_states(layer, 4)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.detach().numpy().copy(order="C"), torch.from_numpy):
        output = layer(x, states[0])[0]
    output.square().sum().backward()
    exact(x.double(), states[0].double())[0].square().sum().backward()
    for (name, p), q in zip(layer.named_parameters(), exact.parameters(), strict=True):
        assert_near(p.grad, q.grad, GRADIENTS, name)


def test_mixed_dtypes_are_refused():
    layer = Recurrent("gru", 3, 4, engine="fused")
    layer.layers[0]["fwd"].U.half()
    with pytest.raises(ValueError, match=r"different dtypes \(torch.float16, torch.float32\)"):
        layer(torch.randn(2, 5, 3))


@pytest.mark.parametrize(("first", "then"), [(1, 3), (3, 1), (2, 17)])
@pytest.mark.parametrize(("cell", "B"), [("gru", 33), ("gru", 13), ("mingru", 6), ("lru", 5)])
@pytest.mark.parametrize("sums", [passes.SUMS_BYTES, 0])
def test_the_number_of_threads_may_change_before_backward(cell, B, first, then, sums, monkeypatch):
    """The tape is divided among the threads of the forward pass."""
    set_limits(monkeypatch, THREAD_WORK=1, SUMS_BYTES=sums)
    layer, exact = pair(cell, 3, 20)
    x = torch.randn(B, 6, 3)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(first)
        loss = layer(x)[0].square().sum()
        torch.set_num_threads(then)
        loss.backward()
    finally:
        torch.set_num_threads(before)
    exact(x.double())[0].square().sum().backward()
    for (name, p), q in zip(layer.named_parameters(), exact.parameters(), strict=True):
        assert_near(p.grad, q.grad, GRADIENTS, name)


def test_a_backward_pass_without_threads_of_its_own():
    """More than a pool has, which would have to meet: the caller computes the shares, one after the other."""
    code = """
import torch
from gatelab import Recurrent
from gatelab.engine.fused import passes
passes.THREAD_WORK, passes.SUMS_BYTES = 1, 0
layer, eager = (Recurrent("gru", 3, 16, engine=engine) for engine in ("fused", "eager"))
eager.load_state_dict(layer.state_dict())
x = torch.randn(4400, 3, 3)
torch.set_num_threads(1100)
output = layer(x)[0]
torch.set_num_threads(2)
output.sin().mean().backward()
eager(x)[0].sin().mean().backward()
for p, q in zip(layer.parameters(), eager.parameters()):
    torch.testing.assert_close(p.grad, q.grad)
"""
    own_threads = os.environ | {"OMP_WAIT_POLICY": "passive"}  # OpenMP ends a program that it has too few threads for
    subprocess.run([sys.executable, "-c", code], check=True, timeout=600, env=own_threads)


@pytest.mark.parametrize(("cell", "T", "B", "H", "divided"), [
    ("gru", 100, 32, 64, "rows"),
    ("mingru", 100, 32, 64, "rows"),
    ("mingru", 100, 4, 256, "rows"),
    ("mingru", 100, 3, 256, "units"),
    ("mingru", 100, 2, 2048, "rows"),
    ("mingru", 1, 2, 2048, "units"),  # one step of a stream: each thread reads half of the weights
    ("gru", 100, 2, 2048, "units"),
])  # fmt: skip
def test_what_threads_divide(cell, T, B, H, divided, monkeypatch):
    set_limits(monkeypatch, TEAM_BYTES=1 << 20)
    source = kernel(cells.get(cell)).source
    assert passes.threads_for(source, T, B, H, H, 2, is_forward=True) == (2, divided == "units")


def test_the_header_of_the_tape_has_one_size():
    assert ctypes.c_long.in_dll(kernel(cells.get("gru")).library, "tape_header").value == passes.TAPE_HEADER


def test_several_python_threads_at_once():
    layer = Recurrent("gru", 3, 20, engine="fused").requires_grad_(False)
    inputs = [torch.randn(16, 40, 3) for _ in range(8)]
    alone = [layer(x)[0].clone() for x in inputs]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda x: layer(x)[0].clone(), inputs * 5))
    assert all(torch.equal(a, b) for a, b in zip(alone * 5, together, strict=True))


def test_nan_reaches_all_gradients():
    layer = Recurrent("gru", 1, 16, engine="fused")
    x = torch.zeros(9, 5, 1)
    x[4, 2] = float("nan")
    layer(x)[0].sum().backward()
    assert all(p.grad.isnan().any() for p in layer.parameters())


@pytest.mark.skipif(platform.machine() != "x86_64", reason="x86 vector widths")
@pytest.mark.parametrize(("architecture", "lanes"), [("x86-64-v3", 8), ("x86-64", 4)])
@pytest.mark.parametrize("name", ["lstm", "agru"])
def test_narrower_vectors(name, architecture, lanes, monkeypatch):
    kernel(cells.get(name))  # the process keeps the first that it loads: for other tests not a narrow one
    flags = [f"-march={architecture}" if flag == "-march=native" else flag for flag in compiler.FLAGS]
    monkeypatch.setattr(compiler, "FLAGS", tuple(flags))
    narrow = Kernel(cells.get(name), False)
    assert ctypes.c_int.in_dll(narrow.library, "lanes").value == lanes
    monkeypatch.setattr(function, "kernel", lambda *_: narrow)
    layer, exact = pair(name, 5, 37)
    for B in (1, 6, 19):
        compare(layer, exact, torch.randn(B, 7, 5), random_states(layer, B))


def test_a_cell_that_is_too_deep_runs_on_eager():
    @cell
    def deep(x, h, W):
        v = W.n(x)
        for _ in range(400):
            v = v * 0.9 + 0.01 * h
        return v

    layer = Recurrent(deep, 2, 4)
    with pytest.warns(UserWarning, match="nested too deeply"):
        layer(torch.zeros(1, 2, 2))
    assert layer.engine_in_use == "eager"


def test_the_output_may_be_changed_in_place():
    """As with nn.GRU: its output is not what the backward pass needs."""
    module = torch.nn.GRU(3, 4, batch_first=True)
    layer, x, outputs = from_torch(module), torch.randn(2, 5, 3), []
    for one in (module, layer):
        output, state = one(x)
        output.mul_(2)
        state.square_()
        (output.sum() + state.sum()).backward()
        outputs.append(output)
    torch.testing.assert_close(*outputs)
    torch.testing.assert_close(layer.layers[0]["fwd"].U["z"].grad, module.weight_hh_l0.grad[4:8])


def test_changing_a_weight_before_backward_is_detected():
    layer = Recurrent("gru", 3, 4, engine="fused")
    loss = layer(torch.randn(2, 5, 3))[0].sum()
    with torch.no_grad():
        layer.layers[0]["fwd"].U["n"].mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_saved_activations_are_freed_after_backward():
    layer = Recurrent("gru", 3, 64, engine="fused")
    x = torch.randn(64, 50, 3)
    gc.collect()
    before = buffers._pool._leased  # leaked by other tests
    loss = layer(x)[1].sum()
    in_use = buffers._pool._leased - before
    loss.backward()
    assert buffers._pool._leased - before < in_use / 4  # although `loss` is still alive
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


def test_backward_twice_through_a_retained_graph():
    layer = Recurrent("lstm", 3, 12, engine="fused")
    loss = layer(torch.randn(2, 5, 3))[0].square().sum()
    loss.backward(retain_graph=True)
    once = [p.grad.clone() for p in layer.parameters()]
    loss.backward()
    for first, p in zip(once, layer.parameters(), strict=True):
        torch.testing.assert_close(p.grad, 2 * first)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_nan_and_infinity_propagate(bad):
    layer = Recurrent("lstm", 1, 16, engine="fused")
    x = torch.zeros(9, 5, 1)
    x[4, 2] = bad
    output, _ = layer(x)
    assert output[[0, 1, 2, 3, 5, 6, 7, 8]].isfinite().all()
    assert output[4, :2].isfinite().all()
    if bad != bad:
        assert output[4, 2:].isnan().all()
    else:  # gates saturate
        assert output[4, 2:].isfinite().all()


@pytest.mark.parametrize("flush", [False, True])
def test_the_control_register_is_restored(flush, two_threads):
    tiny = torch.tensor([1e-39])
    try:
        assert torch.set_flush_denormal(flush)
        before = (tiny * 1.0).item()
        assert (before == 0.0) == flush
        layer = Recurrent("gru", 1, 16, engine="fused")
        layer(torch.randn(32, 300, 1))[1].sum().backward()
        assert (tiny * 1.0).item() == before
        assert ((torch.full((100_000,), 1e-39) * 1.0) == before).all()  # in the other threads too
    finally:
        torch.set_flush_denormal(False)


def test_denormal_gradients_are_flushed():
    """Halving the gradient at each step makes it denormal after 130 steps, which the kernel flushes to zero."""

    @cell
    def halving(x, h, W, b):
        return 0.5 * h + W.n(x)

    layer = Recurrent(halving, 1, 16, engine="fused")
    h0 = torch.zeros(1, 1, 16, requires_grad=True)
    layer(torch.zeros(1, 135, 1), h0)[1].sum().backward()
    assert (h0.grad == 0).all()  # 0.5 ** 135 is denormal in float32
    exact = Recurrent(halving, 1, 16, engine="eager")
    exact(torch.zeros(1, 135, 1), h0 := torch.zeros(1, 1, 16, requires_grad=True))[1].sum().backward()
    assert (h0.grad > 0).all()


def test_referenced_results_are_not_overwritten():
    """Buffers are reused only when no tensor views them."""
    layer = Recurrent("gru", 3, 64, engine="fused").requires_grad_(False)
    inputs = [torch.randn(32, 40, 3) for _ in range(4)]
    held = [layer(x)[0] for x in inputs]
    copies = [output.clone() for output in held]
    for x in inputs:
        layer(x)
    assert all(torch.equal(a, b) for a, b in zip(held, copies, strict=True))


def test_buffers_return_to_the_pool():
    pool = buffers._Pool()
    array = pool.lease(400_000)
    address = ctypes.addressof(array)
    view = torch.frombuffer(array, dtype=torch.float32).view(100, 1000)[3:5]
    del array
    assert ctypes.addressof(pool.lease(400_000)) != address  # the view still uses it
    del view
    assert ctypes.addressof(pool.lease(399_000)) == address  # the most recently used one, though slightly larger


def test_the_pool_is_bounded(monkeypatch):
    monkeypatch.setattr(buffers, "SLACK", 0)
    pool = buffers._Pool()
    for size in range(100_000, 1_000_000, 100_000):
        pool.lease(size)
    assert sum(map(len, pool._idle)) <= pool._peak


def test_training_matches_eager():
    layer, exact = pair("agru", 2, 12)
    optimisers = [torch.optim.Adam(one.parameters(), lr=1e-2) for one in (layer, exact)]
    for _ in range(20):
        x = torch.randn(8, 10, 2)
        for one, optimiser, data in zip((layer, exact), optimisers, (x, x.double()), strict=True):
            optimiser.zero_grad()
            (one(data)[0][..., 0] - data[..., 0].cumsum(1)).square().mean().backward()
            optimiser.step()
    for (name, p), q in zip(layer.named_parameters(), exact.parameters(), strict=True):
        assert_near(p.detach(), q.detach(), 1e-3, name)


def test_functions_are_accurate_to_a_few_ulp():
    v = torch.cat([torch.linspace(-30, 30, 20_001), torch.logspace(-30, 0, 1000), -torch.logspace(-30, 0, 1000)])
    for op, exact in (
        ("sigmoid", torch.sigmoid),
        ("tanh", torch.tanh),
        ("exp", torch.exp),
        ("softplus", torch.nn.functional.softplus),
    ):
        space = {"cell": cell, "op": {"sigmoid": sigmoid, "tanh": tanh, "exp": exp, "softplus": softplus}[op]}
        exec(f"@cell\ndef just_{op}(x, h, W, U):\n    return op(h) + 0 * W.n(x)", space)
        layer = Recurrent(space[f"just_{op}"], 1, len(v), engine="fused")
        got = layer.requires_grad_(False)(torch.zeros(1, 1, 1), v.view(1, 1, -1))[1].flatten()
        wanted = exact(v.double())
        error = ((got.double() - wanted).abs() / wanted.abs().clamp(min=1e-37)).max().item()
        assert error < 6e-7, f"{op}: {error:.1e}"  # five ulp
