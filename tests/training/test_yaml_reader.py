"""YAML as plain values: numbers as in YAML 1.2, limits on size and depth, and nothing that is not plain."""

from __future__ import annotations

import time

import pytest

from gatelab.errors import GatelabError
from gatelab.training.yaml_reader import MAX_BYTES, MAX_DEPTH, read


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-2", 0.01),
        ("1e3", 1000.0),
        ("1E+3", 1000.0),
        (".5", 0.5),
        ("5.", 5.0),
        ("-1e-2", -0.01),
        ("+7", 7),
        ("012", 12),
        ("0o14", 12),
        ("0xC", 12),
        ("1e400", float("inf")),
        ("-.inf", float("-inf")),
        ("12", 12),
        ("1:30", "1:30"),
        ("2024-01-01", "2024-01-01"),
        ("1_000", "1_000"),
        ("0b11", "0b11"),
        ("1e", "1e"),
        ("e1", "e1"),
        ("yes", True),
        ("off", False),
        ("True", True),
        ("y", "y"),
        ("~", None),
        ("null", None),
        ("", None),
        ("'1'", "1"),
        ("!!str 1", "1"),
        ("!!int '1'", 1),
        ("!!float 1", 1.0),
        ("=", "="),
        ("[1, 1e1]", [1, 10.0]),
        ("{a: 1e1}", {"a": 10.0}),
    ],
)
def test_values(text, value):
    assert read(text, "here")[0] == value
    assert type(read(text, "here")[0]) is type(value)


def test_not_a_number_is_one_that_is_not():
    (value,) = read("[.nan]", "here")[0]
    assert value != value


def test_keys_are_text():
    assert read("{1: a, yes: b, ~: c, 2024-01-01: d}", "here")[0] == {"1": "a", "yes": "b", "~": "c", "2024-01-01": "d"}


def test_lines_are_those_of_keys():
    content, lines = read("a:\n  b: 1\n  c:\n  - x\n  - y\n", "here")
    assert content == {"a": {"b": 1, "c": ["x", "y"]}}
    assert {key: lines[key] for key in [("a",), ("a", "b"), ("a", "c"), ("a", "c", 1)]} == {
        ("a",): 1,
        ("a", "b"): 2,
        ("a", "c"): 3,
        ("a", "c", 1): 5,
    }


def test_aliases_and_merges():
    assert read("a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}", "here")[0]["b"] == {"x": 1, "y": 3}
    several = "a: &a {x: 1}\nb: &b {x: 2, y: 2}\nc: {<<: [*a, *b], z: 3}"
    assert read(several, "here")[0]["c"] == {"x": 1, "y": 2, "z": 3}


def laughs(levels: int, merged: bool) -> str:
    lines = ["a0: &a0 {x: 1}"]
    for i in range(1, levels):
        inside = ", ".join([f"*a{i - 1}"] * 10)
        lines.append(f"a{i}: &a{i} {{<<: [{inside}]}}" if merged else f"a{i}: &a{i} [{inside}]")
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (laughs(12, merged=False), "with its aliases expanded it has more than 50,000 values"),
        (laughs(12, merged=True), "with its aliases expanded it has more than 50,000 values"),
        ("[" * 100_000, f"here:1: this is not YAML: values are nested more than {MAX_DEPTH} deep"),
        ("{a: " * 30_000, "nested more than"),
        ("\n".join(f"{' ' * i}a:" for i in range(300)), "here:50: this is not YAML: values are nested more than"),
        ("\n".join(["a0: &a0 [1]", *(f"a{i}: &a{i} [*a{i - 1}]" for i in range(1, 300))]), "levels"),
        ("a: &a [*a]", "here:1: this is not a config: a value contains itself"),
        ("a: &a {<<: *a}", "a value contains itself"),
        ("x" * (MAX_BYTES + 1), "expected a config of at most 200,000"),
        ("9" * 5000, "a number has 5,000 digits"),
        ("a: 1\nb: 2\na: 3", "here:3: the key 'a' is there twice"),
        ('"\\0"', "characters that no name can have"),
        ('"\\ud800"', "characters that no name can have"),
        ("{[a]: 1}", "a key is a list or a mapping"),
        ("!!binary aGk=", "the tag"),
        ("!!python/name:os.system x", "the tag"),
        ("!!set {a}", "the tag"),
        ("!!int abc", "does not fit 'abc'"),
        ("<<: [1]", "merges mappings"),
        ("*nothing", "found undefined alias"),
        ("a\n---\nb", "found another document"),
        ("\x01", "special characters are not allowed"),
    ],
)
def test_what_is_not_plain_is_refused_quickly(text, message):
    begin = time.process_time()
    with pytest.raises(GatelabError) as raised:
        read(text, "here")
    assert message in str(raised.value)
    assert len(str(raised.value)) < 1000
    assert time.process_time() - begin < 60  # it takes half a second; what is expanded never ends


def test_a_large_config_is_read():
    text = "".join(f"key{i}: [1, 2, 3]\n" for i in range(5000))
    assert len(read(text, "here")[0]) == 5000
