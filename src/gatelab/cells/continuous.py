"""Cells in continuous time: leaky, liquid and closed-form units, spikes, orthogonal and Legendre memories."""

from gatelab.lang import I, cell, expm, relu, sigmoid, step, stop_gradient, sum, surrogate, tanh, where  # noqa: A004
from gatelab.lang.values import constant, legendre, normal, off_diagonal, one_hot, signs, uniform


@cell(start={"b.tau": constant(1)})
def ctrnn(x, u, W, U, b, *, dt=0.1):
    """Continuous-time recurrent network: leaky integration by Euler steps.

    Convention: the state is the potential u; units read each other through σ(u); τ is learned per unit, dt the step.

    Reference: Funahashi & Nakamura 1993, doi:10.1016/S0893-6080(05)80125-X
    """
    r = sigmoid(u)
    return u + dt * (-u / b.tau + U.u(r) + W.u(x) + b.u)


@cell(given={"U.others": off_diagonal(), "b.sign": signs(0.8)})
def dale_ctrnn(x, r, v, W, U, b, *, alpha=0.2):
    """Rate network under Dale's law: four fifths of the units excite, the others inhibit, and none reads itself.

    Convention: weights are relu(U); the sign belongs to the unit that is read; α is the step over the time constant.

    Reference: Song et al. 2016, doi:10.1371/journal.pcbi.1004792
    """
    v = (1 - alpha) * v + alpha * ((U.others * relu(U.x))(b.sign * relu(v)) + W.x(x) + b.x)
    return relu(v), v


@cell(start={"b.tau": constant(1), "b.A": uniform(-1, 1)})
def ltc(x, h, W, U, b, *, dt=1.0):
    """Liquid time constant: the input changes how fast a unit approaches its reversal potential A.

    Convention: one nonlinearity per unit (equation 1 of the paper; its code has one per synapse), six semi-implicit
    steps per input.

    Reference: Hasani et al. 2021, arXiv:2006.04439
    """
    for _ in range(6):
        f = sigmoid(W.f(x) + U.f(h) + b.f)
        h = (h + dt / 6 * f * b.A) / (1 + dt / 6 * (1 / b.tau + f))
    return h


@cell
def cfc(x, h, W, U, b, *, ts=1.0):
    """Closed-form continuous-time network: an interpolation between two candidates that depends on time.

    Convention: i near 1 takes the second candidate; no backbone (the maps act on x and h directly); ts is the time
    since the previous step.

    Reference: Hasani et al. 2022, arXiv:2106.13898
    """
    p = tanh(W.ff1(x) + U.ff1(h) + b.ff1)
    q = tanh(W.ff2(x) + U.ff2(h) + b.ff2)
    i = sigmoid((W.a(x) + U.a(h) + b.a) * ts + W.b(x) + U.b(h) + b.b)
    return p * (1 - i) + q * i


@cell
def lif(x, s, v, W, U, b, *, beta=0.9, threshold=1.0, slope=25.0):
    """Leaky integrate-and-fire neurons with recurrent spikes and a surrogate gradient.

    Convention: a spike is sent where the potential exceeds the threshold, which is subtracted in the next step; the
    derivative of a spike is that of a fast sigmoid of this slope. As snntorch's RLeaky with subtraction.

    Reference: Neftci et al. 2019, arXiv:1901.09948
    """
    reset = stop_gradient(step(v - threshold))
    v = beta * v + W.mem(x) + U.s(s) + b.mem - threshold * reset
    u = v - threshold
    return surrogate(step(u), u / (1 + slope * abs(u))), v


@cell(start={"U.a": normal(0.1), "U.w": normal(0.1), "b.h": constant(0)})
def lipschitz_rnn(x, h, W, U, b, *, beta=0.65, gamma=0.001, epsilon=0.01):
    """Lipschitz recurrent network: Euler steps with matrices between symmetric and skew-symmetric.

    Convention: both matrices are (1 − β)(M + Mᵀ) + β(M − Mᵀ) − γ I with the same β and γ; ε is the step size.

    Reference: Erichson et al. 2021, arXiv:2006.12070
    """
    A = (1 - beta) * (U.a + U.a.T) + beta * (U.a - U.a.T) - gamma * I
    B = (1 - beta) * (U.w + U.w.T) + beta * (U.w - U.w.T) - gamma * I
    return h + epsilon * (A(h) + tanh(B(h) + W.h(x) + b.h))


@cell(start={"b.h": uniform(-0.01, 0.01)})
def exprnn(x, h, W, U, b):
    """Orthogonal recurrent network: the recurrent matrix is the exponential of a skew-symmetric one.

    Convention: modReLU, which shifts the absolute value by b and keeps the sign.

    Reference: Lezcano-Casado & Martínez-Rubio 2019, arXiv:1901.08428
    """
    z = expm(U.h - U.h.T)(h) + W.h(x)
    n = relu(abs(z) + b.h)
    return where(z > 0, n, where(z < 0, -n, 0))


@cell(given={"U.A": legendre(), "b.first": one_hot()}, start={"b.m": constant(0)})
def lmu(x, h, m, W, U, b, *, theta=16.0):
    """Legendre memory unit: a memory that holds the last θ steps of one signal as Legendre coefficients.

    Convention: the memory has as many units as the hidden state. Zero-order hold: a constant signal is the first
    coefficient, so m' = M (m − e₁ u) + e₁ u with M = exp(A / θ). W_u is summed over its rows.

    Reference: Voelker et al. 2019, Legendre memory units, NeurIPS 32
    """
    u = sum(W.u(x) + b.h * h + b.m * m)
    M = expm(U.A / theta)
    m = M(m - b.first * u) + b.first * u
    return tanh(W.h(x) + U.h(h) + U.m(m)), m
