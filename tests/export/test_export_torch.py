"""The export to PyTorch: a module in one file, scriptable, and an exported program; all without gatelab."""

from __future__ import annotations

import copy
import dataclasses
import subprocess
import sys
import warnings

import exported
import numpy as np
import pytest
import torch
from places import DOCS

from gatelab import Recurrent, cell, cells
from gatelab.export import network_of, to_torch
from gatelab.export.check import TOLERANCE, check
from gatelab.export.torch_module import _imported, run_module, runner, write, write_module
from gatelab.export.torch_source import ModuleSource, file_stem
from gatelab.lang import (
    clamp,
    exp,
    full,
    layer_norm,
    maximum,
    mean,
    minimum,
    prev,
    relu,
    rms_norm,
    sigmoid,
    softplus,
    stop_gradient,
    sum,  # noqa: A004
    tanh,
    where,
)
from gatelab.lang.hold import hold
from gatelab.models import SequenceClassifier, StepPredictor
from gatelab.tasks.scaling import Scaling

PAGE = DOCS / "export" / "torch.md"
SAMPLE = (
    "gru", "lstm", "qrnn", "clockwork_rnn", "tau_gru", "layer_norm_gru", "agru", "exprnn", "zoneout_lstm", "skip_gru",
    "lif", "intersection_rnn", "lru",
)  # fmt: skip
H = 5


@cell
def greek(x, h, θ, W, U, b, *, λ=0.5, type=2.0):  # noqa: A002
    """A cell whose names mean something else in Python, in torch, or in the generated file."""
    state = sigmoid(W.state(x) + U.state(h) + b.state)
    self_ = tanh(W.self_(x) + U.self_(h) + b.forward)
    torch = sigmoid(U.torch(θ) + b.λ)
    forward = λ * state * torch + type * self_
    linear = maximum(forward, 0.1) - minimum(U.ζ(forward), 0.3)
    sum = tanh(linear)  # noqa: A001
    outputs = rms_norm(sum) * softplus(b.type)
    x = where(outputs > 0.0, outputs, -0.1)
    return (1 - state) * h + state * x, forward


@cell
def constants(x, h, a, d, e, W, b):
    """States that are numbers, vectors or sums over the units, and functions of such."""
    n = tanh(W.n(x) + b.n + a + d + e)
    k = where(n < 0.0, full(1.0), full(-1.0))
    u = minimum(clamp(k + prev(n), -0.7, 0.9), b.high) + layer_norm(full(2.0))
    return relu(u) + mean(stop_gradient(h)) + sum(full(0.5)), full(2.0), b.n, exp(-sum(n * n)) * full(1.0)


def rounding(model: torch.nn.Module, features: int) -> float:
    """How far the model itself is from its float64 version if it computes in float32."""
    x = torch.randn(7, 50, features, generator=torch.Generator().manual_seed(1))
    eager = copy.deepcopy(model)
    eager.engine = "eager"
    with torch.no_grad():
        exact = copy.deepcopy(eager).double()(x.double())[0]
        return float((eager(x)[0] - exact).abs().max() / exact.abs().max())


def layers(name: str, count: int) -> Recurrent:
    wanted = cells.get(name)
    return Recurrent(wanted, H if wanted.graph.uses_input_itself else 3, H, count)


def checked(source, path, *, program=False, **changes) -> float:
    """Write a network, and compare it with the model; returns the largest difference."""
    whole = dataclasses.replace(network_of(source), **changes)
    path.mkdir(exist_ok=True)
    if program:
        write(whole, path / "out", None)
        return check(source, whole, runner(whole, path / "out")).difference
    write_module(whole, path)
    return check(source, whole, run_module(whole, path)).difference


def scripted(module: torch.nn.Module) -> torch.jit.ScriptModule:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"`torch\.jit\.script", DeprecationWarning)
        return torch.jit.script(module)


@pytest.mark.parametrize(("name", "count"), [(name, 1 + number % 2) for number, name in enumerate(SAMPLE)])
def test_a_sample_of_cells(name, count, tmp_path):
    source = layers(name, count)
    assert checked(source, tmp_path) <= TOLERANCE
    module = _imported(tmp_path / "network.py").load()
    x = torch.randn(2, 3, source.input_size)
    answer, state = module(x)
    of_script, state_of_script = scripted(module)(x)
    torch.testing.assert_close(of_script, answer)
    torch.testing.assert_close(state_of_script, state)


@pytest.mark.export
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("name", cells.names())
def test_every_cell(name, count, tmp_path):
    """Two cells amplify the rounding of float32: the model itself is off by more than the tolerance in float32."""
    source = layers(name, count)
    whole = network_of(source)
    write(whole, tmp_path / "out", None)
    amplified = 4 * rounding(source, source.input_size) if name in ("layer_norm_lstm", "phased_lstm") else 0.0
    check(source, whole, runner(whole, tmp_path / "out"), max(TOLERANCE, amplified))
    module = _imported(tmp_path / "out" / "network.py").load()
    x = torch.randn(2, 3, source.input_size)
    torch.testing.assert_close(scripted(module)(x), module(x))


@pytest.mark.parametrize("own", [greek, constants], ids=lambda own: own.name)
def test_names_and_constants_of_a_user(own, tmp_path):
    source = Recurrent(own, 3, H, 2)
    assert checked(source, tmp_path, program=True) <= TOLERANCE
    module = _imported(tmp_path / "out" / "network.py").load()
    x = torch.randn(2, 3, 3)
    torch.testing.assert_close(scripted(module)(x), module(x))
    assert all(name.isascii() for name in module.state_dict())


MODELS = {
    "last": lambda: SequenceClassifier("lstm", 3, H, 4, 2),
    "mean": lambda: SequenceClassifier("gru", 3, H, 4, 2, pool="mean", residual=True),
    "steps": lambda: StepPredictor("gru", 3, H, 4, 2),
    "bidirectional last": lambda: SequenceClassifier("lstm", 3, H, 4, 2, bidirectional=True, residual=True),
    "bidirectional mean": lambda: SequenceClassifier("gru", 3, H, 4, 2, bidirectional=True, pool="mean"),
    "bidirectional steps": lambda: StepPredictor("gru", 3, H, 4, 2, bidirectional=True),
    "max": lambda: SequenceClassifier("gru", 3, H, 4, 2, pool="max"),
    "mean+max": lambda: SequenceClassifier("lstm", 3, H, 4, 2, pool="mean+max"),
    "attention": lambda: SequenceClassifier("gru", 3, H, 4, 2, pool="attention"),
    "bidirectional attention": lambda: SequenceClassifier("gru", 3, H, 4, 2, pool="attention", bidirectional=True),
    "stem": lambda: SequenceClassifier("lstm", 3, H, 4, 2, stem="conv", pool="mean+max", residual=True),
    "bidirectional stem": lambda: SequenceClassifier("gru", 3, H, 4, 2, stem="conv", pool="max", bidirectional=True),
}


@pytest.mark.parametrize("kind", MODELS)
def test_heads_residual_and_directions(kind, tmp_path):
    source = MODELS[kind]().eval()
    if isinstance(source, SequenceClassifier):
        exported.as_trained(source)
    scale = Scaling(np.array([1e6, -3.0, 0.1]), np.array([0.5, 20.0, 1e-9]))
    assert checked(source, tmp_path, input_scale=scale) <= TOLERANCE
    module = _imported(tmp_path / "network.py").load()
    x = torch.randn(2, 5, 3) * torch.from_numpy(scale.deviation) + torch.from_numpy(scale.mean)
    torch.testing.assert_close(scripted(module)(x.float()), module(x.float()))


def test_programs_of_both_directions_and_of_cells_without_a_gate(tmp_path):
    """States that begin as one tensor, and a name that is no identifier."""
    assert to_torch(
        SequenceClassifier("lstm", 3, H, 2, 1, dropout=0.0, bidirectional=True).eval(), tmp_path / "a"
    ).checked
    held = hold(cells.gru, {"r": 1.0})
    assert to_torch(SequenceClassifier(held, 3, H, 2, 1, dropout=0.0).eval(), tmp_path / "b").checked


def test_the_program_of_a_stem(tmp_path):
    """For any number of sequences and steps, from five on: of fewer, one would be left."""
    options = {"stem": "conv", "pool": "mean+max", "bidirectional": True, "dropout": 0.0}
    source = exported.as_trained(SequenceClassifier("gru", 3, H, 2, 1, **options).eval())
    assert to_torch(source, tmp_path).checked.difference <= TOLERANCE
    program = torch.export.load(tmp_path / "network.pt2").module()
    module = _imported(tmp_path / "network.py").load()
    with torch.no_grad():
        for steps in (5, 6, 100):
            x = torch.randn(3, steps, 3)
            torch.testing.assert_close(program(x), module(x))
        with pytest.raises(AssertionError, match="5"):
            program(torch.randn(3, 4, 3))


@pytest.mark.export
@pytest.mark.parametrize("stem", ["none", "conv"])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("pool", ["last", "max", "mean+max", "attention"])
def test_programs_of_pools_and_stems(pool, bidirectional, stem, tmp_path):
    options = {"pool": pool, "stem": stem, "bidirectional": bidirectional}
    source = exported.as_trained(SequenceClassifier("gru", 3, H, 2, 1, dropout=0.0, **options).eval())
    assert to_torch(source, tmp_path / "a").checked.difference <= TOLERANCE


@pytest.mark.parametrize("embedding", [None, 3])
def test_tokens(embedding, tmp_path):
    source = StepPredictor("gru", 6, H, 6, 1, embedding_size=embedding).eval()
    assert checked(source, tmp_path, program=True, tokens=True) <= TOLERANCE


def test_changes_of_a_series(tmp_path):
    source = StepPredictor("gru", 2, H, 2, 2).eval()
    scale = Scaling(np.array([0.1, -3.0]), np.array([0.5, 20.0]))
    changes = {"input_scale": scale, "output_scale": scale, "differenced": 2}
    assert checked(source, tmp_path, program=True, **changes) <= TOLERANCE


def test_one_of_several_columns_as_changes(tmp_path):
    source = StepPredictor("gru", 3, H, 1, 1).eval()
    changes = {"input_scale": Scaling(np.zeros(3), np.ones(3)), "output_scale": Scaling(np.ones(1), np.ones(1))}
    assert checked(source, tmp_path, differenced=1, **changes) <= TOLERANCE


def test_a_large_mean_costs_no_digits(tmp_path):
    source = SequenceClassifier("gru", 1, H, 3, 2).eval()
    scale = Scaling(np.array([16_777_217.3]), np.array([4.0]))
    assert checked(source, tmp_path, input_scale=scale) <= TOLERANCE
    module = _imported(tmp_path / "network.py").load()
    assert module.float().mean.dtype == torch.float32  # .float() would cost them: load() must not call it
    assert _imported(tmp_path / "network.py").load().mean.dtype == torch.float64


def test_a_wrong_weight_is_noticed(tmp_path):
    """The check compares: it refuses a module whose weights were changed."""
    source = layers("gru", 1)
    whole = network_of(source)
    write_module(whole, tmp_path)
    weights = torch.load(tmp_path / "network.pt", weights_only=True)
    weights["layers.0.U_n"] *= 1.01
    torch.save(weights, tmp_path / "network.pt")
    with pytest.raises(ValueError, match="differ"):
        check(source, whole, run_module(whole, tmp_path))


def test_a_program_that_differs_from_the_module_is_noticed(tmp_path):
    source = layers("gru", 1)
    whole = network_of(source)
    write(whole, tmp_path / "out", None)
    other = network_of(layers("gru", 1))
    write_module(other, tmp_path / "out")
    with pytest.raises(ValueError, match="the exported program and the module differ"):
        check(source, other, runner(other, tmp_path / "out"))


WITHOUT_GATELAB = """
import sys
sys.modules["gatelab"] = None  # an import of it would fail
sys.path.insert(0, "out")
import torch
import tiny
network = tiny.load()
x = torch.load("x.pt")
state = network.initial_state(len(x))
program = torch.export.load("out/tiny.pt2").module()
with torch.no_grad():
    whole, _ = network(x)
    first, state_of_program = program(x[:, :2], state)
    pieces, state_of_program = program(x[:, 2:], state_of_program)
torch.save([whole, pieces], "answers.pt")
print(tiny.CLASSES)
files = {"gatelab.json": ""}
torch.export.load("out/tiny.pt2", extra_files=files)
import json
print(tuple(json.loads(files["gatelab.json"])["classes"]))
"""


def test_without_gatelab_in_pieces_with_the_names_of_classes(tmp_path):
    source = SequenceClassifier("gru", 3, H, 2, 2).eval()
    named = dataclasses.replace(network_of(source, "tiny"), classes=("left", 'the "other"\n'))
    write(named, tmp_path / "out", None)
    x = torch.randn(3, 6, 3)
    torch.save(x, tmp_path / "x.pt")
    command = [sys.executable, "-c", WITHOUT_GATELAB]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [str(named.classes)] * 2
    whole, pieces = torch.load(tmp_path / "answers.pt", weights_only=True)
    with torch.no_grad():
        torch.testing.assert_close(whole, source(x))
    torch.testing.assert_close(pieces, whole)


def test_the_generated_module_is_trained_further(tmp_path):
    source = SequenceClassifier("lstm", 3, H, 2, 1, dropout=0.0).eval()
    write_module(network_of(source), tmp_path)
    module = _imported(tmp_path / "network.py").load().train()
    x = torch.randn(32, 6, 3)
    target = (x[:, :, 0].sum(1) > 0).long()
    optimizer = torch.optim.Adam(module.parameters(), 0.02)
    losses = []
    for _ in range(25):
        loss = torch.nn.functional.cross_entropy(module(x)[0], target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.7 * losses[0]
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in module.parameters())


def test_gradients_are_those_of_the_model(tmp_path):
    """Also through a surrogate derivative, and not into what the cell is given."""
    for name in ("skip_gru", "lif", "clockwork_rnn"):
        source = layers(name, 1)
        source.engine = "eager"
        (tmp_path / name).mkdir()
        write_module(network_of(source), tmp_path / name)
        module = _imported(tmp_path / name / "network.py").load()
        x = torch.randn(4, 6, 3)
        for model in (source, module):
            model(x)[0].square().sum().backward()
        own = dict(module.named_parameters())
        expected = {n.replace("layers.0.fwd.", "").replace(".", "_"): p.grad for n, p in source.named_parameters()}
        for each, parameter in own.items():
            if (short := each.removeprefix("layers.0.")) in expected:
                torch.testing.assert_close(parameter.grad, expected[short])
        assert len(own) == len(expected)


def test_given_values_and_fixed_hyperparameters_are_buffers(tmp_path):
    write_module(network_of(layers("clockwork_rnn", 1)), tmp_path)
    module = _imported(tmp_path / "network.py").load()
    assert {name for name, _ in module.named_buffers()} == {"layers.0.b_period"}
    write_module(network_of(layers("fast_rnn", 1)), tmp_path)
    module = _imported(tmp_path / "network.py").load()
    assert {"layers.0.alpha", "layers.0.beta"} <= {name for name, _ in module.named_parameters()}


def test_a_matrix_expression_is_one_matrix(tmp_path):
    """Named as in the equations, or after what it is made of."""
    assert (
        "self.A = nn.Parameter(torch.zeros(H, H))  # U_h − U_hᵀ − γ I"
        in ModuleSource(network_of(layers("antisymmetric_rnn", 1))).text()
    )
    assert (
        "self.A_n = nn.Parameter(torch.zeros(H, H))  # U_n − U_nᵀ − γ I"
        in ModuleSource(network_of(layers("agru", 1))).text()
    )


@pytest.mark.parametrize("name", cells.names())
def test_the_files_are_short_lines_of_ascii_code(name):
    source = ModuleSource(network_of(layers(name, 2)))
    assert max(map(len, source.text().splitlines())) <= 120
    assert all(line.isascii() for line in source.layer.body)
    compile(source.text(), name, "exec")


@pytest.mark.parametrize("name", ["torch", "class", "typing", "1-2"])
def test_a_file_hides_no_module(name, tmp_path):
    whole = network_of(layers("gru", 1), name)
    assert file_stem(whole).isidentifier()
    assert file_stem(whole) not in (*sys.stdlib_module_names, "torch", "class")
    write_module(whole, tmp_path)
    assert _imported(tmp_path / f"{file_stem(whole)}.py").load().training is False


def test_what_is_written_and_what_is_left(tmp_path):
    before = set(sys.modules)
    done = to_torch(layers("rnn", 1), tmp_path / "out")
    assert sorted(file.name for file in done.files) == ["network.pt", "network.pt2", "network.py"]
    assert done.checked.difference <= TOLERANCE
    assert not [name for name in set(sys.modules) - before if "gatelab_export" in name]


def test_the_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exported.run_page(PAGE)
