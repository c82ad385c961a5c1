"""Gated recurrent units and their relatives. Two conventions of the GRU are in use; each has its own name here."""

from gatelab.lang import cell, exp, layer_norm, minimum, prev, relu, sigmoid, step, surrogate, tanh
from gatelab.lang.values import constant


@cell
def gru(x, h, W, U, b):
    """Gated recurrent unit, reset after the product, z keeps.

    Convention: as `torch.nn.GRU`, cuDNN and Keras with `reset_after=True`. The reset gate scales the product
    U_n h, so the candidate has two biases, one inside (b_hn) and one outside (b_n); the other pairs are summed.

    Reference: Cho et al. 2014, arXiv:1406.1078v1
    """
    r = sigmoid(W.r(x) + U.r(h) + b.r)
    z = sigmoid(W.z(x) + U.z(h) + b.z)
    n = tanh(W.n(x) + b.n + r * (U.n(h) + b.hn))
    return z * h + (1 - z) * n


@cell
def gru_cho(x, h, W, U, b):
    """Gated recurrent unit, reset before the product, z writes.

    Convention: the reset gate scales the state before U_n is applied, as Cho et al. write it; z near 1 replaces the
    state, as Chung et al. write it (Cho et al. and Keras with `reset_after=False` mean by z what is 1 − z here).

    Reference: Cho et al. 2014, arXiv:1406.1078; Chung et al. 2014, arXiv:1412.3555
    """
    z = sigmoid(W.z(x) + U.z(h) + b.z)
    r = sigmoid(W.r(x) + U.r(h) + b.r)
    n = tanh(W.n(x) + U.n(r * h) + b.n)
    return (1 - z) * h + z * n


@cell
def mgu(x, h, W, U, b):
    """Minimal gated unit: one gate both resets and writes.

    Convention: f near 1 replaces the state, although the paper calls it a forget gate.

    Reference: Zhou et al. 2016, arXiv:1603.09420
    """
    f = sigmoid(W.f(x) + U.f(h) + b.f)
    n = tanh(W.n(x) + U.n(f * h) + b.n)
    return (1 - f) * h + f * n


@cell
def mut1(x, h, W, U, b):
    """First of three mutations of the GRU that a search over ten thousand architectures found.

    Convention: z near 1 replaces the state, and sees only the input. The candidate has tanh(x), which needs as many
    features as units.

    Reference: Jozefowicz et al. 2015, An Empirical Exploration of Recurrent Network Architectures, ICML

    Deviation: torchrecurrent has tanh(W x + b) in place of tanh(x).
    """
    z = sigmoid(W.z(x) + b.z)
    r = sigmoid(W.r(x) + U.r(h) + b.r)
    n = tanh(U.n(r * h) + tanh(x) + b.n)
    return z * n + (1 - z) * h


@cell
def mut2(x, h, W, U, b):
    """Second of three mutations of the GRU that a search over ten thousand architectures found.

    Convention: z near 1 replaces the state. The reset gate adds x itself, which needs as many features as units; with a
    map in its place these would be the equations of `gru_cho`.

    Reference: Jozefowicz et al. 2015, An Empirical Exploration of Recurrent Network Architectures, ICML

    Deviation: torchrecurrent has that map, and so is `gru_cho`.
    """
    z = sigmoid(W.z(x) + U.z(h) + b.z)
    r = sigmoid(x + U.r(h) + b.r)
    n = tanh(U.n(r * h) + W.n(x) + b.n)
    return z * n + (1 - z) * h


@cell
def mut3(x, h, W, U, b):
    """Third of three mutations of the GRU that a search over ten thousand architectures found.

    Convention: z near 1 replaces the state; it sees the tanh of the state.

    Reference: Jozefowicz et al. 2015, An Empirical Exploration of Recurrent Network Architectures, ICML
    """
    z = sigmoid(W.z(x) + U.z(tanh(h)) + b.z)
    r = sigmoid(W.r(x) + U.r(h) + b.r)
    n = tanh(U.n(r * h) + W.n(x) + b.n)
    return z * n + (1 - z) * h


@cell
def ligru(x, h, W, U, b):
    """Light GRU: no reset gate, and a ReLU in the candidate.

    Convention: z near 1 keeps the state. The paper normalizes W_z x and W_n x over the batch, which keeps the ReLU
    stable; that is left out here, and the biases stand for its shifts.

    Reference: Ravanelli et al. 2018, arXiv:1803.10225
    """
    z = sigmoid(W.z(x) + U.z(h) + b.z)
    n = relu(W.n(x) + U.n(h) + b.n)
    return z * h + (1 - z) * n


@cell
def lightru(x, h, W, U, b):
    """Light recurrent unit: one gate, and a candidate that sees only the input.

    Convention: f near 1 replaces the state, although the paper calls it a forget gate.

    Reference: Ye et al. 2024, doi:10.3390/electronics13163204

    Deviation: torchrecurrent adds a bias to the candidate.
    """
    n = tanh(W.n(x))
    f = sigmoid(W.f(x) + U.f(h) + b.f)
    return (1 - f) * h + f * n


@cell
def miru1(x, h, W, U, b, *, lambda_=0.5):
    """Minion recurrent unit with a reset gate: the update gate of the GRU is a number.

    Convention: lambda_ is the share of the state that is kept, fixed. Reset before the product.

    Reference: Zyarah & Kudithipudi 2025, arXiv:2503.06175
    """
    r = sigmoid(W.r(x) + U.r(h) + b.r)
    n = tanh(W.n(x) + U.n(r * h) + b.n)
    return lambda_ * h + (1 - lambda_) * n


@cell
def miru2(x, h, W, U, b, *, beta=0.5, lambda_=0.5):
    """Minion recurrent unit without gates: both gates of the GRU are numbers.

    Convention: beta scales the state in the candidate and lambda_ is the share of the state that is kept, both fixed.

    Reference: Zyarah & Kudithipudi 2025, arXiv:2503.06175
    """
    n = tanh(W.n(x) + U.n(beta * h) + b.n)
    return lambda_ * h + (1 - lambda_) * n


@cell
def tgru(x, h, W, b):
    """Strongly typed GRU: maps read the current and the previous input, never the state.

    Convention: f near 1 keeps the state; z ⊙ o is added whatever f is. W.vz, W.vf and W.vo are the maps V of the paper.

    Reference: Balduzzi & Ghifary 2016, arXiv:1602.02218
    """
    z = prev(W.vz(x)) + W.z(x) + b.z
    f = sigmoid(prev(W.vf(x)) + W.f(x) + b.f)
    o = tanh(prev(W.vo(x)) + W.o(x) + b.o)
    return f * h + z * o


@cell
def tau_gru(x, h, W, U, b):
    """GRU with weighted feedback from a delayed state.

    Convention: g near 1 replaces the state, a near 1 lets the delayed state take part. The delay is one step; the paper
    tunes it. Its equations leave out the biases.

    Reference: Erichson et al. 2022, arXiv:2212.00228
    """
    u = tanh(W.u(x) + U.u(h) + b.u)
    z = tanh(W.z(x) + U.z(prev(h)) + b.z)
    g = sigmoid(W.g(x) + U.g(h) + b.g)
    a = sigmoid(W.a(x) + U.a(h) + b.a)
    return (1 - g) * h + g * (u + a * z)


@cell(start={f"b.alpha{k}": constant(1) for k in ("1_z", "1_r", "2_z", "2_r", "3", "4")})
def layer_norm_gru(x, h, W, U, b):
    """GRU with layer normalization of both products of each gate.

    Convention: each gate is normalized on its own, with ε = 1e-5; reset after the product; z near 1 replaces the state.

    Reference: Ba et al. 2016, arXiv:1607.06450
    """
    z = sigmoid(b.alpha1_z * layer_norm(U.z(h)) + b.alpha2_z * layer_norm(W.z(x)) + b.z)
    r = sigmoid(b.alpha1_r * layer_norm(U.r(h)) + b.alpha2_r * layer_norm(W.r(x)) + b.r)
    n = tanh(b.alpha3 * layer_norm(W.h(x)) + r * (b.alpha4 * layer_norm(U.h(h)) + b.beta4) + b.h)
    return (1 - z) * h + z * n


@cell
def gru_d(x, h, W, U, b):
    """GRU whose state decays at a rate that depends on the input: the hidden decay of GRU-D, for missing values.

    Convention: the hidden decay of GRU-D alone; its input decay belongs to the preprocessing of the data. Reset before
    the product; z near 1 replaces the state.

    Reference: Che et al. 2018, arXiv:1606.01865
    """
    k = exp(-relu(W.gamma(x) + b.gamma)) * h
    r = sigmoid(W.r(x) + U.r(k) + b.r)
    z = sigmoid(W.z(x) + U.z(k) + b.z)
    n = tanh(W.h(x) + U.h(r * k) + b.h)
    return (1 - z) * k + z * n


@cell(start={"b.p": constant(1)})
def skip_gru(x, h, v, W, U, b):
    """GRU that learns which steps to skip: a binary gate copies the state.

    Convention: the gate is open where u = 1 − v ≥ 0.5 and has the derivative of u (straight-through); v starts from 0,
    so that the first step is taken. One gate per unit; the paper has one per layer. Reset before the product, z keeps.

    Reference: Campos et al. 2018, arXiv:1708.06834
    """
    u = 1 - v
    g = surrogate(1 - step(0.5 - u), u)
    z = sigmoid(W.z(x) + U.z(h) + b.z)
    r = sigmoid(W.r(x) + U.r(h) + b.r)
    n = tanh(W.h(x) + U.h(r * h) + b.h)
    h = g * (z * h + (1 - z) * n) + (1 - g) * h
    p = sigmoid(U.p(h) + b.p)
    return h, 1 - (g * p + (1 - g) * (u + minimum(p, 1 - u)))
