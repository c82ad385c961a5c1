"""The fused engine beside the eager one in float64: outputs and all gradients."""

from __future__ import annotations

import pytest
import torch

from gatelab import Recurrent
from gatelab.engine.fused import buffers, calls, passes

OUTPUTS, GRADIENTS = 5e-6, 2e-5  # relative to the largest entry


def set_limits(patch, **limits: int) -> None:
    """Limits of `passes` for this test, with which all calls are settled anew."""
    for name, limit in limits.items():
        patch.setattr(passes, name, limit)
    patch.setattr(passes, "_calls", {})


@pytest.fixture(autouse=True)
def _poisoned(monkeypatch):
    """Buffers are filled with NaN, so that reading uninitialized memory is detected."""
    original = buffers.empty
    monkeypatch.setattr(buffers, "empty", lambda *shape: original(*shape).fill_(float("nan")))
    monkeypatch.setattr(calls, "SMALL", 0)
    set_limits(monkeypatch, THREAD_WORK=1)  # small tests are run by as many threads as large ones


def pair(cell_, *sizes, **options) -> tuple[Recurrent, Recurrent]:
    """The same layer twice: in float32 for the fused engine, in float64 for the eager one."""
    layer = Recurrent(cell_, *sizes, engine="fused", **options)
    exact = Recurrent(cell_, *sizes, engine="eager", dtype=torch.float64, **options)
    exact.load_state_dict(layer.state_dict())
    return layer, exact


def results(layer: Recurrent, x, states, weights=None, **arguments):
    """A layer's outputs, and all gradients of a random weighted sum of them."""
    x, states = (t.detach().clone().requires_grad_() for t in (x, torch.stack(states)))
    initial = tuple(states) if len(states) > 1 else states[0]
    torch.manual_seed(0)  # for cells that draw masks
    output, final, *gates = layer(x, initial, **arguments)
    values = [output, *(final if isinstance(final, tuple) else (final,)), *(gates[0].values() if gates else ())]
    weights = weights or [torch.randn(v.shape, dtype=torch.float64) for v in values]
    layer.zero_grad()
    sum((v * w.to(v.dtype)).sum() for v, w in zip(values, weights, strict=True)).backward()
    gradients = {"x": x.grad, "state": states.grad} | {n: p.grad for n, p in layer.named_parameters()}
    return values, gradients, weights


def assert_near(got, wanted, tolerance, what, scale=None):
    scale = scale or wanted.abs().max().item()
    error = (got.double() - wanted).abs().max().item()
    assert error <= tolerance * max(scale, 1e-6), f"{what}: off by {error:.2e} of {scale:.2e}"


def compare(layer: Recurrent, exact: Recurrent, x, states, **arguments):
    values, gradients, weights = results(layer, x, states, **arguments)
    assert layer.engine_in_use == "fused"
    wanted, exact_gradients, _ = results(exact, x.double(), [s.double() for s in states], weights, **arguments)
    for k, (got, value) in enumerate(zip(values, wanted, strict=True)):
        assert got.dtype == torch.float32
        assert_near(got, value, OUTPUTS, f"output {k}")
    largest = max(g.abs().max().item() for g in exact_gradients.values() if g is not None)
    for name, gradient in exact_gradients.items():
        if gradient is None:
            assert gradients[name] is None
        else:  # a scalar's gradient sums over rows, steps and units, and may cancel to nearly zero
            scale = largest if gradient.dim() == 0 else None
            assert_near(gradients[name], gradient, GRADIENTS, f"gradient of {name}", scale)


def random_states(layer: Recurrent, B: int) -> list[torch.Tensor]:
    scans = layer.num_layers * len(layer.directions)
    return [0.5 * torch.randn(scans, B, layer.hidden_size) for _ in layer.cell.states]
