"""Long short-term memory and its relatives."""

from gatelab.lang import (
    bernoulli,
    cell,
    exp,
    floor,
    layer_norm,
    maximum,
    prev,
    relu,
    sigmoid,
    softplus,
    sum,  # noqa: A004 - the usual name
    tanh,
    where,
)
from gatelab.lang.values import constant, evenly, exp_uniform, first, lower_triangular, uniform


@cell
def lstm(x, h, c, W, U, b):
    """Long short-term memory with a forget gate.

    Convention: as `torch.nn.LSTM`, without peepholes; its two bias vectors only ever appear summed, so here they
    are one.

    Reference: Hochreiter & Schmidhuber 1997; Gers et al. 2000
    """
    i = sigmoid(W.i(x) + U.i(h) + b.i)
    f = sigmoid(W.f(x) + U.f(h) + b.f)
    g = tanh(W.g(x) + U.g(h) + b.g)
    o = sigmoid(W.o(x) + U.o(h) + b.o)
    c = f * c + i * g
    return o * tanh(c), c


@cell
def original_lstm(x, h, c, W, U, b):
    """Long short-term memory as first published, without a forget gate.

    Convention: i near 1 adds the candidate; the old cell is always kept in full. The logistic functions of the paper,
    with ranges [−2, 2] for the candidate and [−1, 1] for the cell, are written as tanh of half the argument.

    Reference: Hochreiter & Schmidhuber 1997, doi:10.1162/neco.1997.9.8.1735

    Deviation: torchrecurrent has tanh of the whole argument. That is the same network with the cell, and the weights
    and bias of g, halved.
    """
    i = sigmoid(W.i(x) + U.i(h) + b.i)
    g = 2 * tanh((W.g(x) + U.g(h) + b.g) / 2)
    o = sigmoid(W.o(x) + U.o(h) + b.o)
    c = c + i * g
    return o * tanh(c / 2), c


@cell
def peephole_lstm(x, h, c, W, U, b):
    """Long short-term memory whose gates see the cell.

    Convention: the peepholes b.ci, b.cf and b.co are weights of single units, vectors and not biases; the output gate
    sees the new cell. The first papers have no tanh of the cell before the output gate; Graves and most later papers
    do.

    Reference: Gers et al. 2002, Learning Precise Timing with LSTM Recurrent Networks, JMLR 3; Graves 2013,
    arXiv:1308.0850
    """
    i = sigmoid(W.i(x) + U.i(h) + b.ci * c + b.i)
    f = sigmoid(W.f(x) + U.f(h) + b.cf * c + b.f)
    g = tanh(W.g(x) + U.g(h) + b.g)
    c = f * c + i * g
    o = sigmoid(W.o(x) + U.o(h) + b.co * c + b.o)
    return o * tanh(c), c


@cell
def janet(x, h, W, U, b, *, beta=1.0):
    """Just another network: an LSTM with nothing but the forget gate.

    Convention: f near 1 keeps the state. beta shifts the weight of the new content, fixed; with beta = 0 the two
    weights add up to 1. Cell and output are the same, so there is one state. Made for chrono initialization.

    Reference: van der Westhuizen & Lasenby 2018, arXiv:1804.04849

    Deviation: torchrecurrent learns beta, and has two states that may start from different values.
    """
    s = W.f(x) + U.f(h) + b.f
    f = sigmoid(s)
    n = tanh(W.n(x) + U.n(h) + b.n)
    return f * h + (1 - sigmoid(s - beta)) * n


@cell
def multiplicative_lstm(x, h, c, W, U, b):
    """Long short-term memory whose gates see a product of the input and the state.

    Convention: gates as in an LSTM, with m in place of h; m has no biases. The first code of the authors leaves the
    candidate linear and takes the tanh after the output gate, the later code is as here.

    Reference: Krause et al. 2016, arXiv:1609.07959

    Deviation: torchrecurrent adds a bias to both factors of m.
    """
    m = W.m(x) * U.m(h)
    i = sigmoid(W.i(x) + U.i(m) + b.i)
    f = sigmoid(W.f(x) + U.f(m) + b.f)
    g = tanh(W.g(x) + U.g(m) + b.g)
    o = sigmoid(W.o(x) + U.o(m) + b.o)
    c = f * c + i * g
    return o * tanh(c), c


@cell
def nas(x, h, c, W, U):
    """The cell that neural architecture search found on the Penn Treebank.

    Convention: the gates are the eight leaves of a tree, numbered from left to right; the paper does not name them. No
    biases, which is the default of TensorFlow's `NASCell`.

    Reference: Zoph & Le 2016, arXiv:1611.01578

    Deviation: in g3 torchrecurrent adds the two products, and it has biases.
    """
    g0 = sigmoid(W.g0(x) + U.g0(h))
    g1 = relu(W.g1(x) + U.g1(h))
    g2 = sigmoid(W.g2(x) + U.g2(h))
    g3 = relu(W.g3(x) * U.g3(h))
    g4 = tanh(W.g4(x) + U.g4(h))
    g5 = sigmoid(W.g5(x) + U.g5(h))
    g6 = tanh(W.g6(x) + U.g6(h))
    g7 = sigmoid(W.g7(x) + U.g7(h))
    c = tanh(tanh(g0 * g1) + c) * tanh(g2 + g3)
    return tanh(c * tanh(tanh(g4 * g5) + sigmoid(g6 + g7))), c


@cell
def res_lstm(x, h, c, W, U, b):
    """Residual LSTM: the output gate also lets the input of the layer pass.

    Convention: the peepholes b.ci, b.cf and b.co are weights of single units, vectors and not biases. U.p is the output
    projection, W.r the shortcut, which is the identity in the paper where input and output have the same size.

    Reference: Kim et al. 2017, arXiv:1701.03360
    """
    i = sigmoid(W.i(x) + U.i(h) + b.ci * c + b.i)
    f = sigmoid(W.f(x) + U.f(h) + b.cf * c + b.f)
    g = tanh(W.g(x) + U.g(h) + b.g)
    c = f * c + i * g
    o = sigmoid(W.o(x) + U.o(h) + b.co * c + b.o)
    return o * (U.p(tanh(c)) + W.r(x)), c


@cell
def tlstm(x, h, c, W, b):
    """Strongly typed LSTM: maps read the current and the previous input, never a state.

    Convention: f near 1 keeps the cell; o lies between −1 and 1. The output h does not recur. W.vz, W.vf and W.vo are
    the maps V of the paper.

    Reference: Balduzzi & Ghifary 2016, arXiv:1602.02218
    """
    z = prev(W.vz(x)) + W.z(x) + b.z
    f = sigmoid(prev(W.vf(x)) + W.f(x) + b.f)
    o = tanh(prev(W.vo(x)) + W.o(x) + b.o)
    c = f * c + (1 - f) * z
    return c * o, c


@cell
def mclstm(x, h, v, c, W, U, b):
    """Long short-term memory with a memory controller: gates read a control vector in place of the output.

    Convention: gates as in an LSTM, with the control vector v in place of h, and a gate m of its own for v. The output
    h does not recur.

    Reference: Ben-Ari & Shwartz-Ziv 2017, Sequence Modeling Using a Memory Controller Extension for LSTM, Time Series
    Workshop at NIPS 2017
    """
    f = sigmoid(W.f(x) + U.f(v) + b.f)
    i = sigmoid(W.i(x) + U.i(v) + b.i)
    o = sigmoid(W.o(x) + U.o(v) + b.o)
    m = sigmoid(W.m(x) + U.m(v) + b.m)
    n = tanh(W.n(x) + U.n(v) + b.n)
    c = f * c + i * n
    return o * tanh(c), m * tanh(c), c


@cell
def wmclstm(x, h, c, W, U, b):
    """Long short-term memory with working memory connections: gates see a squashed map of the cell.

    Convention: gates as in an LSTM; the output gate sees the new cell.

    Reference: Landi et al. 2021, arXiv:2109.00020

    Deviation: torchrecurrent adds a bias inside each of the three new tanh; `memory_bias=False` gives this cell.
    """
    i = sigmoid(W.i(x) + U.i(h) + tanh(U.ci(c)) + b.i)
    f = sigmoid(W.f(x) + U.f(h) + tanh(U.cf(c)) + b.f)
    g = tanh(W.g(x) + U.g(h) + b.g)
    c = f * c + i * g
    o = sigmoid(W.o(x) + U.o(h) + tanh(U.co(c)) + b.o)
    return o * tanh(c), c


@cell
def cifg_lstm(x, h, c, W, U, b):
    """LSTM with coupled input and forget gate: new content replaces old content.

    Convention: i near 1 replaces the memory; no peepholes.

    Reference: Greff et al. 2017, arXiv:1503.04069
    """
    z = tanh(W.z(x) + U.z(h) + b.z)
    i = sigmoid(W.i(x) + U.i(h) + b.i)
    o = sigmoid(W.o(x) + U.o(h) + b.o)
    c = (1 - i) * c + i * z
    return o * tanh(c), c


@cell(given={"b.part": first(0.5)}, start={"b.f": constant(1)})
def lstmp(x, r, c, W, U, b):
    """LSTM with a recurrent projection: the output is a linear map of the memory to half as many units.

    Convention: the other half of the output is 0, so that a layer of H units has a projection of H / 2, as
    `torch.nn.LSTM` with proj_size. Weights that write or read the other half have no effect, but are counted. No
    peepholes.

    Reference: Sak et al. 2014, arXiv:1402.1128
    """
    i = sigmoid(W.i(x) + U.i(r) + b.i)
    f = sigmoid(W.f(x) + U.f(r) + b.f)
    g = tanh(W.c(x) + U.c(r) + b.c)
    o = sigmoid(W.o(x) + U.o(r) + b.o)
    c = f * c + i * g
    return b.part * U.p(o * tanh(c)), c


@cell(
    start={f"b.alpha{k}_{gate}": constant(1) for gate in "fiog" for k in (1, 2)}
    | {f"b.{gate}": constant(0) for gate in "fiog"} | {"b.alpha3": constant(1), "b.beta3": constant(0)}
)  # fmt: skip
def layer_norm_lstm(x, h, c, W, U, b):
    """LSTM with layer normalization of both products of each gate, and of the memory before the output.

    Convention: each gate is normalized on its own (the paper normalizes the four together), with ε = 1e-5; gains start
    from 1.

    Reference: Ba et al. 2016, arXiv:1607.06450
    """
    f = sigmoid(b.alpha1_f * layer_norm(U.f(h)) + b.alpha2_f * layer_norm(W.f(x)) + b.f)
    i = sigmoid(b.alpha1_i * layer_norm(U.i(h)) + b.alpha2_i * layer_norm(W.i(x)) + b.i)
    o = sigmoid(b.alpha1_o * layer_norm(U.o(h)) + b.alpha2_o * layer_norm(W.o(x)) + b.o)
    g = tanh(b.alpha1_g * layer_norm(U.g(h)) + b.alpha2_g * layer_norm(W.g(x)) + b.g)
    c = f * c + i * g
    return o * tanh(b.alpha3 * layer_norm(c) + b.beta3), c


@cell(start={"b.f": constant(1), "b.n_f": constant(1)})
def nested_lstm(x, h, c, n, W, U, b):
    """LSTM whose memory is the output of an inner LSTM.

    Convention: the inner one reads i ⊙ g as its input and f ⊙ c as its hidden state; n is its memory.

    Reference: Moniz & Krueger 2017, arXiv:1801.10308
    """
    i = sigmoid(W.i(x) + U.i(h) + b.i)
    f = sigmoid(W.f(x) + U.f(h) + b.f)
    g = tanh(W.c(x) + U.c(h) + b.c)
    o = sigmoid(W.o(x) + U.o(h) + b.o)
    u, v = i * g, f * c
    n_i = sigmoid(U.x_i(u) + U.h_i(v) + b.n_i)
    n_f = sigmoid(U.x_f(u) + U.h_f(v) + b.n_f)
    n_g = tanh(U.x_c(u) + U.h_c(v) + b.n_c)
    n_o = sigmoid(U.x_o(u) + U.h_o(v) + b.n_o)
    n = n_f * n + n_i * n_g
    c = n_o * tanh(n)
    return o * tanh(c), c, n


def _cumax(total, v):
    return total(exp(v) / sum(exp(v)))


@cell(given={"U.sum": lower_triangular()})
def on_lstm(x, h, c, W, U, b):
    """LSTM with ordered neurons: master gates that open up to a position split the units into a hierarchy.

    Convention: cumax is the cumulative sum of a softmax over the units; chunks of one unit.

    Reference: Shen et al. 2019, arXiv:1810.09536
    """
    f = sigmoid(W.f(x) + U.f(h) + b.f)
    i = sigmoid(W.i(x) + U.i(h) + b.i)
    o = sigmoid(W.o(x) + U.o(h) + b.o)
    g = tanh(W.c(x) + U.c(h) + b.c)
    master_f = _cumax(U.sum, W.f_m(x) + U.f_m(h) + b.f_m)
    master_i = 1 - _cumax(U.sum, W.i_m(x) + U.i_m(h) + b.i_m)
    both = master_f * master_i
    c = (f * both + master_f - both) * c + (i * both + master_i - both) * g
    return o * tanh(c), c


@cell(start={"b.tau": exp_uniform(1, 3), "b.s": uniform(0, 2.7), "b.f": constant(1)})
def phased_lstm(x, h, c, t, W, U, b, *, r_on=0.05, alpha=0.001):
    """LSTM with a time gate: each unit is updated during a short phase of its own period.

    Convention: τ is the period in steps, s the shift, r_on the open share of a period, α the leak in the closed phase;
    no peepholes.

    Reference: Neil et al. 2016, arXiv:1610.09513
    """
    u = (t - b.s) / b.tau
    phase = u - floor(u)
    k = where(phase < r_on / 2, 2 * phase / r_on, where(phase < r_on, 2 - 2 * phase / r_on, alpha * phase))
    i = sigmoid(W.i(x) + U.i(h) + b.i)
    f = sigmoid(W.f(x) + U.f(h) + b.f)
    g = tanh(W.c(x) + U.c(h) + b.c)
    o = sigmoid(W.o(x) + U.o(h) + b.o)
    n = f * c + i * g
    return k * (o * tanh(n)) + (1 - k) * h, k * n + (1 - k) * c


@cell
def mogrifier_lstm(x, h, c, W, U, b):
    """LSTM whose input and state gate each other before the step.

    Convention: two rounds. The input is mapped to H values first, so that it need not have as many; with W_x = I this
    is the paper's form.

    Reference: Melis et al. 2020, arXiv:1909.01792
    """
    u = 2 * sigmoid(U.q(h)) * W.x(x)
    v = 2 * sigmoid(U.r(u)) * h
    f = sigmoid(U.x_f(u) + U.h_f(v) + b.f)
    i = sigmoid(U.x_i(u) + U.h_i(v) + b.i)
    j = tanh(U.x_j(u) + U.h_j(v) + b.j)
    o = sigmoid(U.x_o(u) + U.h_o(v) + b.o)
    c = f * c + i * j
    return o * tanh(c), c


@cell(start={"b.f": evenly(5, -7)})
def slstm(x, h, c, n, m, W, U, b):
    """sLSTM of xLSTM: exponential input gate, a normalizer, and a stabilizer for the exponents.

    Convention: sigmoid forget gate; m is the common exponent of c and n; one head with full recurrent maps.

    Reference: Beck et al. 2024, arXiv:2405.04517
    """
    z = tanh(W.z(x) + U.z(h) + b.z)
    o = sigmoid(W.o(x) + U.o(h) + b.o)
    log_i = W.i(x) + U.i(h) + b.i
    log_f = -softplus(-(W.f(x) + U.f(h) + b.f))
    new_m = maximum(log_f + m, log_i)
    i = exp(log_i - new_m)
    f = exp(log_f + m - new_m)
    c = f * c + i * z
    n = f * n + i
    return o * c / n, c, n, new_m


@cell
def zoneout_lstm(x, h, c, W, U, b, *, zoneout_c=0.5, zoneout_h=0.05):
    """LSTM with zoneout: during training, random units keep their old state.

    Convention: zoneout_c and zoneout_h are the probabilities that a unit of c and of h keeps its old value in a
    training step; in evaluation mode the two cases are averaged with these weights. h is computed from the cell before
    zoneout.

    Reference: Krueger et al. 2017, arXiv:1606.01305
    """
    i = sigmoid(W.i(x) + U.i(h) + b.i)
    f = sigmoid(W.f(x) + U.f(h) + b.f)
    g = tanh(W.g(x) + U.g(h) + b.g)
    o = sigmoid(W.o(x) + U.o(h) + b.o)
    d_c = bernoulli(zoneout_c)
    d_h = bernoulli(zoneout_h)
    n = f * c + i * g
    return d_h * h + (1 - d_h) * (o * tanh(n)), d_c * c + (1 - d_c) * n
