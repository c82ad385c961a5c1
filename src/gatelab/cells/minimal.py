"""Minimal and additive gated cells: fewer gates, shared maps, or content that no recurrent map touches."""

from gatelab.lang import cell, clamp, learned, relu, sigmoid, softplus, tanh


@cell
def ran(x, h, c, W, U, b):
    """Recurrent additive network: the cell is a weighted sum of inputs.

    Convention: i near 1 adds the content, f near 1 keeps the cell. The output is squashed; the paper also tries it
    without.

    Reference: Lee et al. 2017, arXiv:1705.07393
    """
    i = sigmoid(W.i(x) + U.i(h) + b.i)
    f = sigmoid(W.f(x) + U.f(h) + b.f)
    c = i * W.c(x) + f * c
    return tanh(c), c


@cell
def cfn(x, h, W, U, b):
    """Chaos-free network: without input the state decays to zero.

    Convention: theta near 1 keeps the state, squashed once more each step; eta near 1 adds the content, which has no
    bias.

    Reference: Laurent & von Brecht 2016, arXiv:1612.06212

    Deviation: torchrecurrent adds a bias to the content.
    """
    theta = sigmoid(W.theta(x) + U.theta(h) + b.theta)
    eta = sigmoid(W.eta(x) + U.eta(h) + b.eta)
    return theta * tanh(h) + eta * tanh(W.h(x))


@cell
def atr(x, h, W, U):
    """Addition-subtraction twin-gated network: both gates from the same two products.

    Convention: i near 1 adds the content, f near 1 keeps the state. No biases.

    Reference: Zhang et al. 2018, arXiv:1810.12546

    Deviation: torchrecurrent adds a bias to p and to q; `bias=False, recurrent_bias=False` gives this cell.
    """
    p = W.h(x)
    q = U.h(h)
    i = sigmoid(p + q)
    f = sigmoid(p - q)
    return i * p + f * h


@cell
def star(x, h, W, U, b):
    """Stackable recurrent cell: designed for many layers.

    Convention: k near 1 replaces the state; the sum is squashed once more.

    Reference: Turkoglu et al. 2019, arXiv:1911.11033
    """
    z = tanh(W.z(x) + b.z)
    k = sigmoid(W.k(x) + U.k(h) + b.k)
    return tanh((1 - k) * h + k * z)


@cell
def sgu(x, h, W, U, b, *, slope=0.2):
    """Simple gated unit: one gate, and a candidate that scales the state by a function of input and state.

    Convention: z near 1 replaces the state; it is a hard sigmoid, whose slope is 0.2 in Theano, Keras and Chainer and
    1/6 in PyTorch.

    Reference: Gao & Glowacka 2016, arXiv:1604.02910

    Deviation: torchrecurrent has the slope 1/6, and a bias inside g, which `recurrent_bias=False` removes.
    """
    g = tanh(U.g((W.g(x) + b.g) * h))
    z = clamp(slope * (W.z(x) + U.z(h) + b.z) + 0.5, 0, 1)
    return (1 - z) * h + z * softplus(g * h)


@cell
def dsgu(x, h, W, U, b, *, slope=0.2):
    """Deep simple gated unit: a simple gated unit with one more map in its candidate.

    Convention: z near 1 replaces the state; it is a hard sigmoid, whose slope is 0.2 in Theano, Keras and Chainer and
    1/6 in PyTorch. The candidate lies between 0 and 1.

    Reference: Gao & Glowacka 2016, arXiv:1604.02910

    Deviation: torchrecurrent has the slope 1/6, and a bias inside g, which `recurrent_bias=False` removes.
    """
    g = tanh(U.g((W.g(x) + b.g) * h))
    z = clamp(slope * (W.z(x) + U.z(h) + b.z) + 0.5, 0, 1)
    return (1 - z) * h + z * sigmoid(U.o(g * h))


@cell
def ugrnn(x, h, W, U, b):
    """Update gate network: a plain recurrent network with one gate.

    Convention: g near 1 keeps the state; the paper tunes the initial value of its bias.

    Reference: Collins et al. 2016, arXiv:1611.09913
    """
    c = tanh(W.c(x) + U.c(h) + b.c)
    g = sigmoid(W.g(x) + U.g(h) + b.g)
    return g * h + (1 - g) * c


@cell
def intersection_rnn(x, y, h, W, U, b):
    """Intersection network: one gate through time, one through depth.

    Convention: gh near 1 keeps the state, gy near 1 lets the input pass to the output y, which does not recur. x itself
    passes, so that it needs as many features as there are units.

    Reference: Collins et al. 2016, arXiv:1611.09913
    """
    yin = relu(W.yin(x) + U.yin(h) + b.yin)
    hin = tanh(W.hin(x) + U.hin(h) + b.hin)
    gy = sigmoid(W.gy(x) + U.gy(h) + b.gy)
    gh = sigmoid(W.gh(x) + U.gh(h) + b.gh)
    y = gy * x + (1 - gy) * yin
    return y, gh * h + (1 - gh) * hin


@cell
def minimal_rnn(x, h, W, U, b):
    """Minimal recurrent network: the input is mapped once, and one gate mixes it into the state.

    Convention: u near 1 keeps the state.

    Reference: Chen 2017, arXiv:1711.06788
    """
    z = tanh(W.z(x) + b.z)
    u = sigmoid(U.h(h) + U.z(z) + b.u)
    return u * h + (1 - u) * z


@cell
def sgrn(x, h, W, U, b):
    """Simple gated recurrent network: one map of the input serves the gate and the content.

    Convention: f near 1 keeps the state; the sum is squashed once more. The bias belongs to the gate alone.

    Reference: Zu et al. 2020, A simple gated recurrent network for detection of power quality disturbances,
    doi:10.1049/gtd2.12056

    Deviation: torchrecurrent has a second bias, in gate and content; `bias=False` gives this cell.
    """
    f = sigmoid(W.h(x) + U.h(h) + b.f)
    return tanh((1 - f) * W.h(x) + f * h)


@cell
def br(x, h, W, b):
    """Bistable recurrent cell: each unit sees only its own past, and can latch.

    Convention: c near 1 keeps the state; a unit is bistable where a exceeds 1. b.wa and b.wc are recurrent weights,
    vectors and not biases. Biases in both gates and none in the candidate, as in the code of the authors.

    Reference: Vecoven et al. 2021, doi:10.1371/journal.pone.0252676

    Deviation: torchrecurrent adds a bias to the candidate.
    """
    a = 1 + tanh(W.a(x) + b.wa * h + b.a)
    c = sigmoid(W.c(x) + b.wc * h + b.c)
    return c * h + (1 - c) * tanh(W.h(x) + a * h)


@cell
def nbr(x, h, W, U, b):
    """Neuromodulated bistable recurrent cell: the bistability of a unit depends on all others.

    Convention: c near 1 keeps the state; a unit is bistable where a exceeds 1. Biases in both gates and none in the
    candidate, as in the code of the authors.

    Reference: Vecoven et al. 2021, doi:10.1371/journal.pone.0252676

    Deviation: torchrecurrent adds a bias to the candidate.
    """
    a = 1 + tanh(W.a(x) + U.a(h) + b.a)
    c = sigmoid(W.c(x) + U.c(h) + b.c)
    return c * h + (1 - c) * tanh(W.h(x) + a * h)


@cell
def fast_grnn(x, h, W, U, b, *, zeta=learned(1.0), nu=learned(-4.0)):
    """Gated network whose gate and candidate share their maps, for devices with kilobytes of memory.

    Convention: z near 1 keeps the state. σ(zeta) and σ(nu) are the weights of the new content, learned; they start as
    in the authors' code.

    Reference: Kusupati et al. 2018, arXiv:1901.02358

    Deviation: the gate of torchrecurrent is a tanh by default; `nonlinearity="sigmoid"` gives this cell. It starts with
    zeta = 3 and nu = −3.
    """
    z = sigmoid(W.h(x) + U.h(h) + b.z)
    n = tanh(W.h(x) + U.h(h) + b.h)
    return (sigmoid(zeta) * (1 - z) + sigmoid(nu)) * n + z * h
