"""What a search says about the models, in sentences."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from gatelab.experiments.tuning.outcome import ModelSearch, SearchResult
from gatelab.experiments.tuning.space import Range
from gatelab.formatting import counted, difference, listed
from gatelab.lang.printing import GREEK

EDGE = 0.05  # of a range: a choice so near its end may be better beyond it
SURE = 0.95
RULES = {
    "random": "sampled at random, the same values for all models where they share a setting",
    "tpe": "sampled by TPE",
}


def search_findings(search: SearchResult) -> list[str]:
    """The sentences of a search, in the order of what they are about."""
    return [how(search), *_progress(search), *_leader(search), *_sensitivity(search), *_edges(search)]


def how(search: SearchResult) -> str:
    """How settings were searched."""
    pruned = "; trials below the median of earlier ones were stopped" if search.pruner == "median" else ""
    return (
        f"Each model was tuned with {counted(search.trials, 'trial')}, {RULES[search.sampler]}{pruned}. Trials were "
        "compared on the validation set, with seeds of their own; the test set was not used."
    )


def setting(name: str, amount: Any) -> str:
    """A setting and its value: learning rate 0.0031."""
    return f"{setting_name(name)} {setting_value(amount)}"


def setting_value(amount: Any) -> str:
    """The value of a setting in a few digits."""
    return "none" if amount is None else f"{amount:.3g}" if isinstance(amount, float) else str(amount)


def setting_name(name: str) -> str:
    """A setting as people write it."""
    return GREEK.get(name, name.replace("_", " "))


def chosen(model: ModelSearch) -> dict[str, Any]:
    """The settings of the best trial; empty if there is none."""
    return next((dict(trial.settings) for trial in model.trials if trial.number == model.chosen), {})


def _progress(search: SearchResult) -> Iterator[str]:
    open_ = [name for name, model in search.models.items() if len(model.trials) < search.trials]
    if open_:
        yield f"The search of {listed(open_)} has not ended."
    for name, model in search.models.items():
        lost = [trial.number + 1 for trial in model.trials if trial.status != "done"]
        if lost:
            numbers = listed([str(number) for number in lost])
            yield f"{name}: {counted(len(lost), 'trial')} without a score (diverged or failed): {numbers}."


def _leader(search: SearchResult) -> Iterator[str]:
    """Whether the winner depends on the budget."""
    if not search.leaders or len(search.models) < 2:
        return
    metric = "loss" if search.metric == "loss" else "accuracy"
    stretches, start = [], 1
    for leader, group in itertools.groupby(search.leaders):
        end = start + len(list(group)) - 1
        stretches.append((leader, start, end))
        start = end + 1
    what = "found" if search.sampler == "tpe" else "expected"
    best = f"best {what} validation {metric}"
    if len(stretches) == 1:
        yield (
            f"The winner does not depend on the budget: {stretches[0][0]} has the {best} with every number of trials "
            f"from 1 to {search.trials}{_agreement(search)}."
        )
        return
    parts = [f"{leader} with {_budget(start, end)}" for leader, start, end in stretches]
    yield f"The winner depends on the budget: the {best} is that of {listed(parts)}{_agreement(search)}."


def _budget(start: int, end: int) -> str:
    return counted(start, "trial") if start == end else f"{start} to {end} trials"


def _agreement(search: SearchResult) -> str:
    if not search.confidence:
        return ""
    low, high = min(search.confidence), max(search.confidence)
    sure = "" if low >= SURE else "; where that is below 95 % the search does not decide"
    shares = f"{100 * low:.0f} %" if round(100 * low) == round(100 * high) else f"{100 * low:.0f} to {100 * high:.0f} %"
    return f" ({shares} of bootstrap samples of the trials agree{sure})"


def _sensitivity(search: SearchResult) -> Iterator[str]:
    known = {name: model.spread for name, model in search.models.items() if model.spread is not None}
    if len(known) < 2:
        return
    most, least = max(known, key=lambda n: known[n]), min(known, key=lambda n: known[n])
    yield (
        f"Sensitivity: the median trial is {difference(search.metric, known[most])} worse than the best one for "
        f"{most}, the most sensitive model, and {difference(search.metric, known[least])} worse for {least}, the least."
    )


def _edges(search: SearchResult) -> Iterator[str]:
    for name, model in search.models.items():
        for key, amount in chosen(model).items():
            values = Range.model_validate(search.space[name][key])
            if values.choices is None and not EDGE < values.position(amount) < 1 - EDGE:
                yield (
                    f"{name}: {setting(key, amount)} is at the edge of its range, {_range(values)}: a wider range may "
                    "hold better settings."
                )


def _range(values: Range) -> str:
    low, high = values.ends
    return f"{low:g} to {high:g}"
