"""Readers of CSV and Parquet tables. Errors name file, line and column."""

from __future__ import annotations

import csv
import re
from collections import Counter
from pathlib import Path

import numpy as np

from gatelab import floats
from gatelab.data.table import Column, Table, number_text
from gatelab.disk import read_regular
from gatelab.errors import DataError, bad_byte, short

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", " ": "spaces"}
MISSING = {"", "na", "n/a", "nan", "null", "none", "-"}
WHOLE = re.compile(r"[-+]?\d+")
TELLING = {"label", "class", "target", "split", "id", "date", "time", "timestamp"}  # never the value of a cell
DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+(e[-+]?\d+)?", re.IGNORECASE)

CSV_FACTOR = 20  # bytes of memory per byte of a CSV file: cells are Python objects until all are numbers
MOST_COLUMNS = 200_000  # of a CSV file
LONGEST_INTEGER = 300  # characters; what is longer is infinite as a float

Row = tuple[int, list[str]]  # line number in the file, and the cells


def prose(path: Path) -> str:
    """A hint for a file that may be no table at all."""
    return f"; if it is plain text, text:path={path.name} reads it" if path.suffix.lower() == ".txt" else ""


def read(path: Path, header: bool | None = None) -> Table:
    """Read a CSV table; the separator is detected."""
    rows, separator = _cells(path)
    by_column = [[cells[i].strip() for _, cells in rows] for i in range(len(rows[0][1]))]
    numbers = [[_number(cell, separator) for cell in cells] for cells in by_column]  # None is text
    if header is None:
        header = _has_header(rows[0][1], numbers)
    begin = int(header)
    if len(rows) == begin:
        raise DataError(f"{path} has only a header: expected rows of numbers below it")
    names = unique_names(path, rows[0][1]) if header else [str(i + 1) for i in range(len(by_column))]
    lines = np.array([line for line, _ in rows[begin:]])
    columns = []
    for i, name in enumerate(names):
        cells, values = by_column[i][begin:], numbers[i][begin:]
        if not name:
            columns.append(Column(f"(column {i + 1}, unnamed)", texts=cells))
        elif None in values and _mostly_numbers(values):
            row = values.index(None)
            raise DataError(f"{path}, line {lines[row]}, column {name!r}: {cells[row]!r}: expected a number")
        else:
            columns.append(_column(name, cells, values))
    return Table.of(path, columns, lines, header)


def _cells(path: Path) -> tuple[list[Row], str]:
    """The cells of all rows, as many in each, and what separates them."""
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
    return rows, separator


def _column(name: str, cells: list[str], numbers: list[float | None]) -> Column:
    """A column of numbers, or of text if some cells are none."""
    if None in numbers:
        return Column(name, texts=cells)
    values = np.array(numbers, np.float64)
    rounded = _first_rounded(values, cells)
    if not all(map(WHOLE.fullmatch, cells)):
        return Column(name, values, rounded=rounded)
    are_changed = cells != [number_text(value) for value in values.tolist()]
    return Column(name, values, cells if are_changed else None, True, rounded)


def _first_rounded(values: np.ndarray, cells: list[str]) -> tuple[int, int] | None:
    """The first row with an integer that has no float, and the integer."""
    for row in np.flatnonzero(np.abs(values) >= floats.EXACT).tolist():
        cell = cells[row]
        if WHOLE.fullmatch(cell) and len(cell) <= LONGEST_INTEGER and floats.rounded([int(cell)]) is not None:
            return row, int(cell)
    return None


def _has_header(first: list[str], by_column: list[list[float | None]]) -> bool:
    """Whether the first line has names: text over numbers, text only, or a name that says what a column is."""
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
        numbers = [_number(cell.strip(), separator) is not None for row in cells[1:] or cells for cell in row]
        return (widths.count(width) / len(widths) if width > 1 else 0.0, sum(numbers) / max(1, len(numbers)))

    return max(SEPARATORS, key=score)


def _rows(text: str, separator: str) -> list[Row]:
    lines = text.splitlines()
    if separator == " ":
        return [(i + 1, line.split()) for i, line in enumerate(lines)]
    reader = csv.reader(lines, delimiter=separator, strict=True)
    return [(reader.line_num, row or [""]) for row in reader]  # an empty line is a row with one missing value


def _number(cell: str, separator: str) -> float | None:
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
    """Whether there are more numbers than text cells; then a text cell is an error."""
    texts = sum(value is None for value in column)
    numbers = sum(value is not None and not np.isnan(value) for value in column)
    return numbers > texts


def unique_names(path: Path, cells: list[str]) -> list[str]:
    """The names in a header, each of them once."""
    names = [cell.strip() for cell in cells]
    for name, count in Counter(names).items():
        if name and count > 1:
            raise DataError(f"{path}: the header has {short(name)} twice: expected unique column names")
    return names
