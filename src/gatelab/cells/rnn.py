"""The plain recurrent network, without gates."""

from gatelab.lang import cell, tanh


@cell
def rnn(x, h, W, U, b):
    """Plain (Elman) recurrent network.

    h' = tanh(W_h x + U_h h + b_h)

    Convention: as `torch.nn.RNN` with tanh; its two bias vectors only ever appear summed, so here they are one.

    Reference: Elman 1990
    """
    return tanh(W.h(x) + U.h(h) + b.h)
