"""Reader of Parquet tables, by pyarrow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from gatelab import memory
from gatelab.data.formats.csv_files import unique_names
from gatelab.data.table import Column, Table
from gatelab.disk import read_regular
from gatelab.errors import DataError

CELL = 32  # bytes of memory per cell
SHORTER = "split it, or remove columns and rows that are not needed"


def read(path: Path) -> Table:
    """Read a Parquet table."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise DataError(f"to read {path}, install pyarrow: pip install 'gatelab[parquet]'") from None
    try:
        file = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(read_regular(path)))
        rows, names = file.metadata.num_rows, file.schema_arrow.names
        needed = CELL * max(0, rows) * max(1, len(names))
        memory.refuse(needed, f"{path}, a Parquet file of {rows:,} rows and {len(names):,} columns,", SHORTER)
        unique_names(path, names)
        table = file.read(use_threads=False)  # threads may outlive the interpreter, and abort the process
        columns = [_column(path, name, column) for name, column in zip(names, table.columns, strict=True)]
    except (OSError, UnicodeDecodeError, pyarrow.ArrowException) as error:
        raise DataError(f"{path} cannot be read as Parquet: {error}") from error
    return Table.of(path, columns, np.arange(table.num_rows) + 1)


def _column(path: Path, name: str, column: Any) -> Column:
    from pyarrow import float64, types

    kind = column.type
    if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
        return Column(name, texts=_texts(path, name, column))
    numbers = column.cast(float64(), safe=False).to_numpy()
    are_integers = not types.is_floating(kind) and not column.null_count
    if types.is_integer(kind):
        integers = column.to_pylist()
        known = [(row, value) for row, value in enumerate(integers) if value is not None]
        rounded = next(((row, value) for row, value in known if int(float(value)) != value), None)
        if rounded is not None:
            texts = ["" if value is None else str(value) for value in integers]
            return Column(name, numbers, texts, are_integers, rounded)
    return Column(name, numbers, None, are_integers)


def _texts(path: Path, name: str, column: Any) -> list[str]:
    try:
        return ["" if value is None else str(value).strip() for value in column.to_pylist()]
    except (OverflowError, ValueError) as error:  # of dates; Python's end with the year 9999
        raise DataError(
            f"{path}, column {name!r}, {column.type}: {error}: expected dates of the years 1 to 9999; write them as "
            "text, or leave the column out"
        ) from None
