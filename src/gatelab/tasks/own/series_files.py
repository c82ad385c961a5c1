"""A table whose rows are the steps of one series: in the order of time, without gaps or duplicates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np

from gatelab.errors import DataError
from gatelab.formatting import counted
from gatelab.tasks import timestamps
from gatelab.tasks.own import calendars, gaps, roles, signs, splits, time_columns
from gatelab.tasks.own.reading import Reading
from gatelab.tasks.own.table_files import Table, read_table
from gatelab.tasks.own.time_columns import Times


@dataclass(frozen=True)
class SeriesFile:
    """The steps of a series."""

    path: Path
    columns: tuple[str, ...]
    values: np.ndarray  # (S, D) float64
    lines: np.ndarray  # (S,), the line of each step, or of the step before for one that was filled
    times: Times | None = None
    stamps: np.ndarray | None = None  # datetime64[s] of the last steps, or of all
    parts: np.ndarray | None = None  # (S,) the split of the file itself
    notes: dict[str, str] = field(default_factory=dict)
    filled: np.ndarray | None = None  # (S, D), which values were missing


def read(path: Path, columns: tuple[str, ...], reading: Reading) -> SeriesFile:
    """Read these columns of a table, as in training."""
    return from_table(read_table(path, reading.header), columns, reading)


def from_table(table: Table, columns: tuple[str, ...], reading: Reading) -> SeriesFile:
    """Put the rows in order, merge duplicates and fill gaps, as far as the options say so."""
    values = table.number_columns(columns)
    option = reading.time
    if option not in (None, "none") and option not in table.names and not set(str(option).split("+")) <= {*table.names}:
        option = None  # new data without its times
    times = time_columns.find(table, option, columns)
    parts = None
    if reading.split is not None and reading.split in table.names:
        where = [f"line {line}" for line in table.lines]
        parts = splits.codes(table.cells(reading.split), str(table.path), where)
    steps = SeriesFile(table.path, columns, values, table.lines, times, parts=parts)
    if times is not None:
        id_option = partial(signs.id_option, table, times.values)
        steps = _complete(_merged(_ordered(steps, reading, id_option), reading, id_option), reading)
    else:
        known = (timestamps.parse(cells) for cells in table.texts.values())  # another format at the beginning
        stamps = None if option == "none" else next((each for each in known if each is not None), None)
        steps = replace(steps, stamps=stamps)
    steps = _filled(steps, table, reading)
    if steps.parts is not None:
        splits.boundaries(steps.parts, steps.lines, str(table.path))
    return steps


def _ordered(steps: SeriesFile, reading: Reading, id_option: Callable[[], str]) -> SeriesFile:
    """Return the steps in the order of time: reversed if the newest is first, sorted if the option `time` is given."""
    assert steps.times is not None
    times = steps.times.values
    backwards = np.flatnonzero(times[1:] < times[:-1])
    if not len(backwards):
        return steps
    if (times[1:] <= times[:-1]).all():
        order, note = np.arange(len(times))[::-1], "reversed: the file has the newest first"
    elif reading.time is not None:
        order, note = np.argsort(times, kind="stable"), f"sorted by {steps.times.name}"
    else:
        row = backwards[0] + 1
        raise DataError(
            f"{steps.path}, line {steps.lines[row]}, column {steps.times.name!r}: {steps.times.text(row)} comes after "
            f"{steps.times.text(row - 1)}: expected rows in the order of time; time={steps.times.name} sorts them, and "
            f"if the rows are steps of many sequences, name the column that tells these apart, {id_option()}"
        )
    return _picked(steps, order, rows=note)


def _picked(steps: SeriesFile, order: np.ndarray, **notes: str) -> SeriesFile:
    assert steps.times is not None
    return replace(
        steps,
        values=steps.values[order],
        lines=steps.lines[order],
        times=replace(steps.times, values=steps.times.values[order]),
        parts=None if steps.parts is None else steps.parts[order],
        notes={**steps.notes, **notes},
    )


def _merged(steps: SeriesFile, reading: Reading, id_option: Callable[[], str]) -> SeriesFile:
    """Merge rows with the same time."""
    assert steps.times is not None
    times = steps.times.values
    repeated = np.flatnonzero(times[1:] == times[:-1]) + 1
    if not len(repeated):
        return steps
    row = repeated[0]
    if reading.aggregate is None:
        raise DataError(
            f"{steps.path}, line {steps.lines[row]}, column {steps.times.name!r}: {steps.times.text(row)} appears "
            f"twice ({counted(len(repeated), 'such row')}): aggregate=mean, first, last or sum merges rows of the same "
            "time; time=none takes the rows as consecutive steps; if they are steps of many sequences, use "
            f"{id_option()}"
        )
    if steps.parts is not None and (steps.parts[repeated] != steps.parts[repeated - 1]).any():
        raise DataError(f"{steps.path}: rows of the same time belong to different parts of the split: expected one")
    values = gaps.merged(steps.values, times, reading.aggregate)
    first = np.flatnonzero(np.concatenate([[True], times[1:] != times[:-1]]))
    note = f"{counted(len(repeated), 'row')} with the time of another merged ({reading.aggregate}), first " + (
        f"{steps.times.format(times[row])} in line {steps.lines[row]}"
    )
    return replace(_picked(steps, first, aggregated=note), values=values)


def _complete(steps: SeriesFile, reading: Reading) -> SeriesFile:
    """Insert missing steps, and describe the times."""
    assert steps.times is not None
    times = steps.times.values
    span = f"{steps.times.name}, {steps.times.format(times[0])} to {steps.times.format(times[-1])}"
    regular = calendars.regular(times)
    if regular is None:
        irregular = "irregular intervals, taken as consecutive steps" if len(times) > 2 else "consecutive steps"
        return _stamped(replace(steps, notes={**steps.notes, "time": f"{span}; {irregular}"}))
    notes = {**steps.notes, "time": f"{span}, {calendars.in_words(regular, steps.times.are_dates)}"}
    if not regular.missing:
        return _stamped(replace(steps, notes=notes))
    row = int(np.flatnonzero(np.diff(regular.positions) > 1)[0])
    absent = steps.times.format(regular.complete[regular.positions[row] + 1])
    found = f"{counted(regular.missing, 'missing step')}, first {absent} after line {steps.lines[row]}"
    if reading.fill is None:
        raise DataError(
            f"{steps.path}, line {steps.lines[row]}, column {steps.times.name!r}: after {steps.times.text(row)} the "
            f"step {absent} is missing ({counted(regular.missing, 'missing step')} at an interval of "
            f"{regular.interval}): fill=interpolate or fill=previous inserts them; fill=none takes the rows as "
            "consecutive steps"
        )
    if reading.fill == "none":
        return _stamped(replace(steps, notes={**notes, "gaps": f"{found}; rows are taken as consecutive steps"}))
    before = np.searchsorted(regular.positions, np.arange(len(regular.complete)), side="right") - 1
    return _stamped(
        replace(
            steps,
            values=gaps.with_missing_steps(steps.values, regular.positions),
            lines=steps.lines[before],
            times=replace(steps.times, values=regular.complete),
            parts=None if steps.parts is None else steps.parts[before],
            notes={**notes, "gaps": f"{found}; filled ({reading.fill})"},
        )
    )


def _stamped(steps: SeriesFile) -> SeriesFile:
    assert steps.times is not None
    stamps = timestamps.to_seconds(steps.times.values) if steps.times.are_dates else None
    return replace(steps, stamps=stamps)


def _filled(steps: SeriesFile, table: Table, reading: Reading) -> SeriesFile:
    """Fill missing values, or name the first."""
    given = int(np.isnan(table.number_columns(steps.columns)).sum())
    values = gaps.fill_missing(steps.values, reading.fill)
    if len(missing := np.argwhere(np.isnan(values))):
        row, column = missing[0]
        raise DataError(
            f"{steps.path}, line {steps.lines[row]}, column {steps.columns[column]!r}: missing value "
            f"({len(np.unique(missing[:, 0])):,} of {len(values):,} rows): {gaps.unfilled(reading.fill)}"
        )
    notes = dict(steps.notes)
    if given:
        notes["missing values"] = f"{given:,} filled ({reading.fill})"
    return replace(steps, values=values, notes=notes, filled=np.isnan(steps.values))


def forecast_columns(table: Table, inputs: tuple[str, ...], used: tuple[str | None, ...]) -> tuple[str, ...]:
    """Return the numeric columns that are forecast by default: no times, counters, labels, groups or split."""
    times = time_columns.time_like(table)
    others = {*inputs, *times, *used, *roles.empty_columns(table)}
    others |= {name for name in table.columns if name.strip().lower() in roles.LABELS or not roles.is_value(name)}
    return tuple(name for name in table.columns if name not in others and not roles.is_index(table, name))


def counters(steps: SeriesFile) -> dict[str, str]:
    """Return a note on columns that only count, which nobody wants to forecast; a name would have told."""
    names = [n for n, values in zip(steps.columns, steps.values.T, strict=True) if (np.diff(values) == 1).all()]
    rest = [name for name in steps.columns if name not in names]
    if not names or not rest:
        return {}
    return {"caution": f"{', '.join(names)} only counts the rows: columns={'+'.join(rest)} leaves it out"}
