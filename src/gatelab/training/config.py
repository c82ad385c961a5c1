"""Config files: YAML into a spec; all that is wrong, with file, line and the nearest right key; an example."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from gatelab import tasks
from gatelab.errors import expectation, unknown
from gatelab.training.spec import RunSpec, disagreements

Key = tuple[str | int, ...]


class Problem(NamedTuple):
    key: Key
    message: str


class Document(NamedTuple):
    """A YAML file with the line of each key."""

    content: Any
    lines: dict[Key, int]


def read(path: Path) -> Document:
    """A YAML file. Only plain values are made of it, never objects."""
    try:
        text = path.read_text(encoding="utf-8")
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        content = yaml.safe_load(text)
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ValueError(f"{path}:{line}: this is not YAML: {error.problem or error.context}") from error
    lines: dict[Key, int] = {}
    doubles = list(_mark(root, (), lines)) if root is not None else []
    if doubles:
        raise ValueError("\n".join(f"{path}:{line}: the key {key!r} is there twice" for line, key in doubles))
    return Document({} if content is None else content, lines)


def _mark(node: yaml.Node, key: Key, lines: dict[Key, int]) -> Iterator[tuple[int, str]]:
    """Note the line of each key below `node`; yields keys that appear twice."""
    lines.setdefault(key, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        for name, value in node.value:
            inner = (*key, str(name.value))
            if inner in lines:
                yield name.start_mark.line + 1, str(name.value)
            lines[inner] = name.start_mark.line + 1
            yield from _mark(value, inner, lines)
    elif isinstance(node, yaml.SequenceNode):
        for i, value in enumerate(node.value):
            yield from _mark(value, (*key, i), lines)


def load(path: Path, changes: Mapping[Key, Any] | None = None) -> RunSpec:
    """The spec in a config file, with changes from the command line laid over it."""
    document = read(path)
    if not isinstance(document.content, dict):
        raise ValueError(f"{path} holds {document.content!r}: expected keys such as task, model, training")
    return parse(changed(document.content, changes or {}), str(path), document.lines)


def changed(content: dict[str, Any], changes: Mapping[Key, Any]) -> dict[str, Any]:
    """A config with single keys set anew."""
    result = dict(content)
    for (first, *rest), value in changes.items():
        inner = result.get(str(first))
        result[str(first)] = changed(inner if isinstance(inner, dict) else {}, {tuple(rest): value}) if rest else value
    return result


def parse(content: dict[str, Any], source: str, lines: Mapping[Key, int] | None = None) -> RunSpec:
    """A spec from plain values, or all that is wrong with them in one error, in the order of the file."""
    problems = list(_problems(content))
    if problems:
        located = sorted((_line(problem.key, lines or {}), problem) for problem in problems)
        said = []
        for line, problem in located:
            where = f"{source}:{line}" if line else source
            key = ".".join(str(part) for part in problem.key)
            said.append(f"{where}: {key + ': ' if key else ''}{problem.message}")
        raise ValueError("\n".join(said))
    return RunSpec.model_validate(content)


def _problems(content: dict[str, Any]) -> Iterator[Problem]:
    """Every section by itself, so that an error in one does not hide those in the others."""
    sections: dict[str, Any] = {}
    for name in content:
        if name not in RunSpec.model_fields:
            yield Problem((name,), str(unknown("key", name, RunSpec.model_fields)))
    for name, field in RunSpec.model_fields.items():
        given = content.get(name)
        if name == "task":
            try:
                sections[name] = RunSpec.model_validate({"task": given} if "task" in content else {}).task
            except ValidationError as error:
                yield from (Problem(("task",), line) for line in _sentences(error))
            continue
        section = field.annotation
        assert isinstance(section, type)
        if name in content and not isinstance(given, dict):
            yield Problem(
                (name,), f"this is {given!r}: expected keys such as {', '.join(list(section.model_fields)[:3])}"
            )
            continue
        sections[name], wrong = _validated(section, given or {})
        yield from (Problem((name, *problem.key), problem.message) for problem in wrong)
    if {"task", "model", "training"} <= sections.keys():
        for key, message in disagreements(sections["task"], sections["model"], sections["training"]).items():
            yield Problem(tuple(key.split(".")), message)


def _validated(section: type[BaseModel], given: dict[str, Any]) -> tuple[BaseModel, list[Problem]]:
    """A section and what is wrong with it. What is wrong is taken out and the rest looked at again: combinations are
    checked only once all single values are right.
    """
    problems: list[Problem] = []
    left = dict(given)
    while True:
        try:
            return section.model_validate(left), problems
        except ValidationError as error:
            for wrong in error.errors():
                key = wrong["loc"]
                if wrong["type"] == "extra_forbidden":
                    problems.append(Problem(key, str(unknown("key", key[-1], section.model_fields))))
                elif not key:  # a combination
                    problems += [_placed(sentence, section) for sentence in str(wrong["ctx"]["error"]).splitlines()]
                    return section(), problems
                else:
                    problems.append(Problem(key, f"this is {wrong['input']!r}: {expectation(wrong['msg'])}"))
            left = {name: value for name, value in left.items() if name not in {w["loc"][0] for w in error.errors()}}


def _placed(sentence: str, section: type[BaseModel]) -> Problem:
    """`key: why` about a combination."""
    key, _, why = sentence.partition(": ")
    return Problem((key,), why) if key in section.model_fields else Problem((), sentence)


def _sentences(error: ValidationError) -> Iterator[str]:
    for wrong in error.errors():
        if wrong["type"] == "value_error":
            yield from str(wrong["ctx"]["error"]).splitlines()
        else:
            yield f"this is {wrong['input']!r}: {expectation(wrong['msg'])}"


def _line(key: Key, lines: Mapping[Key, int]) -> int:
    """The line of a key, or of the nearest one around it."""
    while key and key not in lines:
        key = key[:-1]
    return lines.get(key, 0)


def example() -> str:
    """A config with every key at its default, and what it means; it can be saved, changed and run."""
    text = ["# Every key, with its default and meaning. Leave out what you do not change.", ""]
    text += [f"# {_description(RunSpec.model_fields['task'])}", "task:", "  name: digits"]
    for name, field in tasks.find("digits").model_fields.items():
        text += _entry(name, field, "  ")
    for name, field in RunSpec.model_fields.items():
        section = field.annotation
        if not (isinstance(section, type) and name != "task"):
            continue
        text += ["", f"# {(section.__doc__ or '').strip()}", f"{name}:"]
        for key, inner in section.model_fields.items():
            text += _entry(key, inner, "  ")
    return "\n".join(text) + "\n"


def _entry(name: str, field: FieldInfo, indent: str) -> list[str]:
    import textwrap

    comment = textwrap.wrap(_description(field), 100)
    value = yaml.safe_dump(_plain(field.default), default_flow_style=True).partition("\n...")[0].strip()
    return [*(f"{indent}# {line}" for line in comment), f"{indent}{name}: {value}"]


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _description(field: FieldInfo) -> str:
    """What a field means, and what it can be."""
    values = getattr(field.annotation, "__args__", ()) if "Literal" in str(field.annotation) else ()
    choices = f" ({' | '.join(map(str, values))})" if values else ""
    return f"{field.description or ''}{choices}"
