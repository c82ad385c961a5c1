"""Steps in the order of time, one for each: what is out of order, there twice, or missing is named, or put right.

One set of rules for a series and for the sequences of a long table, whether they come from a file or from pandas.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from gatelab.data import gaps, time_intervals
from gatelab.data.advice import Location, Part, RefusalError, use
from gatelab.data.reading import Aggregate, Fill
from gatelab.data.timestamps import Times
from gatelab.formatting import counted

TOLERANCE = time_intervals.TOLERANCE
CONSECUTIVE = use(time="none")
IRREGULAR = "irregular intervals, taken as consecutive steps"
FILL = (use(fill="interpolate"), " or ", use(fill="previous"))


@dataclass(frozen=True)
class Steps:
    """The steps of one series or sequence. A step that was missing has the row before it."""

    values: np.ndarray  # (S, D); NaN where a value is missing
    rows: np.ndarray  # (S,) int64, the rows of the source
    times: np.ndarray | None = None  # (S,) datetime64[us], int64 or float64
    name: str = ""  # of a sequence among others
    missing: np.ndarray | None = None  # (S, D), which values were missing, and are filled

    @property
    def inside(self) -> str:
        """Which sequence this is, in a sentence."""
        return f" in the sequence {self.name!r}" if self.name else ""


@dataclass(frozen=True)
class Rules:
    """What may be done with steps, and how they are named in messages."""

    place: Callable[[int, int | None], Location]  # of a row: of one of its values, or of its time
    times: Times | None = None
    fill: Fill | None = None
    aggregate: Aggregate | None = None
    sorts: bool = True  # whether rows in any order are sorted without being asked to
    whole: str = "the file"
    consecutive: Part = CONSECUTIVE  # what makes consecutive steps of all rows
    many: Part | None = None  # what reads them if they are steps of many sequences
    are_tokens: bool = False  # which cannot be filled or merged


@dataclass(frozen=True)
class Regularized:
    """The steps of each sequence, and what was done, in words."""

    steps: list[Steps]
    notes: dict[str, str]
    interval: str | None = None  # None if times are irregular, or if there are none
    is_complete: bool = True  # whether no step is missing any more


def regularize(sequences: list[Steps], rules: Rules) -> Regularized:
    """Put steps into the order of time, merge those of the same time, insert missing ones, and fill missing values, as
    far as the rules say so; what is left is refused.
    """
    found = Regularized(sequences, {})
    if rules.times is not None:
        found = _complete(_merged(_ordered(found, rules), rules), rules)
    return found if rules.are_tokens else _filled(found, rules)


def _noted(found: Regularized, steps: list[Steps], **notes: str) -> Regularized:
    return replace(found, steps=steps, notes={**found.notes, **notes})


def _times(steps: Steps) -> np.ndarray:
    assert steps.times is not None
    return steps.times


def _picked(steps: Steps, order: np.ndarray) -> Steps:
    return replace(steps, values=steps.values[order], rows=steps.rows[order], times=_times(steps)[order])


def _ordered(found: Regularized, rules: Rules) -> Regularized:
    """The newest last: reversed if all are the other way round, sorted otherwise."""
    assert rules.times is not None
    ordered, notes = [], dict[str, str]()
    for steps in found.steps:
        times = _times(steps)
        backwards = np.flatnonzero(times[1:] < times[:-1])
        if not len(backwards):
            ordered.append(steps)
            continue
        name = rules.times.name
        if len(found.steps) == 1 and (times[1:] <= times[:-1]).all():
            ordered.append(_picked(steps, np.arange(len(times))[::-1]))
            notes["rows"] = f"reversed: {rules.whole} has the newest first"
            continue
        if not rules.sorts:
            row = int(backwards[0]) + 1
            after, before = rules.times.format(times[row]), rules.times.format(times[row - 1])
            raise RefusalError(
                rules.place(int(steps.rows[row]), None),
                f": {after} comes after {before}: expected rows in the order of time; ",
                use(time=name),
                " sorts them",
                *_for_many(rules),
            )
        ordered.append(_picked(steps, np.argsort(times, kind="stable")))
        notes["rows"] = f"sorted by {name}" + (" within each sequence" if steps.name else "")
    return _noted(found, ordered, **notes)


def _for_many(rules: Rules) -> tuple[Part, ...]:
    return () if rules.many is None else ("; ", rules.many, " if the rows are steps of many sequences")


def _merged(found: Regularized, rules: Rules) -> Regularized:
    """One step per time."""
    assert rules.times is not None
    merged: list[Steps] = []
    count = 0
    first: tuple[Steps, int] | None = None
    for steps in found.steps:
        times = _times(steps)
        repeated = np.flatnonzero(times[1:] == times[:-1]) + 1
        if not len(repeated):
            merged.append(steps)
            continue
        count += len(repeated)
        first = first or (steps, int(repeated[0]))
        if rules.aggregate is not None and not rules.are_tokens:
            values = gaps.merged(steps.values, times, rules.aggregate)
            distinct = np.flatnonzero(np.concatenate([[True], times[1:] != times[:-1]]))
            merged.append(replace(_picked(steps, distinct), values=values))
    if first is None:
        return found
    steps, index = first
    time, place = rules.times.format(_times(steps)[index]), rules.place(int(steps.rows[index]), None)
    if rules.aggregate is None or rules.are_tokens:
        raise RefusalError(
            place,
            f": {time} appears twice{steps.inside} ({counted(count, 'such row')}): ",
            use(aggregate="mean"),
            ", first, last or sum merges rows of the same time; ",
            rules.consecutive,
            " takes the rows as consecutive steps",
            *_for_many(rules),
        )
    rows = counted(count, "row")
    note = f"{rows} with the time of another merged ({rules.aggregate}), first {time} in {_short(place)}{steps.inside}"
    return _noted(found, merged, aggregated=note)


def _short(place: Location) -> str:
    return f"line {place.line}" if place.line is not None else f"row {place.row}"


def _complete(found: Regularized, rules: Rules) -> Regularized:
    """A step for every interval."""
    assert rules.times is not None
    many = len(found.steps) > 1 or bool(found.steps[0].name)
    base = _common_interval(found.steps) if many else None
    regular = [_regular(_times(steps), base) for steps in found.steps]
    known = [(each, steps) for each, steps in zip(regular, found.steps, strict=True) if len(_times(steps)) > 1]
    if not known or any(each is None for each, _ in known):
        return found
    interval = next(each.in_words() for each, _ in known if each is not None)
    found = replace(found, interval=interval)
    count = sum(each.missing for each in regular if each is not None)
    if not count:
        return found
    gap, steps = next((each, steps) for each, steps in known if each is not None and each.missing)
    row = int(np.flatnonzero(np.diff(gap.positions) > 1)[0])
    absent, missing = rules.times.format(gap.complete[gap.positions[row] + 1]), counted(count, "missing step")
    place = rules.place(int(steps.rows[row]), None)
    if rules.fill is None:
        raise RefusalError(
            place,
            f": after {rules.times.format(_times(steps)[row])} the step {absent} is missing{steps.inside} "
            f"({missing} at an interval of {gap.interval}): ",
            *FILL,
            " inserts them; ",
            use(fill="none"),
            " takes the rows as consecutive steps",
        )
    note = f"{missing}, first {absent} after {_short(place)}{steps.inside}; "
    if rules.fill == "none" or rules.are_tokens:
        return _noted(replace(found, is_complete=False), found.steps, gaps=f"{note}rows are taken as consecutive steps")
    inserted = [each if gap is None else _inserted(each, gap) for each, gap in zip(found.steps, regular, strict=True)]
    return _noted(found, inserted, gaps=f"{note}filled ({rules.fill})")


def _common_interval(sequences: list[Steps]) -> float | None:
    """The interval of most steps of many sequences; None if there is none."""
    differences = [np.diff(_times(steps)).astype(np.float64) for steps in sequences]
    between = np.concatenate(differences)
    if not len(between):
        return None
    base = time_intervals.typical_interval(between)
    is_usual = 2 * (np.abs(between - base) <= TOLERANCE * abs(base)).sum() >= len(between)
    return base if is_usual else None


def _regular(times: np.ndarray, base: float | None) -> time_intervals.Regular | None:
    return time_intervals.regular(times, base) if len(times) > 1 else None


def _inserted(steps: Steps, gap: time_intervals.Regular) -> Steps:
    """The same with rows of NaN where steps are missing."""
    before = np.searchsorted(gap.positions, np.arange(len(gap.complete)), side="right") - 1
    times = gap.complete.astype(_times(steps).dtype)
    values = gaps.with_missing_steps(steps.values, gap.positions)
    return replace(steps, values=values, rows=steps.rows[before], times=times)


def _filled(found: Regularized, rules: Rules) -> Regularized:
    """Without missing values, or the first is named."""
    given, filled = 0, []
    for steps in found.steps:
        is_new = np.concatenate([[False], steps.rows[1:] == steps.rows[:-1]])
        given += int(np.isnan(steps.values[~is_new]).sum())
        values = gaps.fill_missing(steps.values, rules.fill)
        missing = np.argwhere(np.isnan(values))
        if len(missing):
            step, column = missing[0]
            count = f"({len(np.unique(missing[:, 0])):,} of {len(values):,} rows)"
            raise RefusalError(
                rules.place(int(steps.rows[step]), int(column)),
                f": missing value{f' in step {step} of the sequence {steps.name!r}' if steps.name else ''} {count}: ",
                gaps.unfilled(rules.fill),
            )
        filled.append(replace(steps, values=values, missing=np.isnan(steps.values)))
    notes = {"missing values": f"{given:,} filled ({rules.fill})"} if given else {}
    return _noted(found, filled, **notes)


def time_note(title: str, found: Regularized, steps: int) -> str:
    """What is known of the times, in words."""
    if found.interval is not None:
        return f"{title}, {found.interval}"
    return f"{title}; {IRREGULAR if steps > 2 else 'consecutive steps'}"
