"""Signs that the rows of a table are no steps of one series, whatever its columns are called."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

import numpy as np

from gatelab.tasks.own import roles, time_columns
from gatelab.tasks.own.table_files import Table

CALENDAR = re.compile(r"year|month|week|day|date|hour|minute|second|quarter|season|time|decade|dow|doy", re.IGNORECASE)
ID = re.compile(r".*(_| )(id|no|nr|number)|id_.*", re.IGNORECASE)
STEP = re.compile(r"(?:|t|ts|time|step|timestep)[_ .-]?\d+", re.IGNORECASE)
MOST_BLOCKS = 50  # columns that are looked at as ids; a table of steps has few
NUMBERED = re.compile(r"[a-z]*[_ .-]?(\d+)", re.IGNORECASE)


def sequence_id(table: Table) -> tuple[str, str] | None:
    """Return the column that tells many sequences apart, and what speaks for it; None if this is one series.

    Either a number starts again with each of its values, or it is called as ids are, or another column is constant
    within each of its values, as labels are. Rows in the order of dates are one series.
    """
    if len(table.lines) < 6 or _has_global_time(table):
        return None
    blocks = dict(islice(_blocks(table), MOST_BLOCKS))
    counters = dict(_counters(table))
    for name, starts in blocks.items():
        if (counter := _restarting(counters, name, starts)) is not None:
            return name, f"{counter!r} starts again with each value of {name!r}"
    for name in table.names:
        lower = name.strip().lower()
        if lower in roles.GROUPS or (name in blocks and (ID.fullmatch(lower) or lower in roles.IDS)):
            count = len(set(table.cells(name)))
            if 1 < count <= len(table.lines) // 2:
                return name, f"{name!r} has {count:,} values, which repeat"
    for name in blocks:
        if (labels := constant_columns(table, name)) and len(blocks[name]) > 2:
            return name, f"{labels[0]!r} is constant within each value of {name!r}"
    return None


def _has_global_time(table: Table) -> bool:
    """Return whether dates, or numbers called time, have one direction over all rows; an index does in any table."""
    found = [times.astype(np.int64) for name in table.texts if (times := table.times(name)) is not None]
    names = set(time_columns.TIMES) - set(roles.INDEXES)
    found += [values for name, values in table.columns.items() if name.strip().lower() in names]
    return any((np.diff(values) > 0).all() or (np.diff(values) < 0).all() for values in found)


def _codes(table: Table, name: str) -> np.ndarray:
    """Return a column as numbers that are equal where its cells are."""
    if name in table.columns and name not in table.rounded:
        return table.columns[name]
    known: dict[str, int] = {}
    return np.array([known.setdefault(cell, len(known)) for cell in table.cells(name)], np.float64)


def _is_category(table: Table, name: str) -> bool:
    """Return whether a column may tell sequences or classes apart: text or integers, no time and no split."""
    if (name in table.columns and name not in table.integers) or CALENDAR.search(name):
        return False
    return name.strip().lower() not in (*time_columns.TIMES, *roles.SPLITS)


def _blocks(table: Table) -> Iterator[tuple[str, np.ndarray]]:
    """Yield columns of text or integers that have each value in one block of rows, and the rows where blocks start."""
    most = len(table.lines) // 3
    for name in table.names:
        if not _is_category(table, name) or name.strip().lower() in roles.LABELS:
            continue
        codes = _codes(table, name)
        starts = np.flatnonzero(codes[1:] != codes[:-1]) + 1
        if 1 <= len(starts) < most and len(np.unique(codes)) == len(starts) + 1:
            yield name, np.concatenate([[0], starts])


def _counters(table: Table) -> Iterator[tuple[str, np.ndarray]]:
    """Yield columns of numbers that mostly increase, but not always, and their changes from row to row."""
    for name, values in table.columns.items():
        changes = np.diff(values)
        if 0.6 * len(changes) <= (changes > 0).sum() < len(changes):
            yield name, changes


def _restarting(counters: dict[str, np.ndarray], name: str, starts: np.ndarray) -> str | None:
    """Return the counter that increases within each block, and not from most blocks to the next."""
    between = starts[1:] - 1
    for other, changes in counters.items():
        restarts = 2 * (changes[between] <= 0).sum() >= len(between)
        if other != name and restarts and (np.delete(changes, between) > 0).all():
            return other
    return None


def constant_columns(table: Table, name: str) -> list[str]:
    """Return the columns of text or integers that are constant within each value of this one, with fewer values which
    come again: candidates for its labels.
    """
    _, first, ids = np.unique(_codes(table, name), return_index=True, return_inverse=True)
    found = []
    for other in table.names:
        if other == name or not roles.is_value(other) or not _is_category(table, other):
            continue
        codes = _codes(table, other)
        distinct, changes = len(np.unique(codes[first])), int((codes[1:] != codes[:-1]).sum())
        if 2 <= distinct < len(first) and changes >= distinct and (codes == codes[first][ids]).all():
            found.append(other)
    return found


def id_option(table: Table, times: np.ndarray) -> str:
    """Return id=NAME for the one column that tells rows of the same time apart, or id=COLUMN if it is not clear."""
    moments, found = np.unique(times, return_inverse=True)[1], []
    for name in table.names:
        if _is_category(table, name):
            codes = np.unique(_codes(table, name), return_inverse=True)[1]
            pairs = np.unique(moments * (codes.max() + 1) + codes)
            if len(pairs) == len(times) and 2 * (codes.max() + 1) <= len(times):
                found.append(name)
    return f"id={found[0]}" if len(found) == 1 else "id=COLUMN"


def wide_label(table: Table, known: tuple[str | None, ...]) -> str | None:
    """Return the one column beside t0, t1, … that may be the label of a table with one sequence per row.

    Columns x0, x1, … are features of a series as often as steps: then the other one has to have few values.
    """
    others = [
        name
        for name in table.names
        if name not in known and roles.is_value(name) and not NUMBERED.fullmatch(name) and not name.startswith("(")
    ]
    if len(others) != 1 or not roles.numbered_columns(table, (*known, *others), NUMBERED):
        return None
    (name,) = others
    if name.strip().lower() in (*time_columns.TIMES, *roles.INDEXES) or CALENDAR.search(name):
        return None
    if name in table.texts and table.times(name) is not None:
        return None
    is_class = name in (*table.texts, *table.integers) and 2 * len(set(table.cells(name))) <= len(table.lines)
    are_steps = all(STEP.fullmatch(each) for each in table.columns if each != name and each not in known)
    return name if is_class or are_steps else None
