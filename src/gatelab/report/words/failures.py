"""Runs that are far from the others of their model, and how often models fail: what a mean over seeds does not say."""

from __future__ import annotations

from collections.abc import Iterator

from gatelab.experiments.failures import Failures
from gatelab.experiments.results import Results, by_seed
from gatelab.formatting import counted, listed, metric_name, value


def failures(results: Results) -> list[str]:
    """The runs that are far from the others, what that means for the tests, and how often each model fails."""
    known = {name: results.failures[name] for name in results.models if name in results.failures}
    if not any(one.failed or one.better for one in known.values()):
        return []
    sentences = list(_far(results, known))
    rates = listed([f"{name} {rate(one)}" for name, one in known.items()])
    return [
        *sentences,
        f"Runs that diverged, or are far worse than the majority of their own model's: {rates}.",
        *([TESTS_SUFFER] if sentences else []),
    ]


TESTS_SUFFER = (
    "A few runs far from the others decide means, intervals and tests, and false alarms can be far more frequent than "
    "5 %. Look at how often each model fails, and at the runs that did not."
)


def rate(one: Failures) -> str:
    """How many runs failed, with the interval of the probability."""
    return f"{len(one.failed)} of {one.runs} (95 % CI {100 * one.low:.0f} to {100 * one.high:.0f} %)"


def _far(results: Results, known: dict[str, Failures]) -> Iterator[str]:
    """The runs with a metric that is far from the majority's, by model and side."""
    metric = results.metric or ""
    for name, one in known.items():
        metrics = by_seed(results.models, metric)[name]
        for all_of_them, side in ((one.failed, "worse"), (one.better, "better")):
            if seeds := [seed for seed in all_of_them if seed in metrics]:  # one that diverged has no metric
                which = f"seed{'s' if len(seeds) > 1 else ''} {listed(list(map(str, seeds)))}"
                reached = listed([value(metric, metrics[seed]) for seed in seeds])
                around = dict.fromkeys([value(metric, one.smallest), value(metric, one.largest)])  # they may be equal
                yield (
                    f"{name}, {which}: {metric_name(metric)} {reached}, far {side} than the majority of its runs "
                    f"({one.majority} of {counted(len(metrics), 'run')} have {' to '.join(around)})."
                )
