"""A table whose rows are steps of many sequences; a column tells these apart."""

from __future__ import annotations

from typing import Any

import numpy as np

from gatelab.errors import DataError, first_of
from gatelab.formatting import counted
from gatelab.tasks.own import calendars, gaps, roles, time_columns
from gatelab.tasks.own.reading import Reading
from gatelab.tasks.own.recordings import Recordings, padded, target_column, token_column, token_type
from gatelab.tasks.own.table_files import Table
from gatelab.tasks.own.time_columns import Times


def read(table: Table, reading: Reading, columns: tuple[str, ...], tokens: bool, need_label: bool) -> Recordings:
    """Read all sequences. `columns` are the features; by default all numeric columns without another role."""
    id_name = roles.id_column(table, reading.id)
    if id_name is None:
        raise DataError(
            f"{table.path}: layout=long needs the column that tells sequences apart: name it, id=COLUMN; its columns: "
            f"{first_of(table.names)}"
        )
    label = _label(table, reading.label, need_label)
    split, group = roles.split_column(table, reading.split), reading.group
    if group is not None:
        group = roles.column(table, group, "group") if need_label or group in table.names else None
    times = _times(table, reading, columns, id_name)
    special = (id_name, label, split, group, *(times.names if times else ()))
    columns = columns or _features(table, special, tokens)
    if tokens and len(columns) != 1:
        raise DataError(f"{table.path}: tokens need one column: name it, columns=COLUMN; found {', '.join(columns)}")
    values = token_column(table, columns[0])[:, None] if tokens else table.number_columns(columns)
    found = reading.resolved(
        layout="long", id=id_name, time=times.name if times else reading.time, label=label or reading.label,
        split=split or reading.split, group=group or reading.group,
    )  # fmt: skip
    sequences = _Sequences(table, found, table.cells(id_name), times, columns)
    per_sequence, notes = sequences.cut(values, tokens)
    data, lengths = padded(per_sequence)
    targets = None if label is None else target_column(table, label, need_label)
    labels, per_step = (None, False) if targets is None else sequences.labels(targets)
    return Recordings(
        str(table.path),
        f"long table: one row per step, {counted(len(per_sequence), 'sequence')} by {id_name!r}"
        + (f", the label in column {label!r}" if label else ""),
        data[..., 0] if tokens else data,
        sequences.names,
        columns,
        lengths,
        labels,
        per_step,
        split=None if split is None else sequences.constant(split, "part"),
        groups=None if group is None else sequences.constant(group, "group"),
        split_by=f"by the column {split!r}",
        ignored=table.without(*special, *columns),
        notes=notes,
        reading=found.resolved(tokens=token_type(values), columns=columns) if tokens else found,
    )


def _label(table: Table, option: str | None, needed: bool) -> str | None:
    if not needed:
        return option if option in table.names else None
    label = roles.label_column(table, option)
    if label is None:
        raise DataError(
            f"{table.path} is a long table without a label: name the column of the targets, label=COLUMN; its columns: "
            f"{first_of(table.names)}. To forecast, put one series into a table of its own"
        )
    return label


def _times(table: Table, reading: Reading, columns: tuple[str, ...], id_name: str) -> Times | None:
    """Return the time of each row; a number that is called time is one even if it starts again in every sequence."""
    if reading.time is not None:
        return time_columns.find(table, reading.time)
    for name in table.columns:
        is_time = name not in (*columns, id_name) and name.strip().lower() in time_columns.TIMES
        if is_time and np.isfinite(table.columns[name]).all():
            return time_columns.named(table, name)
    return time_columns.find(table, None, (*columns, id_name))


def _features(table: Table, special: tuple[str | None, ...], tokens: bool) -> tuple[str, ...]:
    """Return the columns that are read by default."""
    counters = {name for name in table.columns if not roles.is_value(name) or roles.is_index(table, name)}
    counters |= roles.empty_columns(table)
    names = table.names if tokens else tuple(table.columns)
    found = tuple(name for name in names if name not in special and name not in counters)
    if not found:
        words = [name for name in table.texts if name not in special]
        advice = f"; to read words as tokens, columns={words[0]},tokens=true" if words else ""
        raise DataError(f"{table.path} has no numeric column to read; its columns: {first_of(table.names)}{advice}")
    return found


class _Sequences:
    """The rows of each sequence, in the order of time; `columns` are those that are read."""

    def __init__(
        self, table: Table, reading: Reading, ids: list[str], times: Times | None, columns: tuple[str, ...]
    ) -> None:
        self.table, self.reading, self.times, self.columns = table, reading, times, columns
        if "" in ids:
            raise DataError(
                f"{table.path}, line {table.lines[ids.index('')]}, column {reading.id!r}: the id is missing"
            )
        by_id: dict[str, list[int]] = {}
        for row, name in enumerate(ids):
            by_id.setdefault(name, []).append(row)
        self.names = list(by_id)
        self.rows = [np.array(rows) for rows in by_id.values()]
        self.is_sorted = False
        if times is not None:
            for index, rows in enumerate(self.rows):
                order = np.argsort(times.values[rows], kind="stable")
                self.is_sorted |= bool((order != np.arange(len(rows))).any())
                self.rows[index] = rows[order]

    def cut(self, values: np.ndarray, tokens: bool) -> tuple[list[np.ndarray], dict[str, str]]:
        """Return the values of each sequence (T, D), merged and filled, and what was done."""
        notes = {"rows": f"sorted by {self.times.name} within each sequence"} if self.times and self.is_sorted else {}
        notes |= self._merge()
        notes |= self._check_steps(tokens)
        sequences, missing = [], 0
        for name, rows, keys, positions in zip(self.names, self.rows, self.keys, self.positions, strict=True):
            sequence = values[rows]
            if not tokens:
                missing += int(np.isnan(sequence).sum())
                sequence = self._filled(name, rows, sequence, keys, positions)
            sequences.append(sequence)
        if missing:
            notes["missing values"] = f"{missing:,} filled ({self.reading.fill})"
        return sequences, notes

    def _merge(self) -> dict[str, str]:
        """Find rows of the same sequence and time; they are merged by `_filled`."""
        self.keys: list[np.ndarray | None] = [None] * len(self.rows)
        self.positions: list[np.ndarray | None] = [None] * len(self.rows)
        if self.times is None:
            return {}
        count, first = 0, ""
        for index, rows in enumerate(self.rows):
            times = self.times.values[rows]
            repeated = np.flatnonzero(times[1:] == times[:-1]) + 1
            if len(repeated):
                row = rows[repeated[0]]
                first = first or (
                    f"line {self.table.lines[row]}, column {self.times.name!r}: {self.times.text(row)} appears twice "
                    f"in the sequence {self.names[index]!r}"
                )
                count += len(repeated)
                self.keys[index] = times
        if not count:
            return {}
        if self.reading.aggregate is None or self.reading.tokens is not None:
            raise DataError(
                f"{self.table.path}, {first} ({counted(count, 'such row')}): aggregate=mean, first, last or sum merges "
                "rows of the same time; time=none takes them as consecutive steps"
            )
        return {"aggregated": f"{counted(count, 'row')} merged ({self.reading.aggregate}), first in {first}"}

    def _check_steps(self, tokens: bool) -> dict[str, str]:
        """Find missing steps; they are filled by `_filled`."""
        if self.times is None:
            return {}
        unique = [np.unique(self.times.values[rows]) for rows in self.rows]
        intervals = np.concatenate([np.diff(times).astype(np.float64) for times in unique])
        if not len(intervals):
            return {}
        base: float | None = calendars.typical_interval(intervals)
        if 2 * (np.abs(intervals - base) <= calendars.TOLERANCE * abs(base or 0)).sum() < len(intervals):
            base = None
        count, first, irregular, name = 0, "", 0, ""
        for index, times in enumerate(unique):
            if len(times) < 2:
                self.positions[index] = np.zeros(len(times), np.int64)
                continue
            regular = calendars.regular(times, base)
            if regular is None:
                irregular += 1
                continue
            name, self.positions[index] = calendars.in_words(regular, self.times.are_dates), regular.positions
            if regular.missing:
                gap = int(np.flatnonzero(np.diff(regular.positions) > 1)[0])
                absent = self.times.format(regular.complete[regular.positions[gap] + 1])
                row = self.rows[index][np.searchsorted(self.times.values[self.rows[index]], times[gap])]
                first = first or f"sequence {self.names[index]!r}, {absent} after line {self.table.lines[row]}"
                count += regular.missing
        if irregular:
            self.positions = [None] * len(self.rows)
            return {"time": f"{self.times.name}; irregular intervals, taken as consecutive steps"}
        notes = {"time": f"{self.times.name}, {name}"}
        if not count:
            return notes
        if self.reading.fill is None:
            raise DataError(
                f"{self.table.path}: {counted(count, 'missing step')} ({name}), first in {first}: "
                "fill=interpolate or fill=previous inserts them; fill=none takes the rows as consecutive steps"
            )
        if self.reading.fill == "none" or tokens:
            self.positions = [None] * len(self.rows)
            return {**notes, "gaps": f"{counted(count, 'missing step')}, first in {first}; taken as consecutive"}
        return {**notes, "gaps": f"{counted(count, 'missing step')}, first in {first}; filled ({self.reading.fill})"}

    def _filled(
        self, name: str, rows: np.ndarray, sequence: np.ndarray, keys: np.ndarray | None, positions: np.ndarray | None
    ) -> np.ndarray:
        """Merge and fill the steps of one sequence, or name the first missing value."""
        if keys is not None and self.reading.aggregate is not None:
            sequence = gaps.merged(sequence, keys, self.reading.aggregate)
        if positions is not None and len(positions) and positions[-1] + 1 > len(sequence):
            sequence = gaps.with_missing_steps(sequence, positions)
        filled = gaps.fill_missing(sequence, self.reading.fill)
        if np.isnan(filled).any():
            step, column = np.argwhere(np.isnan(filled))[0]
            line = self.table.lines[rows[min(step, len(rows) - 1)]]
            raise DataError(
                f"{self.table.path}, line {line}, column {self.columns[column]!r}: missing value in step {step} of the "
                f"sequence {name!r}: {gaps.unfilled(self.reading.fill)}"
            )
        return filled

    def labels(self, targets: np.ndarray) -> tuple[np.ndarray, bool]:
        """Return one target per sequence if it is constant within each, (N,); otherwise one per step, (N, T)."""
        if all((targets[rows] == targets[rows[0]]).all() for rows in self.rows):
            return np.array([targets[rows[0]] for rows in self.rows]), False
        merged = any(keys is not None for keys in self.keys)
        inserted = any(p is not None and len(p) and p[-1] + 1 > len(p) for p in self.positions)
        if merged or inserted:
            raise DataError(
                f"{self.table.path}: the labels vary within sequences, and rows would be merged or inserted: expected "
                "a label for every step; fill=none and time=none take the rows as they are"
            )
        return padded([targets[rows] for rows in self.rows])[0], True

    def constant(self, name: str, thing: str) -> np.ndarray:
        """Return a column that has one value per sequence, (N,)."""
        cells: Any = np.array(self.table.cells(name))
        for index, rows in enumerate(self.rows):
            different = np.flatnonzero(cells[rows] != cells[rows[0]])
            if len(different):
                row = rows[different[0]]
                raise DataError(
                    f"{self.table.path}, line {self.table.lines[row]}: the sequence {self.names[index]!r} has the "
                    f"{thing} {str(cells[row])!r} and {str(cells[rows[0]])!r}: expected one {thing} per sequence"
                )
        return np.array([cells[rows[0]] for rows in self.rows])
