"""Reading people's own files: tables, arrays and folders of sequences. Errors name file, line and column."""

from __future__ import annotations

import csv
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gatelab.errors import DataError

TABLES = (".csv", ".tsv", ".txt", ".parquet")
SEQUENCES = (".csv", ".tsv", ".txt", ".npy")


@dataclass(frozen=True)
class Table:
    """Columns of numbers, by name. Columns that hold anything else are only named."""

    path: Path
    columns: dict[str, np.ndarray]  # float64 (N,)
    others: tuple[str, ...]  # dates and texts
    first_line: int  # of the file, where the values begin

    def pick(self, names: tuple[str, ...]) -> np.ndarray:
        """These columns side by side, (N, D); every value must be a finite number."""
        for name in names:
            if name in self.others:
                raise DataError(
                    f"{self.path}: the column {name!r} does not hold numbers; those that do: {self._known()}"
                )
            if name not in self.columns:
                raise DataError(f"{self.path} has no column {name!r}; the columns of numbers are: {self._known()}")
            bad = np.flatnonzero(~np.isfinite(self.columns[name]))
            if len(bad):
                value = self.columns[name][bad[0]]
                raise DataError(
                    f"{self.path}, line {bad[0] + self.first_line}, column {name!r}: {value} (and so in {len(bad):,} "
                    "places): expected a finite number; fill the gaps or drop those lines"
                )
        return np.stack([self.columns[name] for name in names], -1)

    def _known(self) -> str:
        return ", ".join(self.columns) or "none"


def read_table(path: Path) -> Table:
    """A table from CSV (comma, semicolon or tab; a header or none) or Parquet."""
    return _read_parquet(path) if path.suffix == ".parquet" else _read_csv(path)


def _read_csv(path: Path) -> Table:
    try:
        text = path.read_text(encoding="utf-8-sig")
        separator = max(",;\t", key=text.partition("\n")[0].count)
        rows = [(i, row) for i, row in _numbered(text, separator) if any(cell.strip() for cell in row)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} cannot be read as a CSV file in UTF-8: {error}") from error
    if not rows:
        raise DataError(f"{path} is empty: expected lines of numbers, with or without a header")
    width = len(rows[0][1])
    for line, row in rows:
        if len(row) != width:
            raise DataError(f"{path}, line {line}: {len(row)} cells, expected {width} as in the first line")
    header = None if all(_is_number(cell) for cell in rows[0][1]) else [cell.strip() for cell in rows.pop(0)[1]]
    names = header or [str(i + 1) for i in range(width)]
    if len(set(names)) < width or "" in names:
        raise DataError(f"{path}: the header {', '.join(names)!r} needs a different name for every column")
    if not rows:
        raise DataError(f"{path} has a header and nothing below it: expected lines of numbers")
    columns, others = {}, []
    for name, cells in zip(names, zip(*(row for _, row in rows), strict=True), strict=True):
        # A column is one of numbers if its first entry is: a word further down is then an error with a line.
        if (first := next((cell for cell in cells if cell.strip()), "")) and not _is_number(first):
            others.append(name)
            continue
        columns[name] = np.array([_number(path, line, name, cell) for (line, _), cell in zip(rows, cells, strict=True)])
    return Table(path, columns, tuple(others), rows[0][0])


def _numbered(text: str, separator: str) -> list[tuple[int, list[str]]]:
    reader = csv.reader(text.splitlines(), delimiter=separator, strict=True)
    return [(reader.line_num, row) for row in reader]


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _number(path: Path, line: int, name: str, cell: str) -> float:
    if not cell.strip():
        return float("nan")  # a gap: an error only if this column is wanted
    try:
        return float(cell)
    except ValueError:
        raise DataError(f"{path}, line {line}, column {name!r}: {cell!r} is not a number") from None


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
    columns, others = {}, []
    for name, column in zip(table.column_names, table.columns, strict=True):
        kind = column.type
        if pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind) or pyarrow.types.is_boolean(kind):
            columns[name] = column.cast(pyarrow.float64(), safe=False).to_numpy()
        else:
            others.append(name)
    return Table(path, columns, tuple(others), 1)


def read_npz(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an .npz. Pickled objects are refused: reading them could run anything."""
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error, AttributeError) as error:
        raise DataError(f"{path} cannot be read as an .npz of plain arrays: {error}") from error


def read_sequence(path: Path) -> np.ndarray:
    """One sequence (T, D) in float64 from a CSV of T lines or an .npy of shape (T, D) or (T,)."""
    if path.suffix != ".npy":
        table = _read_csv(path)
        if table.others:
            raise DataError(f"{path}: the column {table.others[0]!r} does not hold numbers")
        return table.pick(tuple(table.columns))
    try:
        with path.open("rb") as raw:
            values = np.load(raw, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path} cannot be read as an .npy of a plain array: {error}") from error
    if (
        not isinstance(values, np.ndarray)
        or values.ndim not in (1, 2)
        or values.size == 0
        or values.dtype.kind not in "iufb"
    ):
        raise DataError(
            f"{path} holds {getattr(values, 'shape', values)}: expected numbers of shape (steps, numbers) or (steps,)"
        )
    values = values.astype(np.float64).reshape(len(values), -1)
    if not np.isfinite(values).all():
        step, column = np.argwhere(~np.isfinite(values))[0]
        raise DataError(f"{path}, step {step}, number {column}: {values[step, column]}: expected finite numbers")
    return values


def read_folder(path: Path) -> tuple[list[np.ndarray], np.ndarray, tuple[str, ...]]:
    """The sequences of a folder that has a folder for each class, their classes by number, and the names of those."""
    folders = sorted(f for f in path.iterdir() if f.is_dir() and not f.name.startswith("."))
    if len(folders) < 2:
        raise DataError(f"{path} has {len(folders)} folders: expected one for each class, at least two")
    sequences, labels = [], []
    for number, folder in enumerate(folders):
        files = sorted(f for f in folder.iterdir() if f.suffix in SEQUENCES and not f.name.startswith("."))
        if len(files) < 3:
            raise DataError(f"{folder} has {len(files)} sequences ({', '.join(SEQUENCES)}): expected three at least")
        for file in files:
            sequences.append(read_sequence(file))
            labels.append(number)
            if sequences[-1].shape[1] != sequences[0].shape[1]:
                raise DataError(
                    f"{file} has {sequences[-1].shape[1]} numbers in a step, and the first sequence "
                    f"has {sequences[0].shape[1]}: all must have the same"
                )
    return sequences, np.array(labels), tuple(f.name for f in folders)
