"""The user's file as the task `files`: its own recognition of layouts, with the target named by the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gatelab.data import layouts, time_columns
from gatelab.data.advice import Location, RefusalError, Use, options_spelled, use
from gatelab.data.layouts import Layout
from gatelab.data.table import Table
from gatelab.data.timestamps import Times
from gatelab.errors import DataError, GatelabError, unknown
from gatelab.formatting import counted, listed
from gatelab.tasks.own.files import Files

LEAST = 16  # rows of a series; with fewer there is nothing to learn from and nothing to compare with
OF_FORECASTERS = {"length": "window", "difference": "transform"}  # what a forecaster has in place of these options


def as_flags(given: Use) -> str:
    """Options of the task as flags of this command."""
    names = dict(given.options)
    targets = ("label",) if "tokens" in names else ("label", "columns")
    flags = {"path": "{}", **dict.fromkeys(targets, "--target {}")}
    return " ".join(flags.get(name, f"--option {name}={{}}").format(value) for name, value in given.options)


def read(path: Path, target: str | None, options: dict[str, str]) -> Files:
    """The task, with its data read. What is not clear is an error that names the flag that reads it."""
    if "path" in options:
        raise GatelabError(f"--option path={options['path']}: the file is the argument FILE: leave the option out")
    given: dict[str, Any] = {**options, "path": path}
    with options_spelled(as_flags):
        task = Files.make(given)
        if task.table is not None:
            names = () if target is None else _target_columns(task.table, target)
            if _layout(task, task.table, names) == "series":
                if len(task.table.lines) < LEAST:
                    rows = counted(len(task.table.lines), "row")
                    raise DataError(f"{task.path} has {rows}: expected at least {LEAST}, the steps of one series")
                return _series(task, names)
            task = task.understood_as(**({"label": _only(task, "label", target)} if target is not None else {}))
        elif target is not None and task.is_here():
            kind = "a folder" if path.is_dir() else f"a {path.suffix.lower()} file" if path.suffix else "an archive"
            raise DataError(f"{path} is {kind}, which says itself what its targets are: leave --target out")
        _ = task.content  # read now: what is wrong with it is said before anything else
        return task


def _target_columns(table: Table, target: str) -> tuple[str, ...]:
    """The columns that a target names: one, or several with + between them."""
    names = (target,) if target in table.names else tuple(target.split("+"))
    for name in names:
        if name not in table.names:
            raise DataError(f"{table.path}: --target {target}: {unknown('column', name, table.names)}")
    return names


def _only(task: Files, option: str, target: str | None) -> str | None:
    """The target, if the option of the task that says the same was not given as well."""
    if getattr(task, option):
        raise GatelabError(f"--target {target} and --option {option} both name the target: leave one out")
    return target


def _series(task: Files, names: tuple[str, ...]) -> Files:
    """The task of a series whose target is clear."""
    for name, parameter in OF_FORECASTERS.items():
        if getattr(task, name) != Files.model_fields[name].default:
            raise DataError(
                f"{task.path} is a series, and a forecaster has no option {name}: leave it out; --set {parameter}=… is "
                "its own parameter"
            )
    if names:
        _only(task, "columns", "+".join(names))
    task = task.understood_as(columns=names or task.columns, layout="series", length=1)  # the series may be short
    assert task.series is not None
    found = task.series.target_names
    if len(found) > 1 and not task.columns:
        raise DataError(
            f"{task.path} is a series with the columns {listed(list(found))}, and it is not clear what to forecast: "
            f"--target {found[0]} forecasts one, --target {'+'.join(found[:2])} several together; --option "
            f"inputs={found[-1]} also reads a column whose future values are known"
        )
    return task


def _layout(task: Files, table: Table, names: tuple[str, ...]) -> Layout:
    """The layout, given the target; several columns are only ever forecast."""
    reading, columns = task.reading, task.columns
    if len(names) != 1:
        return layouts.recognise(table, reading, names or columns)
    (target,) = names
    labelled = layouts.judge(table, reading.resolved(label=target), columns)
    times = time_columns.find(table, reading.time, names) if reading.layout == "auto" else None
    # Columns beside a target are what sequences are read from.
    found = labelled if columns else layouts.judge(table, reading, columns)
    found = labelled if isinstance(found, RefusalError) else found
    if isinstance(found, RefusalError):
        # A target may be called like a label, as y after ds, and is forecast all the same.
        if target in table.numbers and _is_in_order(times) and layouts.many_sequences(table) is None:
            return "series"
        raise found
    if found == "series" and reading.layout == "auto" and times is None:
        _refuse_doubt(table, target, labelled)
    return found


def _refuse_doubt(table: Table, target: str, labelled: Layout | RefusalError) -> None:
    """Refuse a table without times that could have one sequence per row, with this target."""
    if target in table.numbers and labelled != "wide":
        return
    what = "text, which cannot be forecast" if target in table.texts else "one column beside numbered ones"
    raise RefusalError(
        Location(table.path),
        f": --target {target} is {what}, and it is not clear what a row is: ",
        use(layout="wide"),
        " if each row is one sequence, ",
        use(id="COLUMN"),
        " if the rows are steps of many sequences, ",
        use(layout="series"),
        " if they are steps of one series",
    )


def _is_in_order(times: Times | None) -> bool:
    """Whether there are times that only increase, or only decrease."""
    if times is None:
        return False
    return bool((times.values[1:] > times.values[:-1]).all() or (times.values[1:] < times.values[:-1]).all())
