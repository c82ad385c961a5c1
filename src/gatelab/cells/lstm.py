"""Long short-term memory."""

from gatelab.lang import cell, sigmoid, tanh


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
