"""Config files: YAML into a spec, with every error located by file, line and the nearest right key; an example."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from gatelab import tasks
from gatelab.cells import Choice
from gatelab.disk import read_regular
from gatelab.errors import DataError, GatelabError, expectation, short, unknown
from gatelab.training import yaml_reader
from gatelab.training.spec import RunSpec, Section, disagreements, name_and_options

Key = yaml_reader.Key
MOST_PROBLEMS = 30  # in one message


class Problem(NamedTuple):
    """An error in a config, and the key it belongs to."""

    key: Key
    message: str


class LocatedYaml(NamedTuple):
    """A YAML file with the line of each key."""

    content: dict[str, Any]
    lines: dict[Key, int]


def read(path: Path) -> LocatedYaml:
    """A YAML file, as plain values; never as objects."""
    try:
        text = read_regular(path, yaml_reader.MAX_BYTES).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise GatelabError(f"{path} cannot be read: {error}") from error
    content, lines = yaml_reader.read(text, str(path))
    if not isinstance(content, dict | None):
        raise GatelabError(f"{path} holds {short(content)}: expected keys such as task and training")
    return LocatedYaml(content or {}, lines)


def parse_yaml(text: str, source: str) -> Any:
    """The values of a YAML text, or an error that names the source and the line."""
    return yaml_reader.read(text, source)[0]


def load(path: Path, changes: Mapping[Key, Any] | None = None) -> RunSpec:
    """The spec in a config file, overridden by changes from the command line."""
    document = read(path)
    return parse(changed(document.content, changes or {}), str(path), document.lines, changes or {})


def changed(content: dict[str, Any], changes: Mapping[Key, Any]) -> dict[str, Any]:
    """A config with single keys replaced."""
    result = dict(content)
    for (first, *rest), value in changes.items():
        if not rest:
            result[str(first)] = value
            continue
        inner = result.get(str(first))
        if first == "task" and isinstance(inner, str):
            name, options = name_and_options(inner)
            inner = {"name": name, **options}
        result[str(first)] = changed(inner if isinstance(inner, dict) else {}, {tuple(rest): value})
    return result


def parse(
    content: dict[str, Any],
    source: str,
    lines: Mapping[Key, int] | None = None,
    changes: Iterable[Key] = (),
) -> RunSpec:
    """A spec from plain values, or one error with all problems, in the order of the file.

    `changes` are the keys that did not come from the file but from the command line.
    """
    sections: dict[str, Any] = {}
    refuse_located(list(_problems(content, sections)), source, lines or {}, changes)
    return RunSpec.model_validate(sections)


def refuse_located(problems: list[Problem], source: str, lines: Mapping[Key, int], changes: Iterable[Key]) -> None:
    """One error for all problems, each with its location; nothing if there are none."""
    messages = []
    for problem in problems:
        line = _line(problem.key, lines)
        where = f"{source}:{line}" if line else source
        if any(problem.key[: len(key)] == key for key in changes):
            line, where = 0, "the command line"
        key = ".".join(str(part) for part in problem.key)
        messages.append((line, f"{where}: {key + ': ' if key else ''}{problem.message}"))
    if messages:
        texts = [text for _, text in sorted(messages, key=lambda pair: pair[0])]
        more = [f"… and {len(texts) - MOST_PROBLEMS:,} more problems"] if len(texts) > MOST_PROBLEMS else []
        raise GatelabError("\n".join([*texts[:MOST_PROBLEMS], *more]))


def _problems(content: dict[str, Any], sections: dict[str, Any]) -> Iterator[Problem]:
    """What is wrong; valid sections go into `sections`."""
    for name in content:
        if name not in RunSpec.model_fields:
            yield Problem((str(name),), str(unknown("key", name, RunSpec.model_fields)))
    yield from section_problems(content, sections)
    task, model, training = (sections.get(name) for name in ("task", "model", "training"))
    if task is not None and model is not None and training is not None:
        try:
            for conflict in disagreements(task, model, training):
                yield Problem(tuple(conflict.keys[0].split(".")), conflict.why)
        except DataError as error:  # some tasks know what they are only from their files
            yield Problem(("task",), str(error))


def section_problems(content: dict[str, Any], sections: dict[str, Any]) -> Iterator[Problem]:
    """Every section by itself, so that an error in one does not hide those in others; they go into `sections`."""
    for name, field in RunSpec.model_fields.items():
        values = content.get(name, {})
        section = cast("type[BaseModel] | None", field.annotation)
        if name == "task":
            section, values, wrong = _named_task(content.get(name, {"name": "digits"}))
            yield from (Problem(("task", *problem.key), problem.message) for problem in wrong)
        if section is None:
            continue
        if not isinstance(values, dict):
            some = ", ".join(list(section.model_fields)[:3])
            yield Problem((name,), f"this is {short(values)}: expected keys such as {some}")
            continue
        sections[name], wrong = validated(section, values)
        yield from (Problem((name, *problem.key), problem.message) for problem in wrong)


def _named_task(value: Any) -> tuple[type[BaseModel] | None, dict[str, Any], list[Problem]]:
    """The class of the task, and its options."""
    try:
        name, options = name_and_options(value)
        return tasks.find(name), options, []
    except ValueError as error:
        return None, {}, [Problem((), str(error))]


def validated(
    section: type[BaseModel], values: dict[str, Any], also: Iterable[str] = ()
) -> tuple[BaseModel | None, list[Problem]]:
    """A section and its problems. Invalid values are taken out and the rest is validated again; conflicts between
    values are reported as well, unless they involve one that was taken out. `also` are other known keys.
    """
    problems: list[Problem] = []
    left, taken_out = dict(values), set()
    while True:
        try:
            valid = section.model_validate(left, context={"conflicts_later": True})
            break
        except ValidationError as error:
            for wrong in error.errors():
                key = wrong["loc"]
                if wrong["type"] == "extra_forbidden":
                    problems.append(Problem(key, str(unknown("key", key[-1], [*section.model_fields, *also]))))
                elif wrong["type"] == "missing":
                    problems.append(Problem(key, "this has to be given"))
                elif wrong["type"] == "value_error":
                    problems.append(Problem(key, str(wrong["ctx"]["error"])))
                else:
                    problems.append(Problem(key, f"this is {short(wrong['input'])}: {expectation(wrong['msg'])}"))
            names = {wrong["loc"][0] for wrong in error.errors() if wrong["loc"]}
            if not names & left.keys():
                return None, problems  # a task's own rule, or something without which there is no section
            taken_out |= names
            left = {name: value for name, value in left.items() if name not in names}
    if isinstance(valid, Section):
        conflicts = (conflict for conflict in valid.conflicts() if not taken_out & set(conflict.keys))
        problems += [Problem((conflict.keys[0],), conflict.why) for conflict in conflicts]
    return valid, problems


def _line(key: Key, lines: Mapping[Key, int]) -> int:
    """The line of a key, or of the nearest enclosing one."""
    while key and key not in lines:
        key = key[:-1]
    return lines.get(key, 0)


def example(task: str = "digits") -> str:
    """A config with every key at its default and its meaning; it can be saved, edited and run."""
    text = ["# Every key, with its default and meaning. Leave out what you do not change.", ""]
    text += [f"# {_description(RunSpec.model_fields['task'])}", "task:", f"  name: {task}"]
    text += [f"  # Options of {task}; for another task, `gatelab config --task NAME`."]
    for name, field in sorted(tasks.find(task).model_fields.items(), key=lambda item: item[0] == "seed"):
        comment = "" if field.is_required() else "# "  # options must not stay when the name is changed
        text += [line.replace(f"{name}:", f"{comment}{name}:", 1) for line in _entry(name, field, "  ")]
    for name, field in RunSpec.model_fields.items():
        section = field.annotation
        if not (isinstance(section, type) and name != "task"):
            continue
        text += ["", f"# {(section.__doc__ or '').strip()}", f"{name}:"]
        for key, inner in section.model_fields.items():
            text += _entry(key, inner, "  ")
    return "\n".join(text) + "\n"


def _entry(name: str, field: FieldInfo, indent: str) -> list[str]:
    comment = textwrap.wrap(_description(field), 100)
    default = "FILE" if field.is_required() else _plain(field.default)
    value = yaml.safe_dump(default, default_flow_style=True).partition("\n...")[0].strip()
    return [*(f"{indent}# {line}" for line in comment), f"{indent}{name}: {value}"]


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else str(value) if isinstance(value, Choice) else value


def _literals(annotation: Any) -> list[Any]:
    """The values of a Literal, also of one that may be left out."""
    if get_origin(annotation) is Literal:
        return list(get_args(annotation))
    return [value for inner in get_args(annotation) for value in _literals(inner)] if annotation is not None else []


def _description(field: FieldInfo) -> str:
    """What a field means, and what it can be."""
    values = _literals(field.annotation)
    choices = f" ({' | '.join(map(str, values))})" if values else ""
    return f"{field.description or ''}{choices}"
