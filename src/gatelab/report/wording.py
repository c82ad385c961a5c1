"""Settings of an experiment in words, as a reader of a page or a paper expects them."""

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


def shortened(names: list[str], length: int = 20) -> list[str]:
    """Names that fit into a figure: of long ones the beginning and the end, and a number where that is not enough."""
    short = [n if len(n) <= length else f"{n[: length - 9]}…{n[-8:]}" for n in names]
    return [n if short.count(n) == 1 else f"{i}: {n}" for i, n in enumerate(short, 1)]


def counted(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def pairs(values: Facts) -> str:
    """name = value, name = value."""
    return ", ".join(f"{name} = {plain(value)}" for name, value in values.items())


def plain(value: Any) -> str:
    if isinstance(value, dict):
        return pairs(value)
    if isinstance(value, list):
        return ", ".join(map(plain, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def task(spec: Facts) -> str:
    """A task's name with its options; of files only the last part of the name, which is all that others can use."""
    options = {name: value for name, value in spec.items() if name not in ("name", "data_dir")}
    if isinstance(options.get("path"), str):
        options["path"] = Path(options["path"]).name
    return f"{spec['name']} ({pairs(options)})" if options else str(spec["name"])


def cell(called: str) -> str:
    """The name of a cell; of FILE.py:NAME the latter."""
    return called.rpartition(":")[2]


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
    by_model = {name: str(STARTS.get(spec["init"], spec["init"])) for name, spec in experiment["models"].items()}
    first, *others = dict.fromkeys(by_model.values())
    return first if not others else "; ".join(f"{name}: {start}" for name, start in by_model.items())


def particulars(spec: Facts, numbers: Facts | None) -> str:
    """What a model has of its own beside cell and size: settings that are not the defaults, and the cell's numbers.

    Where the numbers were not recorded, those that were given.
    """
    defaults = ModelSpec.model_construct().document()
    said = []
    for name, value in spec.items():
        if name in IN_COLUMNS or value == defaults.get(name):
            continue
        shown = (
            pairs(value) if isinstance(value, dict) else ", ".join(value) if isinstance(value, list) else plain(value)
        )
        said.append(name.replace("_", " ") if value is True else f"{name.replace('_', ' ')} {shown}")
    for name, option in (numbers or {}).items():
        how = "learned" if option["learned"] else "fixed"
        said.append(f"{GREEK.get(name, name)} = {option['value']:g} ({how})")
    return "; ".join([*said, *([pairs(spec["options"])] if numbers is None and spec["options"] else [])])


def where(manifests: list[Facts]) -> list[tuple[str, str]]:
    """The machines and engines of the runs, each named once."""
    machines = {
        f"{each['cpu']}, {counted(each['cores'] or 1, 'core')}, {each['system']}"
        for each in (m["machine"] for m in manifests)
    }
    engines = {f"{m['engine']}, {counted(m['threads'], 'thread')} a run" for m in manifests}
    return [(name, "; ".join(sorted(found))) for name, found in (("machine", machines), ("engine", engines)) if found]


def duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


def settings(results: Facts, experiment: Facts, manifests: list[Facts]) -> list[tuple[str, str]]:
    """All that the runs have in common; `manifests` are those of the runs that there are."""
    spec = experiment["spec"]
    rows = [("task", task(spec["task"]))]
    rows += data(experiment["task"]) if "task" in experiment else [("data", "not recorded")]
    rows += training(spec["training"], bool(results["classes"])) + optimisation(spec["optimization"])
    rows += [("seeds", seeds(experiment)), ("starting values", starts(experiment)), *where(manifests)]
    rows.append(("versions", ", ".join(f"{name} {version}" for name, version in experiment["versions"].items())))
    if results.get("wall_clock_seconds"):
        rows.append(("time in all", duration(results["wall_clock_seconds"])))
    return rows


def models(experiment: Facts, manifests: list[Facts]) -> list[list[str]]:
    """The models as they were made, with a row of titles; columns in which none has anything are left out."""
    rows = [["model", "H", "layers", "parameters", "cell", "further settings"]]
    for name, spec in experiment["models"].items():
        sizes = [f"{m['parameters']:,}" for m in manifests if m["spec"]["model"] == spec]  # a failed run has one too
        own = particulars(spec, experiment.get("numbers", {}).get(name))
        layers = [str(spec["hidden_size"]), str(spec["num_layers"]), *(sizes[:1] or ["–"])]
        rows.append([name, *layers, "" if cell(spec["cell"]) == name else cell(spec["cell"]), own])
    kept = [i for i in range(6) if i < 4 or any(row[i] for row in rows[1:])]
    return [[row[i] or "–" for i in kept] for row in rows]
