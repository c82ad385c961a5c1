"""Long short-term memory and its relatives."""

from gatelab.lang import cell, relu, sigmoid, tanh


@cell
def lstm(x, h, c, W, U, b):
    """Long short-term memory with a forget gate.

    i = σ(W_i x + U_i h + b_i)
    f = σ(W_f x + U_f h + b_f)
    g = tanh(W_g x + U_g h + b_g)
    o = σ(W_o x + U_o h + b_o)
    c' = f ⊙ c + i ⊙ g
    h' = o ⊙ tanh(c')

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

    Convention: i near 1 adds the candidate; nothing takes the old cell away. The logistic functions of the paper with
    ranges [−2, 2] for the candidate and [−1, 1] for the cell are these tanh of half the argument.

    Reference: Hochreiter & Schmidhuber 1997, doi:10.1162/neco.1997.9.8.1735

    Deviation: torchrecurrent squashes with plain tanh. That is the same network with half the cell and with half the
    weights and bias of g.
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
    sees the new cell. The first papers do not squash the cell on its way out; Graves and most since do.

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

    Convention: f near 1 keeps the state. beta shifts the weight of the new content, fixed; with beta = 0 both weights
    add up to 1. Cell and output are the same, so there is one state. Made for chrono initialization.

    Reference: van der Westhuizen & Lasenby 2018, arXiv:1804.04849

    Deviation: torchrecurrent learns beta, and has two states that may begin with different values.
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

    Convention: a tree of eight leaves, here numbered from left to right; the paper gives them no names and no purpose.
    No biases, as is the default of TensorFlow's cell, which is by the authors.

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
    projection, W.r the shortcut, which the paper leaves out where input and output have the same size.

    Reference: Kim et al. 2017, arXiv:1701.03360
    """
    i = sigmoid(W.i(x) + U.i(h) + b.ci * c + b.i)
    f = sigmoid(W.f(x) + U.f(h) + b.cf * c + b.f)
    g = tanh(W.g(x) + U.g(h) + b.g)
    c = f * c + i * g
    o = sigmoid(W.o(x) + U.o(h) + b.co * c + b.o)
    return o * (U.p(tanh(c)) + W.r(x)), c  # later: x in place of W.r(x), where D = H


@cell
def tlstm(x, h, c, vz, vf, vo, W, b):
    """Strongly typed LSTM: maps see this input and the one before, never a state.

    Convention: f near 1 keeps the cell; o lies between −1 and 1. The output h does not recur. The states vz, vf and vo
    are what the three maps V of the paper make of the previous input.

    Reference: Balduzzi & Ghifary 2016, arXiv:1602.02218
    """
    # later: W.vz(prev(x)) in place of the state vz, likewise vf and vo
    z = vz + W.z(x) + b.z
    f = sigmoid(vf + W.f(x) + b.f)
    o = tanh(vo + W.o(x) + b.o)
    c = f * c + (1 - f) * z
    return c * o, c, W.vz(x), W.vf(x), W.vo(x)


@cell
def mclstm(x, h, v, c, W, U, b):
    """Long short-term memory with a memory controller: what gates see is not the output.

    Convention: gates as in an LSTM, with the control vector v in place of h, and a gate m of its own for v. The output
    h does not recur.

    Reference: Sequence Modeling Using a Memory Controller Extension for LSTM, Time Series Workshop at NIPS 2017
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
