"""Steps of differential equations of oscillators and of multiple time scales; dt is the size of a step."""

from gatelab.lang import cell, sigmoid, tanh
from gatelab.lang.values import constant, uniform


@cell
def cornn(x, y, z, W, U, b, *, dt=0.1, gamma=1.0, epsilon=1.0):
    """Coupled oscillatory recurrent network: y are positions, z velocities.

    Convention: dt, the stiffness gamma and the damping epsilon are fixed; the paper tunes them for each task. The
    damping acts on the old velocity; the paper also allows the new one, which needs a division.

    Reference: Rusch & Mishra 2020, arXiv:2010.00951
    """
    z = z + dt * (tanh(W.z(x) + U.y(y) + U.z(z) + b.z) - gamma * y - epsilon * z)
    return y + dt * z, z


@cell(start={"b.w": uniform(0, 1), "b.c": uniform(-0.1, 0.1), "b.y": constant(0)})
def unicornn(x, y, z, W, b, *, dt=0.1, alpha=1.0):
    """Undamped independent controlled oscillators: each unit sees only its own past.

    Convention: b.w are recurrent weights and σ(b.c) scales the step of each unit, vectors and not biases. dt and alpha
    are fixed; the paper tunes them for each task.

    Reference: Rusch & Mishra 2021, arXiv:2103.05487
    """
    z = z - dt * sigmoid(b.c) * (tanh(W.y(x) + b.w * y + b.y) + alpha * y)
    return y + dt * sigmoid(b.c) * z, z


@cell
def lem(x, y, z, W, U, b, *, dt=1.0):
    """Long expressive memory: two states, each with learned time steps.

    Convention: t1 and t2 near 1 replace the share dt of z and y; dt is fixed. y is computed from the new z.

    Reference: Rusch et al. 2021, arXiv:2110.04744

    Deviation: torchrecurrent computes y from the old z.
    """
    t1 = sigmoid(W.t1(x) + U.t1(y) + b.t1)
    t2 = sigmoid(W.t2(x) + U.t2(y) + b.t2)
    z = (1 - dt * t1) * z + dt * t1 * tanh(W.z(x) + U.z(y) + b.z)
    y = (1 - dt * t2) * y + dt * t2 * tanh(W.y(x) + U.y(z) + b.y)
    return y, z
