"""A table with one sequence per row: a label and the values at all steps, as in the UCR archive."""

from __future__ import annotations

import numpy as np

from gatelab.data import column_roles, gaps
from gatelab.data.advice import Location, Part, RefusalError, use
from gatelab.data.reading import Reading
from gatelab.data.sequences import Sequences
from gatelab.data.table import Table
from gatelab.errors import DataError, first_of


def read(table: Table, reading: Reading, need_label: bool, classes: tuple[str, ...] | None = None) -> Sequences:
    """Read all rows. Missing values at the end of a row mean that its sequence is shorter.

    For predictions a label is not needed; without a header, the first column is one if it has names of the `classes`.
    """
    if reading.tokens is not None:
        found = ": tokens are for long tables and arrays, not for "
        raise RefusalError(Location(table.path), found, use(layout="wide"), ": leave tokens out")
    label = _label(table, reading.label, need_label, classes)
    split = column_roles.split_column(table, reading.split)
    group = reading.group
    if group is not None:
        group = column_roles.column(table, group, "group") if need_label or group in table.names else None
    name = (
        column_roles.column(table, reading.id, "id")
        if reading.id in table.names
        else column_roles.named_as(table, column_roles.IDS)
    )
    special = (label, split, group, name)
    columns = _columns(table, special)
    values, lengths = _lengths(table, table.number_columns(columns))
    places = [f"line {line}" for line in table.lines]
    values, filled = gaps.fill_sequences(values[..., None], lengths, reading.fill, str(table.path), places)
    targets = None if label is None else table.target_column(label, need_label)
    is_ucr = not table.has_header and reading.label is None
    if is_ucr and targets is not None and targets.dtype.kind == "f" and (targets % 1 == 0).all():
        targets = targets.astype(np.int64)  # the archive writes 1.0000000e+00
    named = "" if name is None else f", its name in {name!r}"
    return Sequences(
        values,
        lengths,
        source=str(table.path),
        layout=f"wide table: one sequence per row, the label in column {label!r}{named}",
        names=places if name is None else table.cells(name),
        columns=("value",),
        targets=targets,
        split=None if split is None else np.array(table.cells(split)),
        groups=None if group is None else np.array(table.cells(group)),
        split_by="" if split is None else f"by the column {split!r}",
        ignored=table.without(*special, *columns),
        notes={"missing values": f"{filled:,} filled ({reading.fill})"} if filled else {},
        reading=reading.resolved(
            layout="wide",
            label=label if table.has_header else reading.label,
            split=split or reading.split,
            group=group or reading.group,
        ),
    )


def _label(table: Table, option: str | None, needed: bool, classes: tuple[str, ...] | None) -> str | None:
    """The label column: named, by its usual name, or the first of a table without a header."""
    if option is not None and (needed or option in table.names):
        return column_roles.column(table, option, "label")
    label = column_roles.named_as(table, column_roles.LABELS)
    if label is None and not table.has_header and len(table.names) > 1:
        return "1" if needed or classes is None or set(table.cells("1")) <= set(classes) else None
    if label is None and needed:
        others = tuple(
            name for name in table.names if not column_roles.NUMBERED.fullmatch(name) and column_roles.is_value(name)
        )
        advice: tuple[Part, ...] = (use(label="COLUMN"), f"; its columns: {first_of(others or table.names)}")
        if len(others) == 1:
            advice = (use(label=others[0]),)
        raise RefusalError(Location(table.path), " has one sequence per row and no label: name its column, ", *advice)
    return label


def _columns(table: Table, special: tuple[str | None, ...]) -> tuple[str, ...]:
    """The columns of the steps, in the order of the file."""
    columns = tuple(n for n in table.numbers if n not in special and column_roles.is_value(n))
    if numbered := column_roles.numbered_columns(table, special):
        return numbered
    if not columns:
        raise DataError(f"{table.path} has no numeric columns beside the label: expected the values of all steps")
    return columns


def _lengths(table: Table, values: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """The values without trailing NaN, and the lengths of the rows."""
    known = ~np.isnan(values)
    lengths = values.shape[1] - known[:, ::-1].argmax(1)
    if not known.any(1).all():
        row = int(np.flatnonzero(~known.any(1))[0])
        raise DataError(f"{table.path}, line {table.lines[row]}: no values: expected at least one step per row")
    if (lengths == values.shape[1]).all():
        return values, None
    longest = int(lengths.max())
    values = np.where(np.arange(values.shape[1]) < lengths[:, None], values, 0.0)[:, :longest]
    return values, None if (lengths == longest).all() else lengths.astype(np.int64)


def looks_like_ucr(table: Table) -> bool:
    """Whether a table without a header has a class in its first column and a sequence in the others."""
    if table.has_header or set(table.texts) - {"1"} or len(table.names) < 6 or len(table.lines) < 2:
        return False
    first = table.columns["1"]
    is_label = first.numbers is None or bool((first.numbers % 1 == 0).all())
    return is_label and first.distinct >= 2 and 2 * first.distinct <= len(table.lines)


def is_clearly_ucr(table: Table) -> bool:
    """Whether such a table also is named like the archive's, or has rows that are standardized or end early."""
    if table.path.stem.upper().endswith(("_TRAIN", "_TEST")):
        return True
    values = np.stack([column for name, column in table.numbers.items() if name != "1"], -1)
    if np.isnan(values[:, -1]).any():
        return True
    if not np.isfinite(values).all():
        return False
    centred = np.abs(values.mean(1)) < 1e-3
    scaled = np.abs(values.std(1) - 1) < 0.5 / np.sqrt(values.shape[1])
    return bool((centred & scaled).all())
