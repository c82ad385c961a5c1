"""Settings of an experiment in words, as a reader of a paper expects them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gatelab.lang.printing import GREEK
from gatelab.training.spec import ModelSpec

Facts = dict[str, Any]

LOSSES = {"cross_entropy": "cross-entropy", "mse": "squared error", "mae": "absolute error"}
STARTS = {"torch": "uniform ±1/√H", "xavier": "Xavier W, orthogonal U, zero biases"}
IN_COLUMNS = ("cell", "hidden_size", "num_layers", "options", "engine", "init")  # said elsewhere


def listed(words: list[str]) -> str:
    """a, b and c."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def counted(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def pairs(values: Facts) -> str:
    """name = value, name = value."""
    return ", ".join(f"{name} = {f'{v:g}' if isinstance(v, float) else v}" for name, v in values.items())


def task(spec: Facts) -> str:
    """A task's name with its options; of files only the last part of the name, which is all that others can use."""
    options = {name: value for name, value in spec.items() if name not in ("name", "data_dir")}
    if isinstance(options.get("path"), str):
        options["path"] = Path(options["path"]).name
    return f"{spec['name']} ({pairs(options)})" if options else str(spec["name"])


def data(known: Facts) -> list[tuple[str, str]]:
    sizes = "{:,} to train, {:,} to validate, {:,} to test".format(*known["sizes"])
    return [
        ("input", f"{counted(known['steps'], 'step')} of {counted(known['input_size'], 'number')}"),
        ("answer", "at every step" if known["per_step"] else "one a sequence"),
        ("examples", sizes),
        ("division", known["division"].replace("`", "")),
        ("source", known["source"]),
    ]


def optimisation(o: Facts) -> list[tuple[str, str]]:
    rate = f"{o['learning_rate']:g}"
    said = {
        "constant": f"{rate}, held",
        "cosine": f"{rate}, along a cosine to {o['final_learning_rate']:g}",
        "step": f"{rate}, times {o['step_factor']:g} every {counted(o['step_epochs'], 'epoch')}",
        "plateau": f"{rate}, times {o['step_factor']:g} after {counted(o['plateau_patience'], 'epoch')} "
        "without a better validation",
    }
    more = {"weight decay": o["weight_decay"], "momentum": o["momentum"]}
    rule = ", ".join([o["optimizer"], *(f"{name} {value:g}" for name, value in more.items() if value)])
    warmup = f", after a warm-up over {o['warmup_steps']:,} batches" if o["warmup_steps"] else ""
    clip = "none" if o["clip_norm"] is None else f"at norm {o['clip_norm']:g}"
    return [("optimiser", rule), ("learning rate", said[o["schedule"]] + warmup), ("clipping", clip)]


def training(t: Facts, is_classes: bool) -> list[tuple[str, str]]:
    loss = t["loss"] if t["loss"] != "auto" else "cross_entropy" if is_classes else "mse"
    monitor = t["monitor"] if t["monitor"] != "auto" else "accuracy" if is_classes else "loss"
    patience = f", stopped after {t['patience']} without a better validation" if t["patience"] else ""
    return [
        ("loss", LOSSES[loss]),
        ("epochs", f"at most {t['num_epochs']}{patience}"),
        ("weights tested", f"those of the best validation {monitor}"),
        ("batch size", f"{t['batch_size']:,}"),
    ]


def seeds(experiment: Facts) -> str:
    used = sorted({run["seed"] for run in experiment["runs"]})
    return f"{used[0]} to {used[-1]}" if len(used) > 2 else " and ".join(map(str, used))


def starts(experiment: Facts) -> str:
    """How weights start, where all models start alike; else by model."""
    by_model = {name: STARTS.get(spec["init"], spec["init"]) for name, spec in experiment["models"].items()}
    if len(set(by_model.values())) == 1:
        return next(iter(by_model.values()))
    return "; ".join(f"{name}: {start}" for name, start in by_model.items())


def particulars(spec: Facts, numbers: Facts) -> str:
    """What a model has of its own beside cell and size: settings that are not the defaults, and the cell's numbers."""
    defaults = ModelSpec.model_construct().document()
    said = []
    for name, value in spec.items():
        if name in IN_COLUMNS or value == defaults.get(name):
            continue
        shown = pairs(value) if isinstance(value, dict) else ", ".join(value) if isinstance(value, list) else value
        said.append(name.replace("_", " ") if value is True else f"{name.replace('_', ' ')} {shown}")
    for name, option in numbers.items():
        how = "learned" if option["learned"] else "fixed"
        said.append(f"{GREEK.get(name, name)} = {option['value']:g} ({how})")
    return "; ".join(said)


def where(manifests: list[Facts]) -> list[tuple[str, str]]:
    """The machines and engines of the runs, each named once."""
    machines = {
        f"{m['machine']['cpu']}, {counted(m['machine']['cores'], 'core')}, {m['machine']['system']}" for m in manifests
    }
    engines = {f"{m['engine']}, {counted(m['threads'], 'thread')} a run" for m in manifests}
    return [(name, "; ".join(sorted(found))) for name, found in (("machine", machines), ("engine", engines)) if found]


def duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"
