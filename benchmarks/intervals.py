"""How often intervals of a mean hold the truth: ours, plain BCa, and Student's, for few runs.

python benchmarks/intervals.py
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy.stats import bootstrap, t

from gatelab.experiments import stats

DRAWS = 400
KINDS = {"normal": lambda random, n: random.normal(size=n), "skewed": lambda random, n: random.exponential(size=n) - 1}


def held(x: np.ndarray) -> tuple[bool, bool, bool]:
    """Whether 0, the true mean, is inside: ours, plain BCa, Student's."""
    low, high = stats.interval(x)
    plain = bootstrap((x,), np.mean, n_resamples=stats.RESAMPLES, method="BCa", rng=0).confidence_interval
    half = t.ppf(0.975, len(x) - 1) * x.std(ddof=1) / len(x) ** 0.5
    return low <= 0 <= high, plain.low <= 0 <= plain.high, abs(x.mean()) <= half


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    print(f"{DRAWS} draws each; a true 95 % would be 95 ± 1\n")
    print(f"{'values':<8}{'runs':>5}{'ours':>8}{'plain BCa':>12}{'Student':>9}")
    for kind, draw in KINDS.items():
        random = np.random.RandomState(0)
        for n in (3, 5, 8, 10, 20):
            shares = 100 * np.mean([held(draw(random, n)) for _ in range(DRAWS)], axis=0)
            print(f"{kind:<8}{n:>5}{shares[0]:>7.1f}%{shares[1]:>11.1f}%{shares[2]:>8.1f}%")


if __name__ == "__main__":
    main()
