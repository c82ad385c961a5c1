"""Cells with a linear (elementwise) recurrence, and their kin."""

from __future__ import annotations

import torch
from torch import Tensor, sigmoid, tanh

from oracles.base import Parameters, State, affine, driven, oracle

Stepped = tuple[Tensor, State]


@oracle(
    states="h",
    W="z h",
    b="z h",
    notes="Nothing special initially.",
)
def mingru(p: Parameters, x: Tensor, state: State) -> Stepped:
    """minGRU, the plain version. Feng et al. 2024, arXiv:2410.01201, section 3.1.

    z = σ(Linear_z(x)), h̃ = Linear_h(x), h' = (1 − z) ⊙ h + z ⊙ h̃

    In their log-space version h̃ = g(Linear_h(x)) with g(a) = a + 0.5 for a ≥ 0, else σ(a); that is not here.
    """
    (h,) = state
    z = sigmoid(driven(p, "z", x))
    h = (1 - z) * h + z * driven(p, "h", x)
    return h, (h,)


@oracle(
    states="h",
    W="f i h",
    b="f i h",
    notes="Their ablation raises the forget bias, to 1 and more, to keep information in early training; 0 by default.",
)
def minlstm(p: Parameters, x: Tensor, state: State) -> Stepped:
    """minLSTM, the plain version with normalised gates. Feng et al. 2024, arXiv:2410.01201, section 3.2.

    f = σ(Linear_f(x)), i = σ(Linear_i(x)), h̃ = Linear_h(x)
    f' = f / (f + i), i' = i / (f + i)
    h' = f' ⊙ h + i' ⊙ h̃
    """
    (h,) = state
    f, i = sigmoid(driven(p, "f", x)), sigmoid(driven(p, "i", x))
    h = f / (f + i) * h + i / (f + i) * driven(p, "h", x)
    return h, (h,)


@oracle(
    states="h c z1 f1 o1",
    W="z1 z2 f1 f2 o1 o2",
    b="z f o",
    delays="z1 f1 o1",
    notes="Nothing special initially.",
)
def qrnn(p: Parameters, x: Tensor, state: State) -> Stepped:
    """QRNN with a window of 2 and fo-pooling. Bradbury et al. 2017, arXiv:1611.01576.

    z = tanh(W1_z x_{t−1} + W2_z x_t), f = σ(W1_f x_{t−1} + W2_f x_t), o = σ(W1_o x_{t−1} + W2_o x_t)
    c' = f ⊙ c + (1 − f) ⊙ z
    h' = o ⊙ c'

    W.z1 is applied to the input before and W.z2 to the present one; a state holds W.z1 x until the next step, and is 0
    in the first. Biases are added, which the paper's equations leave out.
    """
    _, c, z1, f1, o1 = state
    z = tanh(z1 + x @ p["W.z2"].T + p["b.z"])
    f = sigmoid(f1 + x @ p["W.f2"].T + p["b.f"])
    o = sigmoid(o1 + x @ p["W.o2"].T + p["b.o"])
    c = f * c + (1 - f) * z
    h = o * c
    return h, (h, c, x @ p["W.z1"].T, x @ p["W.f1"].T, x @ p["W.o1"].T)


@oracle(
    states="h c",
    W="c f r",
    b="f r v_f v_r",
    square=True,
    notes=(
        "W uniform in ±√(3/D), b 0 or b_r negative (−3) in deep stacks. Their scaling correction multiplies x in the "
        "highway by α = √(1 + 2 exp(b_r)), of the first b_r; an option, 1 here."
    ),
)
def sru(p: Parameters, x: Tensor, state: State, alpha: float = 1.0) -> Stepped:
    """Simple recurrent unit, with its highway. Lei et al. 2018, arXiv:1709.02755.

    f = σ(W_f x + v_f ⊙ c + b_f)
    c' = f ⊙ c + (1 − f) ⊙ (W x)
    r = σ(W_r x + v_r ⊙ c + b_r)
    h' = r ⊙ c' + (1 − r) ⊙ α x

    Both gates look at the cell before the step. The highway needs D = H.
    """
    _, c = state
    f = sigmoid(driven(p, "f", x) + p["b.v_f"] * c)
    r = sigmoid(driven(p, "r", x) + p["b.v_r"] * c)
    c = f * c + (1 - f) * (x @ p["W.c"].T)
    h = r * c + (1 - r) * (alpha * x)
    return h, (h, c)


@oracle(
    states="h",
    W="g i",
    b="g i",
    notes="Nothing special initially.",
)
def gilr(p: Parameters, x: Tensor, state: State) -> Stepped:
    """Gated impulse linear recurrence. Martin & Cundy 2018, arXiv:1709.04057.

    g = σ(U x + b_g), i = τ(V x + b_z), h' = g ⊙ h + (1 − g) ⊙ i

    The paper's U is W.g and its V is W.i, with τ = tanh.
    """
    (h,) = state
    g = sigmoid(driven(p, "g", x))
    i = tanh(driven(p, "i", x))
    h = g * h + (1 - g) * i
    return h, (h,)


@oracle(
    states="y re im",
    W="b_re b_im d",
    U="c_re c_im",
    b="nu_log theta_log gamma_log",
    notes=(
        "Ring: |λ|² uniform in [r_min², r_max²], so nu_log = log(−½ log(u (r_max² − r_min²) + r_min²)), with 0 and 1, "
        "or 0.9 and 0.999 for long sequences; theta_log = log(2π u), or a shorter arc; gamma_log = ½ log(1 − |λ|²); "
        "parts of B normal of variance 1/(2D), parts of C of 1/H, D of 1."
    ),
)
def lru(p: Parameters, x: Tensor, state: State) -> Stepped:
    """Linear recurrent unit. Orvieto et al. 2023, arXiv:2303.06349.

    λ = exp(−exp(ν_log) + i exp(θ_log))
    s' = λ ⊙ s + exp(γ_log) ⊙ (B x)
    y = Re(C s') + D x

    B is W.b_re + i W.b_im, C is U.c_re + i U.c_im, D is W.d (the paper's has D = H and a diagonal D). The states re and
    im are the parts of s; the y of the step before is not read.
    """
    _, re, im = state
    s = torch.complex(re, im)
    lam = torch.exp(torch.complex(-torch.exp(p["b.nu_log"]), torch.exp(p["b.theta_log"])))
    B = torch.complex(p["W.b_re"], p["W.b_im"])
    C = torch.complex(p["U.c_re"], p["U.c_im"])
    s = lam * s + torch.exp(p["b.gamma_log"]) * (x.to(s.dtype) @ B.T)
    y = (s @ C.T).real + x @ p["W.d"].T
    return y, (y, s.real, s.imag)


@oracle(
    states="y re im",
    W="u",
    b="u log_dt log_a_re a_im c_re c_im d",
    notes=(
        "S4D-Lin: A_n = −1/2 + iπn, so log_a_re = log ½ and, there being one state per unit, a_im = πn for unit n (or "
        "0, the literal N = 1); log_dt uniform in [log 0.001, log 0.1]; C complex normal and d normal, of variance 1."
    ),
)
def s4d(p: Parameters, x: Tensor, state: State) -> Stepped:
    """S4D, diagonal, zero-order hold. Gu et al. 2022, arXiv:2206.11893: one complex state and one channel per unit.

    u = W_u x + b_u
    A = −exp(log_a_re) + i a_im, Δ = exp(log_dt), B = 1
    Ā = exp(Δ A), B̄ = (Ā − 1) / A
    s' = Ā ⊙ s + B̄ ⊙ u
    y = 2 Re(C ⊙ s') + d ⊙ u

    A state stands for a conjugate pair, hence the 2. The real part is the negative of an exponential, as in their code;
    B is fixed to 1, C learns its scale. The block around it (GELU, mixing of channels) is not here.
    """
    _, re, im = state
    s = torch.complex(re, im)
    u = driven(p, "u", x)
    A = torch.complex(-torch.exp(p["b.log_a_re"]), p["b.a_im"])
    A_bar = torch.exp(torch.exp(p["b.log_dt"]) * A)
    B_bar = (A_bar - 1) / A
    s = A_bar * s + B_bar * u
    C = torch.complex(p["b.c_re"], p["b.c_im"])
    y = 2 * (C * s).real + p["b.d"] * u
    return y, (y, s.real, s.imag)


@oracle(
    states="y h",
    W="f c g",
    b="f c g",
    notes=(
        "The lower bound is γ of the layer: an exclusive cumulative sum over layers of a softmax of learned logits, 0 "
        "in the first layer and rising towards 1; here one number, an option. Nothing else is special."
    ),
)
def hgrn(p: Parameters, x: Tensor, state: State, lower_bound: float = 0.5) -> Stepped:
    """Hierarchically gated recurrent unit, the real version. Qin et al. 2023, arXiv:2311.04823.

    c = SiLU(W_c x + b_c)
    λ = γ + (1 − γ) σ(W_f x + b_f)
    h' = λ ⊙ h + (1 − λ) ⊙ c
    y = σ(W_g x + b_g) ⊙ h'

    The complex part (a phase per unit and an imaginary c) is left out, and so are the normalization and the map after
    the output gate. The input gate is tied to the forget gate. The y of the step before is not read.
    """
    _, h = state
    c = torch.nn.functional.silu(driven(p, "c", x))
    lam = lower_bound + (1 - lower_bound) * sigmoid(driven(p, "f", x))
    h = lam * h + (1 - lam) * c
    y = sigmoid(driven(p, "g", x)) * h
    return y, (y, h)


@oracle(
    states="h",
    W="a x u",
    b="a x Lambda",
    notes="Lambda such that σ(Lambda)^c is uniform in [0.9, 0.999]; W.a and W.x normal of variance 1/D, biases 0.",
)
def rg_lru(p: Parameters, x: Tensor, state: State, c: float = 8.0) -> Stepped:
    """Real-gated linear recurrent unit. De et al. 2024 (Griffin), arXiv:2402.19427.

    r = σ(W_a x + b_a), i = σ(W_x x + b_x)
    a = σ(Λ), a_t = a^(c r)
    h' = a_t ⊙ h + √(1 − a_t²) ⊙ (i ⊙ u)

    In the paper u = x and D = H; here u = W_u x, the paper's being W.u = the identity. Their appendix writes log a_t as
    −c softplus(Λ) r, which has the other sign of Λ: log σ(Λ) = −softplus(−Λ), which is what is here. The first step is
    like the others (their code sets √(1 − a²) to 1 there).
    """
    (h,) = state
    r = sigmoid(driven(p, "a", x))
    i = sigmoid(driven(p, "x", x))
    a = sigmoid(p["b.Lambda"]) ** (c * r)
    h = a * h + torch.sqrt(1 - a**2) * (i * (x @ p["W.u"].T))
    return h, (h,)


@oracle(
    states="h c n m",
    W="z i f o",
    U="z i f o",
    b="z i f o",
    notes="In their code b.f = 5 − 12 (j/(H−1))^(0.3 + 1.3 l/(L−1)) for unit j of layer l of L; other biases and R 0.",
)
def slstm(p: Parameters, x: Tensor, state: State) -> Stepped:
    """sLSTM with a sigmoid forget gate and the stabilizer. Beck et al. 2024 (xLSTM), arXiv:2405.04517.

    z = tanh(z̃), o = σ(õ), i = exp(ĩ), f = σ(f̃), where k̃ = W_k x + R_k h + b_k
    m' = max(log f + m, ĩ)
    c' = exp(log f + m − m') ⊙ c + exp(ĩ − m') ⊙ z
    n' = exp(log f + m − m') ⊙ n + exp(ĩ − m')
    h' = o ⊙ c' / n'

    R is full here; theirs is block diagonal, one block per head. c, n and m start from 0: h does not depend on m. The
    gradient passes through m, which has no effect on h.
    """
    h, c, n, m = state
    log_f = torch.nn.functional.logsigmoid(affine(p, "f", x, h))
    log_i = affine(p, "i", x, h)
    z, o = tanh(affine(p, "z", x, h)), sigmoid(affine(p, "o", x, h))
    stable = torch.maximum(log_f + m, log_i)
    i, f = torch.exp(log_i - stable), torch.exp(log_f + m - stable)
    c = f * c + i * z
    n = f * n + i
    h = o * (c / n)
    return h, (h, c, n, stable)


@oracle(
    states="y aa bb pp r1 k1 v1",
    W="r k v",
    U="o",
    b="w u mu_r mu_k mu_v",
    delays="r1 k1 v1",
    notes=(
        "For unit j of layer l of L: w = −5 + 8 (j/(H−1))^(0.7 + 1.3 l/(L−1)); u = ½ ((j+1) mod 3 − 1) + log 0.3; "
        "mu_k = (j/H)^(1 − l/L), mu_v = mu_k + 0.3 l/(L−1), mu_r = √mu_k; W.k, W.r and U.o from 0. pp starts from "
        "−1e38 in their code; from 0 here, which gives the same y."
    ),
)
def rwkv4(p: Parameters, x: Tensor, state: State) -> Stepped:
    """RWKV-4's time mixing. Peng et al. 2023, arXiv:2305.13048, section 3 and the stable form of its appendix.

    k = μ_k ⊙ (W_k x_t) + (1 − μ_k) ⊙ (W_k x_{t−1}), r and v likewise
    q = max(pp, u + k)
    wkv = (e^(pp − q) aa + e^(u + k − q) v) / (e^(pp − q) bb + e^(u + k − q))
    pp' = max(pp − exp(w), k)
    aa' = e^(pp − exp(w) − pp') aa + e^(k − pp') v, bb' = e^(pp − exp(w) − pp') bb + e^(k − pp')
    y = W_o (σ(r) ⊙ wkv)

    The paper mixes the inputs before the map, W_k (μ_k ⊙ x_t + (1 − μ_k) ⊙ x_{t−1}), which needs μ of size D; here the
    mapped inputs are mixed. k1 holds W_k x until the next step (r1 and v1 likewise), and is 0 in the first. The decay
    is exp(−exp(w)), u is the bonus of the present step. The y of the step before is not read.
    """
    _, aa, bb, pp, r1, k1, v1 = state
    now = {name: x @ p[f"W.{name}"].T for name in "rkv"}
    before = {"r": r1, "k": k1, "v": v1}
    r, k, v = (p[f"b.mu_{n}"] * now[n] + (1 - p[f"b.mu_{n}"]) * before[n] for n in "rkv")
    u, decayed = p["b.u"], pp - torch.exp(p["b.w"])
    q = torch.maximum(pp, u + k)
    old, new = torch.exp(pp - q), torch.exp(u + k - q)
    wkv = (old * aa + new * v) / (old * bb + new)
    pp = torch.maximum(decayed, k)
    old, new = torch.exp(decayed - pp), torch.exp(k - pp)
    aa, bb = old * aa + new * v, old * bb + new
    y = (sigmoid(r) * wkv) @ p["U.o"].T
    return y, (y, aa, bb, pp, now["r"], now["k"], now["v"])


@oracle(
    states="h",
    W="h",
    b="h u",
    notes=(
        "u uniform in [0, 2^(1/T)] for T steps, near 1 ([2^(−1/T), 2^(1/T)]) in a last layer that has to remember; "
        "|u| is kept below 2^(1/T)."
    ),
)
def indrnn(p: Parameters, x: Tensor, state: State) -> Stepped:
    """Independently recurrent network. Li et al. 2018, arXiv:1803.04831: h' = relu(W x + u ⊙ h + b)."""
    (h,) = state
    h = torch.relu(driven(p, "h", x) + p["b.u"] * h)
    return h, (h,)
