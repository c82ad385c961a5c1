"""The time of each row of a table: dates in one column, in year, month and day, or numbers that count."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gatelab.errors import DataError
from gatelab.tasks import timestamps
from gatelab.tasks.own.roles import column
from gatelab.tasks.own.table_files import Table

TIMES = (
    "t", "time", "times", "step", "timestep", "time_step", "timestamp", "time_index", "index", "idx", "tick",
    "frame", "date", "datetime", "ds", "epoch", "unix", "unix_time", "time_idx",
)  # fmt: skip
EPOCHS = ("timestamp", "epoch", "unix", "unix_time", "time")
FIELDS = ("year", "month", "day", "hour", "minute")


@dataclass(frozen=True)
class Times:
    """The times of all rows, and the columns that they come from."""

    names: tuple[str, ...]
    values: np.ndarray  # (N,) datetime64[us], or float64

    @property
    def name(self) -> str:
        """The columns, as the option `time` names them."""
        return "+".join(self.names)

    @property
    def are_dates(self) -> bool:
        """Whether the times are dates, not numbers."""
        return self.values.dtype.kind == "M"

    def text(self, row: int) -> str:
        """Return one time as text."""
        return self.format(self.values[row])

    def format(self, time: np.generic) -> str:
        """Return any time of the series as text, as short as the times of the first rows allow."""
        if not isinstance(time, np.datetime64):
            return f"{float(time):.10g}"
        seconds = timestamps.to_seconds(np.array([time, *self.values[:3]]))
        if seconds is None:
            return str(time).replace("T", " ").rstrip("0").rstrip(".")
        text = timestamps.format_times(seconds[:1], seconds)[0]
        return text.removesuffix(":00") if text.count(":") == 2 else text


def find(table: Table, option: str | None, values: tuple[str, ...] = ()) -> Times | None:
    """Return the times of the rows: of the named columns, or of columns that clearly are times; "none" is no times.

    `values` are columns that are used as values, whatever they are called.
    """
    if option is not None:
        return None if option.lower() == "none" else named(table, option)
    for name, cells in table.texts.items():
        times = table.times(name)
        if times is None and name.startswith("(column"):
            times = _unnamed_years(cells)
        if times is not None:
            return Times((name,), times)
    years = _year_and_so_on(table)
    if years and not set(years) & set(values):
        return _combined(table, years)
    for name in table.columns:
        if name not in values and name.strip().lower() in TIMES and counts(table.columns[name]):
            return Times((name,), _numeric(name, table.columns[name]))
    return None


def named(table: Table, option: str) -> Times:
    """Return the times of the columns that the option names."""
    names = (option,) if option in table.names else tuple(option.split("+"))
    for name in names:
        column(table, name, "time")
    if len(names) > 1 or _field(names[0]) == "year":
        return _combined(table, names)
    (name,) = names
    if name in table.texts:
        times = table.times(name)
        if times is None:
            raise DataError(
                f"{table.path}, line {table.lines[0]}, column {name!r}: {table.texts[name][0]!r}: the column cannot be "
                "read as times: expected one format throughout, as 2026-01-31 or 2026-01-31 12:00, with day and month "
                "distinguishable"
            )
        return Times(names, times)
    values = table.columns[name]
    if np.isnan(values).any():
        row = int(np.flatnonzero(np.isnan(values))[0])
        raise DataError(f"{table.path}, line {table.lines[row]}, column {name!r}: the time is missing")
    return Times(names, _numeric(name, values))


def counts(values: np.ndarray) -> bool:
    """Return whether numbers only increase, or only decrease, with few repetitions."""
    if len(values) < 2 or not np.isfinite(values).all():
        return False
    changes = np.diff(values)
    changing = 2 * (changes != 0).sum() >= len(changes)
    return bool(changing and ((changes >= 0).all() or (changes <= 0).all()))


def time_like(table: Table) -> tuple[str, ...]:
    """Return the numeric columns that are times by name and values; they are never forecast by default."""
    names = [name for name in table.columns if name.strip().lower() in TIMES and counts(table.columns[name])]
    years = _year_and_so_on(table)
    return (*names, *years)


def restart(table: Table) -> tuple[str, np.ndarray] | None:
    """Return the time column that starts again, and the rows where it does: a sign of many sequences."""
    columns: dict[str, np.ndarray] = {
        name: values
        for name, values in table.columns.items()
        if name.strip().lower() in (*TIMES, "year") and np.isfinite(values).all()
    }
    for name in table.texts:
        times = table.times(name)
        if times is not None:
            columns[name] = times.astype(np.int64)
    for name, values in columns.items():
        changes = np.diff(values)
        drops = np.flatnonzero(changes < 0)
        if len(drops) and 3 * (changes > 0).sum() >= 2 * len(changes) and (values[drops + 1] < values[drops]).all():
            returns = values[drops + 1] <= values[0] + np.abs(np.median(changes))
            if returns.all():
                return name, drops + 1
    return None


def _numeric(name: str, values: np.ndarray) -> np.ndarray:
    """Return numbers as they are, or as dates: seconds since 1970, or 20260131."""
    lowest, highest = values.min(), values.max()
    if name.strip().lower() in EPOCHS and lowest >= 5e8 and highest < 5e9:
        return (values * 1e6).astype(np.int64).astype("datetime64[us]")
    if name.strip().lower() in ("date", "day", "ds") and lowest >= 1e7 and highest < 1e8 and (values % 1 == 0).all():
        texts = [str(int(value)) for value in values]
        times = timestamps.parse_column([f"{text[:4]}-{text[4:6]}-{text[6:]}" for text in texts])
        return values if times is None else times
    return values


def _unnamed_years(cells: list[str]) -> np.ndarray | None:
    """Return the years of an index without a name, as data frames write it."""
    if len(cells) < 2 or not all(cell.strip().isdigit() and len(cell.strip()) == 4 for cell in cells):
        return None
    years = np.array([int(cell) for cell in cells])
    in_order = (np.diff(years) > 0).all() and years[0] >= 1000 and years[-1] < 3000
    return (years - 1970).astype("datetime64[Y]").astype("datetime64[us]") if in_order else None


def _field(name: str) -> str:
    return name.strip().lower()


def _year_and_so_on(table: Table) -> tuple[str, ...]:
    """Return the columns year, month, day, hour, minute, as far as they follow each other without a gap."""
    by_field = {_field(name): name for name in reversed(list(table.columns))}
    found = []
    for field in FIELDS:
        if field not in by_field:
            break
        found.append(by_field[field])
    if not found:
        return ()
    years = table.columns[found[0]]
    whole = np.isfinite(years).all() and (years % 1 == 0).all() and years.min() >= 1000 and years.max() < 3000
    ordered = len(years) > 1 and ((np.diff(years) >= 0).all() or (np.diff(years) <= 0).all())
    return tuple(found) if whole and ordered else ()


def _combined(table: Table, names: tuple[str, ...]) -> Times:
    """Return the dates of the columns year, month, …"""
    fields = [_field(name) for name in names]
    if fields != list(FIELDS[: len(fields)]):
        raise DataError(
            f"{table.path}: time={'+'.join(names)}: expected one column, or year+month, year+month+day, "
            "year+month+day+hour"
        )
    numbers = table.pick(names)
    lowest, highest = np.array([1, 1, 1, 0, 0]), np.array([9999, 12, 31, 24, 59])
    wrong = (numbers % 1 != 0) | (numbers < lowest[: len(names)]) | (numbers > highest[: len(names)])
    padded = np.ones((len(numbers), 3), np.int64)
    if not wrong.any():
        padded[:, : min(3, len(names))] = numbers[:, :3]
        months = ((padded[:, 0] - 1970) * 12 + padded[:, 1] - 1).astype("datetime64[M]")
        days = months.astype("datetime64[D]") + (padded[:, 2] - 1)
        wrong[:, -1] |= days.astype("datetime64[M]") != months
    if wrong.any():
        row, field = np.argwhere(wrong)[0]
        raise DataError(
            f"{table.path}, line {table.lines[row]}, column {names[field]!r}: {numbers[row, field]:g} is not a valid "
            f"{fields[field]}: time=none takes the rows as consecutive steps"
        )
    times = days.astype("datetime64[us]")
    for index, size in ((3, 3600), (4, 60)):
        if len(names) > index:
            times = times + (numbers[:, index].astype(np.int64) * size * 1_000_000).astype("timedelta64[us]")
    return Times(names, times)
