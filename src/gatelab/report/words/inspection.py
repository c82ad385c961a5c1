"""What an inspection shows, in sentences that follow from the numbers."""

from __future__ import annotations

import math

import numpy as np

from gatelab.analysis import Inspection
from gatelab.analysis.clamping import CLOSED, KINDS, OPEN
from gatelab.analysis.eigenvalues import NEAR_THE_AXIS
from gatelab.analysis.gates import NEAR
from gatelab.formatting import counted
from gatelab.report.inspection.memory import LEVELS
from gatelab.report.words.baseline import against_baseline, own_units

STRONG, ALMOST_ALL = 0.9, 0.95
MOST = 0.5  # of the sentences a model must get right for both numbers before the mechanism is tested


def gates(inspection: Inspection) -> list[str]:
    """The most saturated gate, and the dead units."""
    H, examples = inspection.subject.recurrent.hidden_size, len(inspection.probe.inside)
    dead = [str(unit) for unit in inspection.dead]
    names = ", ".join(dead[:12]) + (", …" if len(dead) > 12 else "")
    sentences = [
        f"{len(dead) or 'None'} of {H} units {'is' if len(dead) == 1 else 'are'} dead over {examples} test examples"
        + (f": {names}." if dead else ".")
    ]
    saturated = [gate for gate in inspection.gates if gate.saturated is not None and gate.saturated >= 0.005]
    if saturated:
        most = max(saturated, key=lambda gate: gate.saturated or 0.0)
        sentences.append(
            f"The most saturated gate is {most.name}: {100 * (most.saturated or 0):.0f} % of its values are within "
            f"{NEAR} of 0 or 1 ({100 * (most.closed or 0):.0f} % closed, {100 * (most.open or 0):.0f} % open)."
        )
    return sentences


def gate_table(inspection: Inspection) -> list[list[str]]:
    """The summary of every gate, below a row of titles."""
    rows = [["gate", "role", "mean", "closed", "open", "sd over time", "sd over examples"]]
    for gate in inspection.gates:
        shares = ["–" if share is None else f"{100 * share:.1f} %" for share in (gate.closed, gate.open)]
        spreads = [f"{spread:.3f}" for spread in (gate.over_time, gate.over_samples)]
        rows.append([gate.name, gate.role or "–", f"{gate.mean:.3f}", *shares, *spreads])
    return rows


def memory(inspection: Inspection) -> list[str]:
    """How far back the state reaches, by derivative and by gate."""
    measured, T = inspection.memory, int(inspection.memory.lags[-1])
    exact = "exact" if measured.exact else f"estimated from {measured.probes} random directions"
    lags = {name: measured.horizon(level) for name, level in LEVELS.items()}
    fallen = [f"to {name} after {counted(lag, 'step')}" for name, lag in lags.items() if lag is not None]
    lasting = [name for name, lag in lags.items() if lag is None][:1]  # what is above 1/e is above 1 %
    parts = [f"falls {' and '.join(fallen)}"] * bool(fallen)
    parts += [f"does not fall to {name} within {counted(T, 'step')}" for name in lasting]
    sentences = [f"State sensitivity {' and '.join(parts)} (median over {len(measured.norms)} test examples, {exact})."]
    highest = float(measured.quantile(0.5).max())
    if highest > 2:
        sentences.append(f"It first grows up to {highest:.3g}: derivatives explode before they vanish, if they do.")
    for name, constants in inspection.constants.items():
        low, middle, high = np.quantile(constants, [0, 0.5, 1])
        sentences.append(
            f"Time constants implied by gate {name}: {_steps(low)} to {_steps(high)} steps, median {_steps(middle)}."
        )
    return sentences


def _steps(steps: float) -> str:
    return "∞" if math.isinf(steps) else f"{steps:.3g}"


def spectrum(inspection: Inspection) -> list[str]:
    """The eigenvalues of the one-step Jacobian; for antisymmetric cells, whether they are near the imaginary axis."""
    spectrum = inspection.spectrum
    real, imaginary = spectrum.values.real, spectrum.values.imag
    sentences = [
        f"At {len(spectrum.steps)} steps of this example the spectral radius is {spectrum.radius.min():.3f} to "
        f"{spectrum.radius.max():.3f}. Real parts lie between {real.min():.3f} and {real.max():.3f} (sd "
        f"{real.std():.3f}), imaginary parts within ±{np.abs(imaginary).max():.3f} (sd {imaginary.std():.3f})."
    ]
    if spectrum.rates is not None and spectrum.off_axis is not None:
        near = spectrum.off_axis <= NEAR_THE_AXIS
        rates = spectrum.rates.real
        size = (
            f"are {spectrum.off_axis:.2f} times as large as the imaginary parts (root mean squares; near means up to "
            f"{NEAR_THE_AXIS})"
            if math.isfinite(spectrum.off_axis)
            else "have no imaginary parts beside them"
        )
        sentences.append(
            f"Antisymmetry implies eigenvalues of (J − I)/ε near the imaginary axis. Here they "
            f"{'are' if near else 'are not'}: with ε = {spectrum.epsilon:.3g} the real parts of (λ − 1)/ε lie between "
            f"{rates.min():.3f} and {rates.max():.3f} and {size}."
        )
    return sentences


def gradients(inspection: Inspection) -> list[str]:
    """The gradient at the first and at the last step of each sequence; how to record it during training."""
    layer, norms = inspection.subject.layer, inspection.gradient
    first, last = float(norms.first[layer, 0]), float(norms.by_step[layer, 0, -1])
    ratio = f"{first / last:.3g} times that" if last > 0 else "not comparable with that"
    sentences = [
        f"With the weights of the best epoch, the gradient norm at the state of a sequence's first step is {ratio} at "
        f"its last step ({first:.3g} and {last:.3g}, means over examples)."
    ]
    if inspection.recorded is None:
        sentences.append("Gradients were not recorded during training; training.record: [gradients] does that.")
    return sentences


def predictions(inspection: Inspection) -> list[str]:
    """The metric on the test set, beside the trivial baseline."""
    outcome, task = inspection.predictions, inspection.subject.task
    count, there = len(outcome.targets), len(task.test)
    of = f"{count:,} test examples" if count >= there else f"the first {count:,} of {there:,} test examples"
    if outcome.confusion is None:
        scaled = ", in units of the scaled targets" if task.preparation.target_scaling else ""
        sentences = [f"The mean absolute error over {of} is {outcome.error.mean():.4g}{scaled}."]
    else:
        hits, total = int(np.trace(outcome.confusion)), int(outcome.confusion.sum())
        targets = of if total == count else f"{total:,} targets of {of}"
        sentences = [f"Accuracy {100 * hits / total:.2f} % on {targets}; {counted(total - hits, 'error')}."]
    manifest = inspection.subject.run.manifest()
    baseline = against_baseline(manifest.test, manifest.baseline)
    return [*sentences, *(f"{line[0].upper()}{line[1:]}." for line in (*baseline, *own_units(manifest)))]


def agreement(inspection: Inspection) -> list[str]:
    """Whether the stored-bit account of subject-verb agreement holds, claim by claim."""
    evidence = inspection.agreement
    assert evidence is not None
    if evidence.tested < MOST * evidence.sentences:
        return [
            f"The model gets {evidence.tested or 'none'} of {evidence.sentences} sentences right for both numbers of "
            "the subject: it has not learned to store the number, and the account cannot be tested. Train it longer."
        ]
    clamped, control = (100 * share for share in evidence.flips_of_few)
    sentences = []
    if evidence.gate is not None:
        subject, nouns, others = (evidence.openness[kind] for kind in KINDS)
        sentences.append(
            f"“At the subject the gate opens” {_holds(evidence.opens)}: gate {evidence.gate} of the {evidence.few} "
            f"units that encode number best is open by {subject:.2f} at the subject and {evidence.gap:.2f} in the gap "
            f"(criterion: at least {OPEN}, and twice the value in the gap)."
        )
        sentences.append(
            f"“In between it stays closed” {_holds(evidence.stays_closed)}: {evidence.gap:.2f} (1 is open; criterion: "
            f"at most {CLOSED}), {nouns:.2f} at other nouns and {others:.2f} at other words. The state of the best "
            f"unit before the verb correlates with its state after the subject at r = {evidence.retention:+.2f}."
        )
    else:
        sentences.append("This cell has no gate that writes the state, so the claims about a gate cannot be tested.")
    sentences.append(
        f"“At the verb the stored bit decides” {_holds(evidence.decides)} of these units alone: clamping the "
        f"{evidence.few} best units to their values in the sentence of the other number flips was/were in "
        f"{clamped:.0f} % of {evidence.tested} sentences; clamping as many random other units, in {control:.0f} % "
        f"({len(evidence.chance)} draws, at most {100 * evidence.most_by_chance:.0f} %)."
    )
    needed = evidence.needed(ALMOST_ALL)
    enough = f"when {needed} are clamped" if needed else "with none of the numbers of units that were tried"
    sentences.append(
        f"{int((np.abs(evidence.correlations) >= STRONG).sum())} of {len(evidence.ranked)} units correlate with the "
        f"number at |r| ≥ {STRONG} before the verb; at least {100 * ALMOST_ALL:.0f} % of the verbs flip {enough}."
    )
    claims = [evidence.decides] if evidence.gate is None else [evidence.opens, evidence.stays_closed, evidence.decides]
    whole = "holds" if all(claims) else "does not hold" if not any(claims) else "holds in part"
    return [f"The stored-bit account {whole} here.", *sentences]


def _holds(true: bool) -> str:
    return "is true" if true else "is not true"
