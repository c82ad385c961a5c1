"""A table whose rows are the steps of one series."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gatelab.data import column_roles, splits, time_columns, timestamps
from gatelab.data.advice import Advice, use
from gatelab.data.formats import read_table
from gatelab.data.index import Index
from gatelab.data.reading import Reading
from gatelab.data.regular import Regularized, Rules, Steps, regularize, time_note
from gatelab.data.series import Series
from gatelab.data.table import Table
from gatelab.data.timestamps import Times
from gatelab.errors import DataError


def read(path: Path, columns: tuple[str, ...], reading: Reading) -> Series:
    """Read these columns of a table, as in training."""
    return from_table(read_table(path, reading.header), columns, reading)


def from_table(table: Table, columns: tuple[str, ...], reading: Reading) -> Series:
    """Put the rows in order, merge duplicates and fill gaps, as far as the options say so."""
    values = table.number_columns(columns)
    times = times_of(table, columns, reading.time)
    parts = _parts(table, reading.split, times)
    rules = Rules(
        lambda row, column: table.place(row, columns[column] if column is not None else times.name if times else None),
        times, reading.fill, reading.aggregate, sorts=reading.time is not None, many=use(id="COLUMN"),
    )  # fmt: skip
    steps = Steps(values, np.arange(len(values)), None if times is None else times.values)
    found = regularize([steps], rules)
    (steps,) = found.steps
    notes = dict(found.notes)
    if times is not None:
        notes = {"time": _span(times, steps, found), **notes}
    parts = None if parts is None else parts[steps.rows]
    lines = table.lines[steps.rows]
    if parts is not None:
        splits.boundaries(parts, lines, str(table.path))
    return Series(
        steps.values,
        columns,
        _index(table, steps, times, reading.time),
        num_targets=len(columns),
        notes=notes,
        source=str(table.path),
        lines=lines,
        parts=parts,
        split_by="" if parts is None else f"by the column {reading.split!r}",
        filled=steps.missing,
        reading=reading,
    )


def times_of(table: Table, columns: tuple[str, ...], option: str | None) -> Times | None:
    """The times of the rows, of which none of these columns is one."""
    if option not in (None, "none") and option not in table.names and not set(str(option).split("+")) <= {*table.names}:
        option = None  # new data without its times
    return time_columns.find(table, option, columns)


def _parts(table: Table, split: str | None, times: Times | None) -> np.ndarray | None:
    """The part of each row, if the table has a split; rows of one time have to be in one part."""
    if split is None or split not in table.names:
        return None
    parts = splits.codes(table.cells(split), str(table.path), [f"line {line}" for line in table.lines])
    if times is not None:
        order = np.argsort(times.values, kind="stable")
        same = times.values[order][1:] == times.values[order][:-1]
        if (same & (parts[order][1:] != parts[order][:-1])).any():
            raise DataError(f"{table.path}: rows of the same time belong to different parts of the split: expected one")
    return parts


def _span(times: Times, steps: Steps, found: Regularized) -> str:
    assert steps.times is not None
    span = f"{times.name}, {times.format(steps.times[0])} to {times.format(steps.times[-1])}"
    return time_note(span, found, len(steps.times))


def _index(table: Table, steps: Steps, times: Times | None, option: str | None) -> Index:
    """The dates of the steps, whose forecasts have whole seconds; numbers only count them."""
    seconds = None
    if times is not None and times.are_dates and steps.times is not None:
        seconds = timestamps.to_seconds(steps.times)
    elif times is None and option != "none":
        known = (timestamps.parse(cells) for cells in table.texts.values())  # another format at the beginning
        seconds = next((each for each in known if each is not None), None)
    return Index.at(seconds, len(steps.values))


def forecast_columns(table: Table, inputs: tuple[str, ...], used: tuple[str | None, ...]) -> tuple[str, ...]:
    """The columns of numbers that are forecast by default: no times, counters, labels, groups or split."""
    times = time_columns.time_like(table)
    others = {*inputs, *times, *used, *column_roles.empty_columns(table)}
    others |= {
        name for name in table.numbers if name.strip().lower() in column_roles.LABELS or not column_roles.is_value(name)
    }
    return tuple(name for name in table.numbers if name not in others and not column_roles.is_index(table, name))


def counters(series: Series) -> dict[str, str]:
    """A note on columns that only count, which nobody wants to forecast; a name would have told."""
    names = [n for n, values in zip(series.columns, series.values.T, strict=True) if (np.diff(values) == 1).all()]
    rest = [name for name in series.columns if name not in names]
    if not names or not rest:
        return {}
    return {
        "caution": Advice(f"{', '.join(names)} only counts the rows: ", use(columns="+".join(rest)), " leaves it out")
    }
