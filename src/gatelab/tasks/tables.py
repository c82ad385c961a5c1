"""Tables of numbers from CSV and Parquet. What cannot be right is refused with file, line and column."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gatelab.errors import DataError
from gatelab.tasks import stamps

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", " ": "blanks"}
GAPS = {"", "na", "n/a", "nan", "null", "none", "-"}
DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+(e[-+]?\d+)?", re.IGNORECASE)

Row = tuple[int, list[str]]  # the line in the file, and the cells


@dataclass(frozen=True)
class Table:
    """Columns of numbers, by name, and the names of the others."""

    path: Path
    columns: dict[str, np.ndarray]  # float64 (N,); a gap is NaN
    others: tuple[str, ...]  # dates, texts, columns without a name
    lines: np.ndarray  # (N,), where in the file each value stands
    stamps: np.ndarray | None = None  # the times of the last lines, if one of the others is a column of times

    def pick(self, names: tuple[str, ...]) -> np.ndarray:
        """These columns side by side, (N, D); every value must be a finite number."""
        for name in names:
            if name in self.others:
                raise DataError(
                    f"{self.path}: the column {name!r} does not hold numbers; those that do: {self.known()}"
                )
            if name not in self.columns:
                raise DataError(f"{self.path} has no column {name!r}; the columns of numbers are: {self.known()}")
            bad = np.flatnonzero(~np.isfinite(self.columns[name]))
            if len(bad):
                value = self.columns[name][bad[0]]
                what = "there is no number" if np.isnan(value) else f"{value} is not finite"
                raise DataError(
                    f"{self.path}, line {self.lines[bad[0]]}, column {name!r}: {what} (and so in {len(bad):,} of "
                    f"{len(self.lines):,} lines): fill the gaps or drop those lines"
                )
        return np.stack([self.columns[name] for name in names], -1)

    def known(self) -> str:
        return ", ".join(self.columns) or "none"


def read_table(path: Path, header: bool | None = None) -> Table:
    """A table from CSV or Parquet. `header` says whether the first line names the columns; None looks at it."""
    if not path.is_file():
        raise DataError(f"there is no file {path}: expected a table, .csv or .parquet")
    return _read_parquet(path) if path.suffix.lower() == ".parquet" else read_csv(path, header)


def read_csv(path: Path, header: bool | None = None) -> Table:
    try:
        text = path.read_text(encoding="utf-8-sig").rstrip()
        separator = _separator(text)
        rows = _rows(text, separator)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} cannot be read as a CSV file in UTF-8: {error}") from error
    if not rows:
        raise DataError(f"{path} is empty: expected lines of numbers, with or without a header")
    width = len(rows[0][1])
    for line, cells in rows:
        if len(cells) != width:
            raise DataError(
                f"{path}, line {line}: {len(cells)} cells, expected {width} as in the first line "
                f"(separated by {SEPARATORS[separator]})"
            )
    by_column = [[_number(row[i], separator) for _, row in rows] for i in range(width)]  # None is a word
    if header is None:
        header = any(column[0] is None and _mostly_numbers(column[1:]) for column in by_column) or (
            all(column[0] is None for column in by_column)
        )
    names = _names(path, rows[0][1]) if header else [str(i + 1) for i in range(width)]
    rows, by_column = (rows[1:], [column[1:] for column in by_column]) if header else (rows, by_column)
    if not rows:
        raise DataError(f"{path} has a header and nothing below it: expected lines of numbers")
    lines = np.array([line for line, _ in rows])
    columns, others = {}, []
    for i, (name, column) in enumerate(zip(names, by_column, strict=True)):
        if not name or not (_mostly_numbers(column) or all(value is not None for value in column)):
            others.append(name or f"(column {i + 1}, without a name)")
        elif None in column:
            line, cells = rows[column.index(None)]
            raise DataError(f"{path}, line {line}, column {name!r}: {cells[i]!r} is not a number")
        else:
            columns[name] = np.array(column, np.float64)
    texts = ([cells[i] for _, cells in rows] for i, name in enumerate(names) if name in others)
    return Table(path, columns, tuple(others), lines, next(filter(_known, map(stamps.recognised, texts)), None))


def _known(times: np.ndarray | None) -> bool:
    return times is not None


def _separator(text: str) -> str:
    """What gives the most of the first lines the same number of cells, more than one, and the most numbers in them."""

    def merit(separator: str) -> tuple[float, float]:
        try:
            cells = [row for _, row in _rows("\n".join(text.splitlines()[:30]), separator)]
        except csv.Error:
            return (0.0, 0.0)
        widths = [len(row) for row in cells]
        usual = max(set(widths), key=widths.count, default=0)
        numbers = [_number(cell, separator) is not None for row in cells[1:] or cells for cell in row]
        return (widths.count(usual) / len(widths) if usual > 1 else 0.0, sum(numbers) / max(1, len(numbers)))

    return max(SEPARATORS, key=merit)


def _rows(text: str, separator: str) -> list[Row]:
    lines = text.splitlines()
    if separator == " ":
        return [(i + 1, line.split()) for i, line in enumerate(lines)]
    reader = csv.reader(lines, delimiter=separator, strict=True)
    return [(reader.line_num, row or [""]) for row in reader]  # an empty line is a line with one gap


def _number(cell: str, separator: str) -> float | None:
    cell = cell.strip()
    if cell.lower() in GAPS:
        return np.nan
    if separator != "," and DECIMAL_COMMA.fullmatch(cell):
        cell = cell.replace(",", ".")
    try:
        return float(cell)
    except ValueError:
        return None


def _mostly_numbers(column: list[float | None]) -> bool:
    """More numbers than words: then a word among them is a mistake and not a kind of column."""
    words = sum(value is None for value in column)
    numbers = sum(value is not None and not np.isnan(value) for value in column)
    return numbers > words


def _names(path: Path, cells: list[str]) -> list[str]:
    names = [cell.strip() for cell in cells]
    for name in names:
        if name and names.count(name) > 1:
            raise DataError(f"{path}: the header has {name!r} twice: every column needs a name of its own")
    return names


def _read_parquet(path: Path) -> Table:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise DataError(f"to read {path}, install pyarrow: pip install 'gatelab[parquet]'") from None
    try:
        table = pyarrow.parquet.read_table(path)
    except (OSError, pyarrow.ArrowException) as error:
        raise DataError(f"{path} cannot be read as Parquet: {error}") from error
    columns, others, times = {}, [], None
    for name, column in zip(table.column_names, table.columns, strict=True):
        kind = column.type
        if times is None and (pyarrow.types.is_temporal(kind) or pyarrow.types.is_string(kind)):
            times = stamps.recognised([str(value) for value in column.to_pylist()])
        if pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind) or pyarrow.types.is_boolean(kind):
            columns[name] = column.cast(pyarrow.float64(), safe=False).to_numpy()
        else:
            others.append(name)
    return Table(path, columns, tuple(others), np.arange(table.num_rows) + 1, times)
