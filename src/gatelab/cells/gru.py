"""Gated recurrent units and their relatives. Two conventions of the GRU are in use; each has its own name here."""

from gatelab.lang import cell, relu, sigmoid, tanh


@cell
def gru(x, h, W, U, b):
    """Gated recurrent unit, reset after the product, z keeps.

    r = σ(W_r x + U_r h + b_r)
    z = σ(W_z x + U_z h + b_z)
    n = tanh(W_n x + b_n + r ⊙ (U_n h + b_hn))
    h' = z ⊙ h + (1 − z) ⊙ n

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

    z = σ(W_z x + U_z h + b_z)
    r = σ(W_r x + U_r h + b_r)
    n = tanh(W_n x + U_n (r ⊙ h) + b_n)
    h' = (1 − z) ⊙ h + z ⊙ n

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

    f = σ(W_f x + U_f h + b_f)
    n = tanh(W_n x + U_n (f ⊙ h) + b_n)
    h' = (1 − f) ⊙ h + f ⊙ n

    Convention: f near 1 replaces the state, although the paper calls it a forget gate.

    Reference: Zhou et al. 2016, arXiv:1603.09420
    """
    f = sigmoid(W.f(x) + U.f(h) + b.f)
    n = tanh(W.n(x) + U.n(f * h) + b.n)
    return (1 - f) * h + f * n


@cell
def mut1(x, h, W, U, b):
    """First of three mutations of the GRU that a search over ten thousand architectures found.

    Convention: z near 1 replaces the state, and sees only the input. The paper has tanh(x), which needs D = H; here a
    map comes first.

    Reference: Jozefowicz et al. 2015, An Empirical Exploration of Recurrent Network Architectures, ICML

    Deviation: torchrecurrent has a map too, with a bias.
    """
    z = sigmoid(W.z(x) + b.z)
    r = sigmoid(W.r(x) + U.r(h) + b.r)
    n = tanh(U.n(r * h) + tanh(W.n(x)) + b.n)  # later: tanh(x)
    return z * n + (1 - z) * h


@cell
def mut2(x, h, W, U, b):
    """Second of three mutations of the GRU that a search over ten thousand architectures found.

    Convention: z near 1 replaces the state. The paper adds x itself in r, which needs D = H; with a map in its place
    these are the equations of `gru_cho`.

    Reference: Jozefowicz et al. 2015, An Empirical Exploration of Recurrent Network Architectures, ICML

    Deviation: torchrecurrent has that map too, and so is `gru_cho`.
    """
    z = sigmoid(W.z(x) + U.z(h) + b.z)
    r = sigmoid(W.r(x) + U.r(h) + b.r)  # later: x in place of W.r(x)
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
def tgru(x, h, vz, vf, vo, W, b):
    """Strongly typed GRU: maps see this input and the one before, never the state.

    Convention: f near 1 keeps the state; z ⊙ o is added whatever f is. The states vz, vf and vo are what the three maps
    V of the paper make of the previous input.

    Reference: Balduzzi & Ghifary 2016, arXiv:1602.02218
    """
    # later: W.vz(prev(x)) in place of the state vz, likewise vf and vo
    z = vz + W.z(x) + b.z
    f = sigmoid(vf + W.f(x) + b.f)
    o = tanh(vo + W.o(x) + b.o)
    return f * h + z * o, W.vz(x), W.vf(x), W.vo(x)


@cell
def tau_gru(x, h, d, W, U, b):
    """GRU with weighted feedback from a delayed state.

    Convention: g near 1 replaces the state, a near 1 lets the delayed state take part. The state d is the h of one step
    before; the paper tunes the delay. Its equations leave out the biases.

    Reference: Erichson et al. 2022, arXiv:2212.00228
    """
    # later: prev(h, delay) in place of the state d
    u = tanh(W.u(x) + U.u(h) + b.u)
    z = tanh(W.z(x) + U.z(d) + b.z)
    g = sigmoid(W.g(x) + U.g(h) + b.g)
    a = sigmoid(W.a(x) + U.a(h) + b.a)
    return (1 - g) * h + g * (u + a * z), h
