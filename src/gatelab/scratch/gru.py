"""The gated recurrent unit of Cho et al. 2014 (arXiv:1406.1078), forward and backward pass; z = 1 writes.

    z = σ(W_z x + U_z h + b_z)               the update gate: how much to write
    r = σ(W_r x + U_r h + b_r)               the reset gate: how much of the past the candidate sees
    n = tanh(W_n x + U_n (r ⊙ h) + b_n)      the candidate
    h' = (1 − z) ⊙ h + z ⊙ n                 the new state

Shapes: T steps, B sequences at once, D inputs, H units. W is (H, D), U is (H, H), b is (H,). A batch holds a sequence
per row, so "W x" is written `x @ W.T`. A dictionary holds the parameters under names such as "W.z".
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Parameters = dict[str, Array]
GATES = ("z", "r", "n")


def sigmoid(a: Array) -> Array:
    """The logistic function, without overflow."""
    return 0.5 * (1 + np.tanh(a / 2))  # = 1 / (1 + exp(-a))


def initialise(input_size: int, hidden_size: int, rng: np.random.Generator) -> Parameters:
    """Xavier-uniform weights, zero biases."""
    p = {}
    for gate in GATES:
        for name, width in (("W", input_size), ("U", hidden_size)):
            bound = np.sqrt(6 / (width + hidden_size))
            p[f"{name}.{gate}"] = rng.uniform(-bound, bound, (hidden_size, width))
        p[f"b.{gate}"] = np.zeros(hidden_size)
    return p


class Step(NamedTuple):
    """The activations of one step, saved for the backward pass."""

    x: Array  # (B, D)
    h: Array  # (B, H), the state before the step
    z: Array
    r: Array
    n: Array


def forward(p: Parameters, x: Array, h: Array) -> tuple[Array, list[Step]]:
    """From x (T, B, D) and the initial state h (B, H) to the final state (B, H) and the activations of every step."""
    steps = []
    for x_t in x:
        z = sigmoid(x_t @ p["W.z"].T + h @ p["U.z"].T + p["b.z"])
        r = sigmoid(x_t @ p["W.r"].T + h @ p["U.r"].T + p["b.r"])
        n = np.tanh(x_t @ p["W.n"].T + (r * h) @ p["U.n"].T + p["b.n"])
        steps.append(Step(x_t, h, z, r, n))
        h = (1 - z) * h + z * n
    return h, steps


def backward(p: Parameters, steps: list[Step], dh: Array) -> tuple[Parameters, Array, Array]:
    """Backpropagation through time: from dh = ∂L/∂h_T to the gradients of the parameters, of x and of the initial h.

    `da_z`, `da_r` and `da_n` are derivatives of L with respect to the pre-activations of σ and tanh. Parameters are
    shared by all steps, so their gradients are sums over time: hence `+=`. (A loss on earlier steps would add its
    ∂L/∂h_t to `dh` at the top of the loop.)

    A derivative is propagated through a matrix by its transpose: for a = U h, ∂L/∂h = Uᵀ ∂L/∂a. With one sequence per
    row that is `da @ U`, where the forward pass has `h @ U.T`.
    """
    grads = {name: np.zeros_like(p[name]) for name in (f"{kind}.{gate}" for kind in "WUb" for gate in GATES)}
    dx = np.zeros((len(steps), *steps[0].x.shape))
    for t in reversed(range(len(steps))):
        x, h, z, r, n = steps[t]

        # h' = (1 − z) ⊙ h + z ⊙ n
        dz = dh * (n - h)  # ∂h'/∂z = n − h
        dn = dh * z  # ∂h'/∂n = z
        dh_before = dh * (1 - z)  # ∂h'/∂h = 1 − z, the direct path; the gates add more below

        # n = tanh(a_n), a_n = W_n x + U_n (r ⊙ h) + b_n
        da_n = dn * (1 - n**2)  # tanh' = 1 − tanh²
        drh = da_n @ p["U.n"]  # ∂L/∂(r ⊙ h) = U_nᵀ da_n
        dr = drh * h  # ∂(r ⊙ h)/∂r = h
        dh_before += drh * r  # ∂(r ⊙ h)/∂h = r

        # z = σ(a_z), r = σ(a_r)
        da_z = dz * z * (1 - z)  # σ' = σ (1 − σ)
        da_r = dr * r * (1 - r)
        dh_before += da_z @ p["U.z"] + da_r @ p["U.r"]  # U_zᵀ da_z + U_rᵀ da_r

        # a = W x + U (operand of U) + b, for each of the three
        for gate, da, recurrent in (("z", da_z, h), ("r", da_r, h), ("n", da_n, r * h)):
            grads[f"W.{gate}"] += da.T @ x  # ∂L/∂W = Σ da xᵀ over the batch, and by += over time
            grads[f"U.{gate}"] += da.T @ recurrent  # ∂L/∂U = Σ da hᵀ, for n Σ da (r ⊙ h)ᵀ
            grads[f"b.{gate}"] += da.sum(axis=0)  # ∂L/∂b = Σ da
            dx[t] += da @ p[f"W.{gate}"]  # ∂L/∂x = Wᵀ da, from all three

        dh = dh_before  # continue with the previous step
    return grads, dx, dh
