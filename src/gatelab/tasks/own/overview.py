"""What was understood of the user's own data, in words and numbers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gatelab.data import column_roles, timestamps
from gatelab.data.advice import Advice, joined, use
from gatelab.data.sequences import Sequences
from gatelab.data.splits import PARTS
from gatelab.formatting import counted
from gatelab.tasks.sampling import LEAST

if TYPE_CHECKING:
    from gatelab.tasks.own.data import OwnData

BARS = "▁▂▃▄▅▆▇█"
NAMED = 12  # names in a list, at most


@dataclass(frozen=True)
class ColumnSummary:
    """One column in numbers, and its course as a line of text."""

    name: str
    role: str
    low: float
    mean: float
    high: float
    course: str


def remarks(task: OwnData) -> dict[str, str]:
    """The layout, the use of the columns, lengths, classes, times and gaps."""
    content = task.content
    facts = {"layout": content.layout}
    if task.series is not None:
        by_use = {
            "forecast": task.series.target_names,
            "exogenous inputs": task.series.input_names,
            "ignored": content.ignored,
        }
        facts["columns"] = "; ".join(f"{role}: {shortened(names)}" for role, names in by_use.items() if names)
        facts["forecast of"] = task.drift_remark(task.series)
    else:
        facts |= _of_sequences(task.sequences)
    cautions = [*([content.notes["caution"]] if "caution" in content.notes else []), *_cautions(task)]
    return {**facts, **content.notes, **({"caution": joined(cautions)} if cautions else {})}


def _cautions(task: OwnData) -> Iterator[str]:
    """Yield what may make a result misleading."""
    series = task.series
    if series is not None:
        if series.filled is not None:
            test = series.filled[task.cuts[2] :, : series.num_targets]
            if count := int(test.sum()):
                yield (
                    f"{count:,} of {test.size:,} test values are filled, not measured: errors on them say little, and "
                    "the baseline gains by them"
                )
        return
    content = task.sequences
    if missing := _classes_without_training(task, content):
        yield f"no training examples of {shortened(missing)}"
    if content.groups is None and content.parts is None:
        for name in content.ignored:
            if name.strip().lower() in column_roles.GROUPS:
                found = f"sequences of one {name} may be in training and test set; "
                yield Advice(found, use(group=name), " keeps them together")


def _of_sequences(content: Sequences) -> dict[str, str]:
    ends = content.ends
    facts = {"sequences": f"{len(ends):,} of {_range(ends)}"}
    if content.vocabulary:
        facts["tokens"] = f"{len(content.vocabulary):,} different: {shortened(content.vocabulary)}"
    elif content.columns not in (("value",), tuple(str(i + 1) for i in range(len(content.columns)))):
        facts["channels"] = f"{len(content.columns)}: {shortened(content.columns)}"
    if content.classes is not None and content.targets is not None:
        labels = content.targets if not content.per_step else content.targets[content.inside]
        counts = np.bincount(labels.ravel(), minlength=len(content.classes))
        facts["classes"] = shortened([f"{n} ({c:,})" for n, c in zip(content.classes, counts, strict=True)])
    if content.ignored:
        facts["ignored"] = shortened(content.ignored)
    return facts


def _classes_without_training(task: OwnData, content: Sequences) -> list[str]:
    if content.classes is None or content.targets is None or content.per_step:
        return []
    known = set(content.targets[task.indices[0]].tolist())
    return [name for index, name in enumerate(content.classes) if index not in known]


def _range(ends: np.ndarray) -> str:
    if ends.min() == ends.max():
        return counted(int(ends[0]), "step")
    return f"{ends.min():,}–{ends.max():,} steps (median {np.median(ends):,.0f})"


def shortened(names: list[str] | tuple[str, ...]) -> str:
    """A list of names, of which only the first are shown."""
    return ", ".join(names[:NAMED]) + (f", … ({len(names):,})" if len(names) > NAMED else "")


def split_text(task: OwnData) -> str:
    """How the data is split, in its own terms."""
    if task.series is not None:
        parts = task.series.parts
        rule = "70 / 15 / 15 %" if parts is None else task.series.split_by
        if parts is not None and not (parts == 1).any():
            rule += ", the last 15 % of training for validation"
        return f"chronological, {rule}{_dates(task)}; no window crosses a boundary"
    content = task.sequences
    if content.parts is not None:
        rule = content.split_by
        if not (content.parts == 1).any():
            rule += _spared(task) or "; 15 % of the training examples for validation, " + _random(content)
    elif content.groups is not None:
        name = content.reading.group
        by = "" if name is None else f" (by {name!r})"
        rule = f"random, whole groups{by} stay together, near 70 / 15 / 15 %{_spared(task)}"
    else:
        rule = f"70 / 15 / 15 %, {_random(content)}{_spared(task)}"
    return rule + (_groups(task, content.groups) if content.groups is not None else "")


def _random(content: Sequences) -> str:
    if content.groups is not None:
        return "whole groups at random"
    return "random" if content.classes is None or content.per_step else "random, stratified by label"


def _spared(task: OwnData) -> str:
    """Why nothing is held out for validation, if nothing is."""
    is_whole = task.sequences.classes is None or len(task.indices[1]) or not len(task.indices[2])
    few = f"it would take the last {LEAST} training examples of most classes"
    return "" if is_whole else f"; no validation set: {few}"


def _groups(task: OwnData, groups: np.ndarray) -> str:
    numbers = [len(np.unique(groups[indices])) for indices in task.indices]
    return "; {} training, {} validation, {} test groups".format(*numbers)


def _dates(task: OwnData) -> str:
    """Where validation and test set begin."""
    stamps = None if task.series is None else task.series.stamps
    if stamps is None or len(stamps) != len(task.content.values):
        return ""
    validation, test = timestamps.format_times(stamps[list(task.cuts[1:3])], stamps[:2])
    return f": validation from {validation}, test from {test}"


def num_columns(task: OwnData) -> int:
    """The number of columns of numbers."""
    if task.series is not None:
        return len(task.series.columns)
    content = task.sequences
    of_targets = 0 if content.targets is None or content.classes is not None else content.targets.shape[-1]
    return 0 if content.vocabulary else len(content.columns) + of_targets


def columns(task: OwnData) -> Iterator[ColumnSummary]:
    """Yield each column of numbers: of a series its course, of sequences the mean at each step."""
    if task.series is not None:
        for index, name in enumerate(task.series.columns):
            role = "forecast" if index < task.series.num_targets else "input"
            values = task.series.values[:, index]
            yield ColumnSummary(name, role, values.min(), values.mean(), values.max(), sparkline(values))
        return
    content = task.sequences
    if content.vocabulary:
        return
    inside = content.inside
    for index, name in enumerate(content.columns):
        values = content.values[..., index]
        totals, counts = np.where(inside, values, 0).sum(0), inside.sum(0)
        course = sparkline(totals / np.maximum(counts, 1))
        known = values[inside]
        yield ColumnSummary(name, "input", known.min(), known.mean(), known.max(), course)
    if content.targets is not None and content.classes is None:
        known = content.targets[inside] if content.per_step else content.targets
        for index, name in enumerate(task.target_names):
            values = known[:, index]
            histogram = np.histogram(values, 16)[0]
            yield ColumnSummary(name, "target", values.min(), values.mean(), values.max(), sparkline(histogram))


def sparkline(values: np.ndarray, width: int = 24) -> str:
    """A course as a line of bars: the mean of each of `width` sections."""
    sections = [section.mean() for section in np.array_split(values, min(width, len(values)))]
    low, high = min(sections), max(sections)
    if not high > low:
        return BARS[3] * len(sections)
    return "".join(BARS[int((value - low) / (high - low) * (len(BARS) - 1) + 0.5)] for value in sections)


def part_sizes(task: OwnData) -> Iterator[tuple[str, int, int]]:
    """Yield the parts of a series with their boundaries."""
    yield from ((name, a, b) for name, (a, b) in zip(PARTS, itertools.pairwise(task.cuts), strict=True))
