"""Recurrent networks without gates, or with gates that see only the input."""

from gatelab.lang import cell, learned, relu, sigmoid, tanh


@cell
def rnn(x, h, W, U, b):
    """Plain (Elman) recurrent network.

    h' = tanh(W_h x + U_h h + b_h)

    Convention: as `torch.nn.RNN` with tanh; its two bias vectors only ever appear summed, so here they are one.

    Reference: Elman 1990
    """
    return tanh(W.h(x) + U.h(h) + b.h)


@cell
def indrnn(x, h, W, b):
    """Independently recurrent network: each unit sees only its own past.

    Convention: b.u is the recurrent weight of each unit, a vector and not a bias. The activation is a ReLU, as in the
    experiments of the paper.

    Reference: Li et al. 2018, arXiv:1803.04831

    Deviation: torchrecurrent has a tanh by default; `nonlinearity="relu"` gives this cell.
    """
    return relu(W.h(x) + b.u * h + b.h)


@cell
def fast_rnn(x, h, W, U, b, *, alpha=learned(-3.0), beta=learned(3.0)):
    """Recurrent network with a weighted residual connection, two learned numbers in all.

    Convention: σ(alpha) weighs the new content and σ(beta) the old state, so that both lie between 0 and 1. They begin
    near 0 and near 1, as in the code of the authors.

    Reference: Kusupati et al. 2018, arXiv:1901.02358

    Deviation: torchrecurrent begins with alpha = 3 and beta = −3, the other way round: new content instead of the old
    state.
    """
    n = tanh(W.h(x) + U.h(h) + b.h)
    return sigmoid(alpha) * n + sigmoid(beta) * h


@cell
def scrn(x, y, h, s, W, U, *, alpha=0.95):
    """Structurally constrained recurrent network: fast hidden units beside a slow context.

    Convention: y is the output; h and s are what recurs. alpha is the share of the context s that is kept, fixed. There
    are no biases. The softmax of the paper's output is left to the layer that reads y.

    Reference: Mikolov et al. 2014, arXiv:1412.7753

    Deviation: torchrecurrent feeds its output tanh(y) back in place of h, learns alpha, and has biases.
    """
    s = (1 - alpha) * W.s(x) + alpha * s
    h = sigmoid(U.p(s) + W.h(x) + U.h(h))
    y = U.y(h) + U.v(s)
    return y, h, s


@cell
def trnn(x, h, W, b):
    """Strongly typed recurrent network: no map is ever applied to the state.

    Convention: f near 1 keeps the state.

    Reference: Balduzzi & Ghifary 2016, arXiv:1602.02218

    Deviation: torchrecurrent adds a bias to z.
    """
    z = W.z(x)
    f = sigmoid(W.f(x) + b.f)
    return f * h + (1 - f) * z
