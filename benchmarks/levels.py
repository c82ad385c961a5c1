"""Coverage of intervals of several levels on simulated series, tracked by themselves and all with the factor of 90 %.

python benchmarks/levels.py --seeds 10 11 12      the table of docs/forecasting.md

A forecaster is fitted to the first 70 % of each series and forecasts from every later step, as `backtest` does. All
intervals are made of the same forecasts.
"""

from __future__ import annotations

import argparse

import numpy as np

from gatelab.data.series import as_given
from gatelab.estimators.forecasting import intervals
from gatelab.estimators.forecasting.history import History
from gatelab.sklearn import RecurrentForecaster

LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99)
STEPS, TEST = 1000, 0.3
HORIZONS = {"season and trend": (12, 24), "300 months": (12, 12)}  # and the season; others have 6 steps and none
WAYS = {"factor of 90 %": ((0.9,), 0), "own factors": (intervals.TRACKED, intervals.FREE), "plain": None}


def simulated(seed: int) -> dict[str, np.ndarray]:
    """Series whose noise is known."""
    random = np.random.RandomState(seed)
    noise, heavy, t = random.normal(size=STEPS), random.standard_t(3, size=STEPS), np.arange(STEPS)
    shocks, variance = np.zeros(STEPS), 1.0
    for i in range(1, STEPS):
        variance = 0.05 + 0.15 * shocks[i - 1] ** 2 + 0.8 * variance
        shocks[i] = np.sqrt(variance) * noise[i]
    waves = 5 * np.sin(2 * np.pi * t / 24) + 2 * np.sin(4 * np.pi * t / 24)
    months = 0.05 * t + 3 * np.sin(2 * np.pi * t / 12) + 0.3 * noise.cumsum() + 0.5 * noise
    return {
        "AR(1)": autoregressive(noise, 0.8),
        "random walk": noise.cumsum(),
        "season and trend": 0.02 * t + waves + noise,
        "AR(1), GARCH noise": autoregressive(shocks, 0.8),
        "level shift of 12": autoregressive(noise, 0.6) + np.where(t < 850, 0, 12),
        "AR(1), Student's t noise": autoregressive(heavy, 0.8),
        "AR(1), growing noise": autoregressive(noise * (1 + 2 * t / STEPS), 0.7),
        "300 months": months[:300],
    }


def autoregressive(noise: np.ndarray, weight: float) -> np.ndarray:
    """Return a series each of whose values is a part of the one before, and noise."""
    values = np.zeros(len(noise))
    for i in range(1, len(noise)):
        values[i] = weight * values[i - 1] + noise[i]
    return values


def measured(name: str, values: np.ndarray, seed: int) -> dict[str, np.ndarray]:
    """Return the coverage in percent by level, and the interval score, for each way."""
    horizon, season = HORIZONS.get(name, (6, 1))
    frame, train = as_given(values).regular(), len(values) - round(TEST * len(values))
    forecaster = RecurrentForecaster(
        hidden_size=16, num_networks=1, num_steps=100, season=season, log=False, random_state=seed
    ).fit(values[:train], fh=range(1, horizon + 1))
    ensemble, history = forecaster.ensemble_, History(frame, np.empty((len(values), 0)), ())
    origins, added = np.arange(train - 1, len(values) - 1), len(values) - train
    forecasts, scales = ensemble.forecasts(frame.values, history.known(horizon), origins)
    later = history.forecasts(ensemble, added, 0, forecaster.fitted_steps_)
    scores = forecaster.scores_.extended(*later, frame.values)
    steps = origins[:, None] + np.arange(1, horizon + 1)
    known = steps < len(values)
    errors = np.abs(values[np.minimum(steps, len(values) - 1)] - forecasts[..., 0])
    found = {}
    for way, chosen in WAYS.items():
        if chosen is not None:
            intervals.TRACKED, intervals.FREE = chosen
        halves = [(scales * scores.widths(level, chosen is not None, 0, added + 1)[: len(origins)])[..., 0]
                  for level in LEVELS]  # fmt: skip
        found[way] = np.array([_judged(errors, half, known & np.isfinite(half), level)
                               for half, level in zip(halves, LEVELS, strict=True)])  # fmt: skip
    return found


def _judged(errors: np.ndarray, half: np.ndarray, counted: np.ndarray, level: float) -> tuple[float, float]:
    score = 2 * half + 2 / (1 - level) * np.maximum(errors - half, 0)
    return 100 * float((errors <= half)[counted].mean()), float(score[counted].mean())


def main() -> None:
    """Print the coverages of every series, then means, distances and relative scores."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[10, 11, 12])
    seeds, rows = parser.parse_args().seeds, []
    for name in simulated(0):
        rows += [[measured(name, simulated(seed)[name], seed) for seed in seeds]]
        means = {way: np.mean([each[way][:, 0] for each in rows[-1]], 0).round(1).tolist() for way in WAYS}
        print(f"{name:26}", "; ".join(f"{way} {mean}" for way, mean in means.items()), flush=True)
    everything = [each for row in rows for each in row]
    for way in WAYS:
        table, base = (np.stack([each[one] for each in everything]) for one in (way, "factor of 90 %"))
        distance = np.abs(table[..., 0] - 100 * np.array(LEVELS)).mean(0)
        score = (table[..., 1] / base[..., 1]).mean(0)
        print(f"{way}: mean {table[..., 0].mean(0).round(1)}, distance {distance.round(2)}, score {score.round(3)}")


if __name__ == "__main__":
    main()
