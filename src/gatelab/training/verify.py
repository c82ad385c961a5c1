"""Whether a run directory is intact: every file is read as its readers do, and compared with the others."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from gatelab import sealed
from gatelab.disk import foreign
from gatelab.errors import DataError
from gatelab.training import checkpoint, gradients, kept, optimizers
from gatelab.training.identity import changes
from gatelab.training.loop import frozen_values
from gatelab.training.objective import Objective, macro_metrics
from gatelab.training.run import (
    BEST,
    CELL,
    CHECKPOINT,
    ESTIMATOR,
    FILES,
    GRADIENTS,
    INSPECTION,
    LOG,
    MANIFEST,
    METRICS,
    MODEL,
    PREDICTIONS,
    PROGRESS,
    REPORT,
    TIMING,
    Run,
)  # fmt: skip
from gatelab.training.schedule import Schedule

UNCHECKED = (CELL, PROGRESS, LOG, INSPECTION, REPORT)  # for people; nothing is read from them


@dataclass(frozen=True)
class Finding:
    """The result of checking one file."""

    file: str
    message: str
    good: bool = True
    mark: str = "ok"


def verify(run: Run) -> list[Finding]:
    """Check every file. A running run is checked as it is."""
    findings = [
        _checked(run, name, check) for name, check in CHECKS.items() if run.file(name).exists() or _is_needed(run, name)
    ]
    findings += [
        Finding(name, "not read back; not checked", mark="--") for name in UNCHECKED if (run.path / name).exists()
    ]
    findings += [Finding(name, "not written by gatelab; not checked", mark="--") for name in foreign(run.path, FILES)]
    try:
        # The run is complete without them: it has its own copy.
        findings += [Finding("current files", change, mark="note") for change in changes(run)]
    except (DataError, ValueError, OSError) as error:
        if all(finding.good for finding in findings):
            findings.append(Finding("current files", str(error), good=False))
    return findings


def _is_needed(run: Run, name: str) -> bool:
    """Whether a run of its status has this file."""
    if name in (MANIFEST, MODEL):
        return True
    try:
        manifest, _ = run.manifest(), run.spec()
    except DataError:
        return False
    training = run.spec().training
    if name in (BEST, METRICS):
        return bool(manifest.best_epoch if name == BEST else manifest.epochs)
    if name == CHECKPOINT:
        at_the_end = training.checkpoint == "end" and manifest.status == "done"
        return bool(manifest.epochs) and (training.checkpoint == "epoch" or at_the_end)
    if name == kept.FILE:
        task, may_hold_nothing_out = run.spec().task, training.keep == "last" and not training.test
        return task.forecasts or (task.from_disk and not run.preparation.noise_pad and not may_hold_nothing_out)
    if name == GRADIENTS:
        return bool(manifest.epochs) and "gradients" in run.spec().training.record
    if name == PREDICTIONS and not run.spec().training.test:
        return False
    return name in (PREDICTIONS, TIMING) and manifest.status == "done"


def _checked(run: Run, name: str, check: Callable[[Run], str]) -> Finding:
    try:
        if not run.file(name).is_file():
            return Finding(name, "missing", good=False)
        return Finding(name, check(run))
    except (
        OSError,
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        ArithmeticError,
        MemoryError,
        RuntimeError,
    ) as error:
        return Finding(name, str(error) or type(error).__name__, good=False)


def _manifest(run: Run) -> str:
    manifest, spec = run.manifest(), run.spec()
    return f"{manifest.status}; {spec.model.cell} on {spec.task.name}, seed {manifest.seed}"


def _model(run: Run) -> str:
    cell, prepared = run.cell.cell, run.preparation
    return f"the equations of {cell.name}; {prepared.input_size} inputs per step, {prepared.output_size} outputs"


def _metrics(run: Run) -> str:
    lines = run.metrics()
    return f"{len(lines)} epoch{'' if len(lines) == 1 else 's'}"


def _best(run: Run) -> str:
    model = run.model()
    if not all(torch.isfinite(value).all() for value in model.state_dict().values()):
        raise DataError("weights that are not finite numbers")
    spec, frozen = run.spec(), run.manifest().frozen
    if moved := [name for name, value in frozen_values(spec.model, model).items() if frozen.get(name) != value]:
        raise DataError(f"{moved[0]} was frozen and is not what it was at the start")
    return f"weights of epoch {run.best_epoch()}"


def _checkpoint(run: Run) -> str:
    spec = run.spec()
    model = run.untrained(run.checkpoint_path)
    optimizer = optimizers.optimizer(spec.optimization, model)
    place, _ = checkpoint.read(
        run.checkpoint_path, model, optimizer, Schedule(spec.optimization, spec.training.num_epochs)
    )
    return f"can be resumed from epoch {place.epoch}, batch {place.batch}"


def _predictions(run: Run) -> str:
    """Whether they give the metrics that the manifest has."""
    saved, spec, manifest = run.predictions(), run.spec(), run.manifest()
    predicted, targets = torch.from_numpy(saved["predictions"]), torch.from_numpy(saved["answers"])
    lengths = torch.from_numpy(saved["lengths"]) if "lengths" in saved else None
    if manifest.status != "done":
        return f"{len(targets):,} examples, of an earlier end of the run"
    if "total_steps" in saved:
        total = int(saved["total_steps"])
        return f"the first {targets.shape[1]:,} of {total:,} test steps; not compared with the manifest"
    objective = Objective(spec.task, spec.training)
    if objective.classifies:
        hits = spec.task.counted(predicted.argmax(-1) == targets, lengths)
        macro = macro_metrics(spec.task, predicted, targets, lengths)
        computed = {"accuracy": float(hits.double().mean()), **macro}
        if (bits := spec.task.bits_metric) is not None:
            loss = cross_entropy(predicted.double().flatten(0, -2), targets.flatten())
            computed[bits] = float(loss) / math.log(2)
    else:
        error = (spec.task.counted(predicted, lengths) - spec.task.counted(targets, lengths)).double()
        computed = {"mse": float(error.square().mean()), "mae": float(error.abs().mean())}
    for name, value in computed.items():
        if not np.isclose(value, manifest.test.get(name, np.nan), rtol=1e-6, atol=1e-9):
            raise DataError(f"they give {name} {value:.6g}, and the manifest says {manifest.test.get(name)}")
    shown = ", ".join(f"{name} {value:.4g}" for name, value in computed.items())
    examples = f"{targets.shape[1]:,} test steps" if len(targets) == 1 else f"{len(targets):,} test examples"
    return f"{examples}: {shown}, as in the manifest"


def _examples(run: Run) -> str:
    path, contents = run.file(kept.FILE), []
    if (parts := kept.parts(path, run.preparation)) is not None:
        contents.append(f"{len(parts.test)} test and {len(parts.validation)} validation examples")
    if run.preparation.forecasts:
        contents.append(f"the last {len(kept.ending(path, run.preparation).values)} steps of the series")
    return " and ".join(contents)


def _gradients(run: Run) -> str:
    recorded = gradients.read(run.path)
    assert recorded is not None
    return f"norms of {len(recorded.epochs)} epochs"


def _timing(run: Run) -> str:
    return f"{sealed.read_json(run.file(TIMING))['seconds']:.1f} seconds"


def _estimator(run: Run) -> str:
    return f"the parameters of a {sealed.read_json(run.file(ESTIMATOR)).get('estimator')}"


CHECKS: dict[str, Callable[[Run], str]] = {
    MANIFEST: _manifest,
    MODEL: _model,
    METRICS: _metrics,
    BEST: _best,
    CHECKPOINT: _checkpoint,
    PREDICTIONS: _predictions,
    kept.FILE: _examples,
    GRADIENTS: _gradients,
    TIMING: _timing,
    ESTIMATOR: _estimator,
}


def shown(findings: list[Finding]) -> Iterator[str]:
    """A line for each finding."""
    width = max(len(finding.file) for finding in findings)
    for finding in findings:
        yield f"  {finding.mark if finding.good else 'BAD':<4} {finding.file:<{width}}  {finding.message}"
