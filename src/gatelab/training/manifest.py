"""The manifest of a run: its spec, machine and outcome, as plain data in manifest.json."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from typing import Any, Literal

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gatelab.engine.fused.compiler import cpu_name
from gatelab.errors import DataError, first_problem

SCHEMA = 2  # 1 did not keep the equations, nor how the input was prepared
Status = Literal["running", "done", "failed", "diverged", "interrupted"]


class BaselineFacts(BaseModel):
    """A `Baseline` as a file has it."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    rule: str
    metric: str
    value: float
    by_column: list[float]


class Machine(BaseModel):
    """The processor that a run used."""

    cpu: str
    cores: int | None
    system: str
    accelerator: str | None = None  # the name of a device other than the CPU


class Divergence(BaseModel):
    """Where a run diverged."""

    what: str
    epoch: int
    batch: int | None
    largest_gradients: dict[str, str]


class Identity(BaseModel):
    """What must stay the same for a run to be resumed."""

    engine: str
    cell: str
    data: str


class Facts(BaseModel):
    """The facts that every manifest has; there may be more."""

    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False)

    status: Status
    spec: dict[str, Any]
    seed: int
    parameters: int
    frozen: dict[str, str]
    versions: dict[str, str]
    machine: Machine
    threads: int = Field(ge=1, le=1024)
    device: Literal["cpu", "cuda", "mps"] = "cpu"  # runs of earlier versions do not say so
    engine: str
    identity: Identity
    started: str
    resumed: list[dict[str, Any]]
    ended: str | None = None
    best_epoch: int | None = None
    epochs: int = 0
    test: dict[str, float] = {}
    baseline: BaselineFacts | None = None
    errors: dict[str, dict[str, float]] = {}
    error: str | None = None
    divergence: Divergence | None = None
    restarted: str | None = None  # why an earlier run in the directory was given up
    pruned: bool = False  # stopped because it was hopeless, as a trial of a search


def checked(content: dict[str, Any], source: object) -> dict[str, Any]:
    """A manifest that this version understands, or an error that says why not."""
    schema, written_by = content.get("schema"), content.get("versions")
    if not isinstance(schema, int):
        raise DataError(f"{source} is not the manifest of a run: it states no schema")
    if schema > SCHEMA:
        version = written_by.get("gatelab", "?") if isinstance(written_by, dict) else "?"
        raise DataError(
            f"{source} was written by a newer gatelab, with schema {schema}; this one reads up to {SCHEMA}: install "
            f"version {version} to read it"
        )
    if schema < SCHEMA:
        raise DataError(
            f"{source} was written by an older gatelab, with schema {schema}, which kept neither the equations nor the "
            "scaling of the input: train it again"
        )
    try:
        Facts.model_validate(content)
    except ValidationError as error:
        raise DataError(f"{source} cannot be read: {first_problem(error)}") from None
    return content


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


def machine(accelerator: str | None = None) -> dict[str, Any]:
    """The processor by name and size, and the device beside it; no host name, no paths."""
    found = {"cpu": cpu_name(), "cores": os.cpu_count(), "system": platform.system()}
    return found if accelerator is None else {**found, "accelerator": accelerator}


def git_commit() -> dict[str, Any] | None:
    """The commit of the folder the run was started in, and whether anything was changed since.

    A repository's own settings can name programs for git to run: the monitor of files is switched off, and where there
    are filters nobody asks what was changed.
    """
    if (commit := _git("rev-parse", "HEAD")) is None:
        return None
    filters = _git("config", "--show-scope", "--get-regexp", r"^filter\.", none_found=1)
    if filters is None or any(line.startswith(("local", "worktree")) for line in filters.splitlines()):
        return {"commit": commit, "changed": None}
    changes = _git("status", "--porcelain", "--untracked-files=no", "--ignore-submodules=all")
    return {"commit": commit, "changed": None if changes is None else bool(changes)}


def _git(*command: str, none_found: int = 0) -> str | None:
    """What git says; None if it is not there, or fails. `none_found` is another exit code for an empty answer."""
    harmless = ["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "--no-optional-locks"]
    try:
        done = subprocess.run(["git", *harmless, *command], capture_output=True, text=True, check=False, timeout=10)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode in (0, none_found) else None
