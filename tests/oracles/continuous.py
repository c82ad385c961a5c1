"""Cells that discretise a differential equation, orthogonal recurrence, and spikes."""

from __future__ import annotations

import torch
from torch import Tensor, sigmoid, tanh

from oracles.base import Parameters, State, affine, driven, oracle

Stepped = tuple[Tensor, State]


@oracle(
    states="y z",
    W="z",
    U="y z",
    b="z",
    notes=(
        "Weights and bias as of one torch.nn.Linear, uniform in ±1/√(D + 2H). The defaults are theirs for sequential "
        "MNIST: dt 0.042, gamma 2.7, epsilon 4.7."
    ),
)
def cornn(
    p: Parameters, x: Tensor, state: State, dt: float = 0.042, gamma: float = 2.7, epsilon: float = 4.7
) -> Stepped:
    """Coupled oscillatory RNN. Rusch & Mishra 2021, arXiv:2010.00951.

    z' = z + Δt (tanh(W y + 𝒲 z + V x + b) − γ y − ε z)
    y' = y + Δt z'

    W is U.y, 𝒲 is U.z, V is W.z. The paper damps with z of step n̄, which is n (implicit) or n − 1 (explicit); this is
    n − 1, as in their code.
    """
    y, z = state
    driving = tanh(y @ p["U.y"].T + z @ p["U.z"].T + driven(p, "z", x))
    z = z + dt * (driving - gamma * y - epsilon * z)
    y = y + dt * z
    return y, (y, z)


@oracle(
    states="y z",
    W="z",
    b="z w c",
    notes=(
        "w uniform in [0, 1], c uniform in [−0.1, 0.1], V Kaiming uniform with a = 8 (±√(6/(65 D))), b 0. The defaults "
        "are theirs for permuted sequential MNIST: dt 0.19, alpha 30.65."
    ),
)
def unicornn(p: Parameters, x: Tensor, state: State, dt: float = 0.19, alpha: float = 30.65) -> Stepped:
    """Undamped independent controlled oscillatory RNN, one layer. Rusch & Mishra 2021, arXiv:2103.05487.

    z' = z − Δt σ(c) ⊙ (tanh(w ⊙ y + V x + b) + α y)
    y' = y + Δt σ(c) ⊙ z'

    V is W.z; the logistic function of c is the paper's σ̂. α multiplies y outside the tanh.
    """
    y, z = state
    step = dt * sigmoid(p["b.c"])
    z = z - step * (tanh(p["b.w"] * y + driven(p, "z", x)) + alpha * y)
    y = y + step * z
    return y, (y, z)


@oracle(
    states="y z",
    W="1 2 z y",
    U="1 2 z y",
    b="1 2 z y",
    notes="All weights and biases uniform in ±1/√H; dt = 1 but in a few tasks.",
)
def lem(p: Parameters, x: Tensor, state: State, dt: float = 1.0) -> Stepped:
    """Long expressive memory. Rusch et al. 2022, arXiv:2110.04744.

    Δt_n = Δt σ(W_1 y + V_1 x + b_1), Δ̄t_n = Δt σ(W_2 y + V_2 x + b_2)
    z' = (1 − Δt_n) ⊙ z + Δt_n ⊙ tanh(W_z y + V_z x + b_z)
    y' = (1 − Δ̄t_n) ⊙ y + Δ̄t_n ⊙ tanh(W_y z' + V_y x + b_y)

    The paper's W is U here, its V is W. U.y is applied to the new z, the other U to y.
    """
    y, z = state
    step_z = dt * sigmoid(affine(p, "1", x, y))
    step_y = dt * sigmoid(affine(p, "2", x, y))
    z = (1 - step_z) * z + step_z * tanh(affine(p, "z", x, y))
    y = (1 - step_y) * y + step_y * tanh(affine(p, "y", x, z))
    return y, (y, z)


def symmetric_skew(M: Tensor, beta: float, gamma: float) -> Tensor:
    """(1 − β)(M + Mᵀ) + β(M − Mᵀ) − γ I."""
    return (1 - beta) * (M + M.T) + beta * (M - M.T) - gamma * torch.eye(len(M), dtype=M.dtype)


@oracle(
    states="h",
    W="h",
    U="a w",
    b="h",
    notes=(
        "M_A and M_W normal of deviation 32/H (0.25 of 128 units), W.h Xavier normal, b 0. The defaults are theirs for "
        "ordered MNIST: beta 0.65, gamma 0.001, eps 0.01. In the paper A and W may have a β and a γ each."
    ),
)
def lipschitz_rnn(
    p: Parameters, x: Tensor, state: State, beta: float = 0.65, gamma: float = 0.001, eps: float = 0.01
) -> Stepped:
    """Lipschitz RNN, Euler's method. Erichson et al. 2021, arXiv:2006.12070.

    A = (1 − β)(M_A + M_Aᵀ) + β(M_A − M_Aᵀ) − γ I, W likewise of M_W
    h' = h + ε A h + ε tanh(W h + U x + b)

    M_A is U.a, M_W is U.w, the paper's U is W.h.
    """
    (h,) = state
    A = symmetric_skew(p["U.a"], beta, gamma)
    W = symmetric_skew(p["U.w"], beta, gamma)
    h = h + eps * (h @ A.T) + eps * tanh(h @ W.T + driven(p, "h", x))
    return h, (h,)


@oracle(
    states="h",
    W="h",
    U="h",
    b="h",
    notes=(
        "A − Aᵀ of 2×2 blocks [[0, s], [−s, 0]] on the diagonal, s uniform in [−π, π] (Henaff) or s = −tan(v/2) with v "
        "uniform in [0, π/2] (Cayley); the bias of the modrelu uniform in [−0.01, 0.01]."
    ),
)
def exprnn(p: Parameters, x: Tensor, state: State) -> Stepped:
    """Orthogonal RNN by the exponential map. Lezcano-Casado & Martínez-Rubio 2019, arXiv:1901.08428.

    h' = modrelu(expm(A − Aᵀ) h + T x; b), modrelu(z; b) = sign(z) max(|z| + b, 0)

    A is U.h, of which the paper keeps a triangle; T is W.h; b.h is the bias of the modrelu. The sign of 0 is 0.
    """
    (h,) = state
    B = torch.linalg.matrix_exp(p["U.h"] - p["U.h"].T)
    z = h @ B.T + x @ p["W.h"].T
    h = torch.sign(z) * torch.relu(torch.abs(z) + p["b.h"])
    return h, (h,)


def legendre(H: int, theta: float) -> tuple[Tensor, Tensor]:
    """A (H×H) and B (H) of the Legendre delay network of θ: θ ṁ = A m + B u, both divided by θ here.

    A_ij = (2i + 1) · −1 if i < j, (−1)^(i − j + 1) otherwise; B_i = (2i + 1)(−1)^i.
    """
    i = torch.arange(H, dtype=torch.float64)[:, None]
    j = i.T
    A = (2 * i + 1) * torch.where(i < j, -1.0, (-1.0) ** (i - j + 1))
    B = ((2 * i + 1) * (-1.0) ** i)[:, 0]
    return A / theta, B / theta


def hold(A: Tensor, B: Tensor) -> tuple[Tensor, Tensor]:
    """Zero-order hold of a step of 1: expm(A) and A⁻¹ (expm(A) − I) B, from the exponential of the block matrix."""
    H = len(A)
    block = torch.zeros(H + 1, H + 1, dtype=A.dtype)
    block[:H, :H], block[:H, H] = A, B
    exponential = torch.linalg.matrix_exp(block)
    return exponential[:H, :H], exponential[:H, H]


@oracle(
    states="h m",
    W="u h",
    U="eh em h m",
    notes=(
        "A and B are fixed; e_x and e_h LeCun uniform, e_m 0, W_x, W_h and W_m Xavier normal. theta is in steps (784 "
        "for permuted sequential MNIST)."
    ),
)
def lmu(p: Parameters, x: Tensor, state: State, theta: float = 16.0) -> Stepped:
    """Legendre memory unit. Voelker, Kajić & Eliasmith 2019: H hidden units and a memory of order H; zero-order hold.

    u = e_x x + e_h h + e_m m
    m' = Ā m + B̄ ⊙ u
    h' = tanh(W_x x + W_h h + W_m m')

    Ā and B̄ are the zero-order hold of the Legendre delay of θ at a step of 1: constants (`legendre`, `hold`). In the
    paper u is one number; here it is a vector, each unit of the memory having encoders of its own (W.u, U.eh, U.em):
    the paper's is where the rows of each are equal. There are no biases, as in the paper.
    """
    h, m = state
    A_bar, B_bar = hold(*legendre(h.shape[-1], theta))
    u = x @ p["W.u"].T + h @ p["U.eh"].T + m @ p["U.em"].T
    m = m @ A_bar.T + B_bar * u
    h = tanh(x @ p["W.h"].T + h @ p["U.h"].T + m @ p["U.m"].T)
    return h, (h, m)


@oracle(
    states="h",
    W="ff1 ff2 a b",
    U="ff1 ff2 a b",
    b="ff1 ff2 a b",
    notes="Weights Xavier uniform (of the map of [x, h]), biases as of torch.nn.Linear.",
)
def cfc(p: Parameters, x: Tensor, state: State, ts: float = 1.0) -> Stepped:
    """Closed-form continuous-time cell. Hasani et al. 2022, arXiv:2106.13898, with a backbone of no layers.

    h' = (1 − s) ⊙ tanh(ff1) + s ⊙ tanh(ff2), s = σ(time_a t + time_b)

    Each of ff1, ff2, time_a, time_b is an affine map of [x, h]. The paper writes σ(−f t) ⊙ g + (1 − σ(−f t)) ⊙ h: the
    sign is in time_a, and time_b is of the authors' code (ncps), which is what is here.
    """
    (h,) = state
    ff1, ff2 = tanh(affine(p, "ff1", x, h)), tanh(affine(p, "ff2", x, h))
    s = sigmoid(affine(p, "a", x, h) * ts + affine(p, "b", x, h))
    h = ff1 * (1 - s) + s * ff2
    return h, (h,)


@oracle(
    states="x",
    W="f",
    U="f",
    b="f tau A",
    positive="tau",
    notes=(
        "tau positive, about 1; A is a reversal potential, ±1 in the authors' code, which has a sigmoid per synapse: "
        "that is not a map, but a network of one unit is the same."
    ),
)
def ltc(p: Parameters, x: Tensor, state: State, unfolds: int = 6, dt: float = 1.0) -> Stepped:
    """Liquid time-constant cell. Hasani et al. 2021, arXiv:2006.04439: its equation 1 by the fused solver.

    ẋ = −(1/τ + f) x + f A, f = σ(W I + U x + b)
    x ← (x + δ f A) / (1 + δ (1/τ + f)), `unfolds` times with δ = dt / unfolds

    The state is read anew in each unfold, the input is held. τ is used as it is and has to be positive.
    """
    (v,) = state
    step = dt / unfolds
    for _ in range(int(unfolds)):
        f = sigmoid(affine(p, "f", x, v))
        v = (v + step * f * p["b.A"]) / (1 + step * (1 / p["b.tau"] + f))
    return v, (v,)


@oracle(
    states="u",
    W="u",
    U="u",
    b="u tau",
    positive="tau",
    notes="tau positive; nothing special initially.",
)
def ctrnn(p: Parameters, x: Tensor, state: State, dt: float = 0.1) -> Stepped:
    """Continuous-time RNN, Euler's method. Funahashi & Nakamura 1993.

    u̇ = −u / τ + W σ(u) + I, so u' = u + dt (−u / τ + U σ(u) + W x + b)

    σ is the logistic function; the output is u. (In the other usual form 1/τ multiplies the whole right-hand side.)
    """
    (u,) = state
    u = u + dt * (-u / p["b.tau"] + sigmoid(u) @ p["U.u"].T + driven(p, "u", x))
    return u, (u,)


def dale(U: Tensor, excitatory: float) -> Tensor:
    """max(U, 0) with the columns of inhibitory units negated and no diagonal."""
    H = len(U)
    n = round(excitatory * H)
    signs = torch.cat([torch.ones(n, dtype=U.dtype), -torch.ones(H - n, dtype=U.dtype)])
    apart = 1 - torch.eye(H, dtype=U.dtype)
    return apart * torch.relu(U) * signs


@oracle(
    states="r x",
    W="x",
    U="x",
    b="x",
    notes=(
        "|W_rec| gamma distributed, inhibitory columns larger so that excitation and inhibition balance, scaled to a "
        "spectral radius of 1.5; alpha = dt/tau of 20 ms and 100 ms. U.x below 0, and its diagonal, have no effect."
    ),
)
def dale_ctrnn(p: Parameters, x: Tensor, state: State, alpha: float = 0.2, excitatory: float = 0.8) -> Stepped:
    """Rate network with Dale's law. Song, Yang & Wang 2016, without noise.

    x' = (1 − α) x + α (W_rec r + W_in u + b), r = max(x, 0), W_rec = M ⊙ (max(U, 0) D)

    D is the diagonal of signs: the first round(0.8 H) units excitatory, the others inhibitory, by columns (the sending
    unit). M has a zero diagonal: no self-connections. The paper rectifies W_in too where inputs are excitatory; W.x is
    free here. The output is the rates r, which the next step takes from x.
    """
    _, v = state
    v = (1 - alpha) * v + alpha * (torch.relu(v) @ dale(p["U.x"], excitatory).T + driven(p, "x", x))
    r = torch.relu(v)
    return r, (r, v)


class Spike(torch.autograd.Function):
    """1 above 0, else 0; backwards the slope of a fast sigmoid, 1 / (1 + k |a|)²."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, a: Tensor, slope: float) -> Tensor:
        ctx.save_for_backward(a)
        ctx.slope = slope
        return (a > 0).to(a.dtype)

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, gradient: Tensor) -> tuple[Tensor, None]:
        (a,) = ctx.saved_tensors
        return gradient / (1 + ctx.slope * torch.abs(a)) ** 2, None


@oracle(
    states="s mem",
    W="mem",
    U="s",
    b="mem",
    notes="Weights as of torch.nn.Linear; beta 0.9, threshold 1 and slope 25 are usual in snntorch.",
)
def lif(
    p: Parameters, x: Tensor, state: State, beta: float = 0.9, threshold: float = 1.0, slope: float = 25.0
) -> Stepped:
    """Leaky integrate and fire with recurrent spikes, as snntorch's RLeaky; reset by subtraction, a step late.

    mem' = β mem + W x + b + U s − θ H(mem − θ)
    s' = H(mem' − θ), H(a) = 1 if a > 0

    The reset looks at the membrane before the step and passes no gradient (snntorch detaches it); s' has the gradient
    of a fast sigmoid. Where the states follow one another the reset is the spike s of the step before.
    """
    s, mem = state
    reset = (mem > threshold).to(mem.dtype)
    mem = beta * mem + driven(p, "mem", x) + s @ p["U.s"].T - reset * threshold
    s = Spike.apply(mem - threshold, slope)
    return s, (s, mem)
