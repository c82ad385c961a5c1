"""The fused engine inside torch's graphs: torch.compile, torch.export, and the checks of torch.library."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import gatelab
from gatelab import Recurrent, cell, learned, sigmoid, tanh
from gatelab.engine.fused import ops
from gatelab.engine.fused.weights import tensors_of
from gatelab.lang.document import to_document
from gatelab.models import SequenceClassifier


@cell
def own(x, h, W, U, b, *, rate=learned(0.3)):
    f = sigmoid(W.f(x) + U.f(h) + b.f)
    return f * h + rate * (1 - f) * tanh(W.n(x) + (U.n - U.n.T)(h))


def arguments(layer: Recurrent, T: int, B: int, **changed):
    """Of `gatelab::scan`, for the first layer."""
    parameters = next(layer.cell_parameters())
    x = torch.randn(T, B, layer.input_size, requires_grad=True)
    states = [torch.randn(B, layer.hidden_size, requires_grad=True) for _ in layer.cell.states]
    given = {"lengths": None, "resets": None, "gates": False, "output": True} | changed
    tensors = [tensor.detach().requires_grad_() for tensor in tensors_of(parameters)]
    return (
        x,
        states,
        tensors,
        given["lengths"],
        given["resets"],
        [],
        parameters.document,
        given["gates"],
        given["output"],
    )


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("gru", {}),
        ("lstm", {"lengths": torch.tensor([4, 1, 3]), "gates": True}),
        ("lru", {"resets": torch.eye(4, 3) > 0}),
        (own, {"output": False}),
    ],
    ids=["gru", "lstm", "lru", "own"],
)
def test_opcheck(name, changed):
    layer = Recurrent(name, 3, 6)
    torch.library.opcheck(torch.ops.gatelab.scan.default, arguments(layer, 4, 3, **changed))


@pytest.mark.parametrize(
    ("name", "options"),
    [("gru", {}), ("lstm", {"num_layers": 2, "residual": True}), (own, {"bidirectional": True})],
    ids=["gru", "lstm", "own"],
)
def test_compiled_equals_eager_mode(name, options):
    """One graph, which neither the batch nor the number of steps changes."""
    layer = Recurrent(name, 3, 6, **options)
    torch._dynamo.reset()
    graphs, count = [], 0

    def backend(graph, inputs):
        graphs.append(graph)
        return torch._dynamo.lookup_backend("aot_eager")(graph, inputs)

    compiled = torch.compile(layer, fullgraph=True, dynamic=True, backend=backend)
    for B, T in ((4, 9), (5, 30), (2, 7)):
        x, resets = torch.randn(B, T, 3), torch.rand(B, T) < 0.2
        lengths = torch.randint(1, T + 1, (B,))
        results = []
        for run in (layer, compiled):
            output, state = run(x, lengths=lengths, resets=resets)
            states = state if isinstance(state, tuple) else (state,)
            layer.zero_grad()
            (output.sin().sum() + sum(s.square().sum() for s in states)).backward()
            results.append([output.detach(), *(p.grad.clone() for p in layer.parameters())])
        count = count or len(graphs)
        for wanted, got in zip(*results, strict=True):
            torch.testing.assert_close(got, wanted, atol=1e-6, rtol=1e-5)
    assert len(graphs) == count  # compiled in the first round only
    called = {str(node.target) for graph in graphs for node in graph.graph.nodes}
    assert "gatelab.scan" in called


@pytest.mark.compiled  # with torch's own compiler, which takes long
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch's own code
def test_a_whole_model_in_inductor():
    model = SequenceClassifier("gru", 3, 16, 4).eval()
    torch._dynamo.reset()
    compiled = torch.compile(model, fullgraph=True)
    x = torch.randn(4, 9, 3)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x), atol=1e-5, rtol=1e-5)


SCRIPT = """
import sys, torch, gatelab.engine
program, x, wanted = torch.export.load(sys.argv[1]), *torch.load(sys.argv[2])
torch.testing.assert_close(program.module()(x)[0], wanted, atol=1e-6, rtol=1e-6)
print("equal")
"""


def test_an_exported_program_runs_in_another_process(tmp_path):
    """With a cell that the other process has never seen: the program carries its equations."""
    layer, x = Recurrent(own, 3, 6, 2).eval(), torch.randn(4, 9, 3)
    batch, steps = torch.export.Dim("batch", min=1, max=64), torch.export.Dim("steps", min=2, max=512)
    program = torch.export.export(layer, (x,), dynamic_shapes=({0: batch, 1: steps},))
    torch.export.save(program, tmp_path / "layer.pt2")
    other = torch.randn(3, 20, 3)
    torch.save((other, layer(other)[0].detach()), tmp_path / "data.pt")
    command = [sys.executable, "-c", SCRIPT, tmp_path / "layer.pt2", tmp_path / "data.pt"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout.strip() == "equal", done.stderr
    loss = program.module()(x)[0].sum()  # differentiable too
    loss.backward()


@pytest.mark.parametrize("options", [{}, {"bidirectional": True}], ids=["one", "both"])
def test_export_with_lengths_and_resets(options):
    layer, x = Recurrent("gru", 3, 6, **options).eval(), torch.randn(4, 9, 3)
    batch, steps = torch.export.Dim("batch", min=2, max=64), torch.export.Dim("steps", min=3, max=512)
    shapes = {"x": {0: batch, 1: steps}, "lengths": {0: batch}, "resets": {0: batch, 1: steps}}
    given = {"lengths": torch.tensor([9, 2, 5, 1]), "resets": torch.rand(4, 9) < 0.3}
    program = torch.export.export(layer, (x,), given, dynamic_shapes=shapes).module()
    other = {"lengths": torch.tensor([13, 2, 5]), "resets": torch.rand(3, 13) < 0.3}
    x = torch.randn(3, 13, 3)
    torch.testing.assert_close(program(x, **other)[0], layer(x, **other)[0], atol=1e-6, rtol=1e-6)
    with pytest.raises(ValueError, match="lengths has values from 2 to 14: expected 0 to 13"):
        program(x, lengths=torch.tensor([14, 2, 5]), resets=other["resets"])


def test_a_second_derivative_is_refused():
    layer = Recurrent("gru", 3, 6)
    x, states, tensors, *rest = arguments(layer, 4, 3)
    output, *_ = torch.ops.gatelab.scan(x, states, tensors, *rest)
    (gradient,) = torch.autograd.grad(output.sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="engine='eager'"):
        gradient.sum().backward()


def test_fake_tensors_need_no_kernel():
    layer = Recurrent("lstm", 3, 6, 2)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        output, (h, c) = layer(mode.from_tensor(torch.zeros(4, 9, 3)))
    assert (output.shape, h.shape, c.shape) == ((4, 9, 6), (2, 4, 6), (2, 4, 6))


def test_the_cell_is_an_argument():
    parameters = next(Recurrent(own, 3, 6).cell_parameters())
    assert json.loads(parameters.document) == to_document(own)
    assert ops.scan.__module__ in sys.modules
    assert "gatelab.engine" in gatelab.engine.__name__
