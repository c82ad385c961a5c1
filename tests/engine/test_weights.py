"""Weights that are prepared once: whatever changes the parameters is noticed."""

from __future__ import annotations

import copy
import dataclasses
import threading

import pytest
import torch
from torch import nn

from gatelab import Recurrent
from gatelab.engine.fused import passes, weights


def first(layer: Recurrent):
    return next(layer.cell_parameters())


def replace_a_family(layer):
    first(layer).U = first(Recurrent("gru", 3, 12)).U


def untie(layer):
    first(layer).U.z = nn.Parameter(torch.randn(12, 12))


def change_in_place(layer):
    first(layer).W.n.mul_(2)


def change_the_data(layer):
    first(layer).W.n.data.mul_(2)


def exchange(layer):
    torch.utils.swap_tensors(first(layer).W.n, nn.Parameter(torch.randn(12, 3)))


@pytest.mark.parametrize("change", [replace_a_family, untie, change_in_place, change_the_data, exchange])
def test_changes_are_noticed(change):
    layer, x = Recurrent("gru", 3, 12, engine="fused"), torch.randn(2, 5, 3)
    if change is untie:
        first(layer).U.z = first(layer).U.r  # in two places
    with torch.no_grad():
        before = layer(x)[0]
        layer.step(x[:, 0])  # the next ones are prepared
        change(layer)
        torch.testing.assert_close(layer.step(x[:, 0])[0], copy.deepcopy(layer).step(x[:, 0])[0])
        after = layer(x)[0]
        assert torch.equal(after, copy.deepcopy(layer)(x)[0])
        assert not torch.equal(after, before)


def test_a_tensor_that_is_smaller_or_of_another_type_is_refused():
    """The kernel would read beyond its end."""
    layer, x = Recurrent("gru", 3, 12, engine="fused"), torch.randn(2, 5, 3)
    layer(x)
    values = first(layer).W.n.data
    first(layer).W.n.data = values[:3]
    with pytest.raises(ValueError, match=r"has shape \(3, 3\): expected \(12, 3\)"):
        layer(x)
    first(layer).W.n.data = values.double()
    with pytest.raises(ValueError, match="different dtypes"):
        layer(x)
    first(layer).W.n.data = values
    layer(x)


def test_a_scalar_of_another_type_is_converted_in_every_call():
    layer, x = Recurrent("agru", 3, 12, engine="fused"), torch.randn(2, 5, 3)
    first(layer)._parameters["epsilon"] = nn.Parameter(torch.tensor(1.0, dtype=torch.float64))
    before = layer(x)[0]
    with torch.no_grad():
        first(layer).epsilon.add_(1)
    assert not torch.equal(layer(x)[0], before)


def test_training_may_follow_inference():
    layer, x = Recurrent("ctrnn", 3, 12, engine="fused"), torch.randn(2, 5, 3)
    with torch.inference_mode():
        expected = layer(x)[0]
    output = layer(x)[0]
    output.sum().backward()
    assert torch.equal(output, expected)


def test_two_threads_that_prepare_at_once(monkeypatch):
    """One is held while it packs old values; what it has packed must not replace what the other packs afterwards."""
    layer, x = Recurrent("gru", 3, 12, engine="fused").requires_grad_(False), torch.randn(2, 5, 3)
    layer(x)
    packs, goes_on = threading.Event(), threading.Event()
    original, held = passes.prepare, []

    def prepare(*arguments):
        made = original(*arguments)
        if not held:
            held.append(threading.current_thread())
            packs.set()
            goes_on.wait(5)
        return made

    first(layer).W.n.add_(1)
    monkeypatch.setattr(weights.passes, "prepare", prepare)
    slow = threading.Thread(target=layer, args=(x,))
    slow.start()
    assert packs.wait(5)
    first(layer).W.n.add_(1)
    quick = threading.Thread(target=layer, args=(x,))
    quick.start()
    goes_on.set()
    slow.join()
    quick.join()
    assert torch.equal(layer(x)[0], copy.deepcopy(layer)(x)[0])


def test_matrices_that_are_computed_have_gradients_after_a_call_without():
    """What was prepared without gradients is not used where they are wanted."""
    layer, x = Recurrent("exprnn", 3, 12, engine="fused"), torch.randn(2, 5, 3)
    exact = Recurrent("exprnn", 3, 12, engine="eager")
    for _ in range(2):
        with torch.no_grad():
            for parameter in layer.parameters():
                parameter.mul_(0.9)
            layer(x), layer.step(x[:, 0])
        exact.load_state_dict(layer.state_dict())
        for _ in range(2):
            got, wanted = (
                torch.autograd.grad(one(x)[0].square().sum(), list(one.parameters())) for one in (layer, exact)
            )
            for a, b in zip(got, wanted, strict=True):
                torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)
        with torch.no_grad():
            torch.testing.assert_close(layer(x)[0], exact(x)[0], atol=1e-6, rtol=1e-5)


def test_a_changed_hyperparameter_is_noticed():
    layer, x = Recurrent("agru", 3, 12, engine="fused", learnable_epsilon=False), torch.randn(2, 5, 3)
    step = x[:, 0].contiguous()
    with torch.no_grad():
        before = layer(x)[0], layer.step(step)[0], layer.step(step)[0]
        first(layer).options["epsilon"] = dataclasses.replace(first(layer).options["epsilon"], value=0.25)
        exact = copy.deepcopy(layer)
        exact.engine = "eager"
        after = layer(x)[0], layer.step(step)[0], layer.step(step)[0]
        assert not torch.equal(before[0], after[0])
        torch.testing.assert_close(after[0], exact(x)[0], atol=1e-6, rtol=1e-5)
        torch.testing.assert_close(after[1], exact.step(step)[0], atol=1e-6, rtol=1e-5)
        torch.testing.assert_close(after[2], exact.step(step)[0], atol=1e-6, rtol=1e-5)
