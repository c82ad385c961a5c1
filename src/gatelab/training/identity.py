"""What a run depends on beyond its spec: a spec names files, and files change."""

from __future__ import annotations

import hashlib
import zlib
from typing import Any

import torch
from torch import Tensor

from gatelab.engine.choose import choose
from gatelab.tasks import Task
from gatelab.training.spec import RunSpec


def identity(spec: RunSpec) -> dict[str, str]:
    """The engine that will run here, the cell's equations and the data, each as a word that can be compared."""
    cell = spec.model.equations()
    equations = f"{cell.text()}\n{cell.options}"
    return {
        "engine": choose(spec.model.engine, cell, torch.zeros(1), watch=False),
        "cell": hashlib.sha256(equations.encode()).hexdigest()[:16],
        "data": fingerprint(spec.task),
    }


def fingerprint(task: Task) -> str:
    """A sum over all data as it is stored. (Quick rather than safe: nobody forges their own data.)"""
    total = 0
    for part in task.parts:
        for values in (part.stored, part.targets, part.lengths):
            if values is not None:
                total = zlib.crc32(_all_bytes(values), total)
    return f"{total:08x}"


def _all_bytes(values: Tensor) -> Any:
    """What a tensor is a view of, once: windows of a series overlap."""
    size = values.untyped_storage().nbytes() // values.element_size()
    return torch.as_strided(values, (size,), (1,), 0).numpy()
