"""What came out of an experiment, gathered from its run directories: plain data for tables, figures and pages."""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from gatelab.disk import within
from gatelab.errors import DataError
from gatelab.experiments import stats
from gatelab.experiments.worker import last_words
from gatelab.training import Run
from gatelab.training.objective import SHARES
from gatelab.training.process import is_busy

SCHEMA = 1
# What reading a run can end in: one that was tampered with may be whole, and make no sense.
UNUSABLE = (
    OSError, ValueError, KeyError, TypeError, IndexError, AttributeError, ArithmeticError, MemoryError, RuntimeError,
)  # fmt: skip
SMALLER_IS_BETTER = ("loss", "mse", "mae")


def gather(experiment: dict[str, Any], directory: Path) -> dict[str, Any]:
    """The results of all runs, their statistics, and the comparisons between models."""
    models: dict[str, dict[str, Any]] = {
        name: {"spec": spec, "runs": []} for name, spec in experiment["models"].items()
    }
    histories: dict[str, list[dict[str, Any]]] = {}
    counts: dict[str, np.ndarray | None] = {}
    for run in experiment["runs"]:
        result, history, answered = _one_run(run, experiment["models"][run["model"]], directory)
        models[run["model"]]["runs"].append(result)
        histories[run["place"]], counts[run["place"]] = history, answered
    loss = experiment["spec"]["training"]["loss"]
    metric = next((m for entry in models.values() for run in entry["runs"] for m in main_metric(run, loss)), None)
    for entry in models.values():
        done = [run for run in entry["runs"] if run["status"] == "done"]
        entry["counts"] = dict(Counter(run["status"] for run in entry["runs"]))
        entry["curves"] = curves([histories[run["place"]] for run in done])
        entry["confusion"] = confusion([counts[run["place"]] for run in done])
        entry["statistics"] = {
            name: asdict(stats.summarise([run["metrics"][name] for run in done], 1 if name in SHARES else math.inf))
            for name in (done[0]["metrics"] if done else ())
        }
    base = experiment["spec"].get("base")
    compared = comparisons(models, metric, base) if metric else []
    design = experiment["spec"].get("design", {})
    found = stats.effects(by_seed(models, metric), design) if metric else []
    return {
        "schema": SCHEMA,
        "metric": metric,
        "wall_clock_seconds": experiment.get("seconds"),
        "classes": experiment["classes"],
        "models": models,
        "comparisons": [asdict(c) | {"called": c.called} for c in compared],
        "effects": [asdict(effect) | {"called": effect.called} for effect in found],
        # What matters for all that follows comes first: a paper has room for so many, and leaves out the last.
        "sentences": [
            *mixtures(models),
            *unfinished(models),
            *_without_learning(models, metric, experiment.get("task", {}).get("baseline")),
            *_missing_for_effects(models, metric, design),
            *(effect_sentence(effect, metric, len(found)) for effect in found if metric),
            *sentences(models, metric, compared, base),
        ],
    }


def manifests(experiment: dict[str, Any], directory: Path) -> list[dict[str, Any]]:
    """What the runs that there are say of themselves."""
    found = []
    for run in experiment["runs"]:
        with contextlib.suppress(*UNUSABLE):  # which is said with the results
            if (made := Run(within(directory, directory / run["place"]))).exists() and made.spec():
                found.append(made.manifest())
    return found


def _one_run(
    planned: dict[str, Any], model: dict[str, Any], directory: Path
) -> tuple[dict[str, Any], list[dict[str, Any]], np.ndarray | None]:
    """What became of a run, its epochs, and how often each class was taken for each. Damage is a fate like others."""
    seed, place = planned["seed"], planned["place"]
    result: dict[str, Any] = {"seed": seed, "place": place, "status": "missing", "metrics": {}}
    try:
        run = Run(within(directory, directory / place))
        if not run.exists():
            why = last_words(run.path) if not is_busy(run.path) else ""  # it may have failed before it was a run
            return result | ({"status": "failed", "reason": why} if why else {}), [], None
        manifest, history = run.manifest(), run.metrics()
        if manifest["spec"].get("model") != model or manifest["seed"] != seed:
            raise DataError(f"it is a run of another model or seed than {planned['model']}, {seed}")
        _check_epochs(history)
        found = _result(run, manifest, history)
        return result | found, history, _counts(run) if found["status"] == "done" else None
    except UNUSABLE as error:
        return result | {"status": "damaged", "reason": str(error) or type(error).__name__}, [], None


def _check_epochs(history: list[dict[str, Any]]) -> None:
    for line in history:
        if line.keys() != history[0].keys() or any(type(value) not in (int, float) for value in line.values()):
            raise DataError("metrics.jsonl: expected the same numbers of every epoch")


def _result(run: Run, manifest: dict[str, Any], history: list[dict[str, Any]]) -> dict[str, Any]:
    if manifest["status"] == "running" and not is_busy(run.path):
        manifest = run.manifest()  # it may have ended since it was read
    result: dict[str, Any] = {"status": manifest["status"], "epochs": len(history), "identity": manifest["identity"]}
    if manifest["status"] == "running" and not is_busy(run.path):
        result |= {"status": "failed", "reason": "its process ended without a word"}
    result |= {"reason": manifest["error"]} if "error" in manifest else {}
    result |= {"reason": manifest["divergence"]["what"]} if "divergence" in manifest else {}
    if manifest["status"] == "done":
        _check_test(manifest)
        result["metrics"] = {
            **manifest["test"],
            "best_epoch": manifest["best_epoch"],
            "seconds_per_epoch": sum(line["seconds"] for line in history) / len(history),
            "parameters": manifest["parameters"],
        }
    return result


def _check_test(manifest: dict[str, Any]) -> None:
    """Whether the test metrics can be what they say."""
    test, best = manifest["test"], manifest["best_epoch"]
    shares = [test[name] for name in SHARES if name in test]
    if not {"accuracy", "mse", "mae"} & test.keys() or not all(0 <= share <= 1 for share in shares) or not best:
        raise DataError(f"manifest.json: the test metrics {test} of epoch {best} make no sense")


def curves(histories: list[list[dict[str, Any]]]) -> dict[str, list[dict[str, float]]]:
    """For each metric, epoch by epoch: mean, smallest and largest over the runs that got that far, and how many."""
    names = [n for n in (histories[0][0] if histories else {}) if n.startswith(("train_", "validation_"))]
    found: dict[str, list[dict[str, float]]] = {}
    for name in (n for n in names if n != "validation_seconds"):
        found[name] = []
        for epoch in range(max(map(len, histories))):
            values = [history[epoch][name] for history in histories if epoch < len(history)]
            point = {"epoch": epoch + 1, "mean": sum(values) / len(values), "low": min(values), "high": max(values)}
            found[name].append({**point, "runs": len(values)})
    return found


def _counts(run: Run) -> np.ndarray | None:
    """How often each class (a row) was taken for each (a column); None unless there is one class a sequence."""
    saved = run.predictions()
    answers, scores = saved["answers"], saved["predictions"]
    if answers.ndim != 1 or answers.dtype.kind != "i":
        return None
    size = scores.shape[1]
    return np.bincount(answers * size + scores.argmax(1), minlength=size * size).reshape(size, size)


def confusion(counts: list[np.ndarray | None]) -> list[list[int]] | None:
    """The same over all runs."""
    known = [count for count in counts if count is not None]
    return np.sum(known, 0).tolist() if known and len(known) == len(counts) else None


def main_metric(run: dict[str, Any], loss: str) -> list[str]:
    """What models are compared by: accuracy for classes, else the error, squared unless they learn by the absolute."""
    return [name for name in ("accuracy", "mae" if loss == "mae" else "mse") if name in run["metrics"]][:1]


def by_seed(models: dict[str, dict[str, Any]], metric: str) -> dict[str, dict[int, float]]:
    """One number for each run that was finished."""
    return {
        name: {run["seed"]: run["metrics"][metric] for run in entry["runs"] if run["status"] == "done"}
        for name, entry in models.items()
    }


def comparisons(models: dict[str, dict[str, Any]], metric: str, base: str | None = None) -> list[stats.Comparison]:
    """Every pair of models, or each with the base, over the seeds that both have finished."""
    larger_is_better = metric not in SMALLER_IS_BETTER
    return stats.compare(by_seed(models, metric), larger_is_better, base)


def mixtures(models: dict[str, dict[str, Any]]) -> list[str]:
    """What was not the same for all runs though it should have been: a cell or data that changed between two sessions,
    or another engine on another machine.
    """
    said = []
    seen = {name: [run for run in entry["runs"] if "identity" in run] for name, entry in models.items()}
    for name, runs in seen.items():
        if len({run["identity"]["cell"] for run in runs}) > 1:
            said.append(f"The equations of {name} were changed between its runs: they are not runs of one model.")
        if len(engines := sorted({run["identity"]["engine"] for run in runs})) > 1:
            said.append(f"The runs of {name} were done by different engines ({', '.join(engines)}): times are mixed.")
    if len({run["identity"]["data"] for runs in seen.values() for run in runs}) > 1:
        said.append("The data was changed between runs: they did not learn and were not tested on the same.")
    return said


def unfinished(models: dict[str, dict[str, Any]]) -> list[str]:
    """The runs that are not in the numbers, and why."""
    by_fate: dict[tuple[str, str, str], list[str]] = {}
    for name, entry in models.items():
        for run in entry["runs"]:
            if run["status"] != "done":
                by_fate.setdefault((name, run["status"], run.get("reason", "")), []).append(str(run["seed"]))
    said = []
    for (name, status, reason), seeds in by_fate.items():
        which, be = ("run", "is") if len(seeds) == 1 else ("runs", "are")
        fate = status if status in ("failed", "diverged") else f"{be} {status}"
        of = f"seed{'s' if len(seeds) > 1 else ''} {', '.join(seeds)}"
        why = f" ({reason})" if reason else ""
        said.append(f"The {which} of {name} with {of} {fate}{why} and {be} not in the numbers.")
    return said


def sentences(
    models: dict[str, dict[str, Any]],
    metric: str | None,
    compared: list[stats.Comparison],
    base: str | None = None,
) -> list[str]:
    """What can be said of the models, in words; and what cannot."""
    said = []
    if metric is None:
        return ["No run has come to its end: there is nothing to compare."]
    if len(models) == 1:
        said.append("There is one model, and nothing to compare it with.")
    pairs = {frozenset((c.a, c.b)) for c in compared}
    for a, b in stats.paired(list(models), base):
        if frozenset((a, b)) not in pairs:
            said.append(f"{a} and {b} have no seed in common that both finished: they are not compared.")
    return [*said, *(sentence(c, metric) for c in compared)]


def amount(metric: str, value: float) -> str:
    """A difference with its unit."""
    return with_minus(f"{100 * value:.2f} points" if metric == "accuracy" else f"{value:.4g}")


def with_minus(number: str) -> str:
    """A number as it is printed, with a real minus before it; nothing has a sign that is nothing."""
    bare = number.lstrip("-")
    return bare if number == bare or not any(digit in bare for digit in "123456789") else f"−{bare}"


def _without_learning(
    models: dict[str, dict[str, Any]], metric: str | None, baseline: dict[str, Any] | None
) -> list[str]:
    """What guessing yields, and who is no better."""
    if baseline is None or baseline["metric"] != metric:
        return []
    value, sign = baseline["value"], 1 if metric not in SMALLER_IS_BETTER else -1
    known = {name: entry["statistics"][metric]["mean"] for name, entry in models.items() if entry["statistics"]}
    poor = [name for name, mean in known.items() if sign * (mean - value) <= 0]
    shown = f"{100 * value:.2f} %" if metric == "accuracy" else f"{value:.4g}"
    worse = f", and {', '.join(poor)} {'is' if len(poor) == 1 else 'are'} no better than that" if poor else ""
    return [f"Without learning {metric} is {shown} ({baseline['rule']}){worse}."]


def _missing_for_effects(models: dict[str, dict[str, Any]], metric: str | None, design: dict[str, Any]) -> list[str]:
    """Why effects are of fewer seeds than were run, or of none."""
    if not design or metric is None:
        return []
    values = by_seed(models, metric)
    lost = [name for name in design if len(values[name]) < len(models[name]["runs"])]
    if not lost:
        return []
    kept = len(set.intersection(*(set(values[name]) for name in design)))
    what = f"of the {kept} seeds that finished in all arms" if kept else "not computed: no seed finished in all arms"
    return [f"The effects are {what} (runs are missing of {', '.join(lost)})."]


def effect_sentence(effect: stats.Effect, metric: str, tested: int) -> str:
    """One effect in words."""
    seeds = f"{effect.n} seed{'s' if effect.n > 1 else ''}"
    if abs(effect.difference) <= stats.ROUNDING:
        unsure = "" if effect.p_adjusted is not None else "; no claim can be made"
        return f"{effect.name}: no change in {metric} over {seeds}{unsure}."
    direction = "more" if effect.difference > 0 else "less"
    start = f"{effect.name}: {amount(metric, abs(effect.difference))} {direction} {metric}"
    start += " than the two changes alone add up to" if "×" in effect.name else " on average over the arms"
    if effect.low is None or effect.high is None or effect.p_adjusted is None:
        return f"{start}; with {seeds} no claim can be made."
    low, high = (effect.low, effect.high) if effect.difference > 0 else (-effect.high, -effect.low)
    verdict = "an effect that can be called" if effect.called else "not an effect that can be called"
    if not stats.pairing_suffices(effect.n, tested):
        verdict = f"with {seeds} no effect can be called, however large"
    return f"{start} ({between(metric, low, high, effect.n)}; p = {effect.p_adjusted:.3g} after Holm): {verdict}."


def between(metric: str, low: float, high: float, n: int) -> str:
    """An interval in words. Runs that all differ by the same amount have none that would mean anything."""
    if high - low <= stats.ROUNDING:
        return f"the same in all {n} seeds"
    return f"95 % CI {amount(metric, low).removesuffix(' points')} to {amount(metric, high)}, paired by seed"


def sentence(c: stats.Comparison, metric: str) -> str:
    """One comparison in words."""

    def shown(value: float) -> str:
        return amount(metric, value)

    size = shown(abs(c.difference))
    direction = "above" if c.difference > 0 else "below"
    start = f"{c.a} is {size} {direction} {c.b} in {metric}"
    if not c.difference:
        start = f"{c.a} and {c.b} are equal in {metric}"
    if c.n < stats.ENOUGH:
        return f"{start}; with {c.n} seed{'s' if c.n > 1 else ''} no claim can be made."
    assert c.low is not None
    assert c.high is not None
    # In the direction of the sentence: "0.02 below (−0.01 to 0.05)" means that it may also be above.
    low, high = (c.low, c.high) if c.difference >= 0 else (-c.high, -c.low)
    verdict = "a difference that can be called" if c.called else "not a difference that can be called"
    least = (
        f"with {c.n} seeds of this spread one of {shown(c.smallest)} is called about every other time"
        if c.smallest is not None
        else f"with {c.n} seeds none could be, however large: more are needed"
    )
    test = "test of pairs" if c.paired else "test of all runs"
    if c.smallest is not None and c.smallest < 1e-9:
        least = "the runs have no spread to judge another difference by"
    return (
        f"{start} ({between(metric, low, high, c.n)}; {test}, p = {c.p_adjusted:.3g} after Holm): {verdict}; {least}."
    )
