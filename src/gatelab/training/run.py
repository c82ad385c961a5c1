"""The run directory: the one contract between training and everything that reads its results.

    manifest.json           the spec, the machine, the outcome, and the test metrics
    model.json              the equations as data, and the preprocessing
    cell.txt                the equations, and the file they came from, for people; never read back
    metrics.jsonl           one line per epoch
    checkpoint.safetensors  everything that is needed to resume: weights, optimizer, position, history
    best.safetensors        the weights that are kept: of the best validation epoch, or of the last one
    predictions.npz         the model's output on the test set, and the targets
    examples.npz            a few examples of data that may be unavailable later, and the end of a series
    gradients.npz           gradient norms by epoch and step, if recorded
    timing.json             seconds of training and validation
    estimator.json          the parameters of a classifier or regressor of gatelab.sklearn, if it is one's
    report.html             the page of `gatelab fit`, for people; never read back

Every file is written completely or not at all; all that are read back carry a checksum, which is verified then. Nothing
in it can run code, and no link in it is followed out of it. It can be moved to another machine and used there alone.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import ValidationError
from torch import Tensor, nn

from gatelab import cells, sealed, tasks
from gatelab.cells import Choice
from gatelab.disk import within, write_text
from gatelab.errors import DataError, GatelabError, first_of, first_problem, short
from gatelab.formatting import counted
from gatelab.lang.document import digest
from gatelab.tasks.preparation import Preparation
from gatelab.training import build, checkpoint, kept
from gatelab.training.manifest import (
    SCHEMA,
    Identity,
    Manifest,
    Resumption,
    SpecFacts,
    now,
    read_manifest,
    versions,
)
from gatelab.training.spec import RunSpec

IMMATERIAL = ("task.data_dir", "training.checkpoint", "training.checkpoint_seconds")  # do not affect the result
MANIFEST, MODEL, CELL = "manifest.json", "model.json", "cell.txt"
CELL_HEADING = "# The cell"
METRICS, CHECKPOINT, BEST = "metrics.jsonl", "checkpoint.safetensors", "best.safetensors"
PREDICTIONS, GRADIENTS, TIMING = "predictions.npz", "gradients.npz", "timing.json"
ESTIMATOR = "estimator.json"  # of an estimator's `save`
FORECASTER = "forecaster.json"  # of a forecaster's, whose directory holds several runs
REPORT = "report.html"  # of `gatelab fit`
BACKTEST = "backtest.csv"  # of `gatelab fit` of a series, written before the forecaster is fitted
PROGRESS, LOG = "progress.json", "log.txt"  # of an experiment's worker
INSPECTION, EXPLORER = "inspect", "explorer.html"  # of `gatelab inspect` and `gatelab explore`
EPOCH = ("epoch", "train_loss", "learning_rate", "gradient_norm", "seconds")  # at least, in a line of the metrics
FILES = (
    MANIFEST, MODEL, CELL, METRICS, CHECKPOINT, BEST, PREDICTIONS, kept.FILE, GRADIENTS, TIMING, ESTIMATOR, PROGRESS,
    LOG, INSPECTION, EXPLORER, REPORT,
)  # fmt: skip


class Run:
    """A run directory, written by `train` and read by anyone."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    def file(self, name: str) -> Path:
        """The path of one of its files; a link that leads elsewhere is an error."""
        return within(self.path, self.path / name)

    @property
    def manifest_path(self) -> Path:
        """manifest.json, with which the run exists."""
        return self.file(MANIFEST)

    @property
    def checkpoint_path(self) -> Path:
        """checkpoint.safetensors."""
        return self.file(CHECKPOINT)

    @property
    def best_path(self) -> Path:
        """best.safetensors."""
        return self.file(BEST)

    def exists(self) -> bool:
        """Whether the directory holds a run."""
        return self.manifest_path.is_file()

    def manifest(self) -> Manifest:
        """The spec, the machine and the outcome; an error if it does not fit the schema."""
        if not self.exists():
            raise no_run(self.path)
        return read_manifest(sealed.read_json(self.manifest_path), self.manifest_path)

    @cached_property
    def model_record(self) -> dict[str, Any]:
        """The equations and the preprocessing. They never change."""
        record = sealed.read_json(self.file(MODEL))
        if record.keys() != {"schema", "cell", "preparation"} or record["schema"] != SCHEMA:
            raise sealed.damaged(self.path / MODEL, "it is not the record of a model")
        return record

    @cached_property
    def cell(self) -> Choice:
        """The cell, from its equations as data: nothing of it is executed, and no file of the user's is needed."""
        if not isinstance(document := self.model_record["cell"], dict):
            raise sealed.damaged(self.path / MODEL, f"the cell is {document!r}")
        return cells.choose(document)

    @cached_property
    def preparation(self) -> Preparation:
        """The preprocessing of inputs, and the meaning of outputs."""
        return Preparation.read(self.model_record["preparation"], str(self.path / MODEL))

    def spec(self) -> RunSpec:
        """The spec, from the directory alone; the data is not read before it is used."""
        return spec_of(self.manifest().spec, self.cell, self.preparation, self.manifest_path)

    def checked_against(self, spec: RunSpec, but: tuple[str, ...] = ()) -> Manifest:
        """The manifest, if this is a run of that spec; else an error that names what differs."""
        different = differences(spec.document(), self.spec().document(), but)
        if spec.model.cell.cell is not self.cell.cell and digest(spec.model.cell.cell) != digest(self.cell.cell):
            different.append(f"the equations of model.cell, {spec.model.cell}, are others")
        if different:
            raise GatelabError(
                f"{self.path} holds another run: {'; '.join(different)}. Choose another directory, or resume what is "
                f"there: gatelab train --resume {shlex.quote(str(self.path))}"
            )
        return self.manifest()

    def device(self) -> str:
        """The device that the run began on."""
        return self.manifest().device

    def best_epoch(self) -> int | None:
        """The epoch whose weights are kept: from the manifest of an ended run, from the weights of a running one."""
        manifest = self.manifest()
        return manifest.best_epoch if manifest.ended else checkpoint.epoch_of(self.best_path)

    def model(self) -> nn.Module:
        """The model with the weights of its best epoch, in evaluation mode."""
        manifest, best = self.manifest(), self.best_epoch()
        if best is None:
            raise DataError(f"{self.path} has no finished epoch yet: train it first")
        model = self.untrained(self.best_path)
        # A running run may replace the weights by better ones at any moment: they will do as well.
        checkpoint.read_weights(self.best_path, model, best if manifest.ended else None)
        return model.eval()

    def untrained(self, weights: Path) -> nn.Module:
        """The model with its initial weights, if those in the file fit it."""
        spec, prepared = self.spec(), self.preparation
        sizes = (spec.model.hidden_size, spec.model.num_layers, prepared.input_size, prepared.output_size)
        checkpoint.refuse_size(weights, *sizes)
        return build.model(spec.model, spec.task, spec.training.seed)

    def metrics(self) -> list[dict[str, Any]]:
        """The epochs, one dictionary each."""
        manifest = self.manifest()  # first: a run that is ending writes it last
        path = self.file(METRICS)
        lines = sealed.read_lines(path) if path.is_file() else []
        if manifest.ended and len(lines) != manifest.epochs:
            raise sealed.damaged(path, f"it has {len(lines)} epochs, and the run had {manifest.epochs}")
        for number, line in enumerate(lines, 1):
            _check_epoch(path, number, line, lines[0].keys())
        return lines

    def predictions(self) -> dict[str, np.ndarray]:
        """`predictions` (scores or numbers), the targets as `answers`, and `lengths` where sequences differ."""
        arrays = sealed.read_arrays(self.file(PREDICTIONS))
        predictions, targets = arrays.get("predictions"), arrays.get("answers")
        if predictions is None or targets is None or not predictions.ndim or predictions.shape[:1] != targets.shape[:1]:
            raise sealed.damaged(self.path / PREDICTIONS, "expected predictions and as many targets")
        if not (self.path / MODEL).is_file():
            return arrays
        classes = self.preparation.classes
        if classes is not None and (targets.dtype.kind != "i" or targets.min() < 0 or targets.max() >= len(classes)):
            raise sealed.damaged(self.path / PREDICTIONS, f"expected targets from 0 to {len(classes) - 1}")
        if predictions.dtype.kind != "f" or predictions.shape[-1] != self.preparation.output_size:
            raise sealed.damaged(self.path / PREDICTIONS, f"expected {self.preparation.output_size} scores or numbers")
        return arrays

    def last_log_line(self) -> str:
        """The last line in the log of a worker's run; empty if there is none."""
        try:
            log = self.file(LOG)
            lines = log.read_text(errors="replace").strip().splitlines() if log.is_file() else []
        except (OSError, DataError) as error:
            return str(error)
        return lines[-1] if lines else ""

    # Writing.

    def begin(
        self, manifest: Manifest, cell: Choice, preparation: Preparation, examples: dict[str, np.ndarray]
    ) -> None:
        """Write the record of the model, then the manifest, with which the run exists."""
        kept.write(self.path, examples)
        write_text(self.path / CELL, _for_people(cell))
        record = {"schema": SCHEMA, "cell": cell.document(), "preparation": preparation.document()}
        sealed.write_json(self.path / MODEL, record)
        self.write_manifest(manifest)

    def resume(
        self, spec: RunSpec, identity: Identity, changed: list[str], threads: int, examples: dict[str, np.ndarray]
    ) -> Manifest:
        """Update the manifest of a run that is resumed now, perhaps for more epochs than before."""
        before = self.manifest()
        if before.identity.data != identity.data:
            kept.write(self.path, examples)
        now_resumed = Resumption(
            at=now(),
            versions=versions(),
            threads=threads,
            num_epochs=spec.training.num_epochs,
            changed=tuple(changed),
        )
        manifest = before.without_end().replaced(
            status="running",
            spec=SpecFacts.of(spec),
            identity=identity,
            threads=threads,
            resumed=(*before.resumed, now_resumed),
        )
        self.write_manifest(manifest)
        return manifest

    def write_manifest(self, manifest: Manifest) -> None:
        """Replace manifest.json."""
        sealed.write_json(self.manifest_path, manifest.document())

    def write_metrics(self, history: list[dict[str, Any]]) -> None:
        """Replace metrics.jsonl."""
        sealed.write_lines(self.file(METRICS), history)

    def write_timing(self, history: list[dict[str, Any]], unfinished: float = 0.0) -> None:
        """Replace timing.json: seconds of all epochs, and of one that was not finished."""
        training = sum(line["seconds"] for line in history)
        validation = sum(line["validation_seconds"] for line in history)
        timing = {
            "seconds": training + unfinished + validation,
            "train_seconds": training + unfinished,
            "validation_seconds": validation,
            "seconds_per_epoch": training / max(1, len(history)),
        }
        sealed.write_json(self.file(TIMING), {name: round(seconds, 4) for name, seconds in timing.items()})

    def write_predictions(self, arrays: dict[str, np.ndarray]) -> None:
        """Write predictions.npz."""
        sealed.write_arrays(self.file(PREDICTIONS), arrays)


def prediction_arrays(prediction: Tensor, targets: Tensor, lengths: Tensor | None) -> dict[str, np.ndarray]:
    """What predictions.npz holds. Of one long sequence, (1, S, K), they may be those of the first steps only."""
    steps = prediction.shape[1]
    arrays = {"predictions": prediction, "answers": targets}
    if len(targets) == 1 and targets.ndim > 1 and targets.shape[1] > steps:
        arrays |= {"answers": targets[:, :steps], "total_steps": torch.tensor(targets.shape[1])}
    if lengths is not None:
        arrays["lengths"] = lengths
    return {name: value.numpy() for name, value in arrays.items()}


def spec_of(facts: SpecFacts, cell: Choice, preparation: Preparation, source: object) -> RunSpec:
    """The spec that a manifest has the facts of; `source` is named in errors."""
    try:
        options = dict(facts.task)
        task = tasks.reopen(str(options.pop("name")), options, preparation)
        model = {**facts.model, "cell": cell}
        return RunSpec.model_validate({**dict(facts), "task": task, "model": model})
    except ValidationError as error:
        why = first_problem(error)
    except (KeyError, TypeError, ValueError) as error:
        why = str(error)
    raise DataError(f"{source} cannot be read: {why}")


def _check_epoch(path: Path, number: int, line: dict[str, Any], names: Collection[str]) -> None:
    """Refuse a line of the metrics that is not of this epoch, or has not the numbers that the first line has."""
    if different := {*EPOCH, *names} ^ line.keys():
        state = "lacks" if different - line.keys() else "alone has"
        raise sealed.damaged(path, f"line {number} {state} {first_of(sorted(different))}")
    for name, value in line.items():
        if type(value) not in (int, float) or (name == "epoch" and value != number):
            raise sealed.damaged(path, f"line {number}: {name} is {short(value)}")


def no_run(path: Path, expected: str = "a directory with a manifest.json, as `gatelab train` writes it") -> DataError:
    """The error about a directory that holds no run: what it holds instead, and what can be done with it."""
    if (path / FORECASTER).is_file():
        return DataError(f"{path} holds {forecaster_in(path)}")
    patterns = ("runs/*/*/manifest.json", "*/runs/*/*/manifest.json")  # of an experiment, of several studies
    inside = sorted(each.parent for pattern in patterns for each in path.glob(pattern))
    what = f"an experiment: choose one of its runs, as {inside[0]}" if inside else "not a run directory"
    return DataError(f"{path} is {what}; expected {expected}")


def forecaster_in(path: Path) -> str:
    """What a forecaster's directory holds, in words, with the commands that take it."""
    networks = sorted(each.parent for each in path.glob("*/manifest.json"))
    command = shlex.quote(str(path))
    one = f"; each network is a run, which `gatelab export {shlex.quote(str(networks[0]))}` takes" if networks else ""
    return (
        f"a forecaster of {counted(len(networks), 'network')}, and not one run: `gatelab forecast {command}` continues "
        f"its series, `gatelab verify {command}` checks it, and {REPORT} is its page, if `gatelab fit` wrote it{one}"
    )


def differences(now: dict[str, Any], there: dict[str, Any], but: tuple[str, ...] = ()) -> list[str]:
    """What differs between two specs, key by key, except what does not affect the result."""
    ours, theirs = dict(_flat(now)), dict(_flat(there))
    return [
        f"{key} is {theirs.get(key)!r} there and {ours.get(key)!r} now"
        for key in {**theirs, **ours}
        if theirs.get(key) != ours.get(key) and key not in (*IMMATERIAL, *but) and not _is_moved(key, theirs, ours)
    ]


def _is_moved(key: str, theirs: dict[str, Any], ours: dict[str, Any]) -> bool:
    """Whether this is the task of a file that was moved; its data is compared by checksum."""
    files, names = zip(*(str(spec.get(key)).rpartition(":")[::2] for spec in (theirs, ours)), strict=True)
    return key == "task.name" and names[0] == names[1] and all(file.endswith(".py") for file in files)


def _flat(document: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in document.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _for_people(choice: Choice) -> str:
    """The equations, and the source text that they were traced from."""
    source = f"\n# {choice}, as it was when the run began\n\n{choice.text}" if choice.text else ""
    return f"{CELL_HEADING} {choice.cell.name}\n\n{choice.cell.text()}\n{source}"
