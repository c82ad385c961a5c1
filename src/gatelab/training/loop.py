"""The training loop, top to bottom: epochs, batches, a step; evaluation; interrupting and resuming."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from gatelab.engine.recurrent import State
from gatelab.errors import GatelabError
from gatelab.tasks import Batch, Task
from gatelab.training import build, checkpoint, chunks, devices, footprint, gradients, optimizers, seeds
from gatelab.training.checkpoint import Place
from gatelab.training.evaluation import evaluate, run_chunk
from gatelab.training.identity import changed_cell, identity, refuse
from gatelab.training.manifest import Divergence, Identity, Manifest, Status, now
from gatelab.training.objective import DIVERGED, Metrics, Objective, Tally, macro_metrics, own_unit_errors
from gatelab.training.process import Stop, alone_in, divided, prepared, refuse_foreign, stoppable
from gatelab.training.reporter import Pruner, Reporter, Reporters
from gatelab.training.run import Run
from gatelab.training.schedule import Schedule
from gatelab.training.spec import ModelSpec, RunSpec

FINAL = ("done", "diverged")  # the same run would end the same way


class DivergenceError(Exception):
    """A loss or gradient norm that is not finite, or a loss beyond any sense."""

    def __init__(self, what: str, epoch: int, batch: int | None, gradients: dict[str, float]) -> None:
        super().__init__(what)
        largest = {name: f"{size:g}" for name, size in gradients.items()}
        self.facts = Divergence(what=what, epoch=epoch, batch=batch, largest_gradients=largest)


class StoppedError(Exception):
    """The run was asked to stop."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run."""

    status: Status
    run: Run
    test: Metrics  # with the kept weights; empty unless done
    best_epoch: int | None


@dataclass
class Work:
    """The state of the loop."""

    spec: RunSpec
    run: Run
    manifest: Manifest
    model: nn.Module
    optimizer: Optimizer
    schedule: Schedule
    objective: Objective
    task: Task  # the task of the spec; for truncated back-propagation with one long sequence in each part
    place: Place
    report: Reporter
    stop: Stop
    saved: float  # when the last checkpoint was written
    device: torch.device
    pruner: Pruner | None = None
    carried: State | None = None  # between two chunks of truncated back-propagation

    @property
    def bptt(self) -> int | None:
        """Steps per chunk of truncated back-propagation; None for whole sequences."""
        return self.spec.training.chunk_length(self.spec.task)

    @property
    def is_stream(self) -> bool:
        """Whether each part of the data is one long sequence."""
        return self.task is not self.spec.task


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
    device = run.device() if run.exists() else devices.resolved(spec)
    spec = spec.model_copy(update={"task": spec.task.with_options()}) if run.exists() else spec  # data as it is now
    footprint.refuse(spec)
    if not run.exists():
        refuse_foreign(run.path)
        _refuse_empty_parts(spec)  # before there is a directory; so is data that is not here
    with alone_in(run.path), prepared(spec.training, run, device) as threads, stoppable() as stop:
        if run.exists():
            manifest = run.checked_against(spec, but=("training.num_epochs",) if extend else ())
            if _is_over(spec, run, manifest, report):
                outcome = Outcome(manifest.status, run, manifest.test, manifest.best_epoch)
                report.known(outcome, manifest)
                return outcome
            devices.refuse_missing(device, run.path)
        work = _begin(
            spec, run, threads, torch.device(device), report, stop, accept_changes, initial_weights, restarted
        )
        work.pruner = pruner
        try:
            report.start(spec, work.manifest, work.place)
            _note_batch_size(work)
            with divided(work.model):
                facts = _until_the_end(work)
        except BaseException as error:
            stopped = isinstance(error, (KeyboardInterrupt, SystemExit))
            _end(work, {"status": "interrupted"} if stopped else {"status": "failed", "error": _in_words(error)})
            raise
        finally:
            report.close()
        outcome = _end(work, facts)
        report.end(outcome, work.manifest)
    if outcome.status == "interrupted":
        raise KeyboardInterrupt
    return outcome


def _refuse_empty_parts(spec: RunSpec) -> None:
    """Raise if the spec needs a validation or a test set that the data does not have."""
    _, validation, test = spec.task.parts
    training, optimization = spec.training, spec.optimization
    by_validation = {
        "training.keep: best": training.keep == "best",
        "training.patience": training.patience is not None,
        "optimization.schedule: plateau": optimization.schedule == "plateau",
        "training.record: gradients": "gradients" in training.record,
    }
    if not len(validation) and (needing := [name for name, is_set in by_validation.items() if is_set]):
        raise GatelabError(
            f"the task {spec.task.name!r} has no validation set, and {needing[0]} needs one: leave it out "
            "(training.keep: last keeps the last weights), or hold some examples out"
        )
    if not len(test) and training.test:
        raise GatelabError(
            f"the task {spec.task.name!r} has no test set: set training.test: false, or hold some examples out"
        )


def _note_batch_size(work: Work) -> None:
    """Note that a short text or series is read in fewer places at once than asked for."""
    if work.is_stream and work.bptt is not None:
        size, asked = work.task.train.stored.shape[1], work.spec.training.batch_size
        rows = chunks.segment_count(work.task.train, asked, work.bptt)
        if rows < asked:
            work.report.note(
                f"the training part has {size:,} steps, which are read in {rows} places at once instead of {asked} "
                f"(training.batch_size), so that each has several chunks of {work.bptt} steps (training.bptt)"
            )


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


def _until_the_end(work: Work) -> dict[str, Any]:
    """Train and test. Returns the outcome, for the manifest."""
    try:
        fit(work)
        _check_frozen(work)  # after the last epoch, and with the best weights
        facts = test(work) if work.spec.training.test else {}
        _check_frozen(work)
        pruned = work.place.epoch < work.spec.training.num_epochs and not _has_stopped(work)
        return {"status": "done", **facts, **({"pruned": True} if pruned else {})}
    except StoppedError:
        _save(work)
        return {"status": "interrupted"}
    except DivergenceError as divergence:
        return {"status": "diverged", "divergence": divergence.facts}


def fit(work: Work) -> None:
    """Epochs, up to their number or until early stopping."""
    place, training = work.place, work.spec.training
    while place.epoch < training.num_epochs and not _has_stopped(work) and not _is_pruned(work):
        if place.batch == 0:
            _record(work)
        train_epoch(work)
        begin = time.perf_counter()
        validation = _validate(work)
        _end_epoch(work, validation, time.perf_counter() - begin)
    _record(work)
    if training.keep == "last" or training.checkpoint == "end":
        _end_training(work)


def _validate(work: Work) -> Metrics:
    """The validation metrics; none without a validation set."""
    if not len(work.task.validation):
        return {}
    metrics = evaluate(work.model, work.task.validation, work.objective, work.is_stream)[0]
    _check_converging(work, "validation", metrics, work.place.epoch + 1)
    return metrics


def _has_stopped(work: Work) -> bool:
    """Whether validation has not improved for as many epochs as patience allows."""
    patience = work.spec.training.patience
    return bool(patience and work.place.waited >= patience)


def _is_pruned(work: Work) -> bool:
    """Whether the pruner gives the run up. It sees the same after an interruption."""
    return work.pruner is not None and work.pruner(
        work.objective.scores(work.place.history) if len(work.task.validation) else []
    )


def _record(work: Work) -> None:
    """Record what the spec asks for beside the metrics. Training is not affected."""
    if "gradients" in work.spec.training.record:
        gradients.record(work.run.path, work.model, work.spec.task.validation, work.objective, work.place.epoch)


def train_epoch(work: Work) -> None:
    """One epoch, from the batch where the run is; with truncated back-propagation, from the chunk."""
    place, training = work.place, work.spec.training
    part, batches = chunks.epoch(work.task.train, work.is_stream, work.bptt, training, place.epoch)
    tally = checkpoint.restored_tally(work.objective, place.tally)
    begin = time.perf_counter() - place.seconds
    work.model.train()
    while place.batch < len(batches):
        where = place.epoch, place.batch, len(batches)
        optimizers.set_pace(work.optimizer, work.schedule.learning_rate(*where), work.schedule.momentum(*where))
        chunk = batches[place.batch]
        if not chunk.continues:
            work.carried = None
        weights = devices.moved_weights(part.weights_of(chunk.examples), work.device)
        place.norm += train_step(work, devices.moved(part.batch(*chunk), work.device), tally, weights)
        place.batch += 1
        place.tally, place.seconds = checkpoint.saved_tally(tally), time.perf_counter() - begin
        work.report.batch(place.epoch, place.batch, len(batches), _seen(work, len(part), tally.targets), tally)
        if work.stop.asked:
            raise StoppedError
        if time.perf_counter() - work.saved > training.checkpoint_seconds:
            _save(work)


def _seen(work: Work, examples: int, targets: int) -> int:
    """Examples of this epoch so far; of long sequences, which are never whole, targets."""
    batches = work.place.batch * work.spec.training.batch_size
    return min(batches, examples) if work.bptt is None else targets


def train_step(work: Work, batch: Batch, tally: Tally, weights: Tensor | None = None) -> float:
    """Forward pass, backward pass, optimizer step. Returns the gradient norm before clipping."""
    model, optimizer, place = work.model, work.optimizer, work.place
    # Dropout, and masks that a cell draws, are seeded by position: there is no generator state to save, and nothing
    # else can disturb it.
    devices.seed(work.device, seeds.number(work.spec.training.seed, "dropout", place.epoch, place.batch))
    optimizer.zero_grad(set_to_none=True)
    if work.bptt is None:
        prediction: Tensor = model(batch.x, lengths=batch.lengths)
    else:
        prediction, state = run_chunk(model, batch, work.carried)
        work.carried = chunks.detached(state)
    loss = work.objective.training_loss(prediction, batch, weights)
    loss.backward()  # type: ignore[no-untyped-call]
    norm = optimizers.gradient_norm(optimizer, work.spec.optimization.clip_norm)
    value = loss.item()
    if not (value < DIVERGED and math.isfinite(norm)):
        what = f"the loss is {value:.3g}" if not value < DIVERGED else f"the gradient norm is {norm}"
        raise DivergenceError(what, place.epoch + 1, place.batch + 1, optimizers.largest_gradients(model))
    optimizers.step(optimizer)
    tally.add(prediction, batch, value, weights)
    return norm


def test(work: Work) -> dict[str, Any]:
    """The test metrics with the kept weights, and the trivial baseline. Once, at the end."""
    task, epoch = work.task, work.place.best_epoch
    checkpoint.read_weights(work.run.best_path, work.model, epoch)
    metrics, predictions = evaluate(work.model, task.test, work.objective, work.is_stream)
    _check_converging(work, "test", metrics, epoch or 0)
    lengths, baseline = task.test.lengths, task.baseline()
    targets = task.test.targets if task.classes is None else task.test.targets.long()  # text stores bytes
    work.run.write_predictions(predictions, targets, lengths)
    if work.is_stream:
        targets = targets[:, : predictions.shape[1]]
    return {
        "test": metrics | macro_metrics(task, predictions, targets, lengths),
        "baseline": baseline,
        "errors": own_unit_errors(task, predictions, targets, lengths, baseline),
    }


def _check_frozen(work: Work) -> None:
    """Frozen parameters must have their initial values, bit for bit, whatever the optimizer did."""
    now = frozen_values(work.spec.model, work.model)
    for name, value in work.manifest.frozen.items():
        if now.get(name) != value:
            raise RuntimeError(f"{name} was frozen and has changed: the run is invalid")


def frozen_values(spec: ModelSpec, model: nn.Module) -> dict[str, str]:
    """A checksum of each parameter that the spec freezes, by name, from the spec alone."""
    return {
        name: hashlib.sha256(value.detach().cpu().numpy().tobytes()).hexdigest()[:16]
        for name, value in model.named_parameters()
        if any(f"{name}.".find(f".{wanted}.") >= 0 for wanted in spec.freeze)
    }


def _load(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise GatelabError(f"the initial weights do not fit the model: {error}") from None


def _checksum(weights: Mapping[str, Tensor]) -> str:
    total = hashlib.sha256()
    for name, value in sorted(weights.items()):
        total.update(name.encode() + value.detach().cpu().numpy().tobytes())
    return total.hexdigest()


def _check_converging(work: Work, part: str, metrics: Metrics, epoch: int) -> None:
    loss, examples = metrics["loss"], getattr(work.task, part)
    is_finite = all(map(math.isfinite, metrics.values()))
    if not is_finite or (loss >= DIVERGED and loss >= work.objective.hopeless(examples)):
        what = f"the {part} loss is {loss:.3g}"
        raise DivergenceError(what, epoch, None, optimizers.largest_gradients(work.model))


def _in_words(error: BaseException) -> str:
    return str(error) if isinstance(error, GatelabError) else f"{type(error).__name__}: {error}"


def _begin(
    spec: RunSpec,
    run: Run,
    threads: int,
    device: torch.device,
    report: Reporter,
    stop: Stop,
    accept_changes: bool = False,
    initial_weights: Mapping[str, Tensor] | None = None,
    restarted: str = "",
) -> Work:
    """A new run, or an interrupted one at its last checkpoint."""
    is_new = not run.exists()
    model = _model(spec, run, initial_weights).to(device)  # initialized on the CPU: the device does not matter
    task = spec.task if spec.training.chunk_length(spec.task) is None else spec.task.in_streams()
    work = Work(
        spec=spec,
        run=run,
        manifest=_new(spec, run, model, threads, device, initial_weights, restarted) if is_new else run.manifest(),
        model=model,
        optimizer=optimizers.optimizer(spec.optimization, model),
        schedule=Schedule(spec.optimization, spec.training.num_epochs),
        objective=Objective(task, spec.training),
        task=task,
        place=Place(),
        report=report,
        stop=stop,
        saved=time.perf_counter(),
        device=device,
    )
    if not is_new:
        _resume(work, threads, accept_changes)
    return work


def _model(spec: RunSpec, run: Run, initial_weights: Mapping[str, Tensor] | None) -> nn.Module:
    """The model with its initial weights; that of a run with a checkpoint, if the checkpoint fits it."""
    if run.exists() and run.checkpoint_path.is_file():
        return run.untrained(run.checkpoint_path)
    model = build.model(spec.model, spec.task, spec.training.seed)
    if initial_weights is not None:
        _load(model, initial_weights)
    return model


def _new(
    spec: RunSpec,
    run: Run,
    model: nn.Module,
    threads: int,
    device: torch.device,
    initial_weights: Mapping[str, Tensor] | None,
    restarted: str,
) -> Manifest:
    """The manifest of a new run, with which it exists."""
    run.checkpoint_path.unlink(missing_ok=True)  # of a run that was killed before it had a manifest
    weights = None
    if initial_weights is not None:  # first, so that a run that is killed from here on resumes with them
        weights, schedule = _checksum(initial_weights), Schedule(spec.optimization, spec.training.num_epochs)
        checkpoint.write(run.checkpoint_path, model, optimizers.optimizer(spec.optimization, model), schedule, Place())
    parameters = sum(parameter.numel() for parameter in model.parameters())
    frozen = frozen_values(spec.model, model)
    return run.begin(spec, identity(spec, device.type), threads, parameters, frozen, device.type, weights, restarted)


def _resume(work: Work, threads: int, accept_changes: bool) -> None:
    """Go back to the last checkpoint of an interrupted run, if all that it depends on is what it was."""
    spec, run = work.spec, work.run
    current = identity(spec, work.device.type)
    changed = _changes(spec, run, current, threads)
    if not accept_changes:
        refuse(run.path, changed, "to continue anyway; the changes are recorded in manifest.json")
    if spec.task.preparation != run.preparation:
        raise GatelabError(
            f"{run.path} cannot be continued with other data: its preprocessing (scaling, columns or classes) follows "
            "from the data and would be another, so that its weights would no longer fit; start a new run"
        )
    for change in changed:
        work.report.note(f"accepted: {change}")
    if run.checkpoint_path.is_file():
        work.place, saved = checkpoint.read(run.checkpoint_path, work.model, work.optimizer, work.schedule)
        carried = tuple(value.to(work.device) for value in saved)
        work.carried = carried[0] if len(carried) == 1 else carried or None
    gradients.read(run.path)
    work.manifest = run.resume(spec, current, changed, threads)  # not before all that it needs was read
    run.write_metrics(work.place.history)  # it may have run ahead of the checkpoint


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


def _end_epoch(work: Work, validation: Metrics, seconds: float) -> None:
    """Record the epoch; keep the weights if they are the best so far."""
    place = work.place
    trained = checkpoint.restored_tally(work.objective, place.tally).metrics()
    line = {
        "epoch": place.epoch + 1,
        **{f"train_{name}": value for name, value in trained.items()},
        **{f"validation_{name}": value for name, value in validation.items()},
        "learning_rate": work.schedule.learning_rate(place.epoch, place.batch - 1, place.batch),  # of the last batch
        "gradient_norm": place.norm / place.batch,
        "seconds": round(place.seconds, 4),
        "validation_seconds": round(seconds, 4),
        "samples_per_second": round(_seen(work, len(work.task.train), int(place.tally["targets"])) / place.seconds, 1),
    }
    better = _is_better(work, validation)
    if better:
        place.best_score, place.best_loss = work.objective.score(validation), validation["loss"]
    if (better or _is_tied(work, validation)) and work.spec.training.keep == "best":
        _keep(work, place.epoch + 1)
    place.waited = 0 if better else place.waited + 1
    work.schedule.observe(better)
    place.history.append(line)
    place.total_seconds += place.seconds + seconds
    place.epoch, place.batch, place.tally, place.norm, place.seconds = place.epoch + 1, 0, {}, 0.0, 0.0
    if work.spec.training.checkpoint == "epoch":
        _save(work)
        work.run.write_metrics(place.history)
    work.report.epoch(line, better)


def _is_better(work: Work, validation: Metrics) -> bool:
    """Whether this is the best validation epoch so far; none is without a validation set."""
    if not validation:
        return False
    place, score = work.place, work.objective.score(validation)
    # Small validation sets tie often, and the first of equals may have hardly learned: then the loss decides.
    tied = score == place.best_score and validation["loss"] < place.best_loss
    return place.best_score is None or score > place.best_score or tied


def _is_tied(work: Work, validation: Metrics) -> bool:
    """Whether validation cannot tell this epoch from the best one: all targets are missed in both, whatever the loss of
    such predictions, or score and loss are the same. Then the later one is kept, but counts as no improvement.
    """
    if not validation:
        return False
    place, goal = work.place, work.objective
    score = goal.score(validation)
    misses_all = goal.monitor == "accuracy" and score == 0
    return score == place.best_score and (misses_all or validation["loss"] == place.best_loss)


def _keep(work: Work, epoch: int) -> None:
    """Write the weights as those of this epoch."""
    checkpoint.write_weights(work.run.best_path, work.model, epoch)
    work.place.best_epoch = epoch


def _end_training(work: Work) -> None:
    """After the last epoch: what was not written before."""
    if work.spec.training.keep == "last" and work.place.epoch:
        _keep(work, work.place.epoch)
    _save(work)


def _save(work: Work) -> None:
    carried = work.carried if work.place.batch else None  # an epoch begins without one
    checkpoint.write(work.run.checkpoint_path, work.model, work.optimizer, work.schedule, work.place, carried)
    work.saved = time.perf_counter()


def _end(work: Work, facts: dict[str, Any]) -> Outcome:
    place = work.place
    work.manifest = work.manifest.replaced(best_epoch=place.best_epoch, epochs=place.epoch, ended=now(), **facts)
    work.run.write_timing(
        {
            "seconds": round(place.total_seconds + place.seconds, 4),
            "train_seconds": round(sum(line["seconds"] for line in place.history) + place.seconds, 4),
            "validation_seconds": round(sum(line["validation_seconds"] for line in place.history), 4),
            "seconds_per_epoch": round(sum(line["seconds"] for line in place.history) / max(1, len(place.history)), 4),
        }
    )
    if work.spec.training.checkpoint == "end":
        work.run.write_metrics(place.history)
    work.run.write_manifest(work.manifest)
    return Outcome(facts["status"], work.run, facts.get("test", {}), place.best_epoch)
