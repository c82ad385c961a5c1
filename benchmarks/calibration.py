"""Coverage and false alarms of the intervals and tests over seeds, by simulation.

python benchmarks/calibration.py

Two or four models draw their runs from the same distribution, so that every true difference is 0: an interval that
excludes 0 is a false alarm. In `one skewed` the others do not vary, and differences are as skewed as the one model is.
`mean` is the interval of a single model's mean.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable

import numpy as np

from gatelab.experiments import stats

SEEDS = (3, 5, 7, 10)
MODELS = 4
ONE_SKEWED = "one skewed (exponential), the others almost constant"
SHAPES: dict[str, Callable[[np.random.Generator, tuple[int, int]], np.ndarray]] = {
    "normal": lambda random, shape: random.normal(size=shape),
    "heavy tails (Student t, 3 df)": lambda random, shape: random.standard_t(3, size=shape),
    "skewed (exponential)": lambda random, shape: random.exponential(size=shape) - 1,
    ONE_SKEWED: lambda random, shape: random.exponential(size=shape) - 1,
    "accuracy (200 test examples, 95 %)": lambda random, shape: random.binomial(200, 0.95, size=shape) / 200 - 0.95,
}


def excludes_zero(values: np.ndarray, tests: int) -> np.ndarray:
    """For each row of (draws, n): whether the interval of `stats.estimate` excludes 0."""
    n = values.shape[1]
    sd = values.std(1, ddof=1)
    half = stats.critical_value(n, tests) * sd / n**0.5
    return (np.abs(values.mean(1)) > half) & (sd > stats.ROUNDING)  # without variance nothing is tested


def check(random: np.random.Generator) -> None:
    """The vectorised rule is that of `stats.estimate`."""
    for tests in (1, 6):
        for values in random.normal(0.5, 1, (200, 5)):
            (ours,) = excludes_zero(values[None], tests)
            estimate = stats.estimate(values, tests)
            assert estimate.low is not None
            assert estimate.high is not None
            assert ours == estimate.significant == (estimate.low > 0 or estimate.high < 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=100_000)
    draws = parser.parse_args().draws
    random = np.random.default_rng(0)
    check(random)
    print(f"{draws:,} simulated experiments each; in %\n")
    print("| runs | seeds | coverage, difference | false alarms | false alarms, 6 tests | coverage, mean |")
    print("|---|---|---|---|---|---|")
    for name, draw in SHAPES.items():
        for n in SEEDS:
            models = [draw(random, (draws, n)) for _ in range(MODELS)]
            if name == ONE_SKEWED:
                models[1:] = [1e-3 * random.normal(size=(draws, n)) for _ in models[1:]]
            alarm = excludes_zero(models[0] - models[1], 1)
            pairs = list(itertools.combinations(models, 2))
            family = np.any([excludes_zero(a - b, len(pairs)) for a, b in pairs], axis=0)
            mean = excludes_zero(models[0], 1)
            rates = (1 - alarm.mean(), alarm.mean(), family.mean(), 1 - mean.mean())
            print(f"| {name} | {n} | {' | '.join(f'{100 * rate:.1f}' for rate in rates)} |")


if __name__ == "__main__":
    main()
