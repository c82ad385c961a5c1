"""Ridge regression whose penalty is chosen by leave-one-out errors: what simple peers of a network are made of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

PENALTIES = np.logspace(-3, 5, 17)


@dataclass(frozen=True)
class Ridge:
    """A fitted regression."""

    mean: np.ndarray  # (P,), of the features
    deviation: np.ndarray
    weights: np.ndarray  # (P, K), of standardized features
    bias: np.ndarray  # (K,)
    penalty: float

    def predict(self, X: np.ndarray) -> np.ndarray:
        """(N, P) → (N, K)."""
        answer: np.ndarray = (X - self.mean) / self.deviation @ self.weights + self.bias
        return answer


def fit(X: np.ndarray, Y: np.ndarray) -> Ridge:
    """Fit on features (N, P) and targets (N, K). One penalty for all targets has the least leave-one-out errors."""
    X, Y, N = X.astype(np.float64), Y.astype(np.float64), len(X)
    mean, deviation, bias = X.mean(0), X.std(0), Y.mean(0)
    deviation = np.where(deviation > 1e-9 * np.abs(X).max(0), deviation, 1.0)
    Z, centred = (X - mean) / deviation, Y - bias
    is_wide = X.shape[1] > N
    sizes, vectors = np.linalg.eigh(Z @ Z.T if is_wide else Z.T @ Z)
    sizes = np.maximum(sizes, 0)
    scores = vectors * np.sqrt(sizes) if is_wide else Z @ vectors  # (N, R): the principal components of Z
    along, squares = scores.T @ centred, np.square(scores)
    errors = []
    for penalty in PENALTIES:
        leverage = 1 / N + squares @ (1 / (sizes + penalty))
        left = centred - scores @ (along / (sizes + penalty)[:, None])
        errors.append(np.square(left / np.maximum(1 - leverage, 1e-9)[:, None]).mean())
    penalty = float(PENALTIES[int(np.argmin(errors))])
    if is_wide:
        weights = Z.T @ (vectors @ (vectors.T @ centred / (sizes + penalty)[:, None]))
    else:
        weights = vectors @ (along / (sizes + penalty)[:, None])
    return Ridge(mean, deviation, weights, bias, penalty)
