"""A run: the loop, with all that it does written into a directory, from which it can be resumed."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from gatelab.errors import GatelabError
from gatelab.training import checkpoint, devices, footprint, gradients, kept, optimizers
from gatelab.training.checkpoint import Place
from gatelab.training.identity import changed_cell, identity, refuse
from gatelab.training.loop import Keeper, Work, begun, go_through, initialized, refuse_empty_parts
from gatelab.training.manifest import Identity, Manifest, Status
from gatelab.training.objective import Metrics
from gatelab.training.process import Stop, alone_in, prepared, refuse_foreign, stoppable
from gatelab.training.reporter import Pruner, Reporter, Reporters
from gatelab.training.run import Run
from gatelab.training.schedule import Schedule
from gatelab.training.spec import RunSpec

FINAL = ("done", "diverged")  # the same run would end the same way


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run."""

    status: Status
    run: Run
    test: Metrics  # with the kept weights; empty unless done
    best_epoch: int | None

    @classmethod
    def of(cls, run: Run, manifest: Manifest) -> Outcome:
        """What a manifest says."""
        return cls(manifest.status, run, manifest.test, manifest.best_epoch)


def train(
    spec: RunSpec,
    run_dir: Path | str,
    *reporters: Reporter,
    extend: bool = False,
    accept_changes: bool = False,
    initial_weights: Mapping[str, Tensor] | None = None,
    restarted: str = "",
    pruner: Pruner | None = None,
) -> Outcome:
    """Train, keep the best validation epoch (or the last), and test it once. Everything is in the run directory
    afterwards.

    An interrupted run in the directory is resumed, bit for bit; anything else there is an error. With `extend` a run
    may be trained for more epochs than before. Equations and data must be unchanged, unless `accept_changes`. A new run
    may begin with `initial_weights`, the state of another model of its shape, whose checksum its manifest has; it also
    has why an earlier run in its place was given up, `restarted`. A `pruner` may end it early. Ctrl-C saves after the
    batch and then raises KeyboardInterrupt, as it would anywhere.
    """
    run, report = Run(Path(run_dir)), Reporters(reporters)
    is_new = not run.exists()
    device = torch.device(devices.resolved(spec) if is_new else run.device())
    spec = spec if is_new else spec.model_copy(update={"task": spec.task.with_options()})  # data as it is now
    footprint.refuse(spec)
    if is_new:
        refuse_foreign(run.path)
        refuse_empty_parts(spec)  # before there is a directory; so is data that is not here
    with (
        alone_in(run.path),
        prepared(_threads(spec, run), device.type) as granted,
        stoppable() as stop,
    ):
        if not run.exists():  # asked again: another process may have begun it while this one waited
            work = _new(spec, run, granted, device, report, stop, initial_weights, restarted)
        else:
            manifest = run.checked_against(spec, but=("training.num_epochs",) if extend else ())
            if _is_over(spec, run, manifest, report):
                outcome = Outcome.of(run, manifest)
                report.known(outcome, manifest)
                return outcome
            devices.refuse_missing(device.type, run.path)
            work = _resumed(spec, run, granted, report, stop, accept_changes)
        work.pruner = pruner
        go_through(work)
        outcome = Outcome.of(run, work.manifest)
        report.end(outcome, work.manifest)
    if outcome.status == "interrupted":
        raise KeyboardInterrupt
    return outcome


def _threads(spec: RunSpec, run: Run) -> int | None:
    """As many as were granted before, perhaps fewer than asked for; of a new run as many as the spec asks for."""
    return run.manifest().threads if run.exists() else spec.training.threads


class Recorder(Keeper):
    """Keeps everything in the directory of a run."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self.run, self.saved = run, time.perf_counter()

    def keep(self, model: nn.Module, epoch: int) -> None:
        """Write the weights as those of this epoch."""
        checkpoint.write_weights(self.run.best_path, model.state_dict(), epoch)

    def load(self, model: nn.Module, epoch: int | None) -> None:
        """Read the weights of this epoch."""
        checkpoint.read_weights(self.run.best_path, model, epoch)

    def checkpoint(self, work: Work, seconds: float = 0.0) -> None:
        """Write all that is needed to resume."""
        is_early = seconds and time.perf_counter() - self.saved <= seconds
        if is_early or work.spec.training.checkpoint == "never":
            return
        carried = work.carried if work.place.batch else None  # an epoch begins without one
        path = self.run.checkpoint_path
        checkpoint.write(path, work.model, work.optimizer, work.schedule, work.place, carried)
        self.saved = time.perf_counter()

    def epoch(self, work: Work) -> None:
        """Write the checkpoint and the metrics, unless they are written at the end."""
        if work.spec.training.checkpoint == "epoch":
            self.checkpoint(work)
            self.run.write_metrics(work.place.history)

    def gradients(self, work: Work) -> None:
        """Measure gradients through time and write them."""
        gradients.record(self.run.path, work.model, work.spec.task.validation, work.objective, work.place.epoch)

    def tested(self, predictions: dict[str, np.ndarray]) -> None:
        """Write the output on the test set."""
        self.run.write_predictions(predictions)

    def end(self, work: Work) -> None:
        """Write what was not written before, and the manifest last."""
        self.run.write_timing(work.place.history, work.place.seconds)
        if work.spec.training.checkpoint != "epoch":
            self.run.write_metrics(work.place.history)
        self.run.write_manifest(work.manifest)


def _is_over(spec: RunSpec, run: Run, manifest: Manifest, report: Reporter) -> bool:
    """Whether nothing is left to do. Notes what more epochs than before will mean."""
    before, wanted = manifest.spec.training.num_epochs, spec.training.num_epochs
    over = manifest.status in FINAL
    if over and (wanted == before or manifest.status == "diverged"):
        return True
    place = checkpoint.read_place(run.checkpoint_path) if run.checkpoint_path.is_file() else Place()
    if wanted < place.epoch:
        raise GatelabError(f"epochs is {wanted}, and the run has had {place.epoch} already: expected more")
    if over and spec.training.patience and place.waited >= spec.training.patience:
        report.note(
            f"the run was stopped after {place.epoch} epochs by training.patience: with {wanted} epochs it would have "
            "stopped there as well"
        )
        return True
    if wanted != before and spec.optimization.schedule == "cosine":
        report.note(
            f"the cosine schedule depends on the number of epochs: so far the learning rates were those of {before}, "
            f"so this is not what a run with {wanted} from the start would be"
        )
    return False


def _new(
    spec: RunSpec,
    run: Run,
    threads: int,
    device: torch.device,
    report: Reporter,
    stop: Stop,
    initial_weights: Mapping[str, Tensor] | None,
    restarted: str,
) -> Work:
    """A new run."""
    model = initialized(spec, initial_weights).to(device)  # on the CPU: the device does not matter
    run.checkpoint_path.unlink(missing_ok=True)  # of a run that was killed before it had a manifest
    if initial_weights is not None:  # first, so that a run that is killed from here on resumes with them
        schedule = Schedule(spec.optimization, spec.training.num_epochs)
        checkpoint.write(run.checkpoint_path, model, optimizers.optimizer(spec.optimization, model), schedule, Place())
    manifest = begun(spec, model, threads, device, initial_weights, restarted)
    work = Work.of(spec, manifest, model, report, stop, Recorder(run))
    run.begin(manifest, spec.model.cell, spec.task.preparation, kept.examples(spec.task, work.is_stream))
    return work


def _resumed(spec: RunSpec, run: Run, threads: int, report: Reporter, stop: Stop, accept_changes: bool) -> Work:
    """An interrupted run at its last checkpoint, if all that it depends on is what it was."""
    manifest = run.manifest()
    has_checkpoint = run.checkpoint_path.is_file()
    model = run.untrained(run.checkpoint_path) if has_checkpoint else initialized(spec, None)
    work = Work.of(spec, manifest, model.to(manifest.device), report, stop, Recorder(run))
    current = identity(spec, manifest.device)
    changed = _changes(spec, run, current, threads)
    if not accept_changes:
        refuse(run.path, changed, "to continue anyway; the changes are recorded in manifest.json")
    if spec.task.preparation != run.preparation:
        raise GatelabError(
            f"{run.path} cannot be continued with other data: its preprocessing (scaling, columns or classes) follows "
            "from the data and would be another, so that its weights would no longer fit; start a new run"
        )
    for change in changed:
        report.note(f"accepted: {change}")
    if has_checkpoint:
        work.place, saved = checkpoint.read(run.checkpoint_path, work.model, work.optimizer, work.schedule)
        carried = tuple(value.to(work.device) for value in saved)
        work.carried = carried[0] if len(carried) == 1 else carried or None
    gradients.read(run.path)
    examples = kept.examples(spec.task, work.is_stream)
    work.manifest = run.resume(spec, current, changed, threads, examples)  # not before all that it needs was read
    run.write_metrics(work.place.history)  # it may have run ahead of the checkpoint
    return work


def _changes(spec: RunSpec, run: Run, current: Identity, threads: int) -> list[str]:
    """What has changed since the run began."""
    manifest = run.manifest()
    before, after = dict(manifest.identity), dict(current)
    changes = [f"its {w} was {before[w][:12]} and is {after[w][:12]}" for w in after if before[w] != after[w]]
    if threads != manifest.threads:
        changes.append(
            f"it began with {manifest.threads} threads, and {threads} are granted here, so that sums differ in the "
            "last bit (OMP_THREAD_LIMIT, or a limit of the machine)"
        )
    # A cell that was named again comes from its file as it is now, and has the same equations.
    is_recorded = spec.model.cell.text == run.cell.text
    return [*changes, *(changed_cell(run) if is_recorded else ())]
