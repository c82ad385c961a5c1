"""YAML as plain values with the line of each key. It is read as in YAML 1.2: 1e-2 is a number, dates are text.

A text is limited in size, in depth, and in the number of values with its aliases expanded, so that none takes long.
Keys are always text. Tags other than those of numbers and text, and values that refer to themselves, are refused.
"""

from __future__ import annotations

import re
from typing import Any, NoReturn

import yaml

from gatelab.errors import GatelabError, short
from gatelab.numerals import FLOAT, MOST_DIGITS

Key = tuple[str | int, ...]

MAX_BYTES = 200_000  # PyYAML reads about 100,000 in a second
MAX_DEPTH = 50
MAX_VALUES = 50_000
TAG = "tag:yaml.org,2002:"
INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
SPECIAL = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
TRUTH = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """PyYAML's composer with the scalars of YAML 1.2 (and its words for true and false), and limited depth."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 (filled below, by PyYAML's own function)
    depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            why = f"values are nested more than {MAX_DEPTH} deep"
            raise yaml.composer.ComposerError(None, None, why, self.peek_event().start_mark)
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


_WORDS = "|".join(f"{word}|{word.capitalize()}|{word.upper()}" for word in TRUTH)
for _tag, _pattern, _first in (
    ("null", re.compile(r"(~|null|Null|NULL|)$"), [*"~nN", ""]),
    ("bool", re.compile(f"({_WORDS})$"), list("yYnNtTfFoO")),
    ("int", re.compile(f"({INTEGER.pattern})$"), list("-+0123456789")),
    ("float", re.compile(f"({FLOAT.pattern}|{SPECIAL.pattern})$"), list("-+.0123456789")),
    ("merge", re.compile(r"<<$"), ["<"]),
):
    _Loader.add_implicit_resolver(TAG + _tag, _pattern, _first)


def read(text: str, source: str) -> tuple[Any, dict[Key, int]]:
    """The values of a YAML text, and the line of each key; raises `GatelabError` with the source and the line."""
    if len(text) > MAX_BYTES:
        raise GatelabError(f"{source} has {len(text):,} characters: expected a config of at most {MAX_BYTES:,}")
    try:
        root = yaml.compose(text, Loader=_Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{source}:{mark.line + 1}" if mark else source
        why = getattr(error, "problem", None) or str(error).partition("\n")[0]
        raise GatelabError(f"{where}: this is not YAML: {why}") from error
    if root is None:
        return None, {}
    values = _Values(source)
    content = values.value(root, ())
    if values.duplicates:
        raise GatelabError("\n".join(values.duplicates))
    return content, values.lines


class _Values:
    """Turns nodes into values."""

    def __init__(self, source: str) -> None:
        self.source, self.count = source, 0
        self.lines: dict[Key, int] = {}
        self.duplicates: list[str] = []
        self.within: list[yaml.Node] = []  # the nodes around the current one

    def refuse(self, node: yaml.Node, why: str) -> NoReturn:
        raise GatelabError(f"{self.source}:{node.start_mark.line + 1}: this is not a config: {why}")

    def value(self, node: yaml.Node, key: Key) -> Any:
        """The value of a node; aliases are expanded."""
        self.count += 1
        self.lines.setdefault(key, node.start_mark.line + 1)
        if any(node is outer for outer in self.within):
            self.refuse(node, "a value contains itself, by an alias")
        if self.count > MAX_VALUES or len(self.within) > MAX_DEPTH:
            self.refuse(node, f"with its aliases expanded it has more than {MAX_VALUES:,} values or {MAX_DEPTH} levels")
        if isinstance(node, yaml.ScalarNode):
            return self.scalar(node)
        self.within.append(node)
        content = self.mapping(node, key) if isinstance(node, yaml.MappingNode) else self.sequence(node, key)
        self.within.pop()
        return content

    def sequence(self, node: yaml.Node, key: Key) -> list[Any]:
        self.expect(node, "seq")
        return [self.value(inner, (*key, i)) for i, inner in enumerate(node.value)]

    def mapping(self, node: yaml.Node, key: Key) -> dict[str, Any]:
        """The values by name, over those of mappings that are merged with `<<`, of which the first one counts."""
        self.expect(node, "map")
        own: dict[str, Any] = {}
        merged: list[yaml.Node] = []
        for name, value in node.value:
            if not isinstance(name, yaml.ScalarNode):
                self.refuse(name, "a key is a list or a mapping: expected a word")
            if name.tag == TAG + "merge":
                merged += value.value if isinstance(value, yaml.SequenceNode) else [value]
                continue
            word = self.text(name)
            if word in own:
                line = name.start_mark.line + 1
                self.duplicates.append(f"{self.source}:{line}: the key {short(word)} is there twice")
            self.lines.setdefault((*key, word), name.start_mark.line + 1)
            own[word] = self.value(value, (*key, word))
        for other in merged:
            if not isinstance(other, yaml.MappingNode):
                self.refuse(other, "<< merges mappings, expected one or a list of them")
            own = {**self.value(other, key), **own}
        return own

    def expect(self, node: yaml.Node, tag: str) -> None:
        if node.tag != TAG + tag:
            self.refuse(node, f"the tag {short(node.tag)} has no meaning here: expected plain values")

    def scalar(self, node: yaml.ScalarNode) -> Any:
        """A number, a text, true, false or nothing."""
        kind, text = node.tag.removeprefix(TAG), node.value
        if kind == "null" and not text.strip("~").lower().replace("null", ""):
            return None
        if kind == "bool" and text.lower() in TRUTH:
            return TRUTH[text.lower()]
        if kind == "int" and INTEGER.fullmatch(text):
            if len(text) > MOST_DIGITS:
                self.refuse(node, f"a number has {len(text):,} digits: expected at most {MOST_DIGITS}")
            return int(text, 0) if text[:2] in ("0o", "0x") else int(text)
        if kind in ("int", "float") and FLOAT.fullmatch(text):
            return float(text)
        if kind == "float" and SPECIAL.fullmatch(text):
            return float(text.lower().replace(".", ""))
        if kind == "str":
            return self.text(node)
        return self.refuse(node, f"the tag {short(node.tag)} does not fit {short(text)}: expected plain values")

    def text(self, node: yaml.ScalarNode) -> str:
        if "\0" in node.value or any("\ud800" <= letter <= "\udfff" for letter in node.value):
            self.refuse(node, f"the text {short(node.value)} has characters that no name can have")
        return str(node.value)
