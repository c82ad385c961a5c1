"""Arrays as 64-bit floats without a silent change: masked values are missing, and integers keep their digits."""

from __future__ import annotations

from typing import Any

import numpy as np

from gatelab.errors import DataError

EXACT = 2**53  # up to here every integer has a float of its own


def floats(values: Any, what: str) -> np.ndarray:
    """Numbers as float64; an integer that would become another one is refused."""
    array = np.asarray(values)
    if array.dtype.kind in "iu":
        large = array[(array > EXACT) | (array < -EXACT)] if array.dtype.kind == "i" else array[array > EXACT]
        if (first := rounded(large.tolist())) is not None:
            raise DataError(f"{what} has the integer {digits_lost(first)}")
    found: np.ndarray = array.astype(np.float64)
    return found


def rounded(integers: list[int]) -> int | None:
    """The first integer that has no float; None if all have."""
    return next((each for each in integers if int(float(each)) != each), None)


def digits_lost(integer: int) -> str:
    """Say of an integer what would become of it, and what to do."""
    return (
        f"{integer}, which would become {float(integer):.0f} as a 64-bit float: expected integers up to {EXACT:,}, or "
        "those that are floats exactly; subtract an offset, or leave them out"
    )


def unmasked(values: Any, what: str) -> Any:
    """Masked arrays, also in a list, as plain ones: masked numbers are NaN. Anything else stays as it is."""
    if isinstance(values, (list, tuple)):
        if any(isinstance(one, np.ma.MaskedArray) for one in values):
            return [unmasked(one, what) for one in values]
        return values
    if not isinstance(values, np.ma.MaskedArray):
        return values
    mask = np.ma.getmaskarray(values)
    if not mask.any():
        return np.asarray(values)
    if values.dtype.kind not in "iufb":
        first = ", ".join(map(str, np.argwhere(mask)[0]))
        raise DataError(
            f"{what} is masked in {int(mask.sum()):,} places, first [{first}]: expected a value in every place; leave "
            "these out"
        )
    return np.where(mask, np.nan, floats(values.filled(0), what))


def checked(values: Any, what: str) -> Any:
    """Data in the form that it has, without masks; integers that have no float are refused."""
    plain = unmasked(values, what)
    if hasattr(plain, "columns") and hasattr(plain, "items"):  # a data frame
        for name, column in plain.items():
            _refuse_rounded(column, f"{what}, column {name!r},")
    else:
        _refuse_rounded(plain, what)
    return plain


def _refuse_rounded(values: Any, what: str) -> None:
    if isinstance(values, (list, tuple)):
        try:
            values = np.asarray(values)
        except ValueError:  # of unequal lengths: no array of numbers
            return
    if getattr(getattr(values, "dtype", None), "kind", None) in ("i", "u"):
        floats(values.dropna() if hasattr(values, "dropna") else values, what)
