"""The answer in brief, in words no stronger than the statistics, and what a reader must not conclude."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from gatelab.experiments.stats import BOOTSTRAPPED, ENOUGH
from gatelab.report import tables
from gatelab.report.wording import counted, listed

Results = dict[str, Any]

NAMED = 3  # pairs up to which all are named


def in_brief(results: Results) -> str:
    """The answer in one or two sentences."""
    metric = results["metric"]
    if metric is None:
        return "No run has finished, so there is no answer."
    if len(results["models"]) == 1:
        return _one_model(results)
    return " ".join([*_effects(results), _pairs(results)])


def _effects(results: Results) -> Iterator[str]:
    tested = [effect for effect in results.get("effects", ()) if effect["p_adjusted"] is not None]
    called = [effect["name"] for effect in tested if effect["called"]]
    if called:
        named = f": {listed(called)}." if len(called) <= NAMED else "."
        share = f"{len(called)} of {counted(len(tested), 'effect')} of the factors on {results['metric']}"
        yield f"{share} can be called at 5 % after Holm’s correction{named}"
    elif tested:
        yield f"No effect of a factor on {results['metric']} can be called with these seeds."


def _pairs(results: Results) -> str:
    metric = results["metric"]
    tested = [c for c in results["comparisons"] if c["p_adjusted"] is not None]
    called = [c for c in tested if c["called"]]
    if not tested:
        return "With so few seeds no claim can be made; what follows describes these runs and nothing more."
    if not called:
        return f"No difference in {metric} can be called with these seeds. It does not follow that they are equal."
    share = f"{len(called):,} of {counted(len(tested), 'pairwise difference')} in {metric}"
    if len(tested) == 1:
        share = f"The one difference in {metric} that was tested"
    named = [f"{c['a']} is better than {c['b']}" for c in called] if len(called) <= NAMED else []
    ending = f": {listed(named)}." if named else "."
    return f"{share} can be called at 5 % after Holm’s correction{ending}"


def _one_model(results: Results) -> str:
    ((name, entry),) = results["models"].items()
    metric, runs = results["metric"], counted(entry["counts"].get("done", 0), "run")
    shown = f"{tables.cell(metric, entry['statistics'][metric])} ({tables.TITLES[metric]})"
    return f"{name} has {shown} over {runs}, and there is nothing to compare it with."


def limitations(results: Results, experiment: Results) -> list[str]:
    """What the design cannot tell, and what went wrong in it."""
    return [
        "Seeds vary starting values, the order of the examples and dropout. The division of the data and the test set "
        "are the same throughout: intervals and tests do not tell how another division or another test set would turn "
        "out.",
        *_few_seeds(results),
        *_unfinished(results),
        *_budget(results, experiment),
        *_sizes(results, experiment),
        "One task was used, and what is found on it need not hold on others. Times are of runs that may have shared a "
        "machine with each other.",
    ]


def _few_seeds(results: Results) -> Iterator[str]:
    fewest = min(entry["counts"].get("done", 0) for entry in results["models"].values())
    if fewest < ENOUGH:
        has = f"only {counted(fewest, 'finished run')}" if fewest else "no finished run"
        yield f"At least one model has {has}. With fewer than {ENOUGH} no claim is made."
    elif fewest < 2 * BOOTSTRAPPED:
        yield (
            f"With {counted(fewest, 'finished run')} of a model intervals are approximate, and small differences "
            "cannot be told from chance."
        )


def _unfinished(results: Results) -> Iterator[str]:
    lost = []
    for name, entry in results["models"].items():
        found = Counter(run["status"] for run in entry["runs"] if run["status"] != "done")
        lost += [f"{number} of {name} {status}" for status, number in found.items()]
    if lost:
        yield (
            f"Not all runs finished ({', '.join(lost)}). They are not in the numbers; if they failed because of the "
            "model, its numbers flatter it."
        )


def _budget(results: Results, experiment: Results) -> Iterator[str]:
    epochs = experiment["spec"]["training"]["num_epochs"]
    yield (
        f"All had the same budget, at most {counted(epochs, 'epoch')}, and the same optimiser settings, which were not "
        "searched for here: with settings of its own a model may do better."
    )
    done = [run for entry in results["models"].values() for run in entry["runs"] if run["status"] == "done"]
    last = sum(run["metrics"]["best_epoch"] >= epochs for run in done)
    if last:
        yield (
            f"{last} of {counted(len(done), 'finished run')} {'was' if last == 1 else 'were'} best in the last epoch "
            "that the budget allows, and may not have been at the end of learning."
        )


def _sizes(results: Results, experiment: Results) -> Iterator[str]:
    known = [
        e["statistics"]["parameters"]["mean"] for e in results["models"].values() if "parameters" in e["statistics"]
    ]
    if known and max(known) > min(known):
        matched = experiment["spec"].get("match") == "parameters"
        so = "as near to each other as hidden sizes allow" if matched else "so that a difference may be one of size"
        yield f"Models have {min(known):,.0f} to {max(known):,.0f} parameters, {so}."
