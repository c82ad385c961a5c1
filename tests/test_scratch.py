"""The NumPy GRU against finite differences, the eager engine and torch's Adam."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
from matplotlib.image import imread
from scipy.optimize import approx_fprime

from gatelab import Recurrent
from gatelab.scratch import gru, network, sine
from gatelab.scratch.adam import Adam, clip
from gatelab.scratch.train import train

T, B, D, H = 6, 3, 2, 4


def test_gradients_agree_with_finite_differences():
    rng = np.random.default_rng(0)
    p = network.initialise(D, H, 1, rng)
    x, target = rng.normal(size=(T, B, D)), rng.normal(size=(B, 1))
    _, grads = network.loss_and_gradients(p, x, target)
    assert set(grads) == set(p)
    for name, value in p.items():

        def loss(flat, name=name, shape=value.shape):
            return network.loss_and_gradients(p | {name: flat.reshape(shape)}, x, target)[0]

        # Central differences, so that the truncation error is far below the tolerance.
        flat = value.ravel()
        ahead, behind = approx_fprime(flat, loss, 1e-6), approx_fprime(flat, loss, -1e-6)
        np.testing.assert_allclose(grads[name].ravel(), (ahead + behind) / 2, rtol=0, atol=1e-8)


def test_states_and_gradients_agree_with_the_eager_engine():
    rng = np.random.default_rng(1)
    p = gru.initialise(D, H, rng)
    for gate in gru.GATES:
        p[f"b.{gate}"] = rng.normal(size=H)
    x, h0, dh = rng.normal(size=(T, B, D)), rng.normal(size=(B, H)), rng.normal(size=(B, H))
    h, steps = gru.forward(p, x, h0)
    grads, dx, dh0 = gru.backward(p, steps, dh)

    layer = Recurrent("gru_cho", D, H, batch_first=False, engine="eager", dtype=torch.float64)
    parameters = dict(layer.layers[0]["fwd"].named_parameters())
    assert set(parameters) == set(p)
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(torch.from_numpy(p[name]))
    x_torch, h_torch = (torch.from_numpy(a).requires_grad_() for a in (x, h0[None]))
    _, final = layer(x_torch, h_torch)
    final.backward(torch.from_numpy(dh[None]))

    np.testing.assert_allclose(h, final[0].detach(), rtol=0, atol=1e-8)
    np.testing.assert_allclose(dx, x_torch.grad, rtol=0, atol=1e-8)
    np.testing.assert_allclose(dh0, h_torch.grad[0], rtol=0, atol=1e-8)
    for name, parameter in parameters.items():
        np.testing.assert_allclose(grads[name], parameter.grad, rtol=0, atol=1e-8)


def test_adam_and_clipping_equal_torch():
    rng = np.random.default_rng(2)
    p = {"a": rng.normal(size=(3, 2)), "b": rng.normal(size=4)}
    reference = {name: torch.nn.Parameter(torch.from_numpy(value.copy())) for name, value in p.items()}
    ours, theirs = Adam(1e-2), torch.optim.Adam(reference.values(), lr=1e-2)
    for _ in range(5):
        grads = {name: rng.normal(size=value.shape) for name, value in p.items()}
        for name, parameter in reference.items():
            parameter.grad = torch.from_numpy(grads[name].copy())
        norm = clip(grads, 1.0)
        assert norm == pytest.approx(torch.nn.utils.clip_grad_norm_(reference.values(), 1.0).item())
        ours.update(p, grads)
        theirs.step()
    for name, value in p.items():
        np.testing.assert_allclose(value, reference[name].detach(), rtol=0, atol=1e-6)


def test_one_training_step_equals_torch():
    """One epoch of one batch: the same as clip_grad_norm_ and Adam at 1e-2 on the NumPy gradients."""
    rng = np.random.default_rng(5)
    data = sine.windows(10 * sine.wave(60, 25, 0.1, rng).noisy, 20)
    p = network.initialise(1, 4, 1, rng)
    reference = {name: torch.nn.Parameter(torch.from_numpy(value.copy())) for name, value in p.items()}
    for name, g in network.loss_and_gradients(p, data.x, data.target)[1].items():
        reference[name].grad = torch.from_numpy(g)
    assert torch.nn.utils.clip_grad_norm_(reference.values(), 1.0) > 1
    torch.optim.Adam(reference.values(), lr=1e-2).step()
    train(p, data, data, 1, rng)
    for name, value in p.items():
        np.testing.assert_allclose(value, reference[name].detach(), rtol=0, atol=1e-6)


def test_small_gradients_are_not_clipped():
    grads = {"a": np.array([0.3, 0.4])}
    assert clip(grads, 1.0) == pytest.approx(0.5)
    np.testing.assert_array_equal(grads["a"], [0.3, 0.4])


def test_windows_and_their_next_value():
    windows = sine.windows(np.arange(6.0), 3)
    np.testing.assert_array_equal(windows.x[:, :, 0].T, [[0, 1, 2], [1, 2, 3], [2, 3, 4]])
    np.testing.assert_array_equal(windows.target[:, 0], [3, 4, 5])
    assert windows.persistence_error() == 1.0
    with pytest.raises(ValueError, match="expected at least 4"):
        sine.windows(np.arange(3.0), 3)


def test_training_beats_persistence_and_is_bit_reproducible():
    def run():
        rng = np.random.default_rng(3)
        wave = sine.wave(400, 25, 0.1, rng)
        data, held_out = sine.windows(wave.noisy[:300], 20), sine.windows(wave.noisy[300:], 20)
        p = network.initialise(1, 16, 1, rng)
        return train(p, data, held_out, 60, rng, batch_size=64), held_out.persistence_error()

    (curve, persistence), (again, _) = run(), run()
    assert curve == again
    assert curve[-1][1] < 0.5 * persistence < curve[0][1]


def test_the_demo_runs_without_torch_and_saves_its_figures(tmp_path):
    command = (
        "import runpy, sys; runpy.run_module('gatelab.scratch', run_name='__main__'); assert 'torch' not in sys.modules"
    )
    arguments = ["--epochs", "3", "--hidden-size", "8", "--out", str(tmp_path)]
    done = subprocess.run([sys.executable, "-c", command, *arguments], capture_output=True, text=True, check=True)
    for text in ("epoch   3/3", "before training", "after training", "persistence", "gru_numpy_training_curve.png"):
        assert text in done.stdout
    for figure in ("gru_numpy_training_curve.png", "gru_numpy_prediction.png"):
        image = imread(tmp_path / figure)
        assert image.shape[0] >= 500
        assert image[..., :3].std() > 0.02  # something is drawn


def test_the_demo_refuses_invalid_options():
    done = subprocess.run(
        [sys.executable, "-m", "gatelab.scratch", "--epochs", "0"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "'0' is not a positive integer" in done.stderr
