"""Missing values, missing steps and duplicate times: found and named, filled or merged on request."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gatelab.data.advice import Advice, Location, RefusalError, use
from gatelab.data.reading import Aggregate, Fill

FILLS = Advice(use(fill="interpolate"), " or ", use(fill="previous"), " fills them")


def fill_missing(values: np.ndarray, fill: Fill | None) -> np.ndarray:
    """Fill NaN in the steps of one sequence (T, D). What cannot be filled stays NaN.

    `previous` repeats the last known value and never looks ahead: at the start there is none. `interpolate` draws a
    line to the next known value, and repeats the nearest one at both ends.
    """
    if fill not in ("interpolate", "previous") or not np.isnan(values).any():
        return values
    filled, steps = values.copy(), np.arange(len(values))
    for column in filled.T:
        known = ~np.isnan(column)
        if known.all() or not known.any():
            continue
        if fill == "interpolate":
            column[~known] = np.interp(steps[~known], steps[known], column[known])
        else:
            last = np.maximum.accumulate(np.where(known, steps, -1))
            column[last >= 0] = column[last[last >= 0]]
    return filled


def unfilled(fill: Fill | None) -> Advice:
    """What to do about a missing value, given the option."""
    if fill == "previous":
        first = use(fill="interpolate")
        return Advice(use(fill="previous"), " has no value before it; ", first, " repeats the first one")
    if fill == "interpolate":
        return Advice("there is no value to interpolate from: leave out this column or sequence")
    return Advice(FILLS, "; or remove these rows")


def with_missing_steps(values: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Insert rows of NaN (T, D) at the positions that are missing."""
    complete = np.full((positions[-1] + 1, *values.shape[1:]), np.nan)
    complete[positions] = values
    return complete


def merged(values: np.ndarray, keys: np.ndarray, how: Aggregate) -> np.ndarray:
    """Merge rows (S, D) with equal keys, which are in order. Missing values do not count."""
    starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    if len(starts) == len(keys):
        return values
    known = ~np.isnan(values)
    counts = np.add.reduceat(known.astype(np.int64), starts)
    if how in ("mean", "sum"):
        totals = np.add.reduceat(np.where(known, values, 0.0), starts)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(counts > 0, totals / counts if how == "mean" else totals, np.nan)
    rows = np.arange(len(keys))[:, None]
    if how == "first":
        index = np.minimum.reduceat(np.where(known, rows, len(keys) - 1), starts)
    else:
        index = np.maximum.reduceat(np.where(known, rows, 0), starts)
    picked = np.take_along_axis(values, index, 0)
    return np.where(counts > 0, picked, np.nan)


def fill_sequences(
    values: np.ndarray, lengths: np.ndarray | None, fill: Fill | None, source: str, places: Sequence[str] | None = None
) -> tuple[np.ndarray, int]:
    """Fill NaN inside the sequences (N, T, D); return them and the number of filled values. The rest is an error.

    `places` locate the sequences in a file of text.
    """
    inside = np.ones(values.shape[:2], bool) if lengths is None else np.arange(values.shape[1]) < lengths[:, None]
    missing = inside[..., None] & ~np.isfinite(values)
    if not missing.any():
        return values, 0
    values = values.copy()
    for index in np.flatnonzero(missing.any((1, 2))):
        end = values.shape[1] if lengths is None else int(lengths[index])
        values[index, :end] = fill_missing(values[index, :end], fill)
    rest = inside[..., None] & ~np.isfinite(values)
    if rest.any():
        index = np.argwhere(rest)[0]
        value = values[tuple(index)]
        advice = unfilled(fill) if np.isnan(value) else "infinite values cannot be filled"
        where = f": X[{', '.join(map(str, index))}]"
        if places is not None:
            dimension = f", dimension {index[2] + 1}" if values.shape[2] > 1 else ""
            where = f", {places[index[0]]}{dimension}: the value of step {index[1]}"
        count = f"({int(rest.sum()):,} such values)"
        raise RefusalError(Location(source), f"{where} is {value} {count}: expected finite numbers; ", advice)
    return values, int(missing.sum())
