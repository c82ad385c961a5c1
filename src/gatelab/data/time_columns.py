"""The time of each row of a table: dates in one column, in year, month and day, or numbers that count."""

from __future__ import annotations

import numpy as np

from gatelab.data import timestamps
from gatelab.data.advice import Location, RefusalError, use
from gatelab.data.column_roles import column
from gatelab.data.table import Table
from gatelab.data.timestamps import Times
from gatelab.errors import DataError, short

TIMES = (
    "t", "time", "times", "step", "timestep", "time_step", "timestamp", "time_index", "index", "idx", "tick",
    "frame", "date", "datetime", "ds", "epoch", "unix", "unix_time", "time_idx",
)  # fmt: skip
DATES = ("date", "time", "times", "timestamp", "datetime", "ds")  # of text that has to be times
EPOCHS = ("timestamp", "epoch", "unix", "unix_time", "time")
MOST = 0.5  # fraction of times in a column above which the others are mistakes
FIELDS = ("year", "month", "day", "hour", "minute")
AS_THEY_ARE = (use(time="none"), " takes the rows as they are")


def find(table: Table, option: str | None, values: tuple[str, ...] = ()) -> Times | None:
    """The times of the rows: of the named columns, or of columns that clearly are times; "none" is no times.

    `values` are columns that are used as values, whatever they are called.
    """
    if option is not None:
        return None if option.lower() == "none" else named(table, option)
    if (dates := _dates(table)) is not None:
        return dates
    years = _year_and_so_on(table)
    if years and not set(years) & set(values):
        return _combined(table, years)
    for name in table.numbers:
        if is_time(table, name) and name not in values:
            return named(table, name)
    return None


def _dates(table: Table) -> Times | None:
    """The times of a column of text: one that is called so, or else the first of times only.

    A column that is called so, or that mostly has times, is refused at its first other cell: it would be ignored, and
    with it the order and the gaps of the rows.
    """
    named = [name for name in table.texts if _field(name) in DATES]
    for some in (named, [name for name in table.texts if name not in named]):
        for name in some:
            times = table.columns[name].times
            if times is None and name.startswith("(column"):
                times = _unnamed_years(table.texts[name])
            if times is not None:
                return Times((name,), times)
        for name in some:
            cells = table.texts[name]
            if (
                len(cells) > 1
                and (name in named or timestamps.share(cells) > MOST)
                and not timestamps.is_ordered(cells)
            ):
                raise _not_times(table, name)
    return None


def _not_times(table: Table, name: str) -> DataError:
    """The error for a column that has other cells than times of one format."""
    cells = table.texts[name]
    row = timestamps.first_misfit(cells)
    problem = "day and month cannot be told apart, or some times have an offset from UTC and some have none"
    if row is not None:
        problem = f"no time in {'the format of the other rows' if timestamps.share(cells) else 'a known format'}"
    return RefusalError(
        table.place(row or 0, name),
        f": {short(cells[row or 0], 60)}: {problem}: expected one format throughout, as 2026-01-31 or ",
        "2026-01-31 12:00; correct or remove the row, or ",
        *AS_THEY_ARE,
    )


def named(table: Table, option: str) -> Times:
    """The times of the columns that the option names."""
    names = (option,) if option in table.names else tuple(option.split("+"))
    for name in names:
        column(table, name, "time")
    if len(names) > 1 or _field(names[0]) == "year":
        return _combined(table, names)
    (name,) = names
    if name in table.texts:
        times = table.columns[name].times
        if times is None:
            raise _not_times(table, name)
        return Times(names, times)
    values = table.numbers[name]
    if not np.isfinite(values).all():
        raise _missing(table, name)
    return Times(names, _numeric(table, name))


def counts(values: np.ndarray) -> bool:
    """Whether numbers only increase, or only decrease, with few repetitions."""
    if len(values) < 2 or not np.isfinite(values).all():
        return False
    changes = np.diff(values)
    changing = 2 * (changes != 0).sum() >= len(changes)
    return bool(changing and ((changes >= 0).all() or (changes <= 0).all()))


def time_like(table: Table) -> tuple[str, ...]:
    """The numeric columns that are times by name and values; they are never forecast by default."""
    names = [name for name in table.numbers if is_time(table, name)]
    years = _year_and_so_on(table)
    return (*names, *years)


def is_time(table: Table, name: str) -> bool:
    """Whether a column of numbers is called time, and counts or has dates, as far as it has values."""
    if name.strip().lower() not in TIMES:
        return False
    values = table.numbers[name]
    known = values[np.isfinite(values)]
    return len(known) > MOST * len(values) and (counts(known) or _are_dates(name, known))


def _missing(table: Table, name: str) -> DataError:
    row = int(np.flatnonzero(~np.isfinite(table.numbers[name]))[0])
    return RefusalError(table.place(row, name), ": the time is missing: correct or remove the row, or ", *AS_THEY_ARE)


def _epoch_unit(name: str, values: np.ndarray) -> float | None:
    """How many microseconds the numbers count since 1970, for columns that are called timestamp and so on."""
    if name.strip().lower() in EPOCHS and len(values):
        for unit in (1e6, 1e3, 1.0, 1e-3):  # seconds, milliseconds, microseconds, nanoseconds
            if values.min() * unit >= 5e14 and values.max() * unit < 5e15:
                return unit
    return None


def _are_dates(name: str, values: np.ndarray) -> bool:
    """Whether numbers are dates whatever their order: seconds since 1970, or 20260131."""
    if _epoch_unit(name, values) is not None:
        return True
    is_date = name.strip().lower() in ("date", "day", "ds", "datetime") and len(values) > 0
    return bool(is_date and (values % 1 == 0).all() and values.min() >= 18000101 and values.max() < 22000101)


def _numeric(table: Table, name: str) -> np.ndarray:
    """Numbers as they are, or as dates: since 1970, or 20260131."""
    values = table.numbers[name]
    if (unit := _epoch_unit(name, values)) is not None:
        return (values * unit).astype(np.int64).astype("datetime64[us]")
    if not _are_dates(name, values):
        table.refuse_rounded(name)
        return values
    texts = [f"{value:.0f}" for value in values.tolist()]
    dates = [f"{text[:4]}-{text[4:6]}-{text[6:]}" for text in texts]
    times = timestamps.parse_column(dates)
    if times is None and (row := timestamps.first_misfit(dates)) is not None:
        raise RefusalError(
            table.place(row, name),
            f": {texts[row]} is not a valid date: expected dates as 20260131; correct or remove the row, or ",
            *AS_THEY_ARE,
        )
    return values if times is None else times


def _unnamed_years(cells: list[str]) -> np.ndarray | None:
    """The years of an index without a name, as data frames write it."""
    if len(cells) < 2 or not all(cell.strip().isdigit() and len(cell.strip()) == 4 for cell in cells):
        return None
    years = np.array([int(cell) for cell in cells])
    in_order = (np.diff(years) > 0).all() and years[0] >= 1000 and years[-1] < 3000
    return (years - 1970).astype("datetime64[Y]").astype("datetime64[us]") if in_order else None


def _field(name: str) -> str:
    return name.strip().lower()


def _year_and_so_on(table: Table) -> tuple[str, ...]:
    """The columns year, month, day, hour, minute, as far as they follow each other without a gap."""
    by_field = {_field(name): name for name in reversed(list(table.numbers))}
    found = []
    for field in FIELDS:
        if field not in by_field:
            break
        found.append(by_field[field])
    if not found:
        return ()
    years = table.numbers[found[0]]
    whole = np.isfinite(years).all() and (years % 1 == 0).all() and years.min() >= 1000 and years.max() < 3000
    ordered = len(years) > 1 and ((np.diff(years) >= 0).all() or (np.diff(years) <= 0).all())
    return tuple(found) if whole and ordered else ()


def _combined(table: Table, names: tuple[str, ...]) -> Times:
    """The dates of the columns year, month, …"""
    fields = [_field(name) for name in names]
    if fields != list(FIELDS[: len(fields)]):
        found = (": ", use(time="+".join(names)), ": expected one column, or year+month, year+month+day, ")
        raise RefusalError(Location(table.path), *found, "year+month+day+hour")
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
        raise RefusalError(
            table.place(row, names[field]),
            f": {numbers[row, field]:g} is not a valid {fields[field]}: ",
            use(time="none"),
            " takes the rows as consecutive steps",
        )
    times = days.astype("datetime64[us]")
    for index, size in ((3, 3600), (4, 60)):
        if len(names) > index:
            times = times + (numbers[:, index].astype(np.int64) * size * 1_000_000).astype("timedelta64[us]")
    return Times(names, times)
