"""What the page knows about a task and its runs, as plain data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from gatelab import analysis
from gatelab.analysis import Subject
from gatelab.errors import GatelabError
from gatelab.explorer.examples import examples
from gatelab.explorer.units import units
from gatelab.export import Network, network_of
from gatelab.formatting import counted, named
from gatelab.tasks.images import permutation
from gatelab.tasks.preparation import Preparation

SAME = {
    "kind": "the kind of input", "input_size": "the number of inputs", "vocabulary": "the vocabulary",
    "columns": "the columns", "side": "the size of the images", "order": "the order of the pixels",
    "noise_pad": "the noise after the images", "classes": "the classes", "output_size": "the number of outputs",
    "per_step": "whether every step has a target", "forecasts": "what is predicted",
}  # fmt: skip


def open_runs(paths: list[Path], accept_changes: bool = False) -> tuple[list[Subject], list[Network]]:
    """The runs and their networks; an error if they do not read the same input."""
    subjects = [analysis.load(path, accept_changes=accept_changes) for path in paths]
    networks = [network_of(path, f"network{i}") for i, path in enumerate(paths, 1)]
    first = subjects[0].run.preparation
    for subject in subjects[1:]:
        other = subject.run.preparation
        if differing := [what for field, what in SAME.items() if getattr(first, field) != getattr(other, field)]:
            raise GatelabError(
                f"{subjects[0].run.path} and {subject.run.path} cannot be compared on one page: they differ in "
                f"{differing[0]}; expected runs that read the same input and answer the same question"
            )
    return subjects, networks


def task_data(subject: Subject) -> dict[str, Any]:
    """The task: what its inputs and outputs mean, and some of its test examples."""
    prepared, task = subject.run.preparation, subject.task
    return {
        "name": task.short_name,
        "kind": prepared.kind,
        "width": 1 if prepared.kind == "tokens" else prepared.input_size,  # numbers of each step
        "columns": list(prepared.columns),
        "vocabulary": list(prepared.vocabulary),
        "image": _image(prepared, int(task.test.stored.max()) if prepared.kind == "image" else 0),
        "classes": None if prepared.classes is None else list(prepared.classes),
        "targets": list(task.target_names) if prepared.classes is None else [],
        "perStep": prepared.per_step,
        "forecasts": prepared.forecasts,
        "scored": [prepared.scored_from, prepared.scored_to],
        "differenced": prepared.differenced,
        "examples": [example.document() for example in examples(subject)],
    }


def _image(prepared: Preparation, largest: int) -> dict[str, Any] | None:
    if prepared.side is None:
        return None
    pixels = prepared.side**2
    per_step = prepared.side if prepared.order == "rows" else 1
    order = permutation(pixels) if prepared.order == "permuted" else np.arange(pixels)
    return {
        "side": prepared.side,
        "channels": prepared.input_size // per_step,
        "perStep": per_step,  # pixels
        "order": order.tolist() if prepared.order == "permuted" else None,  # the pixel that is read at each place
        "white": largest,
    }


def run_data(subject: Subject, exported: Network) -> dict[str, Any]:
    """One run: what its network is, and facts about its units."""
    run, cell = subject.run, subject.cell
    manifest = run.manifest()
    layers, both = len(exported.layers), ", both directions" if exported.bidirectional else ""
    metrics = manifest.test
    main = [name for name in ("accuracy", subject.task.bits_metric, "mse") if name in metrics] or list(metrics)
    test = ", ".join(named(name, metrics[name]) for name in main if name is not None)
    facts = [
        f"{counted(layers, 'layer')} of {exported.hidden_size} units{both}",
        f"weights of epoch {run.best_epoch()}",
        f"test {test}" if test else "",
        "" if manifest.status == "done" else f"not finished ({manifest.status})",
        subject.note,
    ]
    return {
        "name": "/".join(run.path.resolve().parts[-2:]),
        "cell": cell.name,
        "network": exported.name,
        "facts": "; ".join(filter(None, facts)),
        "states": list(cell.graph.states),  # those in the equations
        "deviations": None if run.preparation.scaling is None else run.preparation.scaling.deviation.tolist(),
        "bounded": [name for name in cell.gates if name in cell.neutral],  # gates between 0 and 1
        "units": units(subject),
    }
