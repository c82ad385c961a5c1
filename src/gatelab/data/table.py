"""A table: typed columns, and the line of each row. Errors name file, line and column."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from gatelab import floats
from gatelab.data import timestamps
from gatelab.data.advice import Location, RefusalError
from gatelab.data.gaps import unfilled
from gatelab.errors import DataError, first_of, unknown


@dataclass(frozen=True)
class Column:
    """A column of numbers, of integers, or of text."""

    name: str
    numbers: np.ndarray | None = None  # float64 (N,); missing values are NaN; None for text
    texts: list[str] | None = None  # as written; of integers, if a float would change them: 007, or 17 digits
    are_integers: bool = False  # whether all are written without a fraction
    rounded: tuple[int, int] | None = None  # the first row and integer that has no float

    @cached_property
    def cells(self) -> list[str]:
        """All cells as text; whole numbers have no decimal point, and missing numbers are empty."""
        if self.texts is not None:
            return self.texts
        assert self.numbers is not None
        return [number_text(value) for value in self.numbers.tolist()]

    @cached_property
    def distinct(self) -> int:
        """How many different cells there are."""
        return len(set(self.cells))

    @cached_property
    def times(self) -> np.ndarray | None:
        """A column of text as times, datetime64[us]; None if it has none."""
        return None if self.numbers is not None or self.texts is None else timestamps.parse_column(self.texts)


@dataclass(frozen=True)
class Table:
    """Columns by name, in the order of the file."""

    path: Path
    columns: dict[str, Column]
    lines: np.ndarray  # (N,), the line number of each row
    has_header: bool = True

    @classmethod
    def of(cls, path: Path, columns: list[Column], lines: np.ndarray, has_header: bool = True) -> Table:
        """A table with these columns."""
        return cls(path, {column.name: column for column in columns}, lines, has_header)

    @cached_property
    def numbers(self) -> dict[str, np.ndarray]:
        """The columns of numbers."""
        return {name: column.numbers for name, column in self.columns.items() if column.numbers is not None}

    @cached_property
    def texts(self) -> dict[str, list[str]]:
        """The columns of text."""
        return {name: column.texts or [] for name, column in self.columns.items() if column.numbers is None}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all columns."""
        return tuple(self.columns)

    def column(self, name: str, option: str | None = None) -> Column:
        """The column of this name; the error names the option that asked for it."""
        if name in self.columns:
            return self.columns[name]
        if option is None:
            raise DataError(f"{self.path} has no column {name!r}; its columns: {first_of(self.names) or 'none'}")
        raise DataError(f"{self.path}: {option}: {unknown('column', name, self.names)}")

    def place(self, row: int, name: str | None = None) -> Location:
        """Where a row stands."""
        return Location(self.path, line=self.lines[row], column=name)

    def without(self, *used: str | None) -> tuple[str, ...]:
        """The names of all other columns."""
        known = set(used)
        return tuple(name for name in self.names if name not in known)

    def refuse_rounded(self, name: str) -> None:
        """Refuse a column of numbers with an integer that has no float."""
        if (rounded := self.columns[name].rounded) is not None:
            row, integer = rounded
            raise DataError(f"{self.place(row, name)}: {floats.digits_lost(integer)}")

    def number_columns(self, names: tuple[str, ...]) -> np.ndarray:
        """These columns as (N, D). Missing values are NaN; infinite ones are refused."""
        for name in names:
            if name not in self.numbers:
                problem = f": the column {name!r} is not numeric" if name in self.texts else f" has no column {name!r}"
                raise DataError(f"{self.path}{problem}; numeric columns: {self.known()}")
            self.refuse_rounded(name)
            values = self.numbers[name]
            infinite = np.flatnonzero(np.isinf(values))
            if len(infinite):
                row = int(infinite[0])
                raise DataError(f"{self.place(row, name)}: {values[row]} is not finite: expected finite numbers")
        return np.stack([self.numbers[name] for name in names], -1)

    def pick(self, names: tuple[str, ...]) -> np.ndarray:
        """These columns as (N, D); every value must be a finite number."""
        values = self.number_columns(names)
        missing = np.argwhere(np.isnan(values))
        if len(missing):
            row, column = missing[0]
            count = f"({len(np.unique(missing[:, 0])):,} of {len(values):,} rows)"
            raise RefusalError(self.place(row, names[column]), f": missing value {count}: ", unfilled(None))
        return values

    def whole_numbers(self, name: str) -> np.ndarray:
        """A column of integers as int64, exactly; as text where one is too large for that."""
        column = self.columns[name]
        if column.rounded is None:
            return self.numbers[name].astype(np.int64)
        exact = np.array([int(cell) for cell in column.cells])
        return exact if exact.dtype == np.int64 else np.array(column.cells)

    def cells(self, name: str) -> list[str]:
        """A column as text."""
        return self.column(name).cells

    def known(self) -> str:
        """The names of the columns of numbers, for messages."""
        return first_of(self.numbers) or "none"

    def target_column(self, name: str, needed: bool) -> np.ndarray | None:
        """A column of labels or numbers: text, int64 or float64; None if it is empty and not needed."""
        column = self.column(name)
        if not any(column.cells) and not needed:
            return None
        if "" in column.cells:
            count = f"({column.cells.count(''):,} of {len(column.cells):,} rows)"
            raise DataError(
                f"{self.place(column.cells.index(''), name)}: the label is missing {count}: expected a label in every "
                "row; remove these rows"
            )
        if column.numbers is None:
            return np.array(column.cells)
        if column.are_integers:
            return self.whole_numbers(name)
        self.refuse_rounded(name)
        return column.numbers

    def token_column(self, name: str) -> np.ndarray:
        """A column of tokens: integers, or text."""
        column = self.column(name)
        if "" in column.cells:
            raise DataError(f"{self.place(column.cells.index(''), name)}: the token is missing")
        if column.numbers is None:
            return np.array(column.cells)
        if not column.are_integers:
            raise DataError(f"{self.path}: the column {name!r} has fractions: expected tokens, integers or text")
        return self.whole_numbers(name)


def number_text(value: float) -> str:
    """A number as a name: whole numbers without a decimal point, NaN as an empty text."""
    if value != value:
        return ""
    return str(int(value)) if value.is_integer() else repr(value)
