"""Gated cells: variants of the LSTM and the GRU, and networks with a clock."""

from __future__ import annotations

import torch
from torch import Tensor, sigmoid, tanh

from oracles.base import Parameters, State, affine, driven, oracle

Stepped = tuple[Tensor, State]


def layer_norm(a: Tensor, epsilon: float) -> Tensor:
    """(a − μ) / √(σ² + ε) over the H units of a row, with the biased variance; gain and bias are applied outside."""
    mu = a.mean(-1, keepdim=True)
    variance = ((a - mu) ** 2).mean(-1, keepdim=True)
    return (a - mu) / torch.sqrt(variance + epsilon)


@oracle(
    states="h c",
    W="f i o g",
    U="f i o g",
    b="f i o g alpha1_f alpha1_i alpha1_o alpha1_g alpha2_f alpha2_i alpha2_o alpha2_g alpha3 beta3",
    notes="Gains alpha* start from 1, biases from 0 (Ba et al., supplement). The paper has no ε; here 1e-5.",
)
def layer_norm_lstm(p: Parameters, x: Tensor, state: State, epsilon: float = 1e-5) -> Stepped:
    """LSTM with layer normalization. Ba, Kiros & Hinton 2016, arXiv:1607.06450.

    (f, i, o, g) = LN(W_h h; α1, β1) + LN(W_x x; α2, β2) + b
    c' = σ(f) ⊙ c + σ(i) ⊙ tanh(g)
    h' = σ(o) ⊙ tanh(LN(c'; α3, β3))

    The paper normalises W_h h of all four gates as one vector of 4H; here each gate's H values are normalised
    separately. β1 + β2 + b of a gate are one effective bias, b.f and so on. alpha1 is the gain of U h, alpha2 of W x.
    """
    h, c = state

    def gate(k: str) -> Tensor:
        of_h = p[f"b.alpha1_{k}"] * layer_norm(h @ p[f"U.{k}"].T, epsilon)
        of_x = p[f"b.alpha2_{k}"] * layer_norm(x @ p[f"W.{k}"].T, epsilon)
        return of_h + of_x + p[f"b.{k}"]

    c = sigmoid(gate("f")) * c + sigmoid(gate("i")) * tanh(gate("g"))
    h = sigmoid(gate("o")) * tanh(p["b.alpha3"] * layer_norm(c, epsilon) + p["b.beta3"])
    return h, (h, c)


@oracle(
    states="h",
    W="z r h",
    U="z r h",
    b="z r h alpha1_z alpha1_r alpha2_z alpha2_r alpha3 alpha4 beta4",
    notes="Gains alpha* start from 1, biases from 0 (Ba et al., supplement). The paper has no ε; here 1e-5.",
)
def layer_norm_gru(p: Parameters, x: Tensor, state: State, epsilon: float = 1e-5) -> Stepped:
    """GRU with layer normalization. Ba, Kiros & Hinton 2016, arXiv:1607.06450.

    (z, r) = LN(W_h h; α1, β1) + LN(W_x x; α2, β2)
    ĥ = tanh(LN(W x; α3, β3) + σ(r) ⊙ LN(U h; α4, β4))
    h' = (1 − σ(z)) ⊙ h + σ(z) ⊙ ĥ

    Each gate's H values are normalised separately. b.z and b.r are β1 + β2; b.h is β3; b.beta4 is inside the reset.
    """
    (h,) = state

    def gate(k: str) -> Tensor:
        of_h = p[f"b.alpha1_{k}"] * layer_norm(h @ p[f"U.{k}"].T, epsilon)
        of_x = p[f"b.alpha2_{k}"] * layer_norm(x @ p[f"W.{k}"].T, epsilon)
        return sigmoid(of_h + of_x + p[f"b.{k}"])

    z, r = gate("z"), gate("r")
    of_x = p["b.alpha3"] * layer_norm(x @ p["W.h"].T, epsilon) + p["b.h"]
    of_h = p["b.alpha4"] * layer_norm(h @ p["U.h"].T, epsilon) + p["b.beta4"]
    h = (1 - z) * h + z * tanh(of_x + r * of_h)
    return h, (h,)


@oracle(
    states="h c",
    W="z i f o",
    U="z i f o",
    b="z i f o pi pf po",
    notes="Nothing special initially; a forget bias of 1 is usual.",
)
def peephole_lstm(p: Parameters, x: Tensor, state: State) -> Stepped:
    """Peephole LSTM. Gers, Schraudolph & Schmidhuber 2002, in the notation of Greff et al. 2017, arXiv:1503.04069.

    z = tanh(W_z x + R_z h + b_z)
    i = σ(W_i x + R_i h + p_i ⊙ c + b_i)
    f = σ(W_f x + R_f h + p_f ⊙ c + b_f)
    c' = z ⊙ i + c ⊙ f
    o = σ(W_o x + R_o h + p_o ⊙ c' + b_o)
    h' = tanh(c') ⊙ o

    The output gate looks at the new cell. Gers et al. leave out the tanh of the output; Greff et al. have it.
    """
    h, c = state
    z = tanh(affine(p, "z", x, h))
    i = sigmoid(affine(p, "i", x, h) + p["b.pi"] * c)
    f = sigmoid(affine(p, "f", x, h) + p["b.pf"] * c)
    c = z * i + c * f
    o = sigmoid(affine(p, "o", x, h) + p["b.po"] * c)
    h = tanh(c) * o
    return h, (h, c)


@oracle(
    states="h c",
    W="z i o",
    U="z i o",
    b="z i o",
    notes="Greff et al.: weights normal with deviation 0.1; no forget bias, for there is no forget gate.",
)
def cifg_lstm(p: Parameters, x: Tensor, state: State) -> Stepped:
    """LSTM with coupled input and forget gates. Greff et al. 2017, arXiv:1503.04069, variant CIFG: f = 1 − i.

    Their LSTM has peepholes p_i and p_o; they are left out here.
    """
    h, c = state
    z = tanh(affine(p, "z", x, h))
    i = sigmoid(affine(p, "i", x, h))
    o = sigmoid(affine(p, "o", x, h))
    c = z * i + c * (1 - i)
    h = tanh(c) * o
    return h, (h, c)


@oracle(
    states="r c",
    W="i f c o",
    U="i f c o p",
    b="i f c o",
    notes="Sak et al.: weights uniform in [−0.02, 0.02]. Columns of U.i, U.f, U.c, U.o from H//2 on have no effect.",
)
def lstmp(p: Parameters, x: Tensor, state: State) -> Stepped:
    """LSTM with a recurrent projection. Sak, Senior & Beaufays 2014, arXiv:1402.1128.

    i = σ(W_ix x + W_ir r + b_i), f and o likewise
    c' = f ⊙ c + i ⊙ tanh(W_cx x + W_cr r + b_c)
    m = o ⊙ tanh(c')
    r' = W_rm m

    W_rm is U.p (H×H) followed by a 0/1 vector that keeps the first H//2 units. Their peepholes and their non-recurrent
    projection are left out.
    """
    r, c = state
    H = c.shape[-1]
    keep = torch.cat([torch.ones(H // 2, dtype=c.dtype), torch.zeros(H - H // 2, dtype=c.dtype)])
    i = sigmoid(affine(p, "i", x, r))
    f = sigmoid(affine(p, "f", x, r))
    o = sigmoid(affine(p, "o", x, r))
    c = f * c + i * tanh(affine(p, "c", x, r))
    m = o * tanh(c)
    r = keep * (m @ p["U.p"].T)
    return r, (r, c)


@oracle(
    states="h c",
    W="i f o g",
    U="i f o g",
    b="i f o g",
    notes="Rates of the paper: 0.5 for c and 0.05 for h (characters of Penn Treebank). Nothing special initially.",
)
def zoneout_lstm(p: Parameters, x: Tensor, state: State, zoneout_c: float = 0.5, zoneout_h: float = 0.05) -> Stepped:
    """LSTM with zoneout, in evaluation. Krueger et al. 2016, arXiv:1606.01305, with masks at their expectation.

    c' = z_c c + (1 − z_c)(f ⊙ c + i ⊙ g)
    h' = z_h h + (1 − z_h)(o ⊙ tanh(f ⊙ c + i ⊙ g))

    The output reads the cell before zoneout, f ⊙ c + i ⊙ g, not c'.
    """
    h, c = state
    i = sigmoid(affine(p, "i", x, h))
    f = sigmoid(affine(p, "f", x, h))
    o = sigmoid(affine(p, "o", x, h))
    g = tanh(affine(p, "g", x, h))
    updated = f * c + i * g
    c = zoneout_c * c + (1 - zoneout_c) * updated
    h = zoneout_h * h + (1 - zoneout_h) * (o * tanh(updated))
    return h, (h, c)


@oracle(
    states="s",
    W="h t",
    U="h1 h2 h3 t1 t2 t3",
    b="h1 h2 h3 t1 t2 t3",
    notes="The biases of t start negative, −2 on Penn Treebank, with weights uniform in [−0.04, 0.04].",
)
def rhn(p: Parameters, x: Tensor, state: State) -> Stepped:
    """Recurrent highway network of depth 3, coupled carry. Zilly et al. 2016, arXiv:1607.03474.

    s_l = h_l ⊙ t_l + s_{l−1} ⊙ (1 − t_l)
    h_l = tanh(W_H x [l = 1] + R_Hl s_{l−1} + b_Hl)
    t_l = σ(W_T x [l = 1] + R_Tl s_{l−1} + b_Tl)
    """
    (s,) = state
    for layer in ("1", "2", "3"):
        into_h = s @ p[f"U.h{layer}"].T + p[f"b.h{layer}"]
        into_t = s @ p[f"U.t{layer}"].T + p[f"b.t{layer}"]
        if layer == "1":
            into_h = into_h + x @ p["W.h"].T
            into_t = into_t + x @ p["W.t"].T
        h, t = tanh(into_h), sigmoid(into_t)
        s = h * t + s * (1 - t)
    return s, (s,)


@oracle(
    states="h c",
    W="m h i f o",
    U="m h i f o",
    b="h i f o",
    notes="Nothing special in the equations; the paper's experiments use weight normalization, which is not here.",
)
def multiplicative_lstm(p: Parameters, x: Tensor, state: State) -> Stepped:
    """Multiplicative LSTM. Krause et al. 2016, arXiv:1609.07959.

    m = (W_mx x) ⊙ (W_mh h)
    ĥ = W_hx x + W_hm m
    i = σ(W_ix x + W_im m), f and o likewise
    c' = f ⊙ c + i ⊙ tanh(ĥ)
    h' = tanh(c') ⊙ o

    U.m is applied to h, the other U to m. The paper's equations have no biases: b is added to the gates and ĥ, none to
    the factors of m.
    """
    h, c = state
    m = (x @ p["W.m"].T) * (h @ p["U.m"].T)
    candidate = affine(p, "h", x, m)
    i = sigmoid(affine(p, "i", x, m))
    f = sigmoid(affine(p, "f", x, m))
    o = sigmoid(affine(p, "o", x, m))
    c = f * c + i * tanh(candidate)
    h = tanh(c) * o
    return h, (h, c)


@oracle(
    states="h c n",
    W="i f c o",
    U="i f c o x_i x_f x_c x_o h_i h_f h_c h_o",
    b="i f c o n_i n_f n_c n_o",
    notes="Nothing special initially; a forget bias (b.f and b.n_f) of 1 is usual.",
)
def nested_lstm(p: Parameters, x: Tensor, state: State) -> Stepped:
    """Nested LSTM, depth 2. Moniz & Krueger 2017, arXiv:1801.10308.

    The outer gates i, f, o are those of an LSTM; the inner LSTM takes the place of the sum f ⊙ c + i ⊙ g:
    x̃ = i ⊙ tanh(W_c x + U_c h + b_c)
    h̃ = f ⊙ c
    ñ gates: σ(U_x_k x̃ + U_h_k h̃ + b_n_k) for k = i, f, o
    n' = f̃ ⊙ n + ĩ ⊙ tanh(U_x_c x̃ + U_h_c h̃ + b_n_c)
    c' = õ ⊙ tanh(n')
    h' = o ⊙ tanh(c')

    U.x_k are the inner input maps, U.h_k the inner recurrent maps (the paper's letters with a tilde), n is c̃.
    """
    h, c, n = state
    i = sigmoid(affine(p, "i", x, h))
    f = sigmoid(affine(p, "f", x, h))
    o = sigmoid(affine(p, "o", x, h))
    inner_x = i * tanh(affine(p, "c", x, h))
    inner_h = f * c

    def inner(k: str) -> Tensor:
        return inner_x @ p[f"U.x_{k}"].T + inner_h @ p[f"U.h_{k}"].T + p[f"b.n_{k}"]

    n = sigmoid(inner("f")) * n + sigmoid(inner("i")) * tanh(inner("c"))
    c = sigmoid(inner("o")) * tanh(n)
    h = o * tanh(c)
    return h, (h, c, n)


def cumax(a: Tensor) -> Tensor:
    """The cumulative sum of a softmax over the units, from the first to the last."""
    return torch.cumsum(torch.softmax(a, -1), -1)


@oracle(
    states="h c",
    W="f i o c f_m i_m",
    U="f i o c f_m i_m",
    b="f i o c f_m i_m",
    notes="Nothing special initially (uniform in ±1/√H). The paper uses chunks of 10 units; here 1.",
)
def on_lstm(p: Parameters, x: Tensor, state: State) -> Stepped:
    """Ordered neurons LSTM. Shen et al. 2019, arXiv:1810.09536; chunk size 1.

    f̃ = cumax(W_f_m x + U_f_m h + b_f_m), the master forget gate, rising over the units
    ĩ = 1 − cumax(W_i_m x + U_i_m h + b_i_m), the master input gate, falling
    ω = f̃ ⊙ ĩ
    f̂ = f ⊙ ω + (f̃ − ω)
    î = i ⊙ ω + (ĩ − ω)
    c' = f̂ ⊙ c + î ⊙ tanh(W_c x + U_c h + b_c)
    h' = o ⊙ tanh(c')
    """
    h, c = state
    f = sigmoid(affine(p, "f", x, h))
    i = sigmoid(affine(p, "i", x, h))
    o = sigmoid(affine(p, "o", x, h))
    master_f = cumax(affine(p, "f_m", x, h))
    master_i = 1 - cumax(affine(p, "i_m", x, h))
    omega = master_f * master_i
    f = f * omega + (master_f - omega)
    i = i * omega + (master_i - omega)
    c = f * c + i * tanh(affine(p, "c", x, h))
    h = o * tanh(c)
    return h, (h, c)


def openness(t: Tensor, tau: Tensor, s: Tensor, r_on: float, alpha: float) -> Tensor:
    """The time gate k of the phased LSTM: a triangle over the open part of the period, then a leak."""
    shifted = t - s
    phi = (shifted - tau * torch.floor(shifted / tau)) / tau
    rising = 2 * phi / r_on
    falling = 2 - 2 * phi / r_on
    return torch.where(phi < r_on / 2, rising, torch.where(phi < r_on, falling, alpha * phi))


@oracle(
    states="h c t",
    W="i f c o",
    U="i f c o",
    b="i f c o tau s",
    positive="tau",
    notes=(
        "tau = exp(U(a, b)) with a range per task, s uniform in [0, tau], r_on = 0.05; the leak is 0.001 in training "
        "and 0 in evaluation. r_on may be learned in the paper; here it is an option."
    ),
)
def phased_lstm(p: Parameters, x: Tensor, state: State, r_on: float = 0.05, alpha: float = 0.001) -> Stepped:
    """Phased LSTM. Neil, Pfeiffer & Liu 2016, arXiv:1610.09513.

    φ = ((t − s) mod τ) / τ
    k = 2φ / r_on if φ < r_on / 2; 2 − 2φ / r_on if φ < r_on; α φ otherwise
    c̃ = f ⊙ c + i ⊙ tanh(W_c x + U_c h + b_c), c' = k ⊙ c̃ + (1 − k) ⊙ c
    h̃ = o ⊙ tanh(c̃), h' = k ⊙ h̃ + (1 − k) ⊙ h

    The time is the step index, 0, 1, 2…; mod is floored, never negative. Their optional peepholes are left out.
    """
    h, c, t = state
    k = openness(t, p["b.tau"], p["b.s"], r_on, alpha)
    i = sigmoid(affine(p, "i", x, h))
    f = sigmoid(affine(p, "f", x, h))
    o = sigmoid(affine(p, "o", x, h))
    proposed_c = f * c + i * tanh(affine(p, "c", x, h))
    proposed_h = o * tanh(proposed_c)
    c = k * proposed_c + (1 - k) * c
    h = k * proposed_h + (1 - k) * h
    return h, (h, c, t + 1)


def clock_groups(H: int) -> Tensor:
    """The group, 0 to 3, of each of H units: unit j is in group ⌊4j / H⌋."""
    return torch.arange(H) * 4 // H


@oracle(
    states="h t",
    W="h",
    U="h",
    b="h",
    least=4,
    notes="Koutník et al.: weights normal with deviation 0.1. What U.h has below the block diagonal has no effect.",
)
def clockwork_rnn(p: Parameters, x: Tensor, state: State) -> Stepped:
    """Clockwork RNN. Koutník et al. 2014, arXiv:1402.3511: four groups of periods 1, 2, 4, 8, first to last.

    h'_g = tanh(W_g x + U_g h + b_g) if t mod T_g = 0, else h_g; U_g has the columns of groups g' ≥ g (same or longer
    period) alone: a block upper triangular matrix. t counts from 0, so that every group moves in the first step. Where
    4 does not divide H, unit j is in group ⌊4j / H⌋.
    """
    h, t = state
    group = clock_groups(h.shape[-1])
    period = 2.0**group
    reads = (group[:, None] <= group[None, :]).to(h.dtype)
    proposed = tanh(x @ p["W.h"].T + h @ (p["U.h"] * reads).T + p["b.h"])
    h = torch.where(torch.remainder(t, period) == 0, proposed, h)
    return h, (h, t + 1)


@oracle(
    states="h",
    W="h",
    U="h",
    b="h alpha beta1 beta2",
    notes="Wu et al. on characters of Penn Treebank: alpha 2, beta1 = beta2 = 0.5, b 0; other values for other tasks.",
)
def mi_rnn(p: Parameters, x: Tensor, state: State) -> Stepped:
    """RNN with multiplicative integration, general form. Wu et al. 2016, arXiv:1606.06630.

    h' = tanh(α ⊙ W x ⊙ U h + β1 ⊙ U h + β2 ⊙ W x + b)
    """
    (h,) = state
    Wx, Uh = x @ p["W.h"].T, h @ p["U.h"].T
    h = tanh(p["b.alpha"] * Wx * Uh + p["b.beta1"] * Uh + p["b.beta2"] * Wx + p["b.h"])
    return h, (h,)


@oracle(
    states="h c",
    W="x",
    U="q r x_f x_i x_j x_o h_f h_i h_j h_o",
    b="f i j o",
    notes=(
        "The paper's Q is D×H and R is H×D; here the input is mapped to H values first, u = W.x x, and the paper's "
        "equations hold for u: its own form is D = H with W.x the identity. Rounds: 2 here, 5 is the paper's usual; Q "
        "and R are products of low rank there."
    ),
)
def mogrifier_lstm(p: Parameters, x: Tensor, state: State) -> Stepped:
    """Mogrifier LSTM, two rounds. Melis, Kočiský & Blunsom 2020, arXiv:1909.01792.

    u = W_x x
    u¹ = 2σ(Q h) ⊙ u
    h² = 2σ(R u¹) ⊙ h
    f = σ(U_x_f u¹ + U_h_f h² + b_f), i and o likewise, j = tanh(U_x_j u¹ + U_h_j h² + b_j)
    c' = f ⊙ c + i ⊙ j
    h' = o ⊙ tanh(c')

    Q is U.q, R is U.r; there is no bias in the rounds.
    """
    h, c = state
    u = x @ p["W.x"].T
    u = 2 * sigmoid(h @ p["U.q"].T) * u
    h = 2 * sigmoid(u @ p["U.r"].T) * h

    def gate(k: str) -> Tensor:
        return u @ p[f"U.x_{k}"].T + h @ p[f"U.h_{k}"].T + p[f"b.{k}"]

    c = sigmoid(gate("f")) * c + sigmoid(gate("i")) * tanh(gate("j"))
    h = sigmoid(gate("o")) * tanh(c)
    return h, (h, c)


@oracle(
    states="h",
    W="gamma r z h",
    U="r z h",
    b="gamma r z h",
    notes="GRU-D's hidden decay alone: the decay of inputs and the mask are left out. Nothing special initially.",
)
def gru_d(p: Parameters, x: Tensor, state: State) -> Stepped:
    """GRU-D's hidden decay. Che et al. 2018, arXiv:1606.01865.

    γ = exp(−max(0, W_γ x + b_γ)), ĥ = γ ⊙ h
    r = σ(W_r x + U_r ĥ + b_r), z = σ(W_z x + U_z ĥ + b_z)
    h̃ = tanh(W x + U (r ⊙ ĥ) + b)
    h' = (1 − z) ⊙ ĥ + z ⊙ h̃

    In the paper γ is a map of the time gap δ, a part of the input here; inputs decay towards their mean and the mask
    has maps V of its own, both left out (a mask that is part of x has its map in W).
    """
    (h,) = state
    gamma = torch.exp(-torch.relu(x @ p["W.gamma"].T + p["b.gamma"]))
    h = gamma * h
    r = sigmoid(affine(p, "r", x, h))
    z = sigmoid(affine(p, "z", x, h))
    candidate = tanh(affine(p, "h", x, r * h))
    h = (1 - z) * h + z * candidate
    return h, (h,)


class Binarize(torch.autograd.Function):
    """1 from one half on, 0 below; the gradient passes straight through."""

    @staticmethod
    def forward(ctx: object, u: Tensor) -> Tensor:
        return (u >= 0.5).to(u.dtype)

    @staticmethod
    def backward(ctx: object, gradient: Tensor) -> Tensor:
        return gradient


@oracle(
    states="h u",
    W="z r h",
    U="z r h p",
    b="z r h p",
    initial=(("u", 1.0),),
    notes="b.p starts from 1, so that at first every step updates, and u from 1 (Campos et al.).",
)
def skip_rnn(p: Parameters, x: Tensor, state: State) -> Stepped:
    """Skip RNN on a GRU. Campos et al. 2018, arXiv:1708.06834.

    u = binarize(ũ), straight through
    h' = u ⊙ GRU(h, x) + (1 − u) ⊙ h
    Δũ = σ(W_p h' + b_p)
    ũ' = u ⊙ Δũ + (1 − u) ⊙ (ũ + min(Δũ, 1 − ũ))

    In the paper ũ is one number per layer (W_p is 1×H); here each unit has its own, U.p being H×H: the paper's is where
    the rows of U.p, and the values of b.p, are equal. The state u is ũ and starts from 1. The GRU is Cho's, with the
    reset inside the map and z the share of the old state: h' = z ⊙ h + (1 − z) ⊙ tanh(W x + U (r ⊙ h) + b).
    """
    h, u = state
    update = Binarize.apply(u)
    r = sigmoid(affine(p, "r", x, h))
    z = sigmoid(affine(p, "z", x, h))
    proposed = z * h + (1 - z) * tanh(affine(p, "h", x, r * h))
    h = update * proposed + (1 - update) * h
    increment = sigmoid(h @ p["U.p"].T + p["b.p"])
    u = update * increment + (1 - update) * (u + torch.minimum(increment, 1 - u))
    return h, (h, u)


@oracle("h", "z r", "r n", "z r n", square=True, notes="Forget-like biases of 1 helped in their search.")
def mut1(p: Parameters, x: Tensor, state: State) -> tuple[Tensor, State]:
    """MUT1 of Jozefowicz, Zaremba & Sutskever 2015: z sees x alone, and tanh(x) enters the candidate."""
    (h,) = state
    z = torch.sigmoid(driven(p, "z", x))
    r = torch.sigmoid(affine(p, "r", x, h))
    h = torch.tanh((r * h) @ p["U.n"].T + torch.tanh(x) + p["b.n"]) * z + h * (1 - z)
    return h, (h,)


@oracle("h", "z n", "z r n", "z r n", square=True, notes="As MUT1.")
def mut2(p: Parameters, x: Tensor, state: State) -> tuple[Tensor, State]:
    """MUT2 of Jozefowicz, Zaremba & Sutskever 2015: x itself in the reset gate."""
    (h,) = state
    z = torch.sigmoid(affine(p, "z", x, h))
    r = torch.sigmoid(x + h @ p["U.r"].T + p["b.r"])
    h = torch.tanh((r * h) @ p["U.n"].T + x @ p["W.n"].T + p["b.n"]) * z + h * (1 - z)
    return h, (h,)


@oracle("y h s", "s h", "p h y v", notes="alpha 0.95, fixed; the softmax of the output is left out.")
def scrn(p: Parameters, x: Tensor, state: State, *, alpha: float = 0.95) -> tuple[Tensor, State]:
    """Mikolov et al. 2014, equations 4 to 6: B x, P s, A x, R h, U h and V s are W.s, U.p, W.h, U.h, U.y and U.v."""
    _, h, s = state
    s = (1 - alpha) * (x @ p["W.s"].T) + alpha * s
    h = torch.sigmoid(s @ p["U.p"].T + x @ p["W.h"].T + h @ p["U.h"].T)
    y = h @ p["U.y"].T + s @ p["U.v"].T
    return y, (y, h, s)


@oracle("h c", "g0 g1 g2 g3 g4 g5 g6 g7", "g0 g1 g2 g3 g4 g5 g6 g7", notes="Uniform in [−0.08, 0.08] in the paper.")
def nas(p: Parameters, x: Tensor, state: State) -> tuple[Tensor, State]:
    """Zoph & Le 2016, as the authors' TensorFlow cell computes it: three layers of a binary tree."""
    h, c = state
    i = [x @ p[f"W.g{k}"].T for k in range(8)]
    m = [h @ p[f"U.g{k}"].T for k in range(8)]
    first = [
        torch.sigmoid(i[0] + m[0]), torch.relu(i[1] + m[1]), torch.sigmoid(i[2] + m[2]), torch.relu(i[3] * m[3]),
        torch.tanh(i[4] + m[4]), torch.sigmoid(i[5] + m[5]), torch.tanh(i[6] + m[6]), torch.sigmoid(i[7] + m[7]),
    ]  # fmt: skip
    second = [
        torch.tanh(first[0] * first[1]), torch.tanh(first[2] + first[3]),
        torch.tanh(first[4] * first[5]), torch.sigmoid(first[6] + first[7]),
    ]  # fmt: skip
    second[0] = torch.tanh(second[0] + c)
    c = second[0] * second[1]
    h = torch.tanh(c * torch.tanh(second[2] + second[3]))
    return h, (h, c)
