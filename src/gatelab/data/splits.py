"""Splits that the data itself prescribes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gatelab.data.advice import Advice, Location, RefusalError, use
from gatelab.errors import DataError
from gatelab.formatting import listed

PARTS = ("training", "validation", "test")
VALUES = {
    **dict.fromkeys(("train", "training"), 0),
    **dict.fromkeys(("validation", "valid", "val", "dev"), 1),
    **dict.fromkeys(("test", "testing"), 2),
}
EXPECTED = "train, validation (or val, valid, dev) or test"
HELD_OUT = 0.15  # share of the examples in validation and test set, each


def looks_like_split(values: Sequence[str]) -> bool:
    """Whether some of the values name a part; then the others have to as well."""
    return any(value.strip().lower() in VALUES for value in set(values))


def overlooked(unused: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """A caution for the first of these unused columns whose values are the names of parts, and nothing else."""
    for name, values in unused.items():
        if {VALUES.get(value.strip().lower()) for value in set(values)} in ({0, 2}, {0, 1, 2}):
            found = listed(list(dict.fromkeys(values)))
            unused_split = f"{name!r} has {found} only, and is not used: "
            return {"caution": Advice(unused_split, use(split=name), " splits by it, ", use(split="none"), " does not")}
    return {}


def check(values: Sequence[str], source: str, where: Sequence[str]) -> None:
    """Refuse values that name no part; `where` locates each value in `source`."""
    known = [value.strip().lower() in VALUES for value in values]
    if all(known):
        return
    first, distinct = known.index(False), list(dict.fromkeys(values))
    found = f"{', '.join(map(repr, distinct[:6]))}{', …' if len(distinct) > 6 else ''}"
    raise RefusalError(
        Location(f"{source}, {where[first]}"),
        f": the split is {values[first]!r}: expected {EXPECTED}, found {found}; ",
        use(split="none"),
        " ignores it",
    )


def codes(values: Sequence[str], source: str, where: Sequence[str], needs_test: bool = True) -> np.ndarray:
    """0, 1, 2 for training, validation and test; `where` locates each value in `source`."""
    check(values, source, where)
    parts = np.array([VALUES[value.strip().lower()] for value in values], np.int8)
    for part in (0, 2) if needs_test else (0,):
        if not (parts == part).any():
            raise DataError(
                f"{source}: its split has no {PARTS[part]} examples: expected train and test, and optionally validation"
            )
    return parts


def check_groups(groups: np.ndarray, parts: np.ndarray, source: str, thing: str) -> None:
    """Refuse a group, or an id, in two parts."""
    names, first, member = np.unique(groups, return_index=True, return_inverse=True)
    pairs = np.unique(np.stack([member, parts]), axis=1)  # each group with each of its parts, once
    twice = np.flatnonzero(np.bincount(pairs[0], minlength=len(names)) > 1)
    if len(twice):
        group = twice[np.argmin(first[twice])]  # the first in the file
        inside = pairs[1][pairs[0] == group]
        raise DataError(
            f"{source}: the {thing} {names[group].item()!r} is in the {listed([PARTS[i] for i in inside])} set: "
            f"expected each {thing} in one of them"
        )


def boundaries(parts: np.ndarray, lines: np.ndarray, source: str) -> tuple[int, int, int, int]:
    """The boundaries of a series whose rows name their part: blocks in the order of time."""
    backwards = np.flatnonzero(np.diff(parts) < 0)
    if len(backwards):
        row = backwards[0] + 1
        raise DataError(
            f"{source}, line {lines[row]}: {PARTS[parts[row]]} after {PARTS[parts[row - 1]]}: expected one block of "
            "rows each for training, validation and test, in the order of time"
        )
    steps = len(parts)
    train_end, validation_end = (int(np.searchsorted(parts, part)) for part in (1, 2))
    if train_end == validation_end:
        train_end -= max(1, round(HELD_OUT * validation_end))
    return 0, train_end, validation_end, steps
