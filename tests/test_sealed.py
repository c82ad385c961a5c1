"""Files with checksums: what was written comes back exactly, and whatever else is there is refused in words."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest
import torch

from gatelab import sealed
from gatelab.errors import DataError

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


def plain(found):
    """Something that can be compared, to the bit."""
    if isinstance(found, tuple):
        tensors, state = found
        return {name: (str(v.dtype), tuple(v.shape), v.numpy().tobytes()) for name, v in tensors.items()}, state
    if isinstance(found, dict) and any(isinstance(value, np.ndarray) for value in found.values()):
        return {name: (v.dtype.str, v.shape, v.tobytes()) for name, v in found.items()}
    return found


EXPECTED = {"json": STATE, "jsonl": LINES, "npz": plain(ARRAYS), "safetensors": plain((TENSORS, STATE))}


@pytest.mark.parametrize("kind", KINDS)
def test_it_comes_back_exactly_and_is_the_same_file_every_time(tmp_path, kind):
    write, read = KINDS[kind]
    for name in ("one", "two"):
        write(tmp_path / name)
        assert plain(read(tmp_path / name)) == EXPECTED[kind]
    if kind != "npz":  # a zip has the time in it
        assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


@pytest.mark.parametrize("kind", KINDS)
def test_every_damage_is_seen_or_changes_nothing(tmp_path, kind):
    write, read = KINDS[kind]
    path = tmp_path / "file"
    write(path)
    content, chance, refused = path.read_bytes(), random.Random(0), 0
    for trial in range(300):
        place = chance.randrange(len(content))
        if trial % 3 == 0:
            damaged = content[:place]
        else:
            damaged = content[:place] + bytes([content[place] ^ chance.randrange(1, 256)]) + content[place + 1 :]
        path.write_bytes(damaged)
        try:
            found = plain(read(path))
        except DataError as error:
            refused += str(path) in str(error)
            continue
        if kind == "jsonl" and trial % 3 == 0:
            assert found == LINES[: len(found)]  # whole lines: the manifest knows how many there should be
        else:
            assert found == EXPECTED[kind]
    assert refused > 240


def test_what_carries_no_checksum_is_refused(tmp_path):
    (tmp_path / "a.json").write_text('{"status": "done"}')
    (tmp_path / "b.jsonl").write_text('{"epoch": 1}\n')
    np.savez(tmp_path / "c.npz", x=np.zeros(3))
    for read, name in ((sealed.read_json, "a.json"), (sealed.read_lines, "b.jsonl"), (sealed.read_arrays, "c.npz")):
        with pytest.raises(DataError, match="it carries no checksum"):
            read(tmp_path / name)


def test_objects_are_never_unpickled(tmp_path):
    np.savez(tmp_path / "evil.npz", x=np.array([print], object), allow_pickle=True)
    with pytest.raises(DataError, match="cannot be read"):
        sealed.read_arrays(tmp_path / "evil.npz")


def test_lines_cannot_be_swapped_or_left_out(tmp_path):
    sealed.write_lines(tmp_path / "m.jsonl", LINES)
    lines = (tmp_path / "m.jsonl").read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in lines] == [0, 1, 2, 3]  # and still lines of JSON
    for order in ([1, 0, 2, 3], [0, 2, 3], [1, 2, 3], [0, 0, 1, 2]):
        (tmp_path / "m.jsonl").write_text("\n".join(lines[i] for i in order))
        with pytest.raises(DataError, match="checksum does not fit"):
            sealed.read_lines(tmp_path / "m.jsonl")


def test_not_a_number_is_not_written(tmp_path):
    with pytest.raises(ValueError, match="JSON compliant"):
        sealed.write_json(tmp_path / "n.json", {"loss": float("nan")})
    assert not list(tmp_path.iterdir())
