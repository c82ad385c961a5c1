"""A network that learned nothing from its training data is trained once more, at another learning rate.

One rule for the estimators and `gatelab fit`. A learning rate that the user chose is left as it is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from gatelab.estimators import defaults
from gatelab.training import Outcome, Run, RunSpec, Trained, train, train_in_memory
from gatelab.training.objective import Objective
from gatelab.training.process import BEGUN
from gatelab.training.reporter import Reporter
from gatelab.training.run import FILES, INSPECTION, MANIFEST, METRICS

FACTOR = 0.1  # of the learning rate
LEAST_EPOCHS = 10  # before which nothing is concluded
LEARNED = 0.01  # of the loss of a constant answer: a network whose loss is lower by more has learned something
DEVIATIONS = 3  # standard deviations of chance above the majority class: so has one with a higher accuracy


class EndedRun(NamedTuple):
    """The run that is kept, and what has to be said of it."""

    spec: RunSpec
    outcome: Outcome
    restarted: str  # why it is the second one; empty if it is the first
    stuck: str  # that it learned nothing; empty if it learned something


def train_in_memory_or_restart(
    spec: RunSpec, report: Reporter, initial_weights: Mapping[str, Tensor] | None = None
) -> tuple[Trained, str]:
    """Train in memory; if nothing was learned at the default learning rate, once more at another one.

    Returns the network that is kept, and that it learned nothing; empty if it learned something.
    """
    trained = train_in_memory(spec, report, initial_weights=initial_weights)
    stuck = _what_is_stuck(spec, trained.record.status, trained.history)
    if not stuck or initial_weights is not None or not _is_at_the_default(spec):
        return trained, stuck
    other, why = _another_try(spec, stuck, report)
    trained = train_in_memory(other, report, restarted=why)
    return trained, _what_is_stuck(other, trained.record.status, trained.history)


def train_or_restart(spec: RunSpec, path: Path, report: Reporter) -> EndedRun:
    """Train in a directory, by the same rule: an interrupted run, the first or the second, goes on."""
    run, is_default = Run(path), _is_at_the_default(spec)
    before = run.manifest().restarted if run.exists() else ""
    if before and is_default:
        spec = _at_another_rate(spec)
    outcome = train(spec, path, report)
    stuck = _what_is_stuck(spec, outcome.status, run.metrics())
    if not stuck or before or not is_default:
        return EndedRun(spec, outcome, before, stuck)
    other, why = _another_try(spec, stuck, report)
    _give_up(run)
    outcome = train(other, path, report, restarted=why)
    return EndedRun(other, outcome, why, _what_is_stuck(other, outcome.status, run.metrics()))


def _is_at_the_default(spec: RunSpec) -> bool:
    return spec.optimization.learning_rate == defaults.LEARNING_RATE


def _another_try(spec: RunSpec, stuck: str, report: Reporter) -> tuple[RunSpec, str]:
    """What is trained once more, and why."""
    other, why = _at_another_rate(spec), f"at a learning rate of {spec.optimization.learning_rate:g}, {stuck}"
    report.note(f"{why}; it is trained once more, at {other.optimization.learning_rate:g}")
    return other, why


def _at_another_rate(spec: RunSpec) -> RunSpec:
    rate = spec.optimization.learning_rate * FACTOR
    return spec.model_copy(update={"optimization": spec.optimization.model_copy(update={"learning_rate": rate})})


def _what_is_stuck(spec: RunSpec, status: str, history: list[dict[str, Any]]) -> str:
    """Say that the network learned nothing from its training data; empty if it did, or had no time to.

    It did if its training loss was ever below that of the best constant answer by more than 1 %, or if it ended with a
    training accuracy above that of the majority class by more than chance.
    """
    if status != "done" or len(history) < LEAST_EPOCHS:
        return ""
    goal, train = Objective(spec.task, spec.training), spec.task.train
    least, constant = min(line["train_loss"] for line in history), goal.constant_loss(train)
    if not constant or least < (1 - LEARNED) * constant:
        return ""
    if goal.classifies:
        share, count = goal.majority(train)
        if history[-1]["train_accuracy"] > share + DEVIATIONS * math.sqrt(share * (1 - share) / count):
            return ""
    return (
        f"the network learned nothing from its training data (training loss at best {least:.4g} in "
        f"{len(history)} epochs, {constant:.4g} for the best constant answer)"
    )


def _give_up(run: Run) -> None:
    """Remove the files of a run. What a new run may find is last, after the manifest, with which there is a run."""
    last = (MANIFEST, METRICS, *BEGUN)
    for name in (*(each for each in FILES if each not in (*last, INSPECTION)), *last):
        run.file(name).unlink(missing_ok=True)
