"""The user's file as the task `files`: its own recognition of layouts, with the target named by the command line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gatelab.errors import DataError, GatelabError, unknown
from gatelab.formatting import counted, listed
from gatelab.tasks.own import layouts, signs, time_columns
from gatelab.tasks.own.files import TABLES, Files
from gatelab.tasks.own.reading import Reading
from gatelab.tasks.own.table_files import Table, read_table
from gatelab.tasks.own.time_columns import Times

OPTION = re.compile(rf"(?<!--option )\b({'|'.join(Files.model_fields)})=([^\s,;:()]*[^\s,;:().])(,(?=[a-z_]+=))?")
LEAST = 16  # rows of a series; with fewer there is nothing to learn from and nothing to compare with
OF_FORECASTERS = {"length": "window", "difference": "transform"}  # what a forecaster has in place of these options


def read(path: Path, target: str | None, options: dict[str, str]) -> Files:
    """Return the task, with its data read. What is not clear is an error that names the flag that reads it."""
    if "path" in options:
        raise GatelabError(f"--option path={options['path']}: the file is the argument FILE: leave the option out")
    given: dict[str, Any] = {**options, "path": path}
    with options_as_flags():
        task = Files.make(given)
        if task.path.is_file() and task.path.suffix.lower() in TABLES:
            table = read_table(task.path, task.header)
            names = () if target is None else _target_columns(table, target)
            if _layout(table, task.reading, names, task.columns) == "series":
                if len(table.lines) < LEAST:
                    rows = counted(len(table.lines), "row")
                    raise DataError(f"{task.path} has {rows}: expected at least {LEAST}, the steps of one series")
                return _series(task, names)
            task = task.with_options(**({"label": _only(task, "label", target)} if target is not None else {}))
        elif target is not None and task.is_here():
            kind = "a folder" if path.is_dir() else f"a {path.suffix.lower()} file" if path.suffix else "an archive"
            raise DataError(f"{path} is {kind}, which says itself what its targets are: leave --target out")
        _ = task.content  # read now: what is wrong with it is said before anything else
        return task


def _target_columns(table: Table, target: str) -> tuple[str, ...]:
    """Return the columns that a target names: one, or several with + between them."""
    names = (target,) if target in table.names else tuple(target.split("+"))
    for name in names:
        if name not in table.names:
            raise DataError(f"{table.path}: --target {target}: {unknown('column', name, table.names)}")
    return names


def _only(task: Files, option: str, target: str | None) -> str | None:
    """Return the target, if the option of the task that says the same was not given as well."""
    if getattr(task, option):
        raise GatelabError(f"--target {target} and --option {option} both name the target: leave one out")
    return target


def _series(task: Files, names: tuple[str, ...]) -> Files:
    """Return the task of a series whose target is clear."""
    for name, parameter in OF_FORECASTERS.items():
        if getattr(task, name) != Files.model_fields[name].default:
            raise DataError(
                f"{task.path} is a series, and a forecaster has no option {name}: leave it out; --set {parameter}=… is "
                "its own parameter"
            )
    if names:
        _only(task, "columns", "+".join(names))
    task = task.with_options(columns=names or task.columns, length=1)  # the series may be short
    content = task.content
    found = content.names[: content.num_targets]
    if len(found) > 1 and not task.columns:
        raise DataError(
            f"{task.path} is a series with the columns {listed(list(found))}, and it is not clear what to forecast: "
            f"--target {found[0]} forecasts one, --target {'+'.join(found[:2])} several together; --option "
            f"inputs={found[-1]} also reads a column whose future values are known"
        )
    return task


def _layout(table: Table, reading: Reading, names: tuple[str, ...], columns: tuple[str, ...]) -> str:
    """Return the layout, given the target; several columns are only ever forecast."""
    if len(names) != 1:
        return layouts.recognise(table, reading, names or columns)
    (target,) = names
    times = time_columns.find(table, reading.time, names) if reading.layout == "auto" else None
    try:  # columns beside a target are what sequences are read from
        layout = layouts.recognise(table, reading.resolved(label=target) if columns else reading, columns)
    except DataError:
        try:
            layout = layouts.recognise(table, reading.resolved(label=target), columns)
        except DataError:
            # A target may be called like a label, as y after ds, and is forecast all the same.
            if target not in table.columns or not _is_in_order(times) or signs.sequence_id(table) is not None:
                raise
            return "series"
    if layout == "series" and reading.layout == "auto" and times is None:
        _refuse_doubt(table, reading, target)
    return layout


def _refuse_doubt(table: Table, reading: Reading, target: str) -> None:
    """Refuse a table without times that could have one sequence per row, with this target."""
    is_text = target in table.texts
    if not is_text:
        try:
            if layouts.recognise(table, reading.resolved(label=target), ()) != "wide":
                return
        except DataError:
            return
    what = "text, which cannot be forecast" if is_text else "one column beside numbered ones"
    raise DataError(
        f"{table.path}: --target {target} is {what}, and it is not clear what a row is: layout=wide if each row is one "
        "sequence, id=COLUMN if the rows are steps of many sequences, layout=series if they are steps of one series"
    )


def _is_in_order(times: Times | None) -> bool:
    """Return whether there are times that only increase, or only decrease."""
    if times is None:
        return False
    return bool((times.values[1:] > times.values[:-1]).all() or (times.values[1:] < times.values[:-1]).all())


@contextmanager
def options_as_flags() -> Iterator[None]:
    """Errors about the data name options as this command has them: id=patient becomes --option id=patient."""
    try:
        yield
    except GatelabError as error:
        raise type(error)(as_flags(str(error))) from None


def as_flags(text: str) -> str:
    """Return a sentence about options of the task as one about flags."""

    def flag(found: re.Match[str]) -> str:
        name, value, comma = found.groups()
        is_target = name == "label" or (name == "columns" and "tokens" not in text)
        written = f"--target {value}" if is_target else value if name == "path" else f"--option {name}={value}"
        return written + (" " if comma else "")

    return OPTION.sub(flag, text)
