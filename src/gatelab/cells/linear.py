"""Recurrences without a map of the state: most are linear in it, so that a parallel scan could compute them."""

from gatelab.lang import cell, cos, exp, maximum, prev, sigmoid, sin, softplus, sqrt, tanh
from gatelab.lang.values import constant, evenly, log_uniform, multiples, normal, ring, uniform


@cell
def mingru(x, h, W, b):
    """Minimal GRU: gate and candidate depend on the input alone.

    Convention: z near 1 replaces the state; the vanilla form of the paper, not the one in log space.

    Reference: Feng et al. 2024, arXiv:2410.01201
    """
    z = sigmoid(W.z(x) + b.z)
    n = W.h(x) + b.h
    return (1 - z) * h + z * n


@cell
def minlstm(x, h, W, b):
    """Minimal LSTM: forget and input gate depend on the input alone and are scaled to sum to 1.

    Convention: k near 1 keeps the state; the vanilla form of the paper, not the one in log space.

    Reference: Feng et al. 2024, arXiv:2410.01201
    """
    f = sigmoid(W.f(x) + b.f)
    i = sigmoid(W.i(x) + b.i)
    n = W.h(x) + b.h
    k = f / (f + i)
    return k * h + (1 - k) * n


@cell
def gilr(x, h, W, b):
    """Gated impulse linear recurrence.

    Convention: g near 1 keeps the state.

    Reference: Martin & Cundy 2018, arXiv:1709.04057
    """
    g = sigmoid(W.g(x) + b.g)
    i = tanh(W.i(x) + b.i)
    return g * h + (1 - g) * i


@cell
def qrnn(x, h, c, W, b):
    """Quasi-recurrent network: convolutions over two steps, and pooling with a forget and an output gate.

    Convention: fo-pooling with a window of 2; f near 1 keeps the memory; W.z1 is applied to the previous input.

    Reference: Bradbury et al. 2017, arXiv:1611.01576
    """
    z = tanh(prev(W.z1(x)) + W.z2(x) + b.z)
    f = sigmoid(prev(W.f1(x)) + W.f2(x) + b.f)
    o = sigmoid(prev(W.o1(x)) + W.o2(x) + b.o)
    c = f * c + (1 - f) * z
    return o * c, c


@cell
def sru(x, h, c, W, b, *, alpha=1.0):
    """Simple recurrent unit: peepholes instead of recurrent maps, and a highway for the input.

    Convention: f near 1 keeps the memory, r near 1 outputs it; the highway needs D = H. α scales the
    input in the highway, √(1 + 2 exp(b_r)) in the paper's deep stacks.

    Reference: Lei et al. 2018, arXiv:1709.02755
    """
    f = sigmoid(W.f(x) + b.v_f * c + b.f)
    r = sigmoid(W.r(x) + b.v_r * c + b.r)
    c = f * c + (1 - f) * W.c(x)
    return r * c + alpha * (1 - r) * x, c


@cell(start={"b.nu": ring(0.9, 0.999), "b.theta": log_uniform(0.001, 6.28), "b.gamma": constant(0), "W.d": normal(0.1)})
def lru(x, y, re, im, W, U, b):
    """Linear recurrent unit: a complex diagonal recurrence in polar form, and a linear read-out.

    Convention: the eigenvalue of a unit is exp(−exp(ν) + i exp(θ)). It starts in a ring of radius 0.9 to 0.999. The
    normalization √(1 − |λ|²) is written out, and exp(γ) is learned beside it; in the paper their product is the
    parameter. The map of the input to the output is full.

    Reference: Orvieto et al. 2023, arXiv:2303.06349
    """
    r = exp(-exp(b.nu))
    p = r * cos(exp(b.theta))
    q = r * sin(exp(b.theta))
    g = exp(b.gamma) * sqrt(1 - r * r)
    new_re = p * re - q * im + g * W.b_re(x)
    new_im = q * re + p * im + g * W.b_im(x)
    return U.c_re(new_re) - U.c_im(new_im) + W.d(x), new_re, new_im


@cell(
    start={
        "b.log_dt": uniform(-6.9, -2.3), "b.log_a_re": constant(-0.693), "b.a_im": multiples(3.14159265),
        "b.c_re": normal(0.7), "b.c_im": normal(0.7), "b.d": normal(1),
    }
)  # fmt: skip
def s4d(x, y, re, im, W, b):
    """Diagonal state space model, one complex state per unit, discretized by zero-order hold.

    Convention: A = −exp(log_a_re) + i a_im starts as in S4D-Lin, −½ + πn i for unit n, and the step size exp(log_dt)
    between 0.001 and 0.1; the input of a unit is W_u x + b_u; y = 2 Re(C s) + d u.

    Reference: Gu et al. 2022, arXiv:2206.11893
    """
    u = W.u(x) + b.u
    a = -exp(b.log_a_re)
    r = exp(exp(b.log_dt) * a)
    p = r * cos(exp(b.log_dt) * b.a_im)
    q = r * sin(exp(b.log_dt) * b.a_im)
    s = a * a + b.a_im * b.a_im
    new_re = p * re - q * im + ((p - 1) * a + q * b.a_im) / s * u
    new_im = q * re + p * im + (q * a - (p - 1) * b.a_im) / s * u
    return 2 * (b.c_re * new_re - b.c_im * new_im) + b.d * u, new_re, new_im


@cell
def hgrn(x, y, h, W, b, *, lower_bound=0.5):
    """Hierarchically gated recurrent network: a forget gate with a lower bound, and an output gate.

    Convention: f near 1 keeps the memory; a real form of the paper's complex recurrence, without its output
    projection. The lower bound, which rises from layer to layer in the paper, is one number.

    Reference: Qin et al. 2023, arXiv:2311.04823
    """
    f = lower_bound + (1 - lower_bound) * sigmoid(W.f(x) + b.f)
    a = W.c(x) + b.c
    c = a * sigmoid(a)
    g = sigmoid(W.g(x) + b.g)
    h = f * h + (1 - f) * c
    return g * h, h


@cell(start={"b.Lambda": uniform(4.3, 9.0), "b.a": constant(0), "b.x": constant(0)})
def rg_lru(x, h, W, b, *, c=8.0):
    """Real-gated linear recurrent unit, the recurrent layer of Griffin.

    Convention: a near 1 keeps the state and suppresses the input; a is σ(Λ) to the power c r, and starts between 0.9
    and 0.999 for r = 1. The value is W_u x; the paper's is x itself, after a map outside the unit.

    Reference: De et al. 2024, arXiv:2402.19427
    """
    r = sigmoid(W.a(x) + b.a)
    i = sigmoid(W.x(x) + b.x)
    a = exp(-c * r * softplus(-b.Lambda))
    return a * h + sqrt(maximum(1 - a * a, 1e-6)) * (i * W.u(x))


@cell(
    start={
        "b.w": evenly(-5, 3),
        "b.u": constant(-1.2),
        "b.mu_r": evenly(0, 1),
        "b.mu_k": evenly(0, 1),
        "b.mu_v": evenly(0, 1),
    }
)
def rwkv4(x, y, a, s, m, W, U, b):
    """RWKV-4 time mixing: a weighted mean of values with exponential decay, by two sums and their common exponent.

    Convention: μ mixes each projected input with the previous one; w is the logarithm of the decay rate, u the bonus of
    the current step. The paper mixes inputs before projecting them, with the same μ for all units of an input.

    Reference: Peng et al. 2023, arXiv:2305.13048
    """
    r = sigmoid(b.mu_r * W.r(x) + (1 - b.mu_r) * prev(W.r(x)))
    k = b.mu_k * W.k(x) + (1 - b.mu_k) * prev(W.k(x))
    v = b.mu_v * W.v(x) + (1 - b.mu_v) * prev(W.v(x))
    top = maximum(m, b.u + k)
    mixed = (exp(m - top) * a + exp(b.u + k - top) * v) / (exp(m - top) * s + exp(b.u + k - top))
    next_m = maximum(m - exp(b.w), k)
    decay = exp(m - exp(b.w) - next_m)
    weight = exp(k - next_m)
    return U.o(r * mixed), decay * a + weight * v, decay * s + weight, next_m
