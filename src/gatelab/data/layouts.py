"""Which layout a table has: the steps of one series, steps of many sequences, or one sequence per row.

What is certain is recognised; where something speaks against it, one message names the options.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Literal

import numpy as np

from gatelab.data import column_roles, series_tables, time_columns, wide_tables
from gatelab.data.advice import Location, RefusalError, Use, use
from gatelab.data.reading import Reading
from gatelab.data.table import Table

Layout = Literal["series", "long", "wide"]

CALENDAR = re.compile(r"year|month|week|day|date|hour|minute|second|quarter|season|time|decade|dow|doy", re.IGNORECASE)
ID = re.compile(r".*(_| )(id|no|nr|number)|id_.*", re.IGNORECASE)
STEP = re.compile(r"(?:|t|ts|time|step|timestep)[_ .-]?\d+", re.IGNORECASE)
NUMBERED = re.compile(r"[a-z]*[_ .-]?(\d+)", re.IGNORECASE)
MOST_BLOCKS = 50  # columns that are looked at as ids; a table of steps has few
LEAST_ROWS = 6  # with fewer, nothing speaks for many sequences


def recognise(table: Table, reading: Reading, columns: tuple[str, ...]) -> Layout:
    """The layout: as the option says, or where it is clear; otherwise an error names the options."""
    found = judge(table, reading, columns)
    if isinstance(found, RefusalError):
        raise found
    return found


def judge(table: Table, reading: Reading, columns: tuple[str, ...]) -> Layout | RefusalError:
    """The layout, or why it is not clear."""
    if reading.layout != "auto":
        return reading.layout
    if wide_tables.looks_like_ucr(table) and not columns:
        if wide_tables.is_clearly_ucr(table):
            return "wide"
        few = f"no header, few distinct values in its first column and {len(table.names) - 1} further columns"
        return _unclear(table, f" has {few}")
    label = column_roles.label_column(table, reading.label)
    named = reading.id or column_roles.named_as(table, column_roles.IDS)
    special = (label, column_roles.split_column(table, reading.split), reading.group, named)
    one_row_each = reading.id is None or _one_row_each(table, reading.id)
    if label is not None and not columns and one_row_each and column_roles.numbered_columns(table, special):
        return "wide"
    if reading.id is not None:
        column_roles.column(table, reading.id, "id")
        return "long"
    if column_roles.id_column(table, None) is not None and (label is not None or not columns):
        return "long"
    if columns:
        return "series" if reading.label is None or label is None else _labelled(table, label)
    return _doubt(table, reading, label, special) or "series"


def _one_row_each(table: Table, name: str) -> bool:
    return name in table.names and table.column(name).distinct == len(table.lines)


def _doubt(table: Table, reading: Reading, label: str | None, special: tuple[str | None, ...]) -> RefusalError | None:
    """What speaks against one series."""
    if label is None and (likely := _wide_label(table, special)) is not None:
        return _unclear(table, f" has numbered columns and {likely!r}", likely)
    many = many_sequences(table)
    restart = _restart(table) if reading.time is None else None
    if restart is not None:
        name, row = restart
        series = use(layout="series", time="none")
        return _unclear(
            table,
            ": the times start again",
            label,
            many[0] if many is not None else "COLUMN",
            table.place(row, name),
            series,
        )
    if many is not None:
        return _unclear(table, f": {many[1]}", label, many[0])
    return None if label is None else _labelled(table, label)


def _labelled(table: Table, label: str) -> RefusalError:
    """The error for a table with a label, which a series may have as well."""
    values = series_tables.forecast_columns(table, (), (label,))[:3] or (label,)
    return _unclear(table, f" has a column {label!r}", label, series=use(columns="+".join(values)))


def _unclear(
    table: Table,
    found: str,
    label: str | None = None,
    identity: str = "COLUMN",
    place: Location | None = None,
    series: Use | None = None,
) -> RefusalError:
    """The error for a table that can be read in several ways."""
    labels = [label] if label is not None else _constant_within(table, identity) if identity in table.names else []
    label_of_many = labels[0] if len(labels) == 1 else "COLUMN"
    named = {} if label is None else {"label": label}
    return RefusalError(
        place or Location(table.path),
        f"{found}, and it is not clear what a row is: ",
        use(id=identity, label=label_of_many),
        f" if the rows are steps of many sequences{', which the id tells apart' if identity == 'COLUMN' else ''}; ",
        use(layout="wide", **named),
        " if each row is one sequence; ",
        series or use(layout="series"),
        " if they are the steps of one series",
    )


def _restart(table: Table) -> tuple[str, int] | None:
    """The time column that starts again, and the first row where it does: a sign of many sequences."""
    columns: dict[str, np.ndarray] = {
        name: values
        for name, values in table.numbers.items()
        if name.strip().lower() in (*time_columns.TIMES, "year") and np.isfinite(values).all()
    }
    columns |= {
        name: times.astype(np.int64) for name in table.texts if (times := table.columns[name].times) is not None
    }
    for name, values in columns.items():
        changes = np.diff(values)
        drops = np.flatnonzero(changes < 0)
        if len(drops) and 3 * (changes > 0).sum() >= 2 * len(changes):
            returns = values[drops + 1] <= values[0] + np.abs(np.median(changes))
            if returns.all():
                return name, int(drops[0]) + 1
    return None


def many_sequences(table: Table) -> tuple[str, str] | None:
    """The column that tells many sequences apart, and what speaks for it; None if this is one series.

    Its values come in blocks of rows, and a number starts again in each of them, or another column is constant within
    them, as labels are; or it is called as ids and groups are. Rows in the order of dates are one series.
    """
    if len(table.lines) < LEAST_ROWS or _has_global_time(table):
        return None
    blocks = dict(islice(_blocks(table), MOST_BLOCKS))
    counters = dict(_counters(table))
    for name, starts in blocks.items():
        if (counter := _restarting(counters, name, starts)) is not None:
            return name, f"{counter!r} starts again with each value of {name!r}"
    for name in table.names:
        lower = name.strip().lower()
        if lower in column_roles.GROUPS or (name in blocks and (ID.fullmatch(lower) or lower in column_roles.IDS)):
            count = table.column(name).distinct
            if 1 < count <= len(table.lines) // 2:
                return name, f"{name!r} has {count:,} values, which repeat"
    for name, starts in blocks.items():
        if len(starts) > 2 and (labels := _constant_within(table, name)):
            return name, f"{labels[0]!r} is constant within each value of {name!r}"
    return None


def _has_global_time(table: Table) -> bool:
    """Whether dates, or numbers called time, have one direction over all rows; an index does in any table."""
    found = [times.astype(np.int64) for name in table.texts if (times := table.columns[name].times) is not None]
    names = set(time_columns.TIMES) - set(column_roles.INDEXES)
    found += [values for name, values in table.numbers.items() if name.strip().lower() in names]
    return any((np.diff(values) > 0).all() or (np.diff(values) < 0).all() for values in found)


def _codes(table: Table, name: str) -> np.ndarray:
    """A column as numbers that are equal where its cells are."""
    column = table.columns[name]
    if column.numbers is not None and column.rounded is None:
        return column.numbers
    known: dict[str, int] = {}
    return np.array([known.setdefault(cell, len(known)) for cell in column.cells], np.float64)


def _is_category(table: Table, name: str) -> bool:
    """Whether a column may tell sequences apart: text or integers, no time and no split."""
    column = table.columns[name]
    if (column.numbers is not None and not column.are_integers) or CALENDAR.search(name):
        return False
    return name.strip().lower() not in (*time_columns.TIMES, *column_roles.SPLITS)


def _blocks(table: Table) -> Iterator[tuple[str, np.ndarray]]:
    """Columns of text or integers that have each value in one block of rows, and the rows where blocks start."""
    most = len(table.lines) // 3
    for name in table.names:
        if not _is_category(table, name) or name.strip().lower() in column_roles.LABELS:
            continue
        codes = _codes(table, name)
        starts = np.flatnonzero(codes[1:] != codes[:-1]) + 1
        if 1 <= len(starts) < most and len(np.unique(codes)) == len(starts) + 1:
            yield name, np.concatenate([[0], starts])


def _counters(table: Table) -> Iterator[tuple[str, np.ndarray]]:
    """Columns of numbers that mostly increase, but not always, and their changes from row to row."""
    for name, values in table.numbers.items():
        changes = np.diff(values)
        if 0.6 * len(changes) <= (changes > 0).sum() < len(changes):
            yield name, changes


def _restarting(counters: dict[str, np.ndarray], name: str, starts: np.ndarray) -> str | None:
    """The counter that increases within each block, and not from most blocks to the next."""
    between = starts[1:] - 1
    for other, changes in counters.items():
        restarts = 2 * (changes[between] <= 0).sum() >= len(between)
        if other != name and restarts and (np.delete(changes, between) > 0).all():
            return other
    return None


def _constant_within(table: Table, name: str) -> list[str]:
    """The columns that are constant within each value of this one, with fewer values, which come again: they may be
    its labels.
    """
    _, first, ids = np.unique(_codes(table, name), return_index=True, return_inverse=True)
    found = []
    for other in table.names:
        if other != name and column_roles.is_value(other) and _is_category(table, other):
            codes = _codes(table, other)
            distinct, changes = len(np.unique(codes[first])), np.count_nonzero(np.diff(codes))
            if 2 <= distinct < len(first) and changes >= distinct and (codes == codes[first][ids]).all():
                found.append(other)
    return found


def _wide_label(table: Table, known: tuple[str | None, ...]) -> str | None:
    """The one column beside t0, t1, … that may be the label of a table with one sequence per row.

    Columns x0, x1, … are features of a series as often as steps: then the other one has to have few values.
    """
    others = [
        name
        for name in table.names
        if name not in known
        and column_roles.is_value(name)
        and not NUMBERED.fullmatch(name)
        and not name.startswith("(")
    ]
    if len(others) != 1 or not column_roles.numbered_columns(table, (*known, *others), NUMBERED):
        return None
    column = table.columns[others[0]]
    is_time = column.name.strip().lower() in (*time_columns.TIMES, *column_roles.INDEXES) or column.times is not None
    if is_time or CALENDAR.search(column.name):
        return None
    is_class = (column.numbers is None or column.are_integers) and 2 * column.distinct <= len(table.lines)
    are_steps = all(STEP.fullmatch(name) for name in table.numbers if name != column.name and name not in known)
    return column.name if is_class or are_steps else None
