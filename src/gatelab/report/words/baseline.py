"""A test result beside the trivial baseline, and errors in the data's own units: for terminals and pages."""

from __future__ import annotations

from gatelab.formatting import named
from gatelab.tasks import Baseline
from gatelab.training.manifest import Manifest


def against_baseline(test: dict[str, float], baseline: Baseline | None) -> list[str]:
    """The trivial baseline, and a warning where the model does not beat it."""
    if baseline is None or baseline.metric not in test:
        return []
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


def own_units(manifest: Manifest) -> list[str]:
    """The errors of each target column in the data's own units."""
    return [
        f"in the data's own units: {name} RMSE {error['rmse']:.4g}, MAE {error['mae']:.4g}; baseline RMSE "
        f"{error['baseline_rmse']:.4g}"
        for name, error in manifest.errors.items()
    ]
