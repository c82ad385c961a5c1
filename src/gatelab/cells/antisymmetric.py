"""Antisymmetric cells: Euler steps of an ordinary differential equation whose Jacobian has eigenvalues near the
imaginary axis, so that signals neither explode nor vanish. γ is a diffusion term for stability, ε the step size.
"""

from gatelab.lang import I, cell, learned, sigmoid, tanh


@cell
def antisymmetric_rnn(x, h, W, U, b, *, gamma=0.01, epsilon=0.1):
    """Antisymmetric recurrent network.

    Convention: γ and ε are fixed numbers unless `learnable_gamma` or `learnable_epsilon` is set.

    Reference: Chang et al. 2019, arXiv:1902.09689
    """
    A = U.h - U.h.T - gamma * I
    return h + epsilon * tanh(A(h) + W.h(x) + b.h)


@cell
def gated_antisymmetric_rnn(x, h, W, U, b, *, gamma=0.01, epsilon=0.1):
    """Antisymmetric recurrent network with an input gate, both using the same recurrent map.

    Convention: z near 1 adds the new content; the old state is always kept in full. γ and ε are fixed numbers unless
    `learnable_gamma` or `learnable_epsilon` is set.

    Reference: Chang et al. 2019, arXiv:1902.09689
    """
    A = U.h - U.h.T - gamma * I
    z = sigmoid(A(h) + W.z(x) + b.z)
    return h + epsilon * z * tanh(A(h) + W.h(x) + b.h)


@cell
def agru(x, h, W, U, b, *, gamma=0.01, epsilon=learned(1.0)):
    """Antisymmetric GRU: gates of a GRU, candidate through an antisymmetric map, and a state that is only added to.

    Convention: reset before the product; z near 1 adds the candidate. γ is fixed and ε learned, one number per layer
    and direction, unless `learnable_gamma` or `learnable_epsilon` says otherwise.

    Reference: after Chang et al. 2019, arXiv:1902.09689
    """
    z = sigmoid(W.z(x) + U.z(h) + b.z)
    r = sigmoid(W.r(x) + U.r(h) + b.r)
    n = tanh(W.n(x) + (U.n - U.n.T - gamma * I)(r * h) + b.n)
    return h + epsilon * (z * n)
