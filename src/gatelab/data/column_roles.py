"""What the columns of a table are by their names and values: label, sequence id, split, group, position."""

from __future__ import annotations

import re

import numpy as np

from gatelab.data import splits
from gatelab.data.table import Table

LABELS = ("label", "labels", "class", "class_label", "classlabel", "target", "category", "anomaly", "is_anomaly", "y")
IDS = (
    "id", "sequence", "sequence_id", "seq", "seq_id", "series_id", "unique_id", "sample_id", "recording",
    "recording_id", "trial", "trial_id", "example_id", "case_id", "session_id", "episode", "episode_id",
)  # fmt: skip
SPLIT = "split"
SPLITS = (SPLIT, "set", "subset", "partition")
GROUPS = (
    "group",
    "speaker",
    "speaker_id",
    "subject",
    "subject_id",
    "patient",
    "patient_id",
    "person",
    "user",
    "user_id",
)
INDEXES = ("index", "idx", "row", "row_id", "no", "nr", "obs", "#", "unnamed: 0", *IDS)
NUMBERED = re.compile(r"(?:|t|ts|time|step|timestep|value|v)[_ .-]?(\d+)", re.IGNORECASE)


def column(table: Table, name: str, option: str) -> str:
    """The name if the table has such a column; the error names the option."""
    return table.column(name, f"{option}={name}").name


def named_as(table: Table, known: tuple[str, ...]) -> str | None:
    """The column with the first of these names that there is, in any case."""
    spelled = {name.strip().lower(): name for name in reversed(table.names)}
    return next((spelled[name] for name in known if name in spelled), None)


def label_column(table: Table, option: str | None) -> str | None:
    """The column of the labels, as named or by its usual name."""
    return named_as(table, LABELS) if option is None else column(table, option, "label")


def id_column(table: Table, option: str | None) -> str | None:
    """The column that says which sequence a row belongs to: it repeats its values."""
    if option is not None:
        return column(table, option, "id")
    name = named_as(table, IDS)
    if name is None:
        return None
    return name if 1 < table.column(name).distinct < len(table.lines) else None


def split_column(table: Table, option: str | None) -> str | None:
    """The column that says which part a row belongs to: named, called split, or with a usual name and such
    values; "none" is no column. Values that name no part are refused.
    """
    if option is not None and option.lower() == "none":
        return None
    usual = (name for name in table.names if name.strip().lower() in SPLITS)
    for name in usual if option is None else (column(table, option, "split"),):
        cells = table.cells(name)
        if option is not None or name.strip().lower() == SPLIT or splits.looks_like_split(cells):
            splits.check(cells, str(table.path), [f"line {line}, column {name!r}" for line in table.lines])
            return name
    return None


def is_value(name: str) -> bool:
    """Whether a column may have values: it is not called split, and not as groups are."""
    return name.strip().lower() not in (SPLIT, *GROUPS)


def numbered_columns(
    table: Table, without: tuple[str | None, ...], pattern: re.Pattern[str] = NUMBERED
) -> tuple[str, ...]:
    """The columns t0, t1, … or 0, 1, … of a table with one sequence per row, if all others are known."""
    names = tuple(name for name in table.numbers if name not in without and is_value(name))
    matches = [pattern.fullmatch(name) for name in names]
    numbers = [int(match[1]) for match in matches if match]
    if len(numbers) < max(3, len(names)) or numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        return ()
    return names


def empty_columns(table: Table) -> set[str]:
    """The columns without a single value."""
    return {name for name, values in table.numbers.items() if np.isnan(values).all()}


def is_index(table: Table, name: str) -> bool:
    """Whether a column only counts the rows: it has a usual name, and its values only increase or decrease."""
    if name.strip().lower() not in INDEXES or name not in table.numbers:
        return False
    changes = np.diff(table.numbers[name])
    return len(changes) > 0 and bool((changes > 0).all() or (changes < 0).all())
