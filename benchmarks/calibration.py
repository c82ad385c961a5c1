"""Coverage and false alarms of the intervals and tests over seeds, and how often runs are called far, by simulation.

python benchmarks/calibration.py

Two or four models draw their runs from distributions of the same mean, so that every true difference is 0: an interval
that excludes 0 is a false alarm. `mean` is the interval of the first model's mean; `far` is how often the report says
that a run of the first model is far from the majority of its runs. A run that fails is worse by 1, and runs have a
standard deviation of 0.02 beside that.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable
from functools import partial

import numpy as np

from gatelab.experiments import failures, stats

SEEDS = (3, 5, 7, 10)
MODELS = 4
NOISE = 0.02  # standard deviation of runs that do not fail by 1
Draw = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]


def normal(random: np.random.Generator, shape: tuple[int, int], deviation: float = 1.0) -> np.ndarray:
    return deviation * random.normal(size=shape)


def exponential(random: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return random.exponential(size=shape) - 1


def failing(random: np.random.Generator, shape: tuple[int, int], share: float) -> np.ndarray:
    """Each run fails with this probability; the mean is 0."""
    return NOISE * random.normal(size=shape) - (random.random(shape) < share) + share


SHAPES: dict[str, tuple[Draw, Draw]] = {  # of the first model, and of the others
    name: (draw, draw)
    for name, draw in {
        "normal": normal,
        "heavy tails (Student t, 3 df)": lambda random, shape: random.standard_t(3, size=shape),
        "skewed (exponential)": exponential,
        "accuracy (200 test examples, 95 %)": lambda random, shape: random.binomial(200, 0.95, size=shape) / 200 - 0.95,
        "half of the runs of every model fail": partial(failing, share=0.5),
    }.items()
} | {
    "one skewed (exponential), the others almost constant": (exponential, partial(normal, deviation=1e-3)),
    **{
        f"one fails in {share:.0%} of its runs, the others never".replace("%", " %"): (
            partial(failing, share=share), partial(normal, deviation=NOISE),
        )
        for share in (0.05, 0.1, 0.2, 0.3)
    },
}  # fmt: skip


def excludes_zero(values: np.ndarray, tests: int) -> np.ndarray:
    """For each row of (draws, n): whether the interval of `stats.estimate` excludes 0."""
    n = values.shape[1]
    sd = values.std(1, ddof=1)
    half = stats.critical_value(n, tests) * sd / n**0.5
    return (np.abs(values.mean(1)) > half) & (sd > stats.ROUNDING)  # without variance nothing is tested


def has_far_run(values: np.ndarray, finest: float) -> np.ndarray:
    """For each row of (draws, n): whether `failures.failures` finds a run far from the majority."""
    smallest, largest = failures.majority(values).T
    distance = np.maximum(smallest - values.min(1), values.max(1) - largest)
    return distance > failures.limit(values.shape[1]) * np.maximum(largest - smallest, finest)


def check(random: np.random.Generator) -> None:
    """The vectorised rules are those of `stats.estimate` and `failures.failures`."""
    for tests in (1, 6):
        for values in random.normal(0.5, 1, (200, 5)):
            (ours,) = excludes_zero(values[None], tests)
            estimate = stats.estimate(values, tests)
            assert estimate.low is not None
            assert estimate.high is not None
            assert ours == estimate.significant == (estimate.low > 0 or estimate.high < 0)
    for values in failing(random, (200, 5), 0.2):
        found = failures.failures(dict(enumerate(values.tolist())), finest=0.01)
        assert found is not None
        assert has_far_run(values[None], 0.01)[0] == bool(found.failed or found.better)


def rates(random: np.random.Generator, draws: int, n: int, first: Draw, others: Draw, finest: float) -> list[float]:
    """The numbers of one row."""
    models = [first(random, (draws, n)), *(others(random, (draws, n)) for _ in range(MODELS - 1))]
    alarm = excludes_zero(models[0] - models[1], 1).mean()
    pairs = list(itertools.combinations(models, 2))
    family = np.any([excludes_zero(a - b, len(pairs)) for a, b in pairs], axis=0).mean()
    mean = excludes_zero(models[0], 1).mean()
    return [1 - alarm, alarm, family, 1 - mean, has_far_run(models[0], finest).mean()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=100_000)
    draws = parser.parse_args().draws
    random = np.random.default_rng(0)
    check(random)
    print(f"{draws:,} simulated experiments each; in %\n")
    print("| runs | seeds | coverage, difference | false alarms | false alarms, 6 tests | coverage, mean | far run |")
    print("|---|---|---|---|---|---|---|")
    for name, shape in SHAPES.items():
        finest = 1 / 200 if "200 test examples" in name else 0.0
        for n in SEEDS:
            print(f"| {name} | {n} | {' | '.join(f'{100 * r:.1f}' for r in rates(random, draws, n, *shape, finest))} |")


if __name__ == "__main__":
    main()
