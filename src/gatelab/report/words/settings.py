"""The settings of an experiment, as the methods section of a paper lists them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gatelab.experiments.experiment import Experiment
from gatelab.experiments.facts import TaskFacts, hyperparameters
from gatelab.experiments.results import Results
from gatelab.experiments.tuning.space import TuneSpec
from gatelab.formatting import counted, duration
from gatelab.lang.printing import GREEK
from gatelab.tasks.preparation import Preparation
from gatelab.training.manifest import Manifest
from gatelab.training.spec import ModelSpec, OptimizationSpec, TrainingSpec

Facts = dict[str, Any]

LOSSES = {"cross_entropy": "cross-entropy", "mse": "mean squared error", "mae": "mean absolute error"}
INITIALIZATIONS = {
    "cell": "the cell's own values, otherwise uniform ±1/√H",
    "torch": "uniform ±1/√H",
    "xavier": "Xavier W, orthogonal U, zero biases",
}
OWN_COLUMNS = ("cell", "hidden_size", "num_layers", "options", "engine", "init")  # shown in columns of their own


def shortened(names: list[str], length: int = 20) -> list[str]:
    """Names that fit into a figure: of long ones the beginning and the end, numbered where that is ambiguous."""
    short = [n if len(n) <= length else f"{n[: length - 9]}…{n[-8:]}" for n in names]
    return [n if short.count(n) == 1 else f"{i}: {n}" for i, n in enumerate(short, 1)]


def pairs(values: Facts) -> str:
    """`name = value, name = value`."""
    return ", ".join(f"{name} = {plain(value)}" for name, value in values.items())


def plain(value: Any) -> str:
    """A value of a config in one line."""
    if isinstance(value, dict):
        return pairs(value)
    if isinstance(value, list):
        return ", ".join(map(plain, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def task(spec: Facts) -> str:
    """A task's name with its options; of a file only its name, since its folder means nothing to others."""
    options = {name: value for name, value in spec.items() if name not in ("name", "data_dir")}
    if isinstance(options.get("path"), str):
        options["path"] = Path(options["path"]).name
    return f"{spec['name']} ({pairs(options)})" if options else str(spec["name"])


def data_set(spec: Facts) -> str:
    """What a title calls the data: the name of the user's file or folder, otherwise that of the task."""
    path = spec.get("path")
    return Path(path).stem or path if isinstance(path, str) else Path(spec["name"]).name


def cell(model: ModelSpec) -> str:
    """The name of a model's cell; NAME of FILE.py:NAME."""
    return str(model.cell).rpartition(":")[2]


def data(facts: TaskFacts) -> list[tuple[str, str]]:
    """Input, target, examples, split and source of a task."""
    tokens, steps = len(facts.preparation.vocabulary), counted(facts.preparation.steps, "step")
    features = f" of {counted(facts.preparation.input_size, 'feature')}"
    return [
        ("input", f"{steps}, each one of {tokens:,} tokens" if tokens else steps + features),
        ("target", _target(facts.preparation)),
        ("examples", "{:,} training, {:,} validation, {:,} test".format(*facts.sizes)),
        ("split", facts.split.replace("`", "")),
        ("source", facts.source),
    ]


def _target(prepared: Preparation) -> str:
    """Where targets are, and in which units errors are."""
    parts = ["one per step" if prepared.per_step else "one per sequence"]
    parts += ["differences from the step before"] if prepared.differenced else []
    parts += ["standardized (errors are in these units)"] if prepared.target_scaling is not None else []
    return ", ".join(parts)


def optimization(o: OptimizationSpec) -> list[tuple[str, str]]:
    """Optimizer, learning rate and gradient clipping."""
    rate = f"{o.learning_rate:g}"
    schedules = {
        "constant": f"{rate}, constant",
        "cosine": f"{rate}, cosine decay to {o.final_learning_rate:g}",
        "one_cycle": f"{rate} at the peak of one cycle",
        "step": f"{rate}, times {o.step_factor:g} every {counted(o.step_epochs, 'epoch')}",
        "plateau": f"{rate}, times {o.step_factor:g} after {counted(o.plateau_patience, 'epoch')} "
        "without improvement in validation",
    }
    more = {"weight decay": o.weight_decay, "momentum": o.momentum}
    rule = ", ".join([o.optimizer, *(f"{name} {value:g}" for name, value in more.items() if value)])
    warmup = f", linear warm-up over {o.warmup_steps:,} batches" if o.warmup_steps else ""
    clip = "none" if o.clip_norm is None else f"maximum norm {o.clip_norm:g}"
    return [("optimizer", rule), ("learning rate", schedules[o.schedule] + warmup), ("gradient clipping", clip)]


def training(
    t: TrainingSpec, is_classes: bool, in_bits: bool = False, default_bptt: int | None = None
) -> list[tuple[str, str]]:
    """Loss, epochs, model selection, batch size and truncated back-propagation."""
    loss = t.loss if t.loss != "auto" else "cross_entropy" if is_classes else "mse"
    by_accuracy = is_classes and not in_bits
    monitor = t.monitor if t.monitor != "auto" else "accuracy" if by_accuracy else "loss"
    bptt = t.bptt or default_bptt
    patience = f", early stopping with patience {t.patience}" if t.patience else ""
    return [
        (
            "loss",
            LOSSES[loss] + (f", labels smoothed by {t.label_smoothing:g} in training" if t.label_smoothing else ""),
        ),
        ("epochs", f"at most {t.num_epochs}{patience}"),
        ("tested weights", "last epoch" if t.keep == "last" else f"epoch with the best validation {monitor}"),
        ("batch size", f"{t.batch_size:,}{', batches of similar length' if t.bucket_by_length else ''}"),
        *([("truncated back-propagation", f"chunks of {counted(bptt, 'step')}, state carried over")] if bptt else []),
    ]


def seeds(experiment: Experiment) -> str:
    """The seeds that were used."""
    used = sorted({run.seed for run in experiment.runs})
    return f"{used[0]} to {used[-1]}" if len(used) > 2 else " and ".join(map(str, used))


def initialization(experiment: Experiment) -> str:
    """The initialization of the weights; by model where models differ."""
    by_model = {name: INITIALIZATIONS[model.init] for name, model in experiment.models.items()}
    first, *others = dict.fromkeys(by_model.values())
    return first if not others else "; ".join(f"{name}: {scheme}" for name, scheme in by_model.items())


def particulars(model: ModelSpec) -> str:
    """The settings of a model that are not the defaults, and the hyperparameters of its cell."""
    defaults = ModelSpec.model_construct().document()
    parts = []
    for name, value in model.document().items():
        if name in OWN_COLUMNS or value == defaults.get(name):
            continue
        shown = (
            pairs(value) if isinstance(value, dict) else ", ".join(value) if isinstance(value, list) else plain(value)
        )
        parts.append(name.replace("_", " ") if value is True else f"{name.replace('_', ' ')} {shown}")
    for name, option in hyperparameters(model).items():
        parts.append(f"{GREEK.get(name, name)} = {option.value:g} ({'learned' if option.learned else 'fixed'})")
    return "; ".join(parts)


def hardware(manifests: list[Manifest]) -> list[tuple[str, str]]:
    """The machines and engines of the runs, each named once."""
    machines = {
        f"{machine.cpu}, {counted(machine.cores or 1, 'core')}, {machine.system}"
        for machine in (manifest.machine for manifest in manifests)
    }
    engines = {f"{m.identity.engine}{_device(m)}, {counted(m.threads, 'thread')} per run" for m in manifests}
    return [
        (name, "; ".join(sorted(values))) for name, values in (("machine", machines), ("engine", engines)) if values
    ]


def _device(manifest: Manifest) -> str:
    """Where a run was trained, if not on the CPU."""
    name, title = manifest.device, manifest.machine.accelerator
    return "" if name == "cpu" else f" on {name}" if title is None else f" on {name} ({title})"


def settings(results: Results, experiment: Experiment, manifests: list[Manifest]) -> list[tuple[str, str]]:
    """The settings that all runs share; `manifests` are those of the runs that can be read."""
    spec = experiment.spec
    rows = [("task", task(spec.task)), *data(experiment.task)]
    rows += training(spec.training, bool(results.classes), experiment.task.in_bits, experiment.task.default_bptt)
    rows += optimization(spec.optimization)
    rows = [(name, value + _tuned(name, spec.tune)) for name, value in rows]
    rows += [("seeds", seeds(experiment)), ("initialization", initialization(experiment)), *hardware(manifests)]
    rows.append(("versions", ", ".join(f"{name} {version}" for name, version in experiment.versions.items())))
    if results.seconds:
        rows.append(("total time", duration(results.seconds)))
    return rows


TUNED = {
    "optimizer": ("optimizer", "weight_decay", "momentum"),
    "learning rate": ("learning_rate", "schedule", "final_learning_rate", "step_epochs", "step_factor", "warmup_steps"),
    "gradient clipping": ("clip_norm",),
    "batch size": ("batch_size",),
}  # by row of the table


def _tuned(row: str, tune: TuneSpec | None) -> str:
    """Which settings of a row were tuned, so that its value is not that of the runs."""
    if not tune:
        return ""
    of_all = [key for key in TUNED.get(row, ()) if key in tune.space]
    of_some = [(key, name) for key in TUNED.get(row, ()) for name, own in tune.models.items() if key in own]
    notes = [f"{key.replace('_', ' ')} tuned for each model" for key in of_all]
    notes += [f"{key.replace('_', ' ')} tuned for {name}" for key, name in of_some if key not in of_all]
    return f" ({'; '.join(notes)})" if notes else ""


def models(experiment: Experiment, manifests: list[Manifest]) -> list[list[str]]:
    """The models as they were built, below a row of titles; empty columns are left out."""
    rows = [["model", "H", "layers", "parameters", "cell", "other settings"]]
    for name, model in experiment.models.items():
        document = model.document()
        sizes = [f"{m.parameters:,}" for m in manifests if m.spec.model == document]  # a failed run has one too
        layers = [str(model.hidden_size), str(model.num_layers), *(sizes[:1] or ["–"])]
        rows.append([name, *layers, "" if cell(model) == name else cell(model), particulars(model)])
    kept = [i for i in range(6) if i < 4 or any(row[i] for row in rows[1:])]
    return [[row[i] or "–" for i in kept] for row in rows]
