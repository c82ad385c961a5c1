"""The training loop, top to bottom: epochs, batches, a step; evaluation; the end. It needs no directory."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from gatelab.engine.recurrent import State
from gatelab.errors import GatelabError
from gatelab.tasks import Batch, Task
from gatelab.training import build, checkpoint, chunks, devices, footprint, kept, optimizers, seeds
from gatelab.training.checkpoint import Place
from gatelab.training.evaluation import evaluate, run_chunk
from gatelab.training.identity import identity
from gatelab.training.manifest import Divergence, Manifest, SpecFacts, git_commit, machine, now, versions
from gatelab.training.objective import DIVERGED, Metrics, Objective, Tally, macro_metrics, own_unit_errors
from gatelab.training.process import Stop, divided, prepared, stoppable
from gatelab.training.reporter import Pruner, Reporter, Reporters
from gatelab.training.run import prediction_arrays
from gatelab.training.schedule import Schedule
from gatelab.training.spec import ModelSpec, RunSpec
from gatelab.training.trained import Trained


class DivergenceError(Exception):
    """A loss or gradient norm that is not finite, or a loss beyond any sense."""

    def __init__(self, what: str, epoch: int, batch: int | None, gradients: dict[str, float]) -> None:
        super().__init__(what)
        largest = {name: f"{size:g}" for name, size in gradients.items()}
        self.facts = Divergence(what=what, epoch=epoch, batch=batch, largest_gradients=largest)


class StoppedError(Exception):
    """The run was asked to stop."""


class Keeper:
    """What remains of training: here the best weights, in memory. A run directory keeps more (recorder.py)."""

    def __init__(self) -> None:
        self.weights: dict[str, Tensor] = {}
        self.predictions: dict[str, np.ndarray] = {}

    def keep(self, model: nn.Module, epoch: int) -> None:
        """The weights after this epoch are the best so far."""
        self.weights = {name: value.detach().cpu().clone() for name, value in model.state_dict().items()}

    def load(self, model: nn.Module, epoch: int | None) -> None:
        """Give the model the weights that were kept."""
        model.load_state_dict(self.weights)

    def checkpoint(self, work: Work, seconds: float = 0.0) -> None:
        """A place to go on from, if the last one is older than so many seconds."""

    def epoch(self, work: Work) -> None:
        """An epoch has ended."""

    def gradients(self, work: Work) -> None:
        """Before an epoch, if gradients are to be recorded."""

    def tested(self, predictions: dict[str, np.ndarray]) -> None:
        """The output on the test set."""
        self.predictions = predictions

    def end(self, work: Work) -> None:
        """Training has ended, however."""


@dataclass
class Work:
    """The state of the loop."""

    spec: RunSpec
    manifest: Manifest
    model: nn.Module
    optimizer: Optimizer
    schedule: Schedule
    objective: Objective
    task: Task  # the task of the spec; for truncated back-propagation with one long sequence in each part
    place: Place
    report: Reporter
    stop: Stop
    device: torch.device
    keeper: Keeper
    pruner: Pruner | None = None
    carried: State | None = None  # between two chunks of truncated back-propagation

    @classmethod
    def of(
        cls, spec: RunSpec, manifest: Manifest, model: nn.Module, report: Reporter, stop: Stop, keeper: Keeper
    ) -> Work:
        """Before the first batch."""
        task = spec.task if spec.training.chunk_length(spec.task) is None else spec.task.in_streams()
        return cls(
            spec=spec,
            manifest=manifest,
            model=model,
            optimizer=optimizers.optimizer(spec.optimization, model),
            schedule=Schedule(spec.optimization, spec.training.num_epochs),
            objective=Objective(task, spec.training),
            task=task,
            place=Place(),
            report=report,
            stop=stop,
            device=torch.device(manifest.device),
            keeper=keeper,
        )

    @property
    def bptt(self) -> int | None:
        """Steps per chunk of truncated back-propagation; None for whole sequences."""
        return self.spec.training.chunk_length(self.spec.task)

    @property
    def is_stream(self) -> bool:
        """Whether each part of the data is one long sequence."""
        return self.task is not self.spec.task


def train_in_memory(
    spec: RunSpec, *reporters: Reporter, initial_weights: Mapping[str, Tensor] | None = None, restarted: str = ""
) -> Trained:
    """Train in memory: nothing is written, and nothing remains of a training that is interrupted.

    `initial_weights` are the state of another model of this shape; `restarted` says why an earlier network in the place
    of this one was given up.
    """
    spec = spec.model_copy(update={"training": spec.training.model_copy(update={"checkpoint": "never"})})
    footprint.refuse(spec)
    refuse_empty_parts(spec)
    if spec.training.record:
        raise GatelabError(
            f"training.record: {', '.join(spec.training.record)}: expected a run directory, which `train` writes"
        )
    device, keeper = torch.device(devices.resolved(spec)), Keeper()
    with prepared(spec.training.threads, device.type) as threads, stoppable() as stop:
        model = initialized(spec, initial_weights).to(device)  # on the CPU: the device does not matter
        manifest = begun(spec, model, threads, device, initial_weights, restarted)
        work = Work.of(spec, manifest, model, Reporters(reporters), stop, keeper)
        go_through(work)
    if work.manifest.status == "interrupted":
        raise KeyboardInterrupt
    return Trained(
        record=work.manifest,
        cell=spec.model.cell,
        preparation=spec.task.preparation,
        weights=keeper.weights,
        history=work.place.history,
        examples=kept.examples(spec.task, work.is_stream),
        predictions=keeper.predictions,
    )


def initialized(spec: RunSpec, initial_weights: Mapping[str, Tensor] | None) -> nn.Module:
    """The model with its initial weights."""
    model = build.model(spec.model, spec.task, spec.training.seed)
    if initial_weights is not None:
        try:
            model.load_state_dict(initial_weights)
        except RuntimeError as error:
            raise GatelabError(f"the initial weights do not fit the model: {error}") from None
    return model


def begun(
    spec: RunSpec,
    model: nn.Module,
    threads: int,
    device: torch.device,
    initial_weights: Mapping[str, Tensor] | None,
    restarted: str,
) -> Manifest:
    """The manifest of a training that begins now."""
    return Manifest(
        status="running",
        spec=SpecFacts.of(spec),
        seed=spec.training.seed,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        frozen=frozen_values(spec.model, model),
        versions=versions(),
        machine=machine(devices.title(device.type)),
        device=device.type,
        threads=threads,
        identity=identity(spec, device.type),
        git=git_commit(),
        started=now(),
        initial_weights=None if initial_weights is None else _checksum(initial_weights),
        restarted=restarted,
    )


def _checksum(weights: Mapping[str, Tensor]) -> str:
    total = hashlib.sha256()
    for name, value in sorted(weights.items()):
        total.update(name.encode() + value.detach().cpu().numpy().tobytes())
    return total.hexdigest()


def go_through(work: Work) -> None:
    """Train and test, and end with a manifest that says how it went."""
    try:
        work.report.start(work.spec, work.manifest, work.place)
        _note_batch_size(work)
        with divided(work.model):
            facts = _until_the_end(work)
    except BaseException as error:
        stopped = isinstance(error, (KeyboardInterrupt, SystemExit))
        _end(work, {"status": "interrupted"} if stopped else {"status": "failed", "error": _in_words(error)})
        raise
    finally:
        work.report.close()
    _end(work, facts)


def _in_words(error: BaseException) -> str:
    return str(error) if isinstance(error, GatelabError) else f"{type(error).__name__}: {error}"


def _end(work: Work, facts: dict[str, Any]) -> None:
    place = work.place
    work.manifest = work.manifest.replaced(best_epoch=place.best_epoch, epochs=place.epoch, ended=now(), **facts)
    work.keeper.end(work)


def refuse_empty_parts(spec: RunSpec) -> None:
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
        work.keeper.checkpoint(work)
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
        work.keeper.gradients(work)


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
        work.keeper.checkpoint(work, training.checkpoint_seconds)


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
    work.keeper.load(work.model, epoch)
    metrics, predictions = evaluate(work.model, task.test, work.objective, work.is_stream)
    _check_converging(work, "test", metrics, epoch or 0)
    lengths, baseline = task.test.lengths, task.baseline()
    targets = task.test.targets if task.classes is None else task.test.targets.long()  # text stores bytes
    work.keeper.tested(prediction_arrays(predictions, targets, lengths))
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


def _check_converging(work: Work, part: str, metrics: Metrics, epoch: int) -> None:
    loss, examples = metrics["loss"], getattr(work.task, part)
    is_finite = all(map(math.isfinite, metrics.values()))
    if not is_finite or (loss >= DIVERGED and loss >= work.objective.hopeless(examples)):
        what = f"the {part} loss is {loss:.3g}"
        raise DivergenceError(what, epoch, None, optimizers.largest_gradients(work.model))


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
    place.epoch, place.batch, place.tally, place.norm, place.seconds = place.epoch + 1, 0, {}, 0.0, 0.0
    work.keeper.epoch(work)
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
    """Keep the weights as those of this epoch."""
    work.keeper.keep(work.model, epoch)
    work.place.best_epoch = epoch


def _end_training(work: Work) -> None:
    """After the last epoch: what was not written before."""
    if work.spec.training.keep == "last" and work.place.epoch:
        _keep(work, work.place.epoch)
    work.keeper.checkpoint(work)
