"""When arms have learned a task: the first epoch whose validation accuracy (or error) passes a mark, run by run.

python benchmarks/learned_by.py EXPERIMENT [--accuracy 0.9 | --mse 0.01]

Runs that never pass count as one epoch more than they had, which makes differences smaller than they are. For a
factorial design the effects on that epoch are tested as `gatelab ablate` tests those on the accuracy.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path

from gatelab.experiments.bench import read_experiment
from gatelab.experiments.stats import effects
from gatelab.report.words.findings import change_names
from gatelab.training import Run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment", type=Path)
    parser.add_argument("--accuracy", type=float, default=0.9)
    parser.add_argument("--mse", type=float, default=0.01)
    arguments = parser.parse_args()
    experiment = read_experiment(arguments.experiment)
    epochs: dict[str, dict[int, float]] = {name: {} for name in experiment.models}
    passed: dict[str, list[str]] = {name: [] for name in experiment.models}
    for run in experiment.runs:
        history = Run(arguments.experiment / run.path).metrics()
        found = next((line["epoch"] for line in history if has_passed(line, arguments)), None)
        epochs[run.model][run.seed] = found or len(history) + 1
        passed[run.model].append(str(found or "–"))
    for name, values in epochs.items():
        print(f"{name:<28} median {statistics.median(values.values()):>4g}   each seed: {', '.join(passed[name])}")
    for effect in effects(epochs, experiment.spec.design, experiment.family.tests):
        size = effect.difference
        tested = (
            f" (95 % CI {size.low:+.1f} to {size.high:+.1f}, p = {size.p_adjusted:.3g})" if size.low is not None else ""
        )
        print(f"{change_names(effect.changes)}: {size.mean:+.1f} epochs{tested}, {size.n} seeds")


def has_passed(line: dict, arguments: argparse.Namespace) -> bool:
    if "validation_accuracy" in line:
        return line["validation_accuracy"] >= arguments.accuracy
    return line["validation_mse"] <= arguments.mse


if __name__ == "__main__":
    main()
