"""Everything there is to see in a run, computed once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gatelab.analysis.clamping import Agreement, agreement
from gatelab.analysis.eigenvalues import Spectrum, spectrum
from gatelab.analysis.gates import GateSummary, Traces, dead_units, summaries, traces
from gatelab.analysis.horizon import Memory, memory, time_constants
from gatelab.analysis.predictions import Predictions, predictions_of
from gatelab.analysis.reading import Reading, reading
from gatelab.analysis.subject import Subject, checked_sample, doubled, load
from gatelab.tasks.agreement import Agreement as Sentences
from gatelab.training import gradients
from gatelab.training.gradients import Gradients, StepNorms
from gatelab.training.objective import Objective

REMEMBERED = 16  # examples whose memory is measured
LONG = 4096  # fewer if they are long: steps of all of them together


@dataclass(frozen=True)
class Inspection:
    """What was found in a run, as plain arrays."""

    subject: Subject
    sample: int
    reading: Reading
    example: Traces  # of the sample alone
    probe: Traces  # of the first test examples
    gates: list[GateSummary]
    dead: np.ndarray
    constants: dict[str, np.ndarray]
    memory: Memory
    spectrum: Spectrum
    recorded: Gradients | None
    gradient: StepNorms  # of the weights as they are
    predictions: Predictions
    agreement: Agreement | None


def inspect(path: Path | str, sample: int = 0, layer: int | None = None, *, accept_changes: bool = False) -> Inspection:
    """Look into a run: one test example step by step, and what holds over many."""
    subject = load(path, layer, accept_changes)
    task = subject.task
    example = subject.examples(1, checked_sample(subject, sample))
    probe = traces(subject, subject.probe())
    held = doubled(gradients.probe(task.validation))
    return Inspection(
        subject,
        sample,
        reading(task, sample),
        traces(subject, example),
        probe,
        summaries(subject.cell, probe),
        dead_units(probe),
        time_constants(subject.cell, probe, subject.numbers),
        memory(subject, subject.examples(max(4, min(REMEMBERED, LONG // task.steps)))),
        spectrum(subject, example),
        gradients.read(subject.run.path),
        gradients.gradient_norms(subject.model, held, Objective(task, subject.run.spec().training)),
        predictions_of(subject),
        agreement(subject) if isinstance(task, Sentences) else None,
    )
