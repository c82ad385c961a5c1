"""Which layout a table has: the steps of one series, steps of many sequences, or one sequence per row."""

from __future__ import annotations

from typing import Literal

from gatelab.errors import DataError
from gatelab.tasks import roles, time_columns, wide_tables
from gatelab.tasks.reading import Reading
from gatelab.tasks.table_files import Table


def recognise(table: Table, reading: Reading, columns: tuple[str, ...]) -> Literal["series", "long", "wide"]:
    """Return the layout: as the option says, or where it is clear; otherwise an error names the options."""
    if reading.layout != "auto":
        return reading.layout
    if wide_tables.looks_like_ucr(table) and not columns:
        if wide_tables.is_clearly_ucr(table):
            return "wide"
        raise DataError(
            f"{table.path} has no header, few distinct whole numbers in its first column and {len(table.columns) - 1} "
            "further columns: layout=wide if each row is a sequence with its label first, layout=series if each row is "
            "a step of one series"
        )
    label = roles.label_column(table, reading.label)
    if reading.id is not None and not _one_row_each(table, reading.id):
        roles.column(table, reading.id, "id")
        return "long"
    special = (label, roles.split_column(table, reading.split), reading.group, roles.named_as(table, roles.IDS))
    if label is not None and not columns and roles.numbered_columns(table, special):
        return "wide"
    if roles.id_column(table, None) is not None and (label is not None or not columns):
        return "long"
    if columns and reading.label is None:
        return "series"
    if label is not None:
        raise DataError(
            f"{table.path} has a column {label!r}, and it is not clear what a row is: if the rows are steps of many "
            f"sequences, name the column that tells these apart, id=COLUMN; if each row is one sequence, layout=wide; "
            f"to forecast a series, name what to forecast, columns={label} or others"
        )
    _refuse_restart(table, reading)
    return "series"


def _one_row_each(table: Table, name: str) -> bool:
    return name in table.names and len(set(table.cells(name))) == len(table.lines)


def _refuse_restart(table: Table, reading: Reading) -> None:
    """Refuse a table whose times start again: it has more than one sequence."""
    if reading.time is not None:
        return
    found = time_columns.restart(table)
    if found is not None:
        name, row = found
        raise DataError(
            f"{table.path}, line {table.lines[row]}, column {name!r}: the times start again: if the rows are steps of "
            f"many sequences, name the column that tells these apart, id=COLUMN; if {name!r} is a value and no time, "
            f"layout=series and time=none"
        )
