"""What was seen, in sentences that follow from the numbers."""

from __future__ import annotations

import math

import numpy as np

from gatelab.analysis import Inspection
from gatelab.analysis.eigenvalues import NEAR_THE_AXIS
from gatelab.analysis.gates import NEAR
from gatelab.report.inspection.memory import LEVELS
from gatelab.report.wording import counted


def gates(found: Inspection) -> list[str]:
    """Which gate is most open and most decided; which units are dead."""
    H, examples = found.subject.recurrent.hidden_size, len(found.probe.inside)
    dead = [str(unit) for unit in found.dead]
    listed = ", ".join(dead[:12]) + (", …" if len(dead) > 12 else "")
    said = [
        f"{len(dead) or 'None'} of {H} units {'is' if len(dead) == 1 else 'are'} dead over {examples} test examples"
        + (f": {listed}." if dead else ".")
    ]
    between = [gate for gate in found.gates if gate.saturated is not None and gate.saturated >= 0.005]
    if between:
        most = max(between, key=lambda gate: gate.saturated or 0.0)
        said.append(
            f"The most decided gate is {most.name}: {100 * (most.saturated or 0):.0f} % of its values lie within "
            f"{NEAR} of 0 or 1 ({100 * (most.shut or 0):.0f} % shut, {100 * (most.open or 0):.0f} % open)."
        )
    return said


def gate_table(found: Inspection) -> list[list[str]]:
    """The summary of every gate, with a row of titles."""
    rows = [["gate", "role", "mean", "shut", "open", "sd over time", "sd over examples"]]
    for gate in found.gates:
        shares = ["–" if share is None else f"{100 * share:.1f} %" for share in (gate.shut, gate.open)]
        spreads = [f"{spread:.3f}" for spread in (gate.over_time, gate.over_samples)]
        rows.append([gate.name, gate.role or "–", f"{gate.mean:.3f}", *shares, *spreads])
    return rows


def memory(found: Inspection) -> list[str]:
    """How far back the state reaches, by derivative and by gate."""
    seen, T = found.memory, int(found.memory.lags[-1])
    exact = "exactly" if seen.exact else f"estimated with {seen.probes} random directions"
    lags = {name: seen.horizon(level) for name, level in LEVELS.items()}
    fallen = [f"to {name} after {counted(lag, 'step')}" for name, lag in lags.items() if lag is not None]
    lasting = [name for name, lag in lags.items() if lag is None][:1]  # what is above 1/e is above 1 %
    parts = [f"falls {' and '.join(fallen)}"] * bool(fallen)
    parts += [f"does not fall to {name} within {counted(T, 'step')}" for name in lasting]
    said = [
        f"What is left of a small change of the state {' and '.join(parts)} (median over {len(seen.norms)} test "
        f"examples, {exact})."
    ]
    highest = float(seen.quantile(0.5).max())
    if highest > 2:
        said.append(
            f"On the way it grows up to {highest:.3g} times: derivatives explode before they vanish, if they do."
        )
    for name, values in found.constants.items():
        low, middle, high = np.quantile(values, [0, 0.5, 1])
        said.append(
            f"Gate {name} promises time constants of {_steps(low)} to {_steps(high)} steps, {_steps(middle)} for the "
            "median unit."
        )
    return said


def _steps(value: float) -> str:
    return "∞" if math.isinf(value) else f"{value:.3g}"


def spectrum(found: Inspection) -> list[str]:
    """How the eigenvalues of one step lie; for antisymmetric cells, whether they are near the imaginary axis."""
    seen = found.spectrum
    real, imaginary = seen.values.real, seen.values.imag
    said = [
        f"At {len(seen.steps)} steps of this example the spectral radius is {seen.radius.min():.3f} to "
        f"{seen.radius.max():.3f}; real parts lie between {real.min():.3f} and {real.max():.3f} (sd {real.std():.3f}), "
        f"imaginary parts within ±{np.abs(imaginary).max():.3f} (sd {imaginary.std():.3f})."
    ]
    if seen.rates is not None and seen.off_axis is not None:
        near = seen.off_axis <= NEAR_THE_AXIS
        rates = seen.rates.real
        size = (
            f"are {seen.off_axis:.2f} times as large as the imaginary ones (root mean squares; up to {NEAR_THE_AXIS} "
            "counts as near)"
            if math.isfinite(seen.off_axis)
            else "there are no imaginary ones"
        )
        said.append(
            f"Antisymmetry promises (J − I)/ε near the imaginary axis. Here it {'is' if near else 'is not'}: with ε = "
            f"{seen.epsilon:.3g} the real parts of (λ − 1)/ε lie between {rates.min():.3f} and {rates.max():.3f}, and "
            f"{size}."
        )
    return said


def gradients(found: Inspection) -> list[str]:
    """How much longer the gradient is at the end than at the beginning; how to record it over training."""
    layer = found.subject.layer
    last = found.gradient[layer, 0]
    present = last[np.isfinite(last)]
    first, end = float(present[0]), float(present[-1])
    ratio = f"{first / end:.3g} times as long" if end > 0 else "of no comparable length"
    said = [
        f"With the weights of the best epoch, the gradient of the loss by the first step's state is {ratio} as by the "
        f"last one's ({first:.3g} and {end:.3g})."
    ]
    if found.recorded is None:
        said.append("This run did not record it over its epochs; train with training.record: [gradients] to see that.")
    return said


def answers(found: Inspection) -> list[str]:
    """How often it was right, or how far off."""
    said, task = found.answers, found.subject.task
    count, there = len(said.right), len(task.test)
    of = f"{count:,} test examples" if count >= there else f"the first {count:,} of {there:,} test examples"
    if said.confusion is None:
        scaled = " Numbers are as the model learns them, scaled by the training part." if task.target_scaling else ""
        return [f"The mean size of the error is {said.wrong.mean():.4g} over {of}.{scaled}"]
    hits, total = int(np.trace(said.confusion)), int(said.confusion.sum())
    missed = total - hits
    wrong = "None is wrong" if missed == 0 else "One is wrong" if missed == 1 else f"{missed:,} are wrong"
    answers = of if total == count else f"{total:,} answers on {of}"
    return [f"{100 * hits / total:.2f} % of {answers} are right. {wrong}."]
