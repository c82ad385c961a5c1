"""Eigenvalues of the one-step Jacobian ∂s_t/∂s_{t−1}, along a test sequence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from gatelab.analysis.steps import FixedStep
from gatelab.analysis.subject import Subject
from gatelab.tasks import Batch

STEPS, LARGE = 5, 512  # number of steps, and the size above which only two are computed: the cost is cubic
NEAR_THE_AXIS = 0.2  # real parts no larger than this share of the imaginary ones


@dataclass(frozen=True)
class Spectrum:
    """Eigenvalues of the one-step Jacobian, at a few steps of one example."""

    steps: np.ndarray  # (K,), counted from 0
    values: np.ndarray  # (K, n) complex
    epsilon: float | None  # the step size, for antisymmetric cells

    @property
    def radius(self) -> np.ndarray:
        """The spectral radius at each step."""
        largest: np.ndarray = np.abs(self.values).max(1)
        return largest

    @property
    def rates(self) -> np.ndarray | None:
        """(λ − 1) / ε: the eigenvalues of the differential equation that the cell discretizes."""
        return None if not self.epsilon else (self.values - 1) / self.epsilon

    @property
    def off_axis(self) -> float | None:
        """Real over imaginary parts of the rates (root mean squares); 0 if all are on the imaginary axis."""
        if self.rates is None:
            return None
        imaginary = float(np.sqrt(np.mean(self.rates.imag**2)))
        return float(np.sqrt(np.mean(self.rates.real**2))) / imaginary if imaginary else float("inf")


def spectrum(subject: Subject, example: Batch) -> Spectrum:
    """The spectrum of the first example of a batch, at evenly spaced steps."""
    history, _ = subject.history(example.x[:1], None if example.lengths is None else example.lengths[:1])
    end = len(history.x) if example.lengths is None else int(example.lengths[0])
    step = FixedStep(subject.parameters)
    n = sum(state.shape[1] for state in history.states[0])
    steps = np.unique(np.linspace(0, end - 1, STEPS if n <= LARGE else 2).round().astype(int))
    with torch.no_grad():
        values = [
            torch.linalg.eigvals(step.jacobian(history.x[t, 0], tuple(s[0] for s in history.states[t]))) for t in steps
        ]
    epsilon = subject.hyperparameters.get("epsilon") if subject.cell.is_antisymmetric else None
    return Spectrum(steps, torch.stack(values).numpy(), epsilon)
