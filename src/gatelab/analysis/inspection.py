"""All analyses of a run, computed once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gatelab.analysis.clamping import NumberAgreement, agreement
from gatelab.analysis.eigenvalues import Spectrum, spectrum
from gatelab.analysis.gates import GateSummary, Traces, dead_units, summaries, traces
from gatelab.analysis.horizon import Memory, memory, time_constants
from gatelab.analysis.predictions import Predictions, predictions_of
from gatelab.analysis.read_example import ReadExample, reading
from gatelab.analysis.subject import Subject, checked_sample, in_float64, load
from gatelab.tasks.agreement import Agreement as Sentences
from gatelab.training import gradients
from gatelab.training.gradients import Gradients, StepNorms
from gatelab.training.objective import Objective

MEMORY_EXAMPLES = 16  # at most this many examples for the memory,
MEMORY_STEPS = 4096  # and at most this many steps in all


@dataclass(frozen=True)
class Inspection:
    """The analyses of a run, as plain arrays."""

    subject: Subject
    sample: int
    reading: ReadExample
    example: Traces  # of the sample alone
    probe: Traces  # of the first test examples
    gates: list[GateSummary]
    dead: np.ndarray
    constants: dict[str, np.ndarray]
    memory: Memory
    spectrum: Spectrum
    recorded: Gradients | None
    gradient: StepNorms  # with the best weights
    predictions: Predictions
    agreement: NumberAgreement | None


def inspect(path: Path | str, sample: int = 0, layer: int | None = None, *, accept_changes: bool = False) -> Inspection:
    """Analyse a run: one test example step by step, and statistics over many."""
    subject = load(path, layer, accept_changes)
    task = subject.task
    example = subject.examples(1, checked_sample(subject, sample))
    probe = traces(subject, subject.probe())
    validation = in_float64(gradients.probe(task.validation))
    return Inspection(
        subject,
        sample,
        reading(task, sample),
        traces(subject, example),
        probe,
        summaries(subject.cell, probe),
        dead_units(probe),
        time_constants(subject.cell, probe, subject.hyperparameters),
        memory(subject, subject.examples(max(4, min(MEMORY_EXAMPLES, MEMORY_STEPS // task.steps)))),
        spectrum(subject, example),
        gradients.read(subject.run.path),
        gradients.gradient_norms(subject.model, validation, Objective(task, subject.run.spec().training)),
        predictions_of(subject),
        agreement(subject) if isinstance(task, Sentences) else None,
    )
