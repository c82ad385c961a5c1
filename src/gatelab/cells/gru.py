"""Gated recurrent units. Two conventions are in use; each has its own name here."""

from gatelab.lang import cell, sigmoid, tanh


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
