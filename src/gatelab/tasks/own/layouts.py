"""Which layout a table has: the steps of one series, steps of many sequences, or one sequence per row."""

from __future__ import annotations

from typing import Literal

import numpy as np

from gatelab.errors import DataError
from gatelab.tasks.own import roles, series_files, signs, time_columns, wide_tables
from gatelab.tasks.own.reading import Reading
from gatelab.tasks.own.table_files import Table


def recognise(table: Table, reading: Reading, columns: tuple[str, ...]) -> Literal["series", "long", "wide"]:
    """Return the layout: as the option says, or where it is clear; otherwise an error names the options."""
    if reading.layout != "auto":
        return reading.layout
    if wide_tables.looks_like_ucr(table) and not columns:
        if wide_tables.is_clearly_ucr(table):
            return "wide"
        raise DataError(
            f"{table.path} has no header, few distinct values in its first column and {len(table.names) - 1} further "
            "columns: layout=wide if each row is a sequence with its label first, layout=series if each row is "
            "a step of one series"
        )
    label = roles.label_column(table, reading.label)
    special = (
        label,
        roles.split_column(table, reading.split),
        reading.group,
        reading.id or roles.named_as(table, roles.IDS),
    )
    one_each = reading.id is None or _one_row_each(table, reading.id)
    if label is not None and not columns and one_each and roles.numbered_columns(table, special):
        return "wide"
    if reading.id is not None:
        roles.column(table, reading.id, "id")
        return "long"
    if roles.id_column(table, None) is not None and (label is not None or not columns):
        return "long"
    if columns and reading.label is None:
        return "series"
    if not columns:
        if label is None and (likely := signs.wide_label(table, special)) is not None:
            raise DataError(
                f"{table.path} has numbered columns and {likely!r}, and it is not clear what a row is: "
                f"layout=wide,label={likely} if each row is one sequence, layout=series if each row is a step of one "
                "series"
            )
        _refuse_restart(table, reading)
        _refuse_many(table, reading)
    if label is not None:
        raise _unclear(table, label)
    return "series"


def _unclear(table: Table, label: str) -> DataError:
    values = series_files.forecast_columns(table, (), (label,))[:3] or (label,)
    return DataError(
        f"{table.path} has a column {label!r}, and it is not clear what a row is: if the rows are steps of many "
        "sequences, name the column that tells these apart, id=COLUMN; if each row is one sequence, layout=wide; to "
        f"forecast a series, name what to forecast, columns={'+'.join(values)}"
    )


def _one_row_each(table: Table, name: str) -> bool:
    return name in table.names and len(set(table.cells(name))) == len(table.lines)


def _refuse_restart(table: Table, reading: Reading) -> None:
    """Refuse a table whose times start again: it has more than one sequence."""
    found = time_columns.restart(table) if reading.time is None else None
    if found is None:
        return
    name, rows = found
    likely = _likely_id(table, name, rows)
    advice = _options(table, reading, likely) if likely else "name the column that tells these apart, id=COLUMN"
    raise DataError(
        f"{table.path}, line {table.lines[rows[0]]}, column {name!r}: the times start again: if the rows are steps of "
        f"many sequences, {advice}; if {name!r} is a value and no time, layout=series and time=none"
    )


def _refuse_many(table: Table, reading: Reading) -> None:
    """Refuse a table that has many sequences by its values."""
    found = signs.sequence_id(table)
    if found is not None:
        raise DataError(
            f"{table.path} looks like the steps of many sequences: {found[1]}: "
            f"{_options(table, reading, found[0], 'COLUMN')} reads them; if the rows are steps of one series all the "
            "same, layout=series"
        )


def _options(table: Table, reading: Reading, name: str, unknown: str = "") -> str:
    """Return the options that read a long table: its id, and its label unless that is known."""
    if roles.label_column(table, reading.label) is not None:
        return f"id={name}" if reading.label is None else f"id={name},label={reading.label}"
    labels = signs.constant_columns(table, name)
    label = labels[0] if len(labels) == 1 else unknown
    return f"id={name},label={label}" if label else f"id={name}"


def _likely_id(table: Table, time: str, rows: np.ndarray) -> str | None:
    """Return the column that changes exactly where the times start again, and has a new value each time."""
    for name in table.names:
        cells = np.array(table.cells(name))
        changes = np.flatnonzero(cells[1:] != cells[:-1]) + 1
        if name != time and np.array_equal(changes, rows) and len(set(cells[[0, *rows]])) == len(rows) + 1:
            return name
    return None
