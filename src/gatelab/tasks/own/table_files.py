"""Readers of CSV and Parquet tables. Errors name file, line and column."""

from __future__ import annotations

import csv
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gatelab import floats, memory
from gatelab.disk import read_regular
from gatelab.errors import DataError, bad_byte, first_of, short
from gatelab.tasks import timestamps

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", " ": "spaces"}
MISSING = {"", "na", "n/a", "nan", "null", "none", "-"}
WHOLE = re.compile(r"[-+]?\d+")
TELLING = {"label", "class", "target", "split", "id", "date", "time", "timestamp"}  # never the value of a cell
DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+(e[-+]?\d+)?", re.IGNORECASE)

CSV_FACTOR = 20  # bytes of memory per byte of a CSV file: cells are Python objects until all are numbers
PARQUET_CELL = 32  # bytes of memory per cell
MOST_COLUMNS = 200_000  # of a CSV file
LONGEST_INTEGER = 300  # characters; what is longer is infinite as a float
SHORTER = "split it, or remove columns and rows that are not needed"

Row = tuple[int, list[str]]  # line number in the file, and the cells


@dataclass(frozen=True)
class Table:
    """The columns of a table by name, in the order of the file: numbers, and the text of all others."""

    path: Path
    columns: dict[str, np.ndarray]  # float64 (N,); missing values are NaN
    texts: dict[str, list[str]]  # dates, text, unnamed columns
    lines: np.ndarray  # (N,), the line number of each row
    integers: frozenset[str] = frozenset()  # numeric columns without fractions, as they are written
    has_header: bool = True
    spelled: dict[str, list[str]] = field(
        default_factory=dict
    )  # integers that a number would change: 007, or 17 digits
    rounded: dict[str, tuple[int, int]] = field(default_factory=dict)  # the first row and integer that has no float
    _times: dict[str, np.ndarray | None] = field(default_factory=dict, repr=False, compare=False)

    def times(self, name: str) -> np.ndarray | None:
        """Return a text column as times, datetime64[us], parsed once; None if it has none."""
        if name not in self._times:
            self._times[name] = timestamps.parse_column(self.texts[name])
        return self._times[name]

    @property
    def others(self) -> tuple[str, ...]:
        """The names of the columns that are not numeric."""
        return tuple(self.texts)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all columns."""
        return (*self.columns, *self.texts)

    def without(self, *used: str | None) -> tuple[str, ...]:
        """Return the names of all other columns."""
        known = set(used)
        return tuple(name for name in self.names if name not in known)

    def refuse_rounded(self, name: str) -> None:
        """Refuse a column of numbers with an integer that has no float."""
        if name in self.rounded:
            row, integer = self.rounded[name]
            raise DataError(f"{self.path}, line {self.lines[row]}, column {name!r}: {floats.digits_lost(integer)}")

    def number_columns(self, names: tuple[str, ...]) -> np.ndarray:
        """Return these columns as (N, D). Missing values are NaN; infinite ones are refused."""
        for name in names:
            if name in self.texts:
                raise DataError(f"{self.path}: the column {name!r} is not numeric; numeric columns: {self.known()}")
            if name not in self.columns:
                raise DataError(f"{self.path} has no column {name!r}; numeric columns: {self.known()}")
            self.refuse_rounded(name)
            infinite = np.flatnonzero(np.isinf(self.columns[name]))
            if len(infinite):
                value = self.columns[name][infinite[0]]
                raise DataError(
                    f"{self.path}, line {self.lines[infinite[0]]}, column {name!r}: {value} is not finite: expected "
                    "finite numbers"
                )
        return np.stack([self.columns[name] for name in names], -1)

    def pick(self, names: tuple[str, ...]) -> np.ndarray:
        """Return these columns as (N, D); every value must be a finite number."""
        values = self.number_columns(names)
        if len(missing := np.argwhere(np.isnan(values))):
            raise self.missing(names[missing[0, 1]], int(missing[0, 0]), len(np.unique(missing[:, 0])))
        return values

    def whole_numbers(self, name: str) -> np.ndarray:
        """Return a column of integers as int64, exactly; as text where one is too large for that."""
        if name not in self.rounded:
            return self.columns[name].astype(np.int64)
        exact = np.array([int(cell) for cell in self.cells(name)])
        return exact if exact.dtype == np.int64 else np.array(self.cells(name))

    def missing(self, name: str, row: int, count: int) -> DataError:
        """Return the error for missing values in `count` rows, the first of them in this row."""
        return DataError(
            f"{self.path}, line {self.lines[row]}, column {name!r}: missing value ({count:,} of {len(self.lines):,} "
            "rows): fill=interpolate or fill=previous fills them; or remove these rows"
        )

    def cells(self, name: str) -> list[str]:
        """Return a column as text; whole numbers have no decimal point, and missing numbers are empty."""
        if name in self.texts:
            return [cell.strip() for cell in self.texts[name]]
        if name not in self.columns:
            raise DataError(f"{self.path} has no column {name!r}; its columns: {first_of(self.names) or 'none'}")
        if name in self.spelled:
            return self.spelled[name]
        return [number_text(value) for value in self.columns[name].tolist()]

    def known(self) -> str:
        """Return the names of the numeric columns, for messages."""
        return first_of(self.columns) or "none"


def number_text(value: float) -> str:
    """Return a number as a name: whole numbers without a decimal point, NaN as an empty text."""
    if value != value:
        return ""
    return str(int(value)) if value.is_integer() else repr(value)


def prose(path: Path) -> str:
    """Return a hint for a file that may be no table at all."""
    return f"; if it is plain text, text:path={path.name} reads it" if path.suffix.lower() == ".txt" else ""


def read_table(path: Path, header: bool | None = None) -> Table:
    """Read a CSV or Parquet table. `header`: whether the first line has column names; None detects it."""
    if not path.exists():
        raise DataError(f"there is no file {path}: expected a table, .csv or .parquet")
    return _read_parquet(path) if path.suffix.lower() == ".parquet" else read_csv(path, header)


def read_csv(path: Path, header: bool | None = None) -> Table:
    """Read a CSV table; the separator is detected."""
    try:
        text = read_regular(path, factor=CSV_FACTOR).decode("utf-8-sig").rstrip()
        _check_width(path, text)
        separator = _separator(text)
        rows = _rows(text, separator)
    except UnicodeDecodeError as error:
        line, byte = bad_byte(error)
        raise DataError(
            f"{path} cannot be read as a CSV file in UTF-8: byte {byte} in line {line}; save it again as UTF-8"
        ) from error
    except (OSError, csv.Error) as error:
        raise DataError(f"{path} cannot be read as a CSV file in UTF-8: {error}{prose(path)}") from error
    if not rows:
        raise DataError(f"{path} is empty: expected rows of numbers, with or without a header")
    width = len(rows[0][1])
    for line, cells in rows:
        if len(cells) != width:
            raise DataError(
                f"{path}, line {line}: {len(cells)} cells, expected {width} as in the first line "
                f"(separated by {SEPARATORS[separator]}){prose(path)}"
            )
    by_column = [[_number(row[i], separator) for _, row in rows] for i in range(width)]  # None is text
    if header is None:
        header = _has_header(rows[0][1], by_column)
    names = _names(path, rows[0][1]) if header else [str(i + 1) for i in range(width)]
    rows, by_column = (rows[1:], [column[1:] for column in by_column]) if header else (rows, by_column)
    if not rows:
        raise DataError(f"{path} has only a header: expected rows of numbers below it")
    lines = np.array([line for line, _ in rows])
    columns: dict[str, np.ndarray] = {}
    texts: dict[str, list[str]] = {}
    spelled: dict[str, list[str]] = {}
    rounded: dict[str, tuple[int, int]] = {}
    integers = set()
    for i, (name, column) in enumerate(zip(names, by_column, strict=True)):
        cells = [cells[i] for _, cells in rows]
        if not name or not (_mostly_numbers(column) or all(value is not None for value in column)):
            texts[name or f"(column {i + 1}, unnamed)"] = cells
        elif None in column:
            first = column.index(None)
            raise DataError(f"{path}, line {lines[first]}, column {name!r}: {cells[first]!r}: expected a number")
        else:
            columns[name] = np.array(column, np.float64)
            if (found := _first_rounded(columns[name], cells)) is not None:
                rounded[name] = found
            if all(WHOLE.fullmatch(cell.strip()) for cell in cells):
                integers.add(name)
                stripped = [cell.strip() for cell in cells]
                if stripped != [number_text(value) for value in columns[name].tolist()]:
                    spelled[name] = stripped
    return Table(path, columns, texts, lines, frozenset(integers), header, spelled, rounded)


def _first_rounded(values: np.ndarray, cells: list[str]) -> tuple[int, int] | None:
    """Return the first row with an integer that has no float, and the integer."""
    for row in np.flatnonzero(np.abs(values) >= floats.EXACT).tolist():
        cell = cells[row].strip()
        if WHOLE.fullmatch(cell) and len(cell) <= LONGEST_INTEGER and floats.rounded([int(cell)]) is not None:
            return row, int(cell)
    return None


def _has_header(first: list[str], by_column: list[list[float | None]]) -> bool:
    """Return whether the first line has names: text over numbers, text only, or a name that says what a column is."""
    if any(column[0] is None and _mostly_numbers(column[1:]) for column in by_column):
        return True
    if all(column[0] is None for column in by_column):
        return True
    if not first[0].strip() and [cell.strip() for cell in first[1:]] == [str(i) for i in range(len(first) - 1)]:
        return len(first) > 1  # as data frames write columns without names: an empty cell, then 0, 1, …
    return any(
        column[0] is None and cell.strip().lower() in TELLING for cell, column in zip(first, by_column, strict=True)
    )


def _check_width(path: Path, text: str) -> None:
    """Refuse a first line that has more cells than any table, before they are taken apart."""
    cells = max(map(text.partition("\n")[0].count, SEPARATORS)) + 1
    if cells > MOST_COLUMNS:
        raise DataError(
            f"{path}, line 1: {cells:,} cells: expected at most {MOST_COLUMNS:,} columns; write one row per line"
        )


def _separator(text: str) -> str:
    """Detect the separator: it gives most of the first lines the same number of cells, and the most numbers."""

    def score(separator: str) -> tuple[float, float]:
        try:
            cells = [row for _, row in _rows("\n".join(text.splitlines()[:30]), separator)]
        except csv.Error:
            return (0.0, 0.0)
        widths = [len(row) for row in cells]
        width = max(set(widths), key=widths.count, default=0)
        numbers = [_number(cell, separator) is not None for row in cells[1:] or cells for cell in row]
        return (widths.count(width) / len(widths) if width > 1 else 0.0, sum(numbers) / max(1, len(numbers)))

    return max(SEPARATORS, key=score)


def _rows(text: str, separator: str) -> list[Row]:
    lines = text.splitlines()
    if separator == " ":
        return [(i + 1, line.split()) for i, line in enumerate(lines)]
    reader = csv.reader(lines, delimiter=separator, strict=True)
    return [(reader.line_num, row or [""]) for row in reader]  # an empty line is a row with one missing value


def _number(cell: str, separator: str) -> float | None:
    cell = cell.strip()
    if cell.lower() in MISSING:
        return np.nan
    if "_" in cell:  # Python reads 1_000 as a number
        return None
    if separator != "," and DECIMAL_COMMA.fullmatch(cell):
        cell = cell.replace(",", ".")
    try:
        return float(cell)
    except ValueError:
        return None


def _mostly_numbers(column: list[float | None]) -> bool:
    """Return whether there are more numbers than text cells; then a text cell is an error."""
    texts = sum(value is None for value in column)
    numbers = sum(value is not None and not np.isnan(value) for value in column)
    return numbers > texts


def _names(path: Path, cells: list[str]) -> list[str]:
    names = [cell.strip() for cell in cells]
    for name, count in Counter(names).items():
        if name and count > 1:
            raise DataError(f"{path}: the header has {short(name)} twice: expected unique column names")
    return names


def _read_parquet(path: Path) -> Table:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise DataError(f"to read {path}, install pyarrow: pip install 'gatelab[parquet]'") from None
    try:
        file = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(read_regular(path)))
        rows, names = file.metadata.num_rows, file.schema_arrow.names
        needed = PARQUET_CELL * max(0, rows) * max(1, len(names))
        memory.refuse(needed, f"{path}, a Parquet file of {rows:,} rows and {len(names):,} columns,", SHORTER)
        _names(path, names)
        table = file.read(use_threads=False)  # threads may outlive the interpreter, and abort the process
        return _from_arrow(path, table)
    except (OSError, UnicodeDecodeError, pyarrow.ArrowException) as error:
        raise DataError(f"{path} cannot be read as Parquet: {error}") from error


def _from_arrow(path: Path, table: Any) -> Table:
    from pyarrow import float64, types

    columns, texts, integers, spelled, rounded = {}, {}, set(), {}, {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        kind = column.type
        if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind):
            columns[name] = column.cast(float64(), safe=False).to_numpy()
            if not types.is_floating(kind) and not column.null_count:
                integers.add(name)
            cells = (
                ["" if value is None else str(value) for value in column.to_pylist()] if types.is_integer(kind) else []
            )
            if (found := _first_rounded(columns[name], cells) if cells else None) is not None:
                spelled[name], rounded[name] = cells, found
        else:
            try:
                texts[name] = ["" if value is None else str(value) for value in column.to_pylist()]
            except (OverflowError, ValueError) as error:  # of dates; Python's end with the year 9999
                raise DataError(
                    f"{path}, column {name!r}, {kind}: {error}: expected dates of the years 1 to 9999; write them as "
                    "text, or leave the column out"
                ) from None
    return Table(path, columns, texts, np.arange(table.num_rows) + 1, frozenset(integers), True, spelled, rounded)
