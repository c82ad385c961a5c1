"""What a run depends on beyond its spec: a spec names files, and files change."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from gatelab.engine.choose import choose
from gatelab.errors import DataError, GatelabError
from gatelab.lang.document import digest
from gatelab.sealed import sum_of
from gatelab.tasks import Task
from gatelab.training.manifest import Identity
from gatelab.training.run import Run
from gatelab.training.spec import RunSpec


def identity(spec: RunSpec, device: str = "cpu") -> Identity:
    """The engine that will run here, and checksums of the equations and of the data."""
    cell = spec.model.equations()
    return Identity(
        engine=choose(spec.model.engine, cell, torch.zeros(1, device=device), watch=False),
        cell=digest(cell),
        data=fingerprint(spec.task),
    )


def fingerprint(task: Task) -> str:
    """A checksum of all data as stored, and of its preprocessing."""
    total = hashlib.sha256(sum_of(task.preparation.document()).encode())
    for part in task.parts:
        for values in (part.stored, part.targets, part.lengths, part.weights):
            if values is not None:
                total.update(f"{values.dtype} {tuple(values.shape)} ".encode())
                total.update(_all_bytes(values))
    return total.hexdigest()


def _all_bytes(values: Tensor) -> Any:
    """The bytes that a tensor is a view of, once: windows of a series overlap."""
    size = values.untyped_storage().nbytes() // values.element_size()
    return torch.as_strided(values, (size,), (1,), 0).numpy()


def changes(run: Run, task: Task | None = None) -> list[str]:
    """What has changed since the run, as far as it is here: the file of its cell, and its data."""
    return [*changed_cell(run), *changed_data(run, task or run.spec().task.with_options())]


def changed_cell(run: Run) -> Iterator[str]:
    """Whether the cell's file has another text than the run recorded; the file is not executed."""
    if (file := run.cell.changed_file()) is not None:
        yield f"{file}, from which its cell was taken, was edited (the run has the old text in {run.path / 'cell.txt'})"


def changed_data(run: Run, task: Task) -> Iterator[str]:
    """Whether the data is other data than the run was trained on; nothing if it is not here."""
    if not task.is_here():
        return
    try:
        is_same = fingerprint(task) == run.manifest().identity.data
    except DataError as error:
        yield f"its data cannot be read any more ({error})"
        return
    if not is_same:
        where = "" if task.user_path is None else f" in {task.user_path}"
        yield f"the data{where} is not what it was trained and tested on"


def refuse(where: object, changed: list[str], instead: str) -> None:
    """An error that names all changes, if there are any."""
    if changed:
        raise GatelabError(
            f"{where} was made with something else: {'; '.join(changed)}. Restore it, or pass --accept-changes "
            f"{instead}"
        )
