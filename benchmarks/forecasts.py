"""Forecasts with defaults on six public series: prints a table, and saves it in a page with `--save docs/results.md`.

The last quarter of each series is forecast from every step of it (`RecurrentForecaster.backtest`): all methods are
fitted once, on what is before, and then see every value as it comes. Nothing was chosen on these parts; how defaults
were chosen is in docs/forecasting.md. The series come with statsmodels and sktime, which is not imported: its files
are read.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import sections

from gatelab.estimators.backtest import OURS, Backtest
from gatelab.sklearn import RecurrentForecaster

HEADING = "## Forecasts with prediction intervals"
COVERAGE = 0.9
WITHIN = (0.87, 0.93)  # the target for its coverage


def sktime_file(name: str) -> Path:
    found = find_spec("sktime")
    if found is None or found.origin is None:
        raise SystemExit("sktime is not installed: pip install --no-deps sktime, for its data files")
    return Path(found.origin).parent / "datasets" / "data" / name / f"{name}.csv"


def series() -> Iterator[tuple[str, pd.Series]]:
    from statsmodels.datasets import co2, elnino, sunspots

    airline = pd.read_csv(sktime_file("Airline"))
    yield "airline", pd.Series(airline["Passengers"].to_numpy(float), pd.PeriodIndex(airline["Date"], freq="M"))
    yield "co2", co2.load_pandas().data["co2"].resample("MS").mean()  # five months are missing
    table = elnino.load_pandas().data
    months = table.drop(columns="YEAR").to_numpy(float).ravel()
    yield (
        "elnino",
        pd.Series(months, pd.period_range(f"{int(table['YEAR'].iloc[0])}-01", periods=len(months), freq="M")),
    )
    spots = sunspots.load_pandas().data
    years = pd.PeriodIndex(spots["YEAR"].astype(int).astype(str), freq="Y")
    yield "sunspots", pd.Series(spots["SUNACTIVITY"].to_numpy(), years)
    lynx = pd.read_csv(sktime_file("Lynx"), index_col=0)
    yield "lynx", pd.Series(lynx.iloc[:, 0].to_numpy(float), pd.PeriodIndex(lynx.index.astype(str), freq="Y"))
    belts = pd.read_csv(sktime_file("seatbelts"))
    yield "seatbelts", pd.Series(belts["KSI"].to_numpy(float), pd.PeriodIndex(belts.iloc[:, 0], freq="M"))


def measured(y: pd.Series, seeds: int) -> tuple[list[Backtest], float]:
    """Backtests by seed, and the mean seconds of one fit."""
    outcomes, seconds = [], list[float]()
    for seed in range(seeds):
        forecaster = RecurrentForecaster(fill="interpolate", random_state=seed)
        outcomes.append(forecaster.backtest(y, coverage=COVERAGE, ets=seed == 0))  # the others do not depend on it
        begin = time.perf_counter()
        if seed == 0:
            forecaster.fit(y.iloc[: outcomes[0].train])
            seconds.append(time.perf_counter() - begin)
    return outcomes, float(np.mean(seconds))


def row(name: str, y: pd.Series, seeds: int) -> tuple[str, bool, bool]:
    """A row of the table; whether ours is better than the seasonal naive forecast; whether the coverage is right."""
    outcomes, seconds = measured(y, seeds)
    first = outcomes[0]
    ours, covered = (np.array(v) for v in zip(*((o.mase(OURS), o.covered()) for o in outcomes), strict=True))
    naive = first.mase("seasonal naive" if first.season > 1 else "persistence")
    ets = f"{first.mase('ETS'):.3f}" if "ETS" in first.forecasts else "–"
    spread = f" ± {ours.std(ddof=1):.3f}" if seeds > 1 else ""
    chosen = sorted({str(o.fitted.ensemble_.combination) for o in outcomes})
    cells = [
        name, f"{first.train} + {len(first.observed)}", f"{first.season}", f"{first.steps[-1]}",
        f"{ours.mean():.3f}{spread}", f"{naive:.3f}", f"{first.mase('persistence'):.3f}", ets,
        f"{100 * covered.mean():.1f} ({100 * covered.min():.1f} to {100 * covered.max():.1f})", f"{seconds:.0f}",
        " / ".join(chosen),
    ]  # fmt: skip
    print(" | ".join(cells), flush=True)
    inside = WITHIN[0] <= covered.mean() <= WITHIN[1]
    return f"| {' | '.join(cells)} |", bool(ours.mean() < naive), bool(inside)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", nargs="*", help="names of series")
    parser.add_argument("--save", type=Path, help="page that gets the table, as docs/results.md")
    arguments = parser.parse_args()
    chosen = [(name, y) for name, y in series() if not arguments.only or name in arguments.only]
    rows = [row(name, y, arguments.seeds) for name, y in chosen]
    better, right = sum(each[1] for each in rows), sum(each[2] for each in rows)
    verdict = (
        f"Better than the seasonal naive forecast on {better} of {len(rows)} series; the coverage of {COVERAGE:.0%} "
        f"intervals is within {WITHIN[0]:.0%} to {WITHIN[1]:.0%} on {right} of {len(rows)}."
    )
    print(verdict)
    if arguments.save:
        sections.save(arguments.save, HEADING, section([each[0] for each in rows], verdict, arguments.seeds))


def section(rows: list[str], verdict: str, seeds: int) -> str:
    heads = [
        "series", "steps: training + test", "season", "steps ahead", "MASE", "seasonal naive", "persistence", "ETS",
        "coverage, %", "s per fit", "transforms",
    ]  # fmt: skip
    text = f"""`RecurrentForecaster` with its defaults, {seeds} seeds (mean ± standard deviation; for the coverage the
        smallest and largest), on the last quarter of six public series, forecast from every step of it. MASE is over
        all steps ahead; its unit is the error of the seasonal naive forecast, one season ahead, within the training
        part. A yearly series has no season: its seasonal naive forecast is persistence. ETS is chosen by AICc and
        fitted once, as ours is. {verdict}"""
    lines = [
        HEADING,
        "",
        sections.paragraph(text),
        "",
        "```",
        "python benchmarks/forecasts.py --save docs/results.md",
        "```",
    ]
    table = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads), *rows]
    return "\n".join([*lines, "", *table, ""])


if __name__ == "__main__":
    main()
