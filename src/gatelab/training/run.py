"""The run directory: the one contract between training and everything that reads its results.

    manifest.json           what was run, on what, how it ended, and the test metrics
    metrics.jsonl           a line an epoch
    checkpoint.safetensors  all that is needed to go on: weights, optimiser, place, history
    best.safetensors        the weights of the best validation epoch
    predictions.npz         what they said on the test set, and what was right
    gradients.npz           lengths of gradients by epoch and step, if they were asked for
    timing.json             where the time went

Every file is written whole or not at all. Nothing in it can run code when it is read. It can be copied to another
machine and read there.
"""

from __future__ import annotations

import json
import os
import platform
import shlex
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from gatelab.disk import whole_file, write_json, write_text
from gatelab.engine.fused.build import cpu_name
from gatelab.errors import DataError
from gatelab.training import build, checkpoint
from gatelab.training.config import parse
from gatelab.training.spec import RunSpec

SCHEMA = 1
IMMATERIAL = ("task.data_dir", "training.checkpoint_seconds")  # do not change what is learned
Status = Literal["running", "done", "failed", "diverged", "interrupted"]


class Run:
    """A run directory, to be written by `train` and read by anyone."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def manifest_path(self) -> Path:
        return self.path / "manifest.json"

    @property
    def checkpoint_path(self) -> Path:
        return self.path / "checkpoint.safetensors"

    @property
    def best_path(self) -> Path:
        return self.path / "best.safetensors"

    def exists(self) -> bool:
        return self.manifest_path.is_file()

    def manifest(self) -> dict[str, Any]:
        """What was run and how it ended; refuses what it does not understand."""
        if not self.exists():
            raise DataError(f"{self.path} is not a run directory: it has no manifest.json")
        manifest = _read_json(self.manifest_path)
        schema = manifest.get("schema")
        if not isinstance(schema, int):
            raise DataError(f"{self.manifest_path} is not the manifest of a run: it states no schema")
        if schema > SCHEMA:
            raise DataError(
                f"{self.path} was written by a newer gatelab, with schema {schema}; this one reads up to {SCHEMA}: "
                f"install version {manifest.get('versions', {}).get('gatelab', '?')} to read it"
            )
        return manifest

    def spec(self) -> RunSpec:
        return parse(self.manifest()["spec"], str(self.manifest_path))

    def checked_against(self, spec: RunSpec) -> dict[str, Any]:
        """The manifest, if this is a run of that spec; else an error that names what differs."""
        manifest = self.manifest()
        if different := differences(spec.document(), self.spec().document()):
            raise ValueError(
                f"{self.path} holds another run: {'; '.join(different)}. Choose another directory, or go on with what "
                f"is there: gatelab train --resume {shlex.quote(str(self.path))}"
            )
        return manifest

    def best_epoch(self) -> int | None:
        """The epoch whose weights are kept: on record when a run has ended; while it goes on, beside the weights."""
        manifest = self.manifest()
        return manifest["best_epoch"] if "ended" in manifest else checkpoint.epoch_of(self.best_path)

    def model(self) -> nn.Module:
        """The model with the weights of its best epoch, ready to be used."""
        spec = self.spec()
        made = build.model(spec.model, spec.task, spec.training.seed)
        best = self.best_epoch()
        if best is None:
            raise DataError(f"{self.path} has no finished epoch yet: train it first")
        # While a run goes on, better weights may take the place of these at any moment: they will do as well.
        checkpoint.read_weights(self.best_path, made, best if "ended" in self.manifest() else None)
        return made.eval()

    def metrics(self) -> list[dict[str, Any]]:
        """The epochs, one dictionary each."""
        path = self.path / "metrics.jsonl"
        if not path.is_file():
            return []
        return [json.loads(line) for line in path.read_text().splitlines()]

    def predictions(self) -> dict[str, np.ndarray]:
        """`predictions` (scores or numbers), `answers`, and `lengths` where sequences differ in length."""
        with (self.path / "predictions.npz").open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}

    # Writing.

    def begin(
        self, spec: RunSpec, identity: dict[str, str], threads: int, parameters: int, frozen: dict[str, str]
    ) -> dict[str, Any]:
        """The manifest of a run that starts now."""
        scaling = spec.task.target_scaling
        manifest = {
            "schema": SCHEMA,
            "status": "running",
            "spec": spec.document(),
            "seed": spec.training.seed,
            "parameters": parameters,
            "frozen": frozen,
            "versions": versions(),
            "machine": machine(),
            "threads": threads,
            "engine": identity["engine"],
            "identity": identity,
            "target_scaling": scaling and {"mean": scaling.mean.tolist(), "deviation": scaling.deviation.tolist()},
            "git": git_commit(),
            "started": now(),
            "resumed": [],
        }
        self.write_manifest(manifest)
        return manifest

    def go_on(self, identity: dict[str, str]) -> dict[str, Any]:
        """The manifest of a run that is continued now, if nothing it depends on has changed."""
        manifest = self.manifest()
        for what, before in manifest["identity"].items():
            if identity[what] != before:
                raise ValueError(
                    f"{self.path} cannot be gone on with: its {what} was {before} and is {identity[what]} now; put it "
                    "back as it was, or start anew in another directory"
                )
        for over in ("error", "ended"):
            manifest.pop(over, None)
        manifest |= {"status": "running", "resumed": [*manifest["resumed"], now()]}
        self.write_manifest(manifest)
        return manifest

    def write_manifest(self, manifest: dict[str, Any]) -> None:
        write_json(self.manifest_path, manifest)

    def write_metrics(self, history: list[dict[str, Any]]) -> None:
        lines = (json.dumps(epoch, allow_nan=False) + "\n" for epoch in history)
        write_text(self.path / "metrics.jsonl", "".join(lines))

    def write_timing(self, timing: dict[str, float]) -> None:
        write_json(self.path / "timing.json", timing)

    def write_predictions(self, prediction: Tensor, answers: Tensor, lengths: Tensor | None) -> None:
        arrays = {"predictions": prediction, "answers": answers}
        if lengths is not None:
            arrays["lengths"] = lengths
        with whole_file(self.path / "predictions.npz") as file:
            np.savez_compressed(file, allow_pickle=False, **{name: value.numpy() for name, value in arrays.items()})


def differences(now: dict[str, Any], there: dict[str, Any]) -> list[str]:
    """What was changed in a config, key by key, but for what does not change what is learned."""
    ours, theirs = dict(_flat(now)), dict(_flat(there))
    return [
        f"{key} is {theirs.get(key)!r} there and {ours.get(key)!r} now"
        for key in {**theirs, **ours}
        if theirs.get(key) != ours.get(key) and key not in IMMATERIAL
    ]


def _flat(document: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in document.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def versions() -> dict[str, str]:
    import gatelab

    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "gatelab": gatelab.__version__,
    }


def machine() -> dict[str, Any]:
    """The processor by name and size; no host name, no paths."""
    return {"cpu": cpu_name(), "cores": os.cpu_count(), "system": platform.system()}


def git_commit() -> dict[str, Any] | None:
    """The commit of the folder the run was started in, and whether anything was changed since."""
    try:
        commit, changes = (
            subprocess.run(["git", *command], capture_output=True, text=True, check=True, timeout=10).stdout.strip()
            for command in (["rev-parse", "HEAD"], ["status", "--porcelain", "--untracked-files=no"])
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return {"commit": commit, "changed": bool(changes)}


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise DataError(f"{path} cannot be read: it holds no JSON object")
    return content
