"""Files with checksums: round trips are exact, and damage is detected."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest
import torch

from gatelab import sealed
from gatelab.errors import DataError, GatelabError

TENSORS = {"a": torch.arange(30.0).reshape(5, 6) / 7, "b.c": torch.tensor([1, 2]), "empty": torch.empty(0)}
ARRAYS = {"x": np.linspace(0, 1, 40).reshape(8, 5), "y": np.arange(8), "s": np.array(["a", "bc"])}
STATE = {"epoch": 3, "words": 'ü " \\ \n', "nested": {"number": 0.1 + 0.2}}
LINES = [{"epoch": i, "loss": 1 / (i + 1)} for i in range(4)]

KINDS = {
    "json": (lambda path: sealed.write_json(path, STATE), lambda path: sealed.read_json(path)),
    "jsonl": (lambda path: sealed.write_lines(path, LINES), lambda path: sealed.read_lines(path)),
    "npz": (lambda path: sealed.write_arrays(path, ARRAYS), lambda path: sealed.read_arrays(path)),
    "safetensors": (
        lambda path: sealed.write_tensors(path, TENSORS, STATE),
        lambda path: sealed.read_tensors(path),
    ),
}


def plain(content):
    """Converts tensors and arrays to values that compare bit for bit."""
    if isinstance(content, tuple):
        tensors, state = content
        return {name: (str(v.dtype), tuple(v.shape), v.numpy().tobytes()) for name, v in tensors.items()}, state
    if isinstance(content, dict) and any(isinstance(value, np.ndarray) for value in content.values()):
        return {name: (v.dtype.str, v.shape, v.tobytes()) for name, v in content.items()}
    return content


EXPECTED = {"json": STATE, "jsonl": LINES, "npz": plain(ARRAYS), "safetensors": plain((TENSORS, STATE))}


@pytest.mark.parametrize("kind", KINDS)
def test_round_trip_is_exact_and_files_are_deterministic(tmp_path, kind):
    write, read = KINDS[kind]
    for name in ("one", "two"):
        write(tmp_path / name)
        assert plain(read(tmp_path / name)) == EXPECTED[kind]
    if kind != "npz":  # a zip contains a time stamp
        assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


@pytest.mark.parametrize("kind", KINDS)
def test_damage_is_detected_or_has_no_effect(tmp_path, kind):
    write, read = KINDS[kind]
    path = tmp_path / "file"
    write(path)
    content, rng, refused = path.read_bytes(), random.Random(0), 0
    for trial in range(300):
        position = rng.randrange(len(content))
        if trial % 3 == 0:
            damaged = content[:position]
        else:
            damaged = content[:position] + bytes([content[position] ^ rng.randrange(1, 256)]) + content[position + 1 :]
        path.write_bytes(damaged)
        try:
            result = plain(read(path))
        except DataError as error:
            refused += str(path) in str(error)
            continue
        if kind == "jsonl" and trial % 3 == 0:
            assert result == LINES[: len(result)]  # cut at a line: the manifest records how many there should be
        else:
            assert result == EXPECTED[kind]
    assert refused > 240


def test_files_without_a_checksum_are_refused(tmp_path):
    (tmp_path / "a.json").write_text('{"status": "done"}')
    (tmp_path / "b.jsonl").write_text('{"epoch": 1}\n')
    np.savez(tmp_path / "c.npz", x=np.zeros(3))
    for read, name in ((sealed.read_json, "a.json"), (sealed.read_lines, "b.jsonl"), (sealed.read_arrays, "c.npz")):
        with pytest.raises(DataError, match="it has no checksum"):
            read(tmp_path / name)


def test_objects_are_never_unpickled(tmp_path):
    np.savez(tmp_path / "evil.npz", x=np.array([print], object), allow_pickle=True)
    with pytest.raises(DataError, match="cannot be read"):
        sealed.read_arrays(tmp_path / "evil.npz")


def test_reordered_or_missing_lines_are_detected(tmp_path):
    sealed.write_lines(tmp_path / "m.jsonl", LINES)
    lines = (tmp_path / "m.jsonl").read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in lines] == [0, 1, 2, 3]  # still valid JSON lines
    for order in ([1, 0, 2, 3], [0, 2, 3], [1, 2, 3], [0, 0, 1, 2]):
        (tmp_path / "m.jsonl").write_text("\n".join(lines[i] for i in order))
        with pytest.raises(DataError, match="checksum does not match"):
            sealed.read_lines(tmp_path / "m.jsonl")


def test_nan_is_refused(tmp_path):
    with pytest.raises(ValueError, match="JSON compliant"):
        sealed.write_json(tmp_path / "n.json", {"loss": float("nan")})
    assert not list(tmp_path.iterdir())


def test_an_error_names_its_file_once(tmp_path):
    path = tmp_path / "x.json"
    assert str(sealed.damaged(path, GatelabError("a is b"))).startswith(f"{path} cannot be read: damaged")
    whole = sealed.damaged(path, GatelabError(f"{path} is a pipe"))
    assert (type(whole), str(whole)) == (DataError, f"{path} is a pipe")
