"""The manifest of a run: its spec, machine and outcome, in manifest.json."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from typing import Any, Literal

import numpy as np
import torch
from pydantic import Field

from gatelab.engine.fused.compiler import cpu_name
from gatelab.errors import DataError
from gatelab.record import Record
from gatelab.tasks import Baseline
from gatelab.training.spec import OptimizationSpec, RunSpec, TrainingSpec

SCHEMA = 3
Status = Literal["running", "done", "failed", "diverged", "interrupted"]


class Machine(Record):
    """The processor that a run used."""

    cpu: str
    cores: int | None
    system: str
    accelerator: str | None = None  # the name of a device other than the CPU


class Divergence(Record):
    """Where a run diverged."""

    what: str
    epoch: int
    batch: int | None
    largest_gradients: dict[str, str]  # as text: JSON has no infinity


class Identity(Record):
    """What must stay the same for a run to be resumed."""

    engine: str
    cell: str
    data: str


class Commit(Record):
    """The commit of the folder a run was started in, and whether anything was changed since, if that is known."""

    commit: str
    changed: bool | None


class Resumption(Record):
    """When and how a run was resumed."""

    at: str
    versions: dict[str, str]
    threads: int
    num_epochs: int
    changed: tuple[str, ...] = ()  # what was accepted as changed


class SpecFacts(Record):
    """The spec of a run; its task and its cell need the record of the model to be what they were."""

    task: dict[str, Any]
    model: dict[str, Any]
    optimization: OptimizationSpec
    training: TrainingSpec

    @classmethod
    def of(cls, spec: RunSpec) -> SpecFacts:
        """Those of a spec."""
        document = spec.document()
        return cls(
            task=document["task"], model=document["model"], optimization=spec.optimization, training=spec.training
        )


class Manifest(Record):
    """The manifest of a run."""

    schema_: Literal[3] = Field(3, alias="schema")
    status: Status
    spec: SpecFacts
    seed: int
    parameters: int
    frozen: dict[str, str]  # a checksum of each frozen parameter, by name
    versions: dict[str, str]
    machine: Machine
    device: str = Field(pattern="^(cpu|cuda|mps)$")
    threads: int = Field(ge=1, le=1024)
    identity: Identity
    git: Commit | None
    started: str
    resumed: tuple[Resumption, ...] = ()
    initial_weights: str | None = None  # the checksum of weights that were given
    restarted: str = ""  # why an earlier run in the directory was given up
    # Known when it has ended.
    ended: str | None = None
    best_epoch: int | None = None
    epochs: int = 0
    test: dict[str, float] = Field(default_factory=dict)
    baseline: Baseline | None = None
    errors: dict[str, dict[str, float]] = Field(default_factory=dict)  # of each target column, in the data's own units
    error: str = ""
    divergence: Divergence | None = None
    pruned: bool = False  # stopped because it was hopeless, as a trial of a search

    def without_end(self) -> Manifest:
        """That of the same run before it ended."""
        names = ("ended", "best_epoch", "epochs", "test", "baseline", "errors", "error", "divergence", "pruned")
        fields = type(self).model_fields
        return self.replaced(**{name: fields[name].get_default(call_default_factory=True) for name in names})


def read_manifest(content: dict[str, Any], source: object) -> Manifest:
    """A manifest that this version understands, or an error that says why not."""
    schema, written_by = content.get("schema"), content.get("versions")
    if not isinstance(schema, int):
        raise DataError(f"{source} is not the manifest of a run: it states no schema")
    if schema > SCHEMA:
        version = written_by.get("gatelab", "?") if isinstance(written_by, dict) else "?"
        raise DataError(
            f"{source} was written by a newer gatelab, with schema {schema}; this one reads {SCHEMA}: install version "
            f"{version} to read it"
        )
    if schema < SCHEMA:
        raise DataError(
            f"{source} was written by an older gatelab, with schema {schema}; this one reads {SCHEMA}: train it again"
        )
    return Manifest.read(content, source)


def now() -> str:
    """The time in UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def versions() -> dict[str, str]:
    """The versions of what a result depends on."""
    import gatelab

    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "gatelab": gatelab.__version__,
    }


def machine(accelerator: str | None = None) -> Machine:
    """The processor by name and size, and the device beside it; no host name, no paths."""
    return Machine(cpu=cpu_name(), cores=os.cpu_count(), system=platform.system(), accelerator=accelerator)


def git_commit() -> Commit | None:
    """The commit of the folder the run was started in, and whether anything was changed since.

    A repository's own settings can name programs for git to run: the monitor of files is switched off, and where there
    are filters nobody asks what was changed.
    """
    if (commit := _git("rev-parse", "HEAD")) is None:
        return None
    filters = _git("config", "--show-scope", "--get-regexp", r"^filter\.", none_found=1)
    if filters is None or any(line.startswith(("local", "worktree")) for line in filters.splitlines()):
        return Commit(commit=commit, changed=None)
    changes = _git("status", "--porcelain", "--untracked-files=no", "--ignore-submodules=all")
    return Commit(commit=commit, changed=None if changes is None else bool(changes))


def _git(*command: str, none_found: int = 0) -> str | None:
    """What git says; None if it is not there, or fails. `none_found` is another exit code for an empty answer."""
    harmless = ["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "--no-optional-locks"]
    try:
        done = subprocess.run(["git", *harmless, *command], capture_output=True, text=True, check=False, timeout=10)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode in (0, none_found) else None
