"""Forecasts with defaults on public series: prints tables, and saves them in a page with `--save docs/results.md`.

The last quarter of each series is forecast from every step of it (`RecurrentForecaster.backtest`): all methods are
fitted once, on what is before, and then see every value as it comes. Nothing was chosen on these parts; how defaults
were chosen is in docs/forecasting.md. `--series short` are twelve series that come with statsmodels and sktime, which
is not imported: its files are read. `--series long` are those of long_series.py, long enough for their coverage to be
told from the ends of the range that is asked for; `--series further` are long ones that were left for confirmation.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import coverages
import long_series
import numpy as np
import pandas as pd
import sections

from gatelab.estimators.forecasting import baselines
from gatelab.estimators.forecasting.backtest import OURS, Backtest
from gatelab.estimators.forecasting.intervals import Scores
from gatelab.sklearn import RecurrentForecaster

HEADINGS = {
    "short": "## Forecasts with prediction intervals",
    "long": "## Forecasts of long series",
    "further": "## Forecasts of further long series",
}
SEEDS = {"short": 5, "long": 3, "further": 3}
COVERAGE = 0.9
CYCLES = {"sunspots": 11, "lynx": 10}  # years, roughly: what nobody told the forecaster
TARGET = ("airline", "co2", "elnino", "sunspots", "lynx", "seatbelts")  # the series that the target is for
WITHIN = (0.87, 0.93)  # the target for its coverage
NORMAL = 1.96  # standard errors: what is farther away is told apart with 95 % confidence


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


def naive_intervals(outcome: Backtest, y: pd.Series) -> Backtest:
    """Plain split conformal intervals of the seasonal naive forecast, held out and tested on the same steps as ours."""
    values, H, season = y.to_numpy(float)[:, None], int(outcome.steps[-1]), outcome.season
    held_out = outcome.train - len(outcome.fitted.scores_)  # the first held-out origin
    origins = np.arange(held_out, len(values))
    forecasts = baselines.seasonal_naive(values, origins, H, season)
    scores = Scores.none(H, 1).extended(forecasts, np.ones((len(origins), 1, 1)), values)
    N = len(outcome.observed)
    width = scores.widths(COVERAGE, adaptive=False, times=N + 1)[:N, outcome.steps - 1]
    repeated = forecasts[-N - 1 : -1, outcome.steps - 1]
    return replace(outcome, plain_lower=repeated - width, plain_upper=repeated + width)


def hits(outcomes: list[Backtest], plain: bool = False) -> np.ndarray:
    """How often the interval of an origin and a step ahead contains the value, over the seeds, (N, F); NaN: unknown."""
    lower, upper = ("plain_lower", "plain_upper") if plain else ("lower", "upper")
    observed = outcomes[0].observed
    found = [(getattr(o, lower) <= observed) & (observed <= getattr(o, upper)) for o in outcomes]
    return np.where(np.isnan(observed), np.nan, np.mean(found, 0))[..., 0]


def sampling(name: str, outcomes: list[Backtest]) -> tuple[str, coverages.Sampled]:
    """A row about the sampling error of the coverage."""
    N, H, _ = outcomes[0].observed.shape
    exact = [coverages.exact(N, H, errors, COVERAGE, WITHIN) for errors in ("noise", "walk")]
    too_small = exact[1].estimated / exact[1].error
    ours, plain = (coverages.sampled(hits(outcomes, each), too_small) for each in (False, True))
    cells = [
        name, f"{N}", f"{H}", f"{ours.at_1:.2f}", f"{ours.at_horizon:.2f}", f"{ours.independent:.0f}",
        f"{100 * ours.coverage:.1f} ± {100 * ours.error:.1f}", f"{100 * plain.coverage:.1f} ± {100 * plain.error:.1f}",
        *(f"± {100 * each.error:.1f}" for each in exact), *(f"{100 * each.within:.0f}" for each in exact),
    ]  # fmt: skip
    print(" | ".join(cells), flush=True)
    return f"| {' | '.join(cells)} |", ours


def ratio(value: float) -> str:
    return f"{value:.2f}" if value < 100 else f"{value:.0e}"  # with logarithms a few intervals can be enormous


class Row(NamedTuple):
    name: str
    text: str
    sampling: str  # a row of the second table
    better: bool  # than the seasonal naive forecast
    better_than_cycle: bool  # also if that is told the cycle of a yearly series
    covered: bool  # as the target says
    plain: bool  # covered as it says without adapting
    distance: float  # of the coverage from the range, 0 within it
    error: float  # standard error of the coverage


def row(name: str, y: pd.Series, seeds: int, ets: bool) -> Row:
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
    repeated = [replace(naive_intervals(o, filled), lower=o.lower, upper=o.upper) for o in outcomes]
    repeated_covered = replace(repeated[0], lower=repeated[0].plain_lower, upper=repeated[0].plain_upper).covered()
    repeated_width = np.mean([each.relative_width() for each in repeated])
    spread = f" ± {ours.std(ddof=1):.3f}" if seeds > 1 else ""
    extremes = f" ({100 * covered.min():.1f} to {100 * covered.max():.1f})" if seeds > 1 else ""
    chosen = sorted({str(o.fitted.ensemble_.combination) for o in outcomes})
    cells = [
        name, f"{first.train} + {len(first.observed)}", f"{first.season}", f"{first.steps[-1]}",
        f"{ours.mean():.3f}{spread}", f"{seasonal:.3f}" + (f" ({cycle} years: {told:.3f})" if name in CYCLES else ""),
        f"{first.mase('persistence'):.3f}", smoothed(first, filled) if ets else f"{100 * y.isna().mean():.1f}",
        f"{100 * covered.mean():.1f}" + extremes + infinite,
        f"{100 * np.mean(plain):.1f}", ratio(width), ratio(score), f"{100 * repeated_covered:.1f}",
        ratio(repeated_width), f"{seconds:.0f}", "; or ".join(chosen),
    ]  # fmt: skip
    print(" | ".join(cells), flush=True)
    inside, plain_inside = (bool(WITHIN[0] <= np.mean(each) <= WITHIN[1]) for each in (covered, plain))
    mean, (line, sample) = float(ours.mean()), sampling(name, outcomes)
    distance = max(WITHIN[0] - sample.coverage, sample.coverage - WITHIN[1], 0)
    better, better_than_cycle = mean < seasonal, mean < min(seasonal, told)
    text = f"| {' | '.join(cells)} |"
    return Row(name, text, line, better, better_than_cycle, inside, plain_inside, distance, sample.error)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--series", choices=list(HEADINGS), help="one of the sets; by default all")
    parser.add_argument("--seeds", type=int, help="by default 5, and 3 for long series")
    parser.add_argument("--only", nargs="*", help="names of series")
    parser.add_argument("--save", type=Path, help="page that gets the tables, as docs/results.md")
    arguments = parser.parse_args()
    for kind in HEADINGS if arguments.series is None else [arguments.series]:
        chosen = series() if kind == "short" else long_series.series(left=kind == "further")
        seeds = arguments.seeds or SEEDS[kind]
        only = [(name, y) for name, y in chosen if not arguments.only or name in arguments.only]
        rows = [row(name, y, seeds, ets=kind == "short") for name, y in only]
        verdict = found(rows)
        six = [each for each in rows if each.name in TARGET]
        if 0 < len(six) < len(rows):
            verdict += f" Of the {len(six)} that the target is for: {found(six)}"
        print(verdict)
        if arguments.save:
            sections.save(arguments.save, HEADINGS[kind], section(kind, rows, verdict, seeds))


def found(rows: list[Row]) -> str:
    """Say on how many series a target is reached."""
    better, told, covered, plain = (
        sum(getattr(each, name) for each in rows) for name in ("better", "better_than_cycle", "covered", "plain")
    )
    cycles = f", on {told} if that is told the cycles of the yearly ones" if any(r.name in CYCLES for r in rows) else ""
    outside = sum(each.distance > NORMAL * each.error for each in rows)
    return (
        f"Better than the seasonal naive forecast on {better} of {len(rows)} series{cycles}; the coverage of intervals "
        f"of {100 * COVERAGE:.0f} % is within {100 * WITHIN[0]:.0f} to {100 * WITHIN[1]:.0f} % on {covered} of "
        f"{len(rows)}, without adapting on {plain}; "
        f"it is outside by more than {NORMAL} standard errors on {outside}."
    )


def section(kind: str, rows: list[Row], verdict: str, seeds: int) -> str:
    heads = [
        "series", "steps: training + test", "season", "steps ahead", "MASE", "seasonal naive", "persistence",
        "ETS" if kind == "short" else "interpolated, %", "coverage, %", "coverage without adapting, %",
        "relative width", "relative score", "coverage of seasonal naive, %", "width relative to it", "s", "transforms",
    ]  # fmt: skip
    ets = "ETS is chosen by AICc and fitted once, as ours is." if kind == "short" else (
        "Missing values are interpolated, and count as others do. ETS takes too long on these lengths."
    )  # fmt: skip
    rules = {
        "short": "",
        "long": f"""Which series these are was settled before any of them was forecast, by the rule in
            benchmarks/long_series.py: at most {long_series.PER_FREQUENCY} of each frequency, in the order of their
            files, of packages that carry series, and long enough that exact intervals would be measured within
            {100 * WITHIN[0]:.0f} to {100 * WITHIN[1]:.0f} % in {100 * long_series.OFTEN:.0f} % of cases (below, random
            walk); the last {long_series.LONGEST} steps of each. This is the second measurement on these parts: after
            the first, the intervals were changed ([how](forecasting.md#after-the-long-series)), the series and
            forecasts were not.""",
        "further": f"""These are all series that are long enough by the rule of the
            [long ones](#forecasts-of-long-series) and were left out there, because
            {long_series.PER_FREQUENCY} of their frequency were taken: they were forecast once, after the intervals
            had been changed, and nothing was changed since.""",
    }
    spread = "seeds (mean ± standard deviation; for the coverage the smallest and largest)" if seeds > 1 else "seed"
    text = f"""`RecurrentForecaster` with its defaults, {seeds} {spread}, on the last quarter of public series, forecast
        from every step of it. {rules[kind]}
        MASE is over all steps ahead; its unit is the error of the seasonal naive forecast, one season ahead, within the
        training part. A yearly series has no season: its seasonal naive forecast is persistence. {ets} Intervals of
        {100 * COVERAGE:.0f} % adapt; beside their coverage is that of plain split conformal ones on the same
        forecasts, and the mean width and interval score (less is better) relative to those; then the coverage of plain
        split conformal intervals of the seasonal naive forecast, and the width of ours relative to these. Seconds are
        for fit and backtest, on two cores that were shared with other work. {verdict}"""
    given = f" --seeds {seeds}" if seeds != SEEDS[kind] else ""
    command = f"python benchmarks/forecasts.py --series {kind}{given} --save docs/results.md"
    lines = [HEADINGS[kind], "", sections.paragraph(text), "", "```", command, "```"]
    errors = f"""The sampling error of these coverages. Intervals from neighbouring origins hit and miss together:
        beside the number of origins is the autocorrelation of their shares of hits, to the next one and to the first
        that shares no step with it, and the number of independent hits that would have the same standard error. The
        standard errors after ± are Newey and West's, with weights that fall to 0 within two horizons. With few origins
        that is too small; it was multiplied by the factor that makes it right for exact intervals of a random walk. The
        last four columns depend on the numbers of origins and steps ahead only: if intervals cover exactly
        {100 * COVERAGE:.0f} %, how far the measured
        coverage is from that (standard deviation), and how often it is within {100 * WITHIN[0]:.0f} to
        {100 * WITHIN[1]:.0f} %; simulated, for forecast errors of white noise and of a random walk."""
    second = [
        "series", "origins", "steps ahead", "autocorrelation, 1 step", "one horizon", "independent hits",
        "coverage, %", "without adapting, %", "exact: white noise", "exact: random walk", "within, %: white noise",
        "within, %: random walk",
    ]  # fmt: skip
    first_table = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads), *(each.text for each in rows)]
    second_table = [f"| {' | '.join(second)} |", "|" + "---|" * len(second), *(each.sampling for each in rows)]
    return "\n".join([*lines, "", *first_table, "", sections.paragraph(errors), "", *second_table, ""])


if __name__ == "__main__":
    main()
