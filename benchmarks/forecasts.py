"""Forecasts with defaults on public series: prints a table, and saves it in a page with `--save docs/results.md`.

The last quarter of each series is forecast from every step of it (`RecurrentForecaster.backtest`): all methods are
fitted once, on what is before, and then see every value as it comes. Nothing was chosen on these parts; how defaults
were chosen is in docs/forecasting.md. The series come with statsmodels and sktime, which is not imported: its files
are read.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import sections

from gatelab.estimators.forecasting import baselines
from gatelab.estimators.forecasting.backtest import OURS, Backtest
from gatelab.sklearn import RecurrentForecaster

HEADING = "## Forecasts with prediction intervals"
COVERAGE = 0.9
CYCLES = {"sunspots": 11, "lynx": 10}  # years, roughly: what nobody told the forecaster
TARGET = ("airline", "co2", "elnino", "sunspots", "lynx", "seatbelts")  # the series that the target is for
WITHIN = (0.87, 0.93)  # the target for its coverage


def sktime_file(name: str) -> Path:
    found = find_spec("sktime")
    if found is None or found.origin is None:
        raise SystemExit("sktime is not installed: pip install --no-deps sktime, for its data files")
    return Path(found.origin).parent / "datasets" / "data" / name / f"{name}.csv"


def series() -> Iterator[tuple[str, pd.Series]]:
    """Yield the six series that the target is for, and six more, which were chosen before anything was forecast."""
    from statsmodels.datasets import co2, elec_equip, elnino, macrodata, nile, sunspots

    airline = pd.read_csv(sktime_file("Airline"))
    yield "airline", periodic(airline["Passengers"], airline["Date"], "M")
    yield "co2", co2.load_pandas().data["co2"].resample("MS").mean()  # five months are missing
    table = elnino.load_pandas().data
    months = table.drop(columns="YEAR").to_numpy(float).ravel()
    stamps = pd.period_range(f"{int(table['YEAR'].iloc[0])}-01", periods=len(months), freq="M")
    yield "elnino", pd.Series(months, stamps)
    spots = sunspots.load_pandas().data
    yield "sunspots", periodic(spots["SUNACTIVITY"], spots["YEAR"].astype(int), "Y")
    lynx = pd.read_csv(sktime_file("Lynx"))
    yield "lynx", periodic(lynx.iloc[:, 1], lynx.iloc[:, 0], "Y")
    belts = pd.read_csv(sktime_file("seatbelts"))
    yield "seatbelts", periodic(belts["KSI"], belts.iloc[:, 0], "M")
    river = nile.load_pandas().data
    yield "nile", periodic(river["volume"], river["year"].astype(int), "Y")
    economy = macrodata.load_pandas().data
    quarters = economy["year"].astype(int).astype(str) + "Q" + economy["quarter"].astype(int).astype(str)
    yield "unemployment", periodic(economy["unemp"], quarters, "Q")
    yield "inflation", periodic(economy["infl"], quarters, "Q")
    change = pd.read_csv(sktime_file("Uschange"))
    yield "consumption", periodic(change["Consumption"], change["Quarter"].str.replace(" ", ""), "Q")
    scripts = pd.read_csv(sktime_file("PBS_dataset"))
    yield "prescriptions", periodic(scripts["Scripts"], pd.to_datetime(scripts["Month"], format="%Y %b"), "M")
    equipment = elec_equip.load_pandas().data
    yield "equipment", periodic(equipment.iloc[:, 0], equipment.index, "M")


def periodic(values: pd.Series, stamps: pd.Series, freq: str) -> pd.Series:
    """A series with an index of periods, from columns of a table."""
    periods = stamps.astype(str) if freq != "M" else stamps
    return pd.Series(values.to_numpy(float), pd.PeriodIndex(periods, freq=freq))


def measured(y: pd.Series, seeds: int) -> tuple[list[Backtest], float]:
    """Backtests by seed, and the mean seconds of one, with its fit. ETS does not depend on the seed: `smoothed`."""
    outcomes, seconds = [], list[float]()
    for seed in range(seeds):
        begin = time.perf_counter()
        forecaster = RecurrentForecaster(fill="interpolate", random_state=seed)
        outcomes.append(forecaster.backtest(y, coverage=COVERAGE, ets=False))
        seconds.append(time.perf_counter() - begin)
    return outcomes, float(np.mean(seconds))


def naive(outcome: Backtest, y: pd.Series, season: int) -> float:
    """The MASE of the seasonal naive forecast for some season, in the same unit as that of the others."""
    values, H = y.to_numpy()[:, None], int(outcome.steps[-1])
    origins = np.arange(outcome.train - 1, len(values) - 1)
    repeated = baselines.seasonal_naive(values, origins, H, season)[:, outcome.steps - 1]
    return replace(outcome, forecasts={"naive": repeated}).mase("naive")


def smoothed(outcome: Backtest, y: pd.Series) -> str:
    """The MASE of exponential smoothing."""
    values, H = y.to_numpy()[:, None], int(outcome.steps[-1])
    origins = np.arange(outcome.train - 1, len(values) - 1)
    found = baselines.exponential_smoothing(values, origins, H, outcome.season, outcome.train)
    if found is None:
        return "–"
    return f"{replace(outcome, forecasts={'ETS': found[:, outcome.steps - 1]}).mase('ETS'):.3f}"


class Row(NamedTuple):
    name: str
    text: str
    better: bool  # than the seasonal naive forecast
    better_than_cycle: bool  # also if that is told the cycle of a yearly series
    covered: bool  # as the target says
    plain: bool  # covered as it says without adapting


def row(name: str, y: pd.Series, seeds: int) -> Row:
    """Measure a series."""
    outcomes, seconds = measured(y, seeds)
    first, filled = outcomes[0], y.interpolate()  # as fill="interpolate" does
    ours, covered = (np.array(v) for v in zip(*((o.mase(OURS), o.covered()) for o in outcomes), strict=True))
    plain = [replace(o, lower=o.plain_lower, upper=o.plain_upper).covered() for o in outcomes]
    width, score = (np.mean([f(o) for o in outcomes]) for f in (Backtest.relative_width, Backtest.relative_score))
    share = np.mean([np.isinf(o.upper - o.lower).mean() for o in outcomes])
    infinite = f"; {100 * share:.0f} % are infinite" if share else ""
    seasonal, cycle = naive(first, filled, first.season), CYCLES.get(name, first.season)
    told = naive(first, filled, cycle)
    spread = f" ± {ours.std(ddof=1):.3f}" if seeds > 1 else ""
    chosen = sorted({str(o.fitted.ensemble_.combination) for o in outcomes})
    cells = [
        name, f"{first.train} + {len(first.observed)}", f"{first.season}", f"{first.steps[-1]}",
        f"{ours.mean():.3f}{spread}", f"{seasonal:.3f}" + (f" ({cycle} years: {told:.3f})" if name in CYCLES else ""),
        f"{first.mase('persistence'):.3f}", smoothed(first, filled),
        f"{100 * covered.mean():.1f} ({100 * covered.min():.1f} to {100 * covered.max():.1f})" + infinite,
        f"{100 * np.mean(plain):.1f}", f"{width:.2f}", f"{score:.2f}", f"{seconds:.0f}", "; or ".join(chosen),
    ]  # fmt: skip
    print(" | ".join(cells), flush=True)
    inside, plain_inside = (bool(WITHIN[0] <= np.mean(each) <= WITHIN[1]) for each in (covered, plain))
    mean = float(ours.mean())
    return Row(name, f"| {' | '.join(cells)} |", mean < seasonal, mean < min(seasonal, told), inside, plain_inside)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", nargs="*", help="names of series")
    parser.add_argument("--save", type=Path, help="page that gets the table, as docs/results.md")
    arguments = parser.parse_args()
    chosen = [(name, y) for name, y in series() if not arguments.only or name in arguments.only]
    rows = [row(name, y, arguments.seeds) for name, y in chosen]
    verdict = found(rows)
    six = [each for each in rows if each.name in TARGET]
    if 0 < len(six) < len(rows):
        verdict += f" Of the {len(six)} that the target is for: {found(six)}"
    print(verdict)
    if arguments.save:
        sections.save(arguments.save, HEADING, section([each.text for each in rows], verdict, arguments.seeds))


def found(rows: list[Row]) -> str:
    """Say on how many series a target is reached."""
    better, told, covered, plain = (
        sum(getattr(each, name) for each in rows) for name in ("better", "better_than_cycle", "covered", "plain")
    )
    return (
        f"Better than the seasonal naive forecast on {better} of {len(rows)} series, on {told} if that is told the "
        f"cycles of the yearly ones; the coverage of intervals of {100 * COVERAGE:.0f} % is within "
        f"{100 * WITHIN[0]:.0f} to {100 * WITHIN[1]:.0f} % on {covered} of {len(rows)}, without adapting on {plain}."
    )


def section(rows: list[str], verdict: str, seeds: int) -> str:
    heads = [
        "series", "steps: training + test", "season", "steps ahead", "MASE", "seasonal naive", "persistence", "ETS",
        "coverage, %", "coverage without adapting, %", "relative width", "relative score", "s", "transforms",
    ]  # fmt: skip
    text = f"""`RecurrentForecaster` with its defaults, {seeds} seeds (mean ± standard deviation; for the coverage the
        smallest and largest), on the last quarter of public series, forecast from every step of it. MASE is over
        all steps ahead; its unit is the error of the seasonal naive forecast, one season ahead, within the training
        part. A yearly series has no season: its seasonal naive forecast is persistence. ETS is chosen by AICc and
        fitted once, as ours is. Intervals of {100 * COVERAGE:.0f} % adapt; beside their coverage is that of plain
        split conformal ones on the same forecasts, and the mean width and interval score (less is better) relative to
        those. Seconds are for fit and backtest, on two cores that were shared with other work. {verdict}"""
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
