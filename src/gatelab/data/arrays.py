"""Data in memory as plain arrays: NumPy, PyTorch, lists, dictionaries and data frames of any library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gatelab import floats
from gatelab.errors import DataError, GatelabError, first_of, short


def plain(values: Any, name: str = "X") -> Any:
    """Tensors and masked arrays as plain ones, where masked numbers are NaN; anything else as it is."""
    return values.detach().cpu().numpy() if hasattr(values, "detach") else floats.unmasked(values, name)


def is_table(X: Any) -> bool:
    """Whether X has named columns: a dictionary, or a data frame."""
    return isinstance(X, Mapping) or (hasattr(X, "columns") and hasattr(X, "__getitem__"))


def by_name(table: Any) -> dict[str, Any]:
    """The columns of a dictionary or data frame."""
    return {str(key): table[key] for key in (table if isinstance(table, Mapping) else table.columns)}


def depth(nested: Any) -> int:
    """The number of axes of nested lists and arrays, by their first elements."""
    return 1 + depth(nested[0]) if isinstance(nested, (list, tuple)) and nested else np.ndim(nested)


def numbers(values: Any, name: str) -> np.ndarray:
    """Anything array-like as float64; what is no number is refused, since NumPy would convert it silently."""
    values = floats.checked(values, name)
    try:
        if np.asarray(values).dtype.kind in "cmMSUV":  # complex numbers, times and text
            raise TypeError
        return np.asarray(values, np.float64)
    except (TypeError, ValueError):
        raise GatelabError(f"{name} is {str(values)[:80]}: expected numbers, (T, D) or (N, T, D)") from None


def numbers_or_text(values: Any, name: str) -> np.ndarray:
    """Anything array-like as an array of numbers or text."""
    try:
        array = np.asarray(plain(values, name))
    except ValueError:
        raise DataError(f"{name} is {str(values)[:60]}: expected an array of numbers or text") from None
    if name == "X" and array.ndim == 0:
        raise DataError(
            f"X is {short(values, 60)}: expected an array or a list of sequences, or of the steps of a series"
        )
    if array.dtype.kind == "O":  # as data frames store text
        items = array.ravel().tolist()
        if not all(isinstance(item, (str, bytes)) for item in items):
            raise DataError(f"{name} has objects of different kinds: expected numbers or text")
        array = np.array(items).reshape(array.shape)
    return array


def columns_of(table: Any) -> tuple[np.ndarray, tuple[str, ...]]:
    """The columns of a data frame or dictionary as (T, D), and their names."""
    columns = {name: numbers_or_text(column, f"the column {name!r}") for name, column in by_name(table).items()}
    arrays = list(columns.values())
    if not arrays or any(column.ndim != 1 or len(column) != len(arrays[0]) for column in arrays):
        raise DataError(f"X has the columns {first_of(columns) or 'none'}: expected columns of equal length")
    for name, column in columns.items():
        if column.dtype.kind not in "iufb":
            raise DataError(f"the column {name!r} of X is not numeric: leave it out")
    return np.stack(arrays, -1), tuple(columns)
