"""Recurrent networks without gates, or with gates that see only the input."""

from gatelab.lang import cell, floor, learned, relu, sigmoid, tanh, where
from gatelab.lang.values import constant, periods, slower, uniform


@cell
def rnn(x, h, W, U, b):
    """Plain (Elman) recurrent network.

    Convention: as `torch.nn.RNN` with tanh; its two bias vectors only ever appear summed, so here they are one.

    Reference: Elman 1990
    """
    return tanh(W.h(x) + U.h(h) + b.h)


@cell(start={"b.u": uniform(0, 1)})
def indrnn(x, h, W, b):
    """Independently recurrent network: each unit sees only its own past.

    Convention: b.u is the recurrent weight of each unit, a vector and not a bias, and starts uniform in [0, 1). The
    activation is a ReLU, as in the experiments of the paper.

    Reference: Li et al. 2018, arXiv:1803.04831

    Deviation: torchrecurrent has a tanh by default; `nonlinearity="relu"` gives this cell.
    """
    return relu(W.h(x) + b.u * h + b.h)


@cell
def fast_rnn(x, h, W, U, b, *, alpha=learned(-3.0), beta=learned(3.0)):
    """Recurrent network with a weighted residual connection: two learned weights per layer.

    Convention: σ(alpha) weighs the new content and σ(beta) the old state, so that both lie between 0 and 1. They start
    near 0 and near 1, as in the authors' code.

    Reference: Kusupati et al. 2018, arXiv:1901.02358

    Deviation: torchrecurrent starts with alpha = 3 and beta = −3, so that new content dominates instead of the old
    state.
    """
    n = tanh(W.h(x) + U.h(h) + b.h)
    return sigmoid(alpha) * n + sigmoid(beta) * h


@cell
def scrn(x, y, h, s, W, U, *, alpha=0.95):
    """Structurally constrained recurrent network: fast hidden units beside a slow context.

    Convention: y is the output; h and s are the recurrent states. alpha is the share of the context s that is kept,
    fixed. There are no biases. The softmax of the paper's output is left to the layer that reads y.

    Reference: Mikolov et al. 2014, arXiv:1412.7753

    Deviation: torchrecurrent feeds its output tanh(y) back in place of h, learns alpha, and has biases.
    """
    s = (1 - alpha) * W.s(x) + alpha * s
    h = sigmoid(U.p(s) + W.h(x) + U.h(h))
    y = U.y(h) + U.v(s)
    return y, h, s


@cell
def trnn(x, h, W, b):
    """Strongly typed recurrent network: no matrix is applied to the state.

    Convention: f near 1 keeps the state.

    Reference: Balduzzi & Ghifary 2016, arXiv:1602.02218

    Deviation: torchrecurrent adds a bias to z.
    """
    z = W.z(x)
    f = sigmoid(W.f(x) + b.f)
    return f * h + (1 - f) * z


@cell(given={"b.period": periods(4), "U.slower": slower(4)})
def clockwork_rnn(x, h, t, W, U, b):
    """Clockwork network: four groups of units with periods 1, 2, 4 and 8; each reads itself and slower ones.

    Convention: a unit is updated in steps that are multiples of its period; the first step, t = 0, updates all units.

    Reference: Koutník et al. 2014, arXiv:1402.3511
    """
    n = tanh(W.h(x) + (U.slower * U.h)(h) + b.h)
    return where(b.period * floor(t / b.period) >= t, n, h)


@cell(start={"b.alpha": constant(2), "b.beta1": constant(0.5), "b.beta2": constant(0.5), "b.h": constant(0)})
def mi_rnn(x, h, W, U, b):
    """Multiplicative integration: the products with input and state are multiplied as well as added.

    Convention: the general form, with a learned factor for each term.

    Reference: Wu et al. 2016, arXiv:1606.06630
    """
    u, v = W.h(x), U.h(h)
    return tanh(b.alpha * u * v + b.beta1 * v + b.beta2 * u + b.h)


@cell(start={"b.t1": constant(-2), "b.t2": constant(-2), "b.t3": constant(-2)})
def rhn(x, s, W, U, b):
    """Recurrent highway network: three highway layers within a step.

    Convention: t1 near 1 replaces the state, and so do t2 and t3; the carry gate is 1 − t.

    Reference: Zilly et al. 2017, arXiv:1607.03474
    """
    h1 = tanh(W.h(x) + U.h1(s) + b.h1)
    t1 = sigmoid(W.t(x) + U.t1(s) + b.t1)
    s1 = t1 * h1 + (1 - t1) * s
    h2 = tanh(U.h2(s1) + b.h2)
    t2 = sigmoid(U.t2(s1) + b.t2)
    s2 = t2 * h2 + (1 - t2) * s1
    h3 = tanh(U.h3(s2) + b.h3)
    t3 = sigmoid(U.t3(s2) + b.t3)
    return t3 * h3 + (1 - t3) * s2
