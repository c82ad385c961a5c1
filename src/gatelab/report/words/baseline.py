"""A test result beside the trivial baseline, and errors in the data's own units: for terminals and pages."""

from __future__ import annotations

from typing import Any

from gatelab.formatting import named
from gatelab.tasks import Baseline


def against_baseline(test: dict[str, float], facts: dict[str, Any] | None) -> list[str]:
    """The trivial baseline, and a warning where the model does not beat it; `facts` are those of the manifest."""
    if facts is None or facts["metric"] not in test:
        return []
    baseline = Baseline.read(facts)
    metric, reached = baseline.metric, test[baseline.metric]
    sentence = f"trivial baseline: {named(metric, baseline.value)} ({baseline.rule})"
    if baseline.beaten_by(reached):
        return [sentence]
    ratio = (
        f", {reached / baseline.value:.3g} times that of the baseline"
        if metric != "accuracy" and baseline.value
        else ""
    )
    return [sentence, f"warning: the model does not beat the trivial baseline ({named(metric, reached)}{ratio})"]


def own_units(manifest: dict[str, Any]) -> list[str]:
    """The errors of each target column in the data's own units."""
    return [
        f"in the data's own units: {name} RMSE {error['rmse']:.4g}, MAE {error['mae']:.4g}; baseline RMSE "
        f"{error['baseline_rmse']:.4g}"
        for name, error in manifest.get("errors", {}).items()
    ]
