"""A table whose rows are steps of many sequences; a column tells these apart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gatelab.data import column_roles, time_columns
from gatelab.data.advice import Location, RefusalError, use
from gatelab.data.reading import Reading
from gatelab.data.regular import Regularized, Rules, Steps, regularize, time_note
from gatelab.data.sequences import Sequences, padded, token_type
from gatelab.data.table import Table
from gatelab.data.timestamps import Times
from gatelab.errors import DataError, first_of
from gatelab.formatting import counted


def read(table: Table, reading: Reading, columns: tuple[str, ...], tokens: bool, need_label: bool) -> Sequences:
    """Read all sequences. `columns` are the features; by default all numeric columns without another role."""
    id_name = column_roles.id_column(table, reading.id)
    if id_name is None:
        raise RefusalError(
            Location(table.path),
            ": ",
            use(layout="long"),
            " needs the column that tells sequences apart: name it, ",
            use(id="COLUMN"),
            f"; its columns: {first_of(table.names)}",
        )
    label = _label(table, reading.label, need_label)
    split, group = column_roles.split_column(table, reading.split), reading.group
    if group is not None:
        group = column_roles.column(table, group, "group") if need_label or group in table.names else None
    times = _times(table, reading, columns, id_name)
    special = (id_name, label, split, group, *(times.names if times else ()))
    columns = columns or _features(table, special, tokens)
    if tokens and len(columns) != 1:
        several = f"; found {', '.join(columns)}"
        raise RefusalError(Location(table.path), ": tokens need one column: name it, ", use(columns="COLUMN"), several)
    values = table.token_column(columns[0])[:, None] if tokens else table.number_columns(columns)
    found = reading.resolved(
        layout="long", id=id_name, time=times.name if times else reading.time, label=label or reading.label,
        split=split or reading.split, group=group or reading.group,
    )  # fmt: skip
    names, rows = _rows_by_id(table, id_name)
    regular = _regular(table, found, times, columns, names, rows, values)
    data, lengths = padded([steps.values for steps in regular.steps])
    targets = None if label is None else table.target_column(label, need_label)
    labels, per_step = (None, False) if targets is None else _labels(table, targets, rows, regular)
    return Sequences(
        data[..., 0] if tokens else data,
        lengths,
        source=str(table.path),
        layout=f"long table: one row per step, {counted(len(names), 'sequence')} by {id_name!r}"
        + (f", the label in column {label!r}" if label else ""),
        names=names,
        columns=columns,
        targets=labels,
        per_step=per_step,
        split=None if split is None else _constant(table, split, "part", names, rows),
        groups=None if group is None else _constant(table, group, "group", names, rows),
        split_by="" if split is None else f"by the column {split!r}",
        ignored=table.without(*special, *columns),
        notes=regular.notes,
        reading=found.resolved(tokens=token_type(values), columns=columns) if tokens else found,
    )


def _label(table: Table, option: str | None, needed: bool) -> str | None:
    if not needed:
        return option if option in table.names else None
    label = column_roles.label_column(table, option)
    if label is None:
        raise RefusalError(
            Location(table.path),
            " is a long table without a label: name the column of the targets, ",
            use(label="COLUMN"),
            f"; its columns: {first_of(table.names)}. To forecast, put one series into a table of its own",
        )
    return label


def _times(table: Table, reading: Reading, columns: tuple[str, ...], id_name: str) -> Times | None:
    """The time of each row; a number that is called time is one even if it starts again in every sequence."""
    if reading.time is not None:
        return time_columns.find(table, reading.time)
    for name, values in table.numbers.items():
        is_time = name not in (*columns, id_name) and name.strip().lower() in time_columns.TIMES
        if is_time and np.isfinite(values).all():
            return time_columns.named(table, name)
    return time_columns.find(table, None, (*columns, id_name))


def _features(table: Table, special: tuple[str | None, ...], tokens: bool) -> tuple[str, ...]:
    """The columns that are read by default."""
    counters = {name for name in table.numbers if not column_roles.is_value(name) or column_roles.is_index(table, name)}
    counters |= column_roles.empty_columns(table)
    names = table.names if tokens else tuple(table.numbers)
    found = tuple(name for name in names if name not in special and name not in counters)
    if not found:
        words = [name for name in table.texts if name not in special]
        advice = ("; to read words as tokens, ", use(columns=words[0], tokens="true")) if words else ()
        its = f" has no numeric column to read; its columns: {first_of(table.names)}"
        raise RefusalError(Location(table.path), its, *advice)
    return found


def _rows_by_id(table: Table, id_name: str) -> tuple[list[str], list[np.ndarray]]:
    """The names of the sequences in the order of the file, and the rows of each."""
    ids = table.cells(id_name)
    if "" in ids:
        raise DataError(f"{table.place(ids.index(''), id_name)}: the id is missing")
    by_id: dict[str, list[int]] = {}
    for row, name in enumerate(ids):
        by_id.setdefault(name, []).append(row)
    return list(by_id), [np.array(rows) for rows in by_id.values()]


def _regular(
    table: Table,
    reading: Reading,
    times: Times | None,
    columns: tuple[str, ...],
    names: list[str],
    rows: list[np.ndarray],
    values: np.ndarray,
) -> Regularized:
    """The steps of each sequence in the order of time, merged and filled."""
    rules = Rules(
        lambda row, column: table.place(row, columns[column] if column is not None else times.name if times else None),
        times, reading.fill, reading.aggregate, are_tokens=reading.tokens is not None or values.dtype.kind != "f",
    )  # fmt: skip
    given = [
        Steps(values[of], of, None if times is None else times.values[of], name)
        for of, name in zip(rows, names, strict=True)
    ]
    found = regularize(given, rules)
    longest = max(len(steps.rows) for steps in found.steps)
    if times is None or longest < 2:
        return found
    return replace(found, notes={"time": time_note(times.name, found, max(longest, 3)), **found.notes})


def _labels(table: Table, targets: np.ndarray, rows: list[np.ndarray], regular: Regularized) -> tuple[np.ndarray, bool]:
    """One target per sequence if it is constant within each, (N,); otherwise one per step, (N, T)."""
    if all((targets[of] == targets[of[0]]).all() for of in rows):
        return np.array([targets[of[0]] for of in rows]), False
    for of, steps in zip(rows, regular.steps, strict=True):
        if not np.array_equal(np.sort(steps.rows), of):
            raise RefusalError(
                Location(table.path),
                ": the labels vary within sequences, and rows would be merged or inserted: expected a label for every "
                "step; ",
                use(fill="none", time="none"),
                " take the rows as they are",
            )
    return padded([targets[steps.rows] for steps in regular.steps])[0], True


def _constant(table: Table, name: str, thing: str, names: list[str], rows: list[np.ndarray]) -> np.ndarray:
    """A column that has one value per sequence, (N,)."""
    cells: Any = np.array(table.cells(name))
    for sequence, of in zip(names, rows, strict=True):
        different = np.flatnonzero(cells[of] != cells[of[0]])
        if len(different):
            row = of[different[0]]
            raise DataError(
                f"{table.place(row)}: the sequence {sequence!r} has the {thing} {str(cells[row])!r} and "
                f"{str(cells[of[0]])!r}: expected one {thing} per sequence"
            )
    return np.array([cells[of[0]] for of in rows])
