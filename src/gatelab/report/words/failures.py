"""Runs that are far from the others of their model, and how often models fail: what a mean over seeds does not say."""

from __future__ import annotations

from collections.abc import Iterator

from gatelab.experiments.failures import Failures
from gatelab.experiments.results import Results, by_seed
from gatelab.formatting import counted, listed, metric_name, value


def failures(results: Results) -> list[str]:
    """The runs that are far from the others, what that means for the tests, and how often each model fails."""
    sentences = list(_far(results))
    if not any(one.failed or one.better for one in results.failures.values()):
        return []
    rates = listed([f"{name} {rate(one)}" for name, one in results.failures.items()])
    return [
        *sentences,
        f"Failed runs (diverged, or far worse than the majority of their model's): {rates}.",
        *([TESTS_SUFFER] if sentences else []),
    ]


TESTS_SUFFER = (
    "A few runs far from the others decide means, intervals and tests, and false alarms can be far more frequent than "
    "5 %. Look at how often each model fails, and at the runs that did not."
)


def rate(one: Failures) -> str:
    """How many runs failed, with the interval of the probability."""
    return f"{len(one.failed)} of {one.runs} (95 % CI {100 * one.low:.0f} to {100 * one.high:.0f} %)"


def _far(results: Results) -> Iterator[str]:
    """The runs with a metric that is far from the majority's, by model and side."""
    metric = results.metric or ""
    for name, one in results.failures.items():
        metrics = by_seed(results.models, metric)[name]
        for seeds, side in (([seed for seed in one.failed if seed in metrics], "worse"), (list(one.better), "better")):
            if seeds:
                which = f"seed{'s' if len(seeds) > 1 else ''} {listed(list(map(str, seeds)))}"
                reached = listed([value(metric, metrics[seed]) for seed in seeds])
                around = f"{value(metric, one.smallest)} to {value(metric, one.largest)}"
                yield (
                    f"{name}, {which}: {metric_name(metric)} {reached}, far {side} than the majority of its runs "
                    f"({one.majority} of {counted(len(metrics), 'run')} have {around})."
                )
