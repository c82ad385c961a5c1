"""Files of sequences and of tables, a format per module."""

from __future__ import annotations

from pathlib import Path

from gatelab.data.formats import csv_files, parquet_files
from gatelab.data.table import Table
from gatelab.errors import DataError

TABLES = (".csv", ".tsv", ".txt", ".parquet")


def read_table(path: Path, header: bool | None = None) -> Table:
    """Read a CSV or Parquet table. `header`: whether the first line has column names; None detects it."""
    if not path.exists():
        raise DataError(f"there is no file {path}: expected a table, .csv or .parquet")
    if path.suffix.lower() == ".parquet":
        return parquet_files.read(path)
    return csv_files.read(path, header)
